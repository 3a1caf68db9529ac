"""Watches the doorbell: one watch wakes the leader for any change of any job, and says which names to reread.

The znode holds only the name that rang last; its version counts the rings. Rings of the leader's own writes
are known by their versions. If exactly one other ring came since, its name is the data; if more came, the
names are not known and the caller rereads more. The controller calls it; a watch is a hint: without it the
loop would reread too, only later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.records.ports import ZkReader


@dataclass(frozen=True, slots=True)
class Changes:
    """Holds what rang since the last read: ``names`` are known, and ``more`` says that others rang too, whose
    names are lost.
    """

    names: frozenset[str]
    more: bool


class ChangeNotifier:
    """Serves one term. ``wake`` is called from the client's thread and must only set an event."""

    def __init__(self, zoo: ZkReader, path: str, wake: Callable[[], None]) -> None:
        self._zoo = zoo
        self._path = path
        self._wake = wake
        self._version: int | None = None
        self._own: set[int] = set()
        self._watching = False

    def skip_own(self, version: int | None) -> None:
        """Notes that a write of this leader rang, making this version."""
        if version is not None:
            self._own.add(version)

    def read_changes(self) -> Changes:
        """Returns which names rang since the last read. Sets the watch before it reads, so no ring is missed.
        Raises Unreachable.
        """
        watch = None if self._watching else self._fired
        self._watching = True
        try:
            node = self._zoo.read(self._path, watch)
        except BaseException:
            self._watching = False
            raise
        if node is None:
            return Changes(frozenset(), more=True)
        before, self._version = self._version, node.stat.version
        if before is None or node.stat.version < before:
            return Changes(frozenset(), more=True)
        foreign = [v for v in range(before + 1, node.stat.version + 1) if v not in self._own]
        self._own = {v for v in self._own if v > node.stat.version}
        if not foreign:
            return Changes(frozenset(), more=False)
        known = foreign[-1] == node.stat.version
        names = frozenset({node.data.decode(errors="replace")}) if known else frozenset()
        return Changes(names, more=len(foreign) > (1 if known else 0))

    def _fired(self) -> None:
        self._watching = False
        self._wake()
