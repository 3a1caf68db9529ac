"""Defines as which Unix user a driver runs, and what its whole tree may use of the host.

Both travel in ``Launch`` from the agent, which decides, to the shim, which carries out. Pure, of the standard
library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from supervisor.model.bounds import Bytes, Within

ROOT: Final = 0
ID_MAX: Final = 2**32 - 2
"""The kernel takes 2^32 − 1 for "leave it as it is"."""

UserId: TypeAlias = Annotated[int, Within(1, ID_MAX)]
Cores: TypeAlias = Annotated[float, Within(0.0, 1e6)]

CPU_PERIOD_US: Final = 100_000
"""The kernel's default period, in which a tree gets its share of the processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverUser:
    """Is a Unix user other than the supervisor's. ``groups`` are its supplementary groups; ``home`` is its home
    directory, or empty if it has none."""

    name: str
    uid: UserId
    gid: UserId
    groups: tuple[UserId, ...] = ()
    home: str = ""
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Says what the kernel lets a driver tree use: bytes of memory, processors, and processes with their threads.
    0 means that there is no limit."""

    memory: Bytes = 0
    cpu: Cores = 0.0
    tasks: Bytes = 0
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    def controllers(self) -> tuple[str, ...]:
        """Returns the controllers of cgroup v2 that these limits need."""
        wanted = (("memory", self.memory), ("cpu", self.cpu), ("pids", self.tasks))
        return tuple(name for name, limit in wanted if limit)

    def files(self) -> tuple[tuple[str, str], ...]:
        """Returns what is to be written into the files of a cgroup v2. A tree that may not use more memory may not
        take swap in its place either; that file is missing where a host has no swap."""
        found: list[tuple[str, str]] = []
        if self.memory:
            found += [("memory.max", str(self.memory)), ("memory.swap.max", "0")]
        if self.cpu:
            found.append(("cpu.max", f"{max(1000, round(self.cpu * CPU_PERIOD_US))} {CPU_PERIOD_US}"))
        if self.tasks:
            found.append(("pids.max", str(self.tasks)))
        return tuple(found)
