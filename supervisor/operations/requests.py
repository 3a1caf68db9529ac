"""Defines what a request is: one value that says what somebody wants, and the only place that says what it takes.

The command line makes it and hands it to a gateway (``cli.gateway``). The path of the API, and the body or the query, are
made of its fields (``api.write_routes``, ``api.request_query``). Wherever it arrives, it carries itself out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import Field

from supervisor.operations.jobs import Done

if TYPE_CHECKING:
    from supervisor.operations.context import CommandContext
    from supervisor.operations.selection import Selected

Answer_co = TypeVar("Answer_co", covariant=True)
Answer = TypeVar("Answer")

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


# -- reads --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryParameter:
    """Describes a parameter of a query. ``pattern`` is what a value must match as a whole; ``repeats`` says whether
    there may be several."""

    name: str
    description: str
    pattern: str | None = None
    repeats: bool = False


BOOLEAN: Final = "true|false"


class ReadRequest(ABC, Generic[Answer]):
    """Asks for what is there. Whoever asks for an equal one at the same time may get the same reading.

    At ``path`` of the API it is ``operation``, which ``summary`` describes. A field ``name`` stands in the path; every other
    is annotated with its ``QueryParameter``.
    """

    operation: ClassVar[str]
    path: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def carry_out(self, context: CommandContext) -> Answer:
        """Reads it. Raises SupervisorError."""

    @abstractmethod
    def document(self, answer: Answer) -> Any:
        """Returns the document of ``answer``, as it leaves this process."""

    @abstractmethod
    def answer(self, document: Any, server: str) -> Answer:
        """Returns the answer of which ``server`` has sent ``document``. Raises KeyError, TypeError or ValueError for what is
        none."""


class DocumentRequest(ReadRequest[dict[str, Any]]):
    """Asks for a document, which a command prints as it is."""

    def document(self, answer: dict[str, Any]) -> dict[str, Any]:
        return answer

    def answer(self, document: Any, server: str) -> dict[str, Any]:  # noqa: ARG002 - whoever has sent it
        if not isinstance(document, dict):
            raise TypeError
        return document


class LocalRequest(ABC, Generic[Answer]):
    """Asks for what lies on this host. No server is asked for it."""

    @abstractmethod
    def carry_out(self, context: CommandContext) -> Answer:
        """Reads it. Raises SupervisorError."""
