"""Reads the memory of a cgroup, of version 2 or 1: what it uses, what limits it, what the kernel did at a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from supervisor.clients.diagnostics import proc

_OF_V2: Final = (
    "memory.current",
    "memory.peak",
    "memory.high",
    "memory.max",
    "memory.swap.current",
    "pids.current",
)
_OF_V1: Final = (
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
)
_TABLES: Final = ("memory.events", "memory.oom_control", "memory.pressure")
_STAT: Final = ("anon ", "file ", "kernel ", "shmem ", "slab ", "total_rss ", "total_cache ")
_OF_HOST: Final = ("MemTotal", "MemAvailable", "SwapFree")


def memory_of(group: str | None) -> Iterator[str]:
    """Yields lines about the memory of a group (its directory), and of the host."""
    if group is not None:
        yield f"cgroup {group}"
        for name in (*_OF_V2, *_OF_V1):
            value = proc.read(f"{group}/{name}").decode("ascii", "replace").strip()
            if value:
                yield f"  {name} {value}"
        for name in _TABLES:
            text = proc.read(f"{group}/{name}").decode("ascii", "replace").split("\n")
            yield from (f"  {name}: {line}" for line in text if line)
        lines = proc.read(f"{group}/memory.stat").decode("ascii", "replace").splitlines()
        yield from (f"  memory.stat: {line}" for line in lines if line.startswith(_STAT))
    host = proc.fields_of("/proc/meminfo")
    yield "host " + ", ".join(f"{name} {host[name]}" for name in _OF_HOST if name in host)
