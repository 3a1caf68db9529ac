"""Takes what ``top`` shows: what each driver takes, and what each host offers. The command line and the API call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supervisor.observe.usage import top_document
from supervisor.operations.context import CommandContext
from supervisor.operations.requests import DocumentRequest
from supervisor.operations.scene import take_view


@dataclass(frozen=True)
class TopRequest(DocumentRequest):
    """Asks for the document of ``top``."""

    operation = "top"
    path = "/top"
    summary = "What drivers take, and what hosts offer, as top prints it."

    def carry_out(self, context: CommandContext) -> dict[str, Any]:
        if context.check() is None:
            return {"jobs": [], "hosts": []}
        return top_document(take_view(context))

    def answer(self, document: Any, server: str) -> dict[str, Any]:
        found = super().answer(document, server)
        if not all(isinstance(found[key], list) for key in ("jobs", "hosts")):
            raise TypeError
        return found
