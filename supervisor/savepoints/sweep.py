"""Removes from the store what a creation or a delete that died has left; the leader does it, slowly.

A savepoint without a manifest is deleted when two scans at least a grace time apart saw the same of it, so
nobody works on it. That is long enough for a person to go on with it; a creation that goes on after all finds
out before it writes a manifest (``Shelf.require``). Complete ones are never touched, nor those beside a
checkpoint, which the leader may not see, nor any with an object that is no part of a savepoint. In any doubt
it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from supervisor.clock import boottime_s
from supervisor.savepoints.shelf import ITS_OWN, Shelf

GRACE_S: Final = 6 * 3600.0
EVERY_S: Final = 3600.0
DELETES_MAX: Final = 10

SeenLeftover = tuple[tuple[int, int], float]


class SavepointSweeper:
    """Sweeps during one term. ``clock`` returns CLOCK_BOOTTIME in seconds."""

    def __init__(self, shelf: Shelf, clock: Callable[[], float] = boottime_s) -> None:
        self._shelf = shelf
        self._clock = clock
        self._next_at_s: float | None = None
        self._leftovers: dict[tuple[str, str], SeenLeftover] = {}

    def scan(self, go_on: Callable[[], bool] = lambda: True) -> tuple[str, ...]:
        """Scans once an hour, though it is called often. Returns ``<name>/<id>`` of what it removed. Raises
        what the store raises."""
        began_at_s = self._clock()
        if self._next_at_s is not None and began_at_s < self._next_at_s:
            return ()
        self._next_at_s = began_at_s + EVERY_S
        seen: dict[tuple[str, str], SeenLeftover] = {}
        to_delete = []
        for each in self._shelf.leftovers():
            if not go_on():
                return ()
            try:
                now = self._shelf.print_of(*each)
            except ITS_OWN:
                continue
            before = self._leftovers.get(each)
            seen[each] = before if before is not None and before[0] == now else (now, self._clock())
            if began_at_s - seen[each][1] >= GRACE_S:
                to_delete.append(each)
        self._leftovers = seen
        removed = []
        for name, savepoint in to_delete[:DELETES_MAX]:
            if not go_on():
                break
            try:
                self._shelf.delete(name, savepoint)
            except ITS_OWN:  # being restored, or another was faster: checked again in the next round
                continue
            removed.append(f"{name}/{savepoint}")
        return tuple(removed)
