"""Finds out whether the kernel has killed for lack of memory while the driver ran. It reads before exec, and
again when the driver has ended.

There are three sources, and the most specific one that exists decides: ``memory.events`` of the attempt's own
cgroup v2 (or of the nearest group above that has the memory controller), ``memory.oom_control`` of the cgroup
v1 that shim and driver are in, else /proc/vmstat for the whole host. The counters of a group count kills of
its members, whether the group or the host was short of memory; in the attempt's own group a second counter (``oom``)
tells whether it was its own limit.

Called by ``runner``. What the death means is decided elsewhere, in ``model.exits``.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from supervisor.clients.containment import find_own_cgroup, find_own_memory_cgroup
from supervisor.model.out_of_memory import Oom

VMSTAT = "/proc/vmstat"
KILLS = b"oom_kill "
LIMIT_MET = b"oom "


class Counter(NamedTuple):
    """Names a counter: ``file`` has a line ``oom_kill N``, and ``tells`` names whom a higher N means."""

    file: str
    tells: Oom


class OomWatch:
    """Watches the counters from its construction on. ``cgroup`` is that of the attempt (v2), or None."""

    def __init__(self, cgroup: str | None, counters: tuple[Counter, ...] | None = None) -> None:
        found = counters if counters is not None else find_counters(cgroup)
        readable = ((counter, before) for counter in found if (before := read(counter.file)) is not None)
        self._counter: Counter | None
        self._counter, self._before = next(readable, (None, 0))
        self._limit_met = read(self._counter.file, LIMIT_MET) if self._counter is not None else None

    def seen(self) -> Oom | None:
        """Returns whom the kernel has killed since; None if the counters do not show it."""
        if self._counter is None or (after := read(self._counter.file)) is None:
            return None
        return self._killed(self._counter) if after > self._before else Oom.NOBODY

    def _killed(self, counter: Counter) -> Oom:
        """Says whom the kernel killed, and for whose want of memory as far as that is known."""
        if counter.tells is not Oom.TREE or self._limit_met is None:
            return counter.tells
        return Oom.MEMBER if read(counter.file, LIMIT_MET) == self._limit_met else Oom.TREE


def find_counters(cgroup: str | None) -> tuple[Counter, ...]:
    """Returns the counters that exist, the most specific one first."""
    found: list[Counter] = []
    if cgroup is not None and os.path.exists(f"{cgroup}/memory.events"):
        found.append(Counter(f"{cgroup}/memory.events", Oom.TREE))
    shared = _with_memory(cgroup or find_own_cgroup() or "")
    if shared is not None:
        found.append(Counter(shared, Oom.GROUP))
    v1 = find_own_memory_cgroup()
    if v1 is not None:
        found.append(Counter(f"{v1}/memory.oom_control", Oom.GROUP))
    return (*found, Counter(VMSTAT, Oom.HOST))


def _with_memory(group: str) -> str | None:
    """Returns the events file of the nearest group above that has the memory controller; the memory of its
    members is charged to that group."""
    while group and os.path.exists(f"{group}/cgroup.procs"):
        for name in ("memory.events.local", "memory.events"):
            if os.path.exists(f"{group}/{name}"):
                return f"{group}/{name}"
        group = os.path.dirname(group)
    return None


def read(file: str, name: bytes = KILLS) -> int | None:
    """Returns the number after ``name`` in ``file``; None if there is no such file or line."""
    try:
        with open(file, "rb") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)
    except (OSError, ValueError, IndexError):
        return None
