"""Puts into one line what the memory of a driver was before it ended for want of it: the largest process, the limits, the
curve. Pure, of the standard library only; called by the shim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

AGES_S: Final = (300.0, 120.0, 60.0, 30.0, 10.0, 4.0, 0.0)
"""The curve shows the memory about so many seconds before the end, as far as it was sampled."""
_COMMAND_MAX: Final = 60


class LargeProcess(NamedTuple):
    """Is a process of the tree, as it was when its tree was largest. ``is_root`` says that it was the driver's own;
    ``heap_limit`` is what limits the heap of a JVM."""

    pid: int
    command: str
    rss_bytes: int
    pss_bytes: int | None = None
    heap_limit: str = ""
    is_root: bool = False
    is_gone: bool = False


class GroupMemory(NamedTuple):
    """Holds the limit of a cgroup in bytes, and the most that it has used; None: the kernel does not say. The peak may be
    of others, too, where they share the cgroup."""

    limit_bytes: int
    peak_bytes: int | None = None


def memory_line(
    largest: Sequence[LargeProcess],
    samples: Sequence[tuple[float, int]],
    ended_at_s: float,
    *,
    group: GroupMemory | None,
    requested: int,
) -> str:
    """Returns the line, or an empty text if nothing was sampled. ``samples`` are instants and bytes, the oldest first;
    ``group`` is the cgroup that limits it, and ``requested`` what the spec asks for, in bytes."""
    parts = []
    if largest:
        parts.append("largest: " + "; ".join(_described(each) for each in largest))
    limits = [f"cgroup {_gib(group.limit_bytes)}{_peak(group)}"] if group is not None else []
    limits += [f"resources.memory {_gib(requested)}"] if requested else []
    if limits and (largest or samples):
        parts.append("limits: " + ", ".join(limits))
    points = curve(samples, ended_at_s)
    if points:
        shown = ", ".join(f"{_gib(size)} {age_s:.0f} s before" for age_s, size in points)
        parts.append(f"memory of the tree: {shown}")
    return "; ".join(parts)


def curve(samples: Sequence[tuple[float, int]], ended_at_s: float) -> list[tuple[float, int]]:
    """Returns, for each of ``AGES_S``, the newest sample that is at least so old, as its age in seconds and its bytes, each
    once, and the oldest one if that is younger than what is asked for."""
    found: list[tuple[float, int]] = []
    for wanted_s in AGES_S:
        old = [(ended_at_s - at_s, size) for at_s, size in samples if ended_at_s - at_s >= wanted_s]
        if old and old[-1] not in found:
            found.append(old[-1])
    return found


def _described(each: LargeProcess) -> str:
    pss = "" if each.pss_bytes is None else f", PSS {_gib(each.pss_bytes)}"
    heap = f", {each.heap_limit}" if each.heap_limit else ""
    end = ", the driver" if each.is_root else ", gone" if each.is_gone else ""
    return f"{each.command[:_COMMAND_MAX]} (pid {each.pid}{end}, RSS {_gib(each.rss_bytes)}{pss}{heap})"


def _peak(group: GroupMemory) -> str:
    return "" if group.peak_bytes is None else f" (peak {_gib(group.peak_bytes)})"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
