"""Defines what a command asks, without knowing who answers: the registry, read and written from here
(``cli.registry_gateway``), or the API of a supervisor (``cli.api_gateway``).

A command parses what was typed, makes a request of it, hands that to the gateway, and prints what comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from supervisor.errors import InvalidInput, NotFound
from supervisor.model.labels import Selector
from supervisor.operations.context import CommandContext
from supervisor.operations.job_list import JobList
from supervisor.operations.jobs import Done
from supervisor.operations.requests import Answer, JobRequest, LocalRequest, ReadRequest
from supervisor.operations.selection import Jobs, Selected

if TYPE_CHECKING:
    from supervisor.operations.listing import JobsRequest


class Gateway(ABC):
    """Carries out requests. What there is to say besides goes to stderr."""

    @abstractmethod
    def read(self, request: ReadRequest[Answer]) -> Answer:
        """Returns the answer to ``request``. Raises SupervisorError."""

    @abstractmethod
    def job_lister(self, request: JobsRequest, *, with_pause: bool) -> Callable[[], JobList]:
        """Returns what takes the list of jobs, as often as it is called. ``with_pause`` asks whether the cluster is paused,
        too, if that is a request of its own."""

    @abstractmethod
    def read_here(self, request: LocalRequest[Answer]) -> Answer | None:
        """Returns the answer, or None if a server is asked in place of this host. Raises SupervisorError."""

    @abstractmethod
    def write(self, request: JobRequest) -> Done:
        """Returns what was done, which is durable then. Raises SupervisorError."""

    def together(self) -> AbstractContextManager[None]:
        """Makes the writes meanwhile one command: none waits for what is noted of another."""
        return nullcontext()

    @abstractmethod
    def warn_of_pause(self, *changes: Done) -> None:
        """Warns once if nothing comes of ``changes`` for now, unless that was said with each of them."""

    @abstractmethod
    def newest(self, names: Sequence[str]) -> list[Selected | NotFound]:
        """Returns the newest submission of each of ``names``, or why there is none. One whose records can't be read has no
        ``uid``. Raises SupervisorError if there is no job at all, or nobody answers."""

    @abstractmethod
    def labelled(self, selector: Selector) -> Jobs:
        """Returns the jobs that ``selector`` chooses. Raises SupervisorError."""

    @abstractmethod
    def registry(self, option: str) -> CommandContext:
        """Returns what ``option`` works with. Raises InvalidInput if the registry can't be asked from here."""


def needs_registry(option: str, server: str) -> InvalidInput:
    """Returns the error for an ``option`` that no server can answer."""
    return InvalidInput(
        f"{option} needs ZooKeeper or the store, and can't ask the server {server[:200]!r}",
        "leave it out, or call the command on a host with supervisor.yaml",
    )
