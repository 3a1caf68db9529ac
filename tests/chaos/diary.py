"""What was done, to whom and when: one JSON line each, and in memory for the judge. Written by the nemesis and by the users.

The diary is the test's own record; the product never sees it. Times are CLOCK_BOOTTIME, like those of the witness.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor.clock import boottime_s
from tests.faults.checker import Harm

AFTERMATH_S = 6.0
"""How long after a fault is over an attempt may still end by it: to notice, to reconnect, to kill."""


class Diary:
    """Thread-safe. ``faults``: how many of each kind. ``failed``: faults that could not be done, with the reason."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self._harms: list[Harm] = []
        self.faults: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def close(self) -> None:
        self._file.close()

    def write(self, event: str, **more: Any) -> None:
        line = json.dumps({"at": round(boottime_s(), 3), "event": event, **more})
        with self._lock:
            self._file.write(line + "\n")

    def fault(self, kind: str, target: str = "", **more: Any) -> None:
        """One that is done in a moment, and that ends no attempt unless a harm says so."""
        with self._lock:
            self.faults[kind] += 1
        self.write("fault", kind=kind, target=target, **more)

    @contextmanager
    def lasting(self, kind: str, target: str = "", **more: Any) -> Iterator[None]:
        """A fault that lasts as long as the context."""
        self.fault(kind, target, **more)
        try:
            yield
        finally:
            self.write("over", kind=kind, target=target)

    @contextmanager
    def harm(
        self,
        kind: str,
        jobs: Iterable[str] | None = None,
        host: str = "",
        aftermath_s: float = AFTERMATH_S,
        is_obeyed_later: bool = False,
    ) -> Iterator[Callable[[], None]]:
        """Attempts of ``jobs`` (None: of all) on ``host`` ("": on any) may end while the context lasts, and a while after;
        with ``is_obeyed_later`` also those that begin in that while. Gives a function that says: of all, anywhere."""
        harm = Harm(kind, boottime_s(), float("inf"), None if jobs is None else frozenset(jobs), host)
        with self._lock:
            number = len(self._harms)
            self._harms.append(harm)

        def widen() -> None:
            with self._lock:
                self._harms[number] = replace(self._harms[number], jobs=None, host="")

        try:
            yield widen
        finally:
            with self._lock:
                over_at_s = boottime_s()
                ended_at_s = over_at_s + aftermath_s
                done = self._harms[number] = replace(
                    self._harms[number],
                    ended_at_s=ended_at_s,
                    over_at_s=ended_at_s if is_obeyed_later else over_at_s,
                )
            jobs = None if done.jobs is None else sorted(done.jobs)
            if jobs != []:
                self.write(
                    "harm",
                    kind=done.kind,
                    since=round(done.begun_at_s, 3),
                    until=round(done.ended_at_s, 3),
                    jobs=jobs,
                    host=done.host,
                )

    @contextmanager
    def still(self, jobs: Iterable[str]) -> Iterator[None]:
        """Drivers of ``jobs`` may be unable to write meanwhile: their last line tells less about their end."""
        with self.harm("", jobs, aftermath_s=0.5):
            yield

    @property
    def harms(self) -> tuple[Harm, ...]:
        with self._lock:
            return tuple(self._harms)
