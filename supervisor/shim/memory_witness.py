"""Remembers which processes of the driver's tree were the largest, for the case that the driver ends for want of memory:
when that is known, they are gone.

The thread that samples the tree (``usage_sampler``) calls ``read``, and whenever the memory has grown it has the processes
read as well, so that a tree of steady size costs nothing more. The runner asks once, when the driver has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from supervisor.clients.containment import find_own_memory_cgroup
from supervisor.clients.diagnostics import proc
from supervisor.clients.tree_usage import PSS_MAX_BYTES, TreeReading
from supervisor.model.memory_curve import GroupMemory, LargeProcess, memory_line

GROWN: Final = 1.05
"""The processes are read again when their memory is so many times what it was then."""
KEPT: Final = 2
_READ_MAX: Final = 256
_UNLIMITED: Final = 2**62
_FILES: Final = (
    ("memory.max", "memory.peak"),
    ("memory.limit_in_bytes", "memory.max_usage_in_bytes"),
)


class MemoryWitness:
    """Watches one tree: ``read`` returns its usage, ``pids`` its processes, ``cgroup`` is its cgroup v2 or None."""

    def __init__(
        self, read: Callable[[], TreeReading | None], pids: Callable[[], Iterable[int]], cgroup: str | None
    ) -> None:
        self._read, self._pids, self._cgroup = read, pids, cgroup
        self._at_bytes = 0.0
        self._largest: tuple[LargeProcess, ...] = ()

    def read(self) -> TreeReading | None:
        """Returns one reading of the tree, and remembers its largest processes if it has grown."""
        reading = self._read()
        if reading is not None and reading.memory_bytes > self._at_bytes * GROWN:
            self._at_bytes = reading.memory_bytes
            self._largest = tuple(self._find_largest())
        return reading

    def _find_largest(self) -> list[LargeProcess]:
        found = []
        for pid in list(self._pids())[:_READ_MAX]:
            view = proc.view_of(pid, PSS_MAX_BYTES)
            if view is not None and view.rss_bytes:
                found.append(LargeProcess(pid, view.command, view.rss_bytes, view.pss_bytes, view.heap_limit))
        return sorted(found, key=lambda each: each.rss_bytes, reverse=True)[:KEPT]

    def described(
        self, samples: Sequence[tuple[float, int]], requested: int, root: int, ended_at_s: float
    ) -> str:
        """Returns the line about the memory before the end of the driver ``root``. Never raises."""
        largest = [
            each._replace(is_root=each.pid == root, is_gone=not os.path.exists(f"/proc/{each.pid}"))
            for each in self._largest
        ]
        group = limit_of(self._cgroup, find_own_memory_cgroup())
        return memory_line(largest, samples, ended_at_s, group=group, requested=requested)


def limit_of(*groups: str | None) -> GroupMemory | None:
    """Returns the limit and the peak of the first of ``groups`` (directories of cgroups, of either version) that limits
    memory, or None if none does."""
    for group in groups:
        for limit_file, peak_file in _FILES if group is not None else ():
            limit = _number(f"{group}/{limit_file}")
            if limit is not None and limit < _UNLIMITED:
                return GroupMemory(limit, _number(f"{group}/{peak_file}"))
    return None


def _number(path: str) -> int | None:
    text = proc.read(path).strip()
    return int(text) if text.isdigit() else None
