"""Keeps what requests read and write with: a context with a session of its own for each thread, opened at its first use.

``api.shared_reads`` and ``api.bounded_writes`` lend from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from supervisor.operations.context import CommandContext


class KeptContexts:
    """``open_context`` opens what one thread works with. It may be used by many threads at once."""

    def __init__(self, open_context: Callable[[], AbstractContextManager[CommandContext]]) -> None:
        self._open_context = open_context
        self._lock = threading.Lock()
        self._free: list[tuple[ExitStack, CommandContext]] = []
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[CommandContext]:
        """Lends a context that nobody else has meanwhile. Raises what ``open_context`` raises."""
        with self._lock:
            taken = self._free.pop() if self._free else None
        if taken is None:
            opened = ExitStack()
            taken = opened, opened.enter_context(self._open_context())
        try:
            yield taken[1]
        finally:
            self._give_back(taken)

    def close(self) -> None:
        """Ends the sessions that nobody has; one that is lent ends when it is given back."""
        with self._lock:
            self._is_closed = True
            left, self._free = self._free, []
        for stack, _context in left:
            stack.close()

    def _give_back(self, taken: tuple[ExitStack, CommandContext]) -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append(taken)
                return
        taken[0].close()
