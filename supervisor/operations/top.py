"""Takes what ``top`` shows: what each driver takes, and what each host offers. The command line and the API call it."""

from __future__ import annotations

from typing import Any

from supervisor.observe.usage import top_document
from supervisor.operations.context import CommandContext
from supervisor.operations.scene import take_view


def take_top(context: CommandContext) -> dict[str, Any]:
    """Returns the document of ``top``, from a full and fresh read. Raises Unreachable."""
    if context.check() is None:
        return {"jobs": [], "hosts": []}
    return top_document(take_view(context))
