"""Says whether a host has room for one more driver, by declared memory and by number, and how full it is. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from supervisor.model.load import Load
from supervisor.model.phrases import all_its, counted
from supervisor.model.records import Member, Ownership


def why_no_room(member: Member, load: Load, memory: int) -> str | None:
    """Returns why ``member``, which carries ``load``, can't hold one more driver of ``memory`` bytes, or None."""
    if member.drivers == 0:
        return f"{member.id} takes no drivers (capacity.drivers: 0)"
    if load.drivers >= member.drivers:
        return f"{member.id} has {all_its(member.drivers, 'driver')}"
    if load.memory + memory > member.memory:
        free = max(0, member.memory - load.memory)
        return (
            f"{member.id} has {free // 2**20}m of {member.memory // 2**20}m free, {memory // 2**20}m needed"
        )
    return None


def starts_at_once(member: Member) -> int:
    """Returns how many drivers ``member`` may be starting at the same time. A record of another version that says 0 means
    one: ``capacity.drivers: 0`` is how a host says that it takes none."""
    return max(1, member.starting)


def why_busy(member: Member, load: Load) -> str | None:
    """Returns that ``member``, which carries ``load``, has enough to start at the moment, or None."""
    if load.starting < starts_at_once(member):
        return None
    return f"{member.id} is starting {counted(load.starting, 'driver')} already"


def share_in_use(member: Member, load: Load) -> float:
    """Returns which share of its places for drivers ``member`` uses. One that has none, since it only leads, is full."""
    return load.drivers / member.drivers if member.drivers else 1.0


def freed(loads: Mapping[str, Load], dead: Ownership) -> Mapping[str, Load]:
    """Returns ``loads`` without an attempt that is over: what follows it gets its place back."""
    if dead.supervisor not in loads:
        return loads
    load = loads[dead.supervisor]
    return {
        **loads,
        dead.supervisor: replace(load, memory=load.memory - dead.memory, drivers=load.drivers - 1),
    }
