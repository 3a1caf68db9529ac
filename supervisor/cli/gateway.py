"""Defines what a command asks, without knowing who answers: the registry, read and written from here
(``cli.registry_gateway``), or the API of a supervisor (``cli.api_gateway``).

A command parses what was typed, makes a request of it, hands that to the gateway, and prints what comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from supervisor.errors import NotFound
from supervisor.model.labels import Selector
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import Done
from supervisor.operations.requests import JobRequest
from supervisor.operations.selection import Jobs, Selected


class Gateway(ABC):
    """Carries out requests. What there is to say besides goes to stderr."""

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
