"""Shows the progress of a wait on stderr: one line that changes on a terminal, a plain line per change in a
pipe.

The commands that wait pass it to ``operations.waiting``. It never writes to stdout, which a script may read.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from supervisor.cli.output import clean, drawing_on_terminal, notice

if TYPE_CHECKING:
    from supervisor.cli.drawing import StatusLine

SHOWN_MAX = 3


class Narrator:
    """Reports the progress of one wait; it is a context manager.

    ``goal`` says in a word or two what the wait is for, like ``running``.
    """

    def __init__(self, names: int, goal: str) -> None:
        self._names = names
        self._goal = goal
        self._phases: dict[str, str] = {}
        self._done: set[str] = set()
        self._begun_at_s = time.monotonic()
        self._status: StatusLine | None = None

    def __enter__(self) -> Narrator:
        if sys.stderr.isatty():
            self._status = drawing_on_terminal().StatusLine()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.end()

    def report(self, name: str, phase: str, *, done: bool = False) -> None:
        """Reports how far ``name`` is. The same phase again prints nothing."""
        if done:
            self._done.add(name)
        changed = self._phases.get(name) != phase
        self._phases[name] = phase
        if self._status is None and changed:
            notice(f"{name}: {phase}")

    def refresh(self) -> None:
        """Redraws the line of a terminal, which also shows that time passes. To be called after each poll."""
        if self._status is None:
            return
        open_ones = [f"{name}: {phase}" for name, phase in self._phases.items() if name not in self._done]
        counted = f"{len(self._done)} of {self._names} {self._goal}; " if self._names > 1 else ""
        more = f" and {len(open_ones) - SHOWN_MAX} more" if len(open_ones) > SHOWN_MAX else ""
        passed_s = time.monotonic() - self._begun_at_s
        line = f"{counted}{'; '.join(open_ones[:SHOWN_MAX])}{more} ({passed_s:.0f}s)"
        self._status.show(clean(line))
