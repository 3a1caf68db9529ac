"""Says whether a host has room for one more driver, by declared memory and by number. It is pure."""

from __future__ import annotations

from supervisor.model.load import Load
from supervisor.model.phrases import all_its
from supervisor.model.records import Member


def why_no_room(member: Member, load: Load, memory: int) -> str | None:
    """Returns why ``member``, which carries ``load``, can't hold one more driver of ``memory`` bytes, or None."""
    if load.drivers >= member.drivers:
        return f"{member.id} has {all_its(member.drivers, 'driver')}"
    if load.memory + memory > member.memory:
        free = max(0, member.memory - load.memory)
        return (
            f"{member.id} has {free // 2**20}m of {member.memory // 2**20}m free, {memory // 2**20}m needed"
        )
    return None
