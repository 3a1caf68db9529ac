"""Reads how much memory and processor time a driver's tree of processes takes. Called by ``shim.usage_sampler``; it only
reads, and uses the standard library only.

Where the tree has a cgroup v2, the kernel has counted: ``cpu.stat``, and with the memory controller ``memory.current``. Of
that the page cache that the kernel gives back first (``inactive_file``) is no memory that the driver needs, and is not
counted; this is what the kubelet calls the working set.

Elsewhere the processes are added up. A page that several of them share counts once for all (PSS), where the kernel lets this
process ask for it and the process is not large: working it out takes the kernel 20 to 50 ms for each GiB (measured), in
which the driver can't map memory. Otherwise all the pages of a process count (RSS): what a large process shares is
little beside the rest of it, and a sum of RSS is too high rather than too low. One reading spends ``PSS_MAX_S`` on it, and
no more than one process longer.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

PSS_MAX_BYTES: Final = 512 * 1024**2
PSS_MAX_S: Final = 0.05
SAME_RSS_SHARE: Final = 0.02
"""Of one memory two sizes are read, one after the other, and meanwhile it may grow."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class MemorySource(StrEnum):
    """Says how the memory of a tree was measured."""

    CGROUP = "cgroup"
    PSS = "pss"  # a page that processes share counts once
    RSS = "rss"  # a page that processes share counts for each of some of them: an upper bound


class TreeReading(NamedTuple):
    """Holds one reading. ``cpu_s`` are the seconds of processor time since the tree began; it may lack those of processes
    that have ended and that nobody waited for."""

    memory_bytes: int
    cpu_s: float
    source: MemorySource


class ProcessUsage(NamedTuple):
    """Holds what /proc/<pid>/stat says of one process. ``cpu_s`` has the time of children that it has waited for, too.
    ``stack`` is the address at which its stack starts."""

    pid: int
    ppid: int
    cpu_s: float
    rss_bytes: int
    size_bytes: int
    stack: int

    def has_memory_of(self, parent: ProcessUsage | None) -> bool:
        """Returns whether this is a child that has not executed its program yet and has the memory of ``parent`` until then
        (vfork, posix_spawn), or was forked this moment."""
        if parent is None or (self.stack, self.size_bytes) != (parent.stack, parent.size_bytes):
            return False
        return (
            abs(self.rss_bytes - parent.rss_bytes) <= max(self.rss_bytes, parent.rss_bytes) * SAME_RSS_SHARE
        )


class Apart(Protocol):
    """Knows the children of this process that are not of the tree: the pids of those that may be seen, and the processor
    time in seconds of those that it has waited for."""

    @property
    def apart(self) -> Container[int]: ...

    @property
    def apart_cpu_s(self) -> float: ...


class TreeMeter:
    """Reads the usage of one tree. ``cgroup`` is its cgroup v2, whose members ``members`` returns; without one its
    processes are the descendants of this process, which as child subreaper is the parent of every orphan of the tree, but
    not those that ``children`` keeps apart."""

    def __init__(
        self,
        cgroup: str | None,
        members: Callable[[], Iterable[int]],
        proc: str = "/proc",
        children: Apart | None = None,
    ) -> None:
        self._cgroup = cgroup
        self._members = members
        self._proc = proc
        self._children = children

    def read(self) -> TreeReading | None:
        """Returns the usage now; None if nothing of the tree is seen, or it can't be read."""
        try:
            return self._of_processes() if self._cgroup is None else self._of_group(self._cgroup)
        except (OSError, ValueError, IndexError):
            return None

    def _of_group(self, group: str) -> TreeReading | None:
        cpu_s = _counter(f"{group}/cpu.stat", b"usage_usec ") / 1e6
        try:
            current = int(_content(f"{group}/memory.current"))
        except FileNotFoundError:  # the group has no memory controller
            found = (self._stat(pid) for pid in self._members())
            added = self._added([each for each in found if each is not None])
            return None if added is None else added._replace(cpu_s=cpu_s)
        cache = _counter(f"{group}/memory.stat", b"inactive_file ")
        return TreeReading(max(0, current - cache), cpu_s, MemorySource.CGROUP)

    def _of_processes(self) -> TreeReading | None:
        numbers = (int(entry) for entry in os.listdir(self._proc) if entry.isdigit())
        found = [each for each in map(self._stat, numbers) if each is not None]
        apart, apart_cpu_s = (
            ((), 0.0) if self._children is None else (self._children.apart, self._children.apart_cpu_s)
        )
        reading = self._added([each for each in _descendants(found, os.getpid()) if each.pid not in apart])
        if reading is None:
            return None
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return reading._replace(cpu_s=reading.cpu_s + reaped.ru_utime + reaped.ru_stime - apart_cpu_s)

    def _added(self, found: list[ProcessUsage]) -> TreeReading | None:
        if not found:
            return None
        began_at_s, memory, source = time.monotonic(), 0, MemorySource.PSS
        by_pid = {each.pid: each for each in found}
        counted = (each for each in found if not each.has_memory_of(by_pid.get(each.ppid)))
        for each in sorted(counted, key=lambda process: process.rss_bytes):
            pss = None
            if each.rss_bytes <= PSS_MAX_BYTES and time.monotonic() - began_at_s < PSS_MAX_S:
                pss = self._pss(each.pid)
            if pss is None and each.rss_bytes <= PSS_MAX_BYTES:
                source = MemorySource.RSS
            memory += each.rss_bytes if pss is None else pss
        return TreeReading(memory, sum(each.cpu_s for each in found), source)

    def _stat(self, pid: int) -> ProcessUsage | None:
        try:
            line = _content(f"{self._proc}/{pid}/stat")
        except OSError:  # it has ended
            return None
        # The second field is the command in parentheses, and may itself hold blanks and parentheses.
        fields = line[line.rindex(b")") + 2 :].split()
        ticks = sum(int(field) for field in fields[11:15])
        rss_bytes = int(fields[21]) * _PAGE_BYTES
        return ProcessUsage(
            pid, int(fields[1]), ticks / _TICKS_PER_S, rss_bytes, int(fields[20]), int(fields[25])
        )

    def _pss(self, pid: int) -> int | None:
        """Returns the bytes of one process; None if it has ended, or is another user's."""
        try:
            return _counter(f"{self._proc}/{pid}/smaps_rollup", b"Pss:") * 1024
        except (OSError, ValueError, IndexError):
            return None


def _descendants(found: list[ProcessUsage], root: int) -> list[ProcessUsage]:
    """Returns the processes that descend from ``root``, without it."""
    children: dict[int, list[ProcessUsage]] = {}
    for each in found:
        children.setdefault(each.ppid, []).append(each)
    inside: list[ProcessUsage] = []
    parents = [root]
    while parents:
        more = children.pop(parents.pop(), [])
        inside.extend(more)
        parents.extend(each.pid for each in more)
    return inside


def _counter(path: str, name: bytes) -> int:
    """Returns the number after ``name`` at the beginning of a line. Raises OSError, ValueError, IndexError."""
    found = next((line for line in _content(path).splitlines() if line.startswith(name)), None)
    if found is None:
        raise ValueError(f"{path} has no line with {name.decode()}")
    return int(found.split()[1])


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
