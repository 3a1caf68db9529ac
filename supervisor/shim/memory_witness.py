"""Remembers which processes of the driver's tree were the largest, for the case that the driver ends for want of memory:
when that is known, they are gone.

The thread that samples the tree (``usage_sampler``) calls ``read``, and whenever the memory has grown it has the processes
read as well, so that a tree of steady size costs nothing more. The runner asks once, when the driver has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from supervisor.clients.diagnostics import proc
from supervisor.clients.tree_usage import PSS_MAX_BYTES, TreeReading
from supervisor.model.memory_curve import LargeProcess, memory_line

GROWN: Final = 1.05
"""The processes are read again when their memory is so many times what it was then."""
KEPT: Final = 2
_READ_MAX: Final = 256
_UNLIMITED: Final = 2**62


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
        return memory_line(
            largest, samples, ended_at_s, cgroup_limit=limit_of(self._cgroup), requested=requested
        )


def limit_of(cgroup: str | None) -> int | None:
    """Returns the limit of a cgroup's memory in bytes, or None if there is none."""
    if cgroup is None:
        return None
    text = proc.read(f"{cgroup}/memory.max").strip()
    return int(text) if text.isdigit() and int(text) < _UNLIMITED else None
