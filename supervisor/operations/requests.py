"""Defines what a request is: one value that says what somebody wants, and the only place that says what it takes.

The command line makes it and hands it to a gateway (``cli.gateway``). The path and the body of the API are made of its
fields (``api.write_routes``). Wherever it arrives, it carries itself out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Self, TypeVar

from pydantic import Field

from supervisor.operations.jobs import Done

if TYPE_CHECKING:
    from supervisor.operations.context import CommandContext
    from supervisor.operations.selection import Selected

Answer_co = TypeVar("Answer_co", covariant=True)

Uid = Annotated[
    str | None,
    Field(
        pattern="^[0-9a-z-]{1,64}$",
        description="Only this submission: if the name has another one now, it is 409.",
    ),
]


class WriteRequest(ABC, Generic[Answer_co]):
    """Asks for a write. ``verb`` is the command, and the end of the path of the API. The description there has ``summary``,
    the docstring of the request, and its fields. A ``ValueError`` from its making says which fields do not go together."""

    verb: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def carry_out(self, context: CommandContext) -> Answer_co:
        """Writes it, and returns what is durable then. Raises SupervisorError."""


@dataclass(frozen=True)
class JobRequest(WriteRequest[Done]):
    """Asks for a write to the job ``name``. With ``uid`` it is about that submission, and about no later one of the name."""

    name: str
    uid: Uid = None

    def about(self, job: Selected) -> Self:
        """Returns the same request about ``job``, as it was read."""
        return replace(self, name=job.name, uid=job.uid or None)
