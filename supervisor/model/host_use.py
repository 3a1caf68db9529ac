"""Adds up what the drivers of a host take, and marks hosts that are over-committed or idle. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from supervisor.model.usage import ResourceUse

IDLE_SHARE: Final = 0.1


class HostMark(StrEnum):
    """Says what is remarkable of a host."""

    # more is reserved than it offers, or its drivers have taken more at their peaks
    OVER_COMMITTED = "over-committed"
    IDLE = "idle"  # the peaks of its drivers are a tenth of what it offers, or less


@dataclass(frozen=True, slots=True)
class HostUse:
    """Holds what a host offers and what its drivers take, memory in bytes. ``peaks`` adds up the peak of each driver, which
    need not have come at the same time; a driver that was not measured counts in ``unmeasured``, and in ``peaks`` with what
    is reserved for it. ``cores`` are the processors that all of them keep busy."""

    id: str
    offered: int
    reserved: int
    used: int
    peaks: int
    cores: float
    drivers: int
    drivers_max: int
    unmeasured: int
    mark: HostMark | None


def host_use(
    supervisor: str, offered: int, drivers_max: int, drivers: Iterable[tuple[int, ResourceUse | None]]
) -> HostUse:
    """Returns the use of one host. ``drivers`` has of each what is reserved for it, and what it takes if that is known."""
    known = list(drivers)
    measured = [use for _, use in known if use is not None]
    reserved = sum(size for size, _ in known)
    peaks = sum(size if use is None else use.memory_max for size, use in known)
    return HostUse(
        id=supervisor,
        offered=offered,
        reserved=reserved,
        used=sum(use.memory for use in measured),
        peaks=peaks,
        cores=round(sum(use.cores or 0.0 for use in measured), 3),
        drivers=len(known),
        drivers_max=drivers_max,
        unmeasured=len(known) - len(measured),
        mark=_mark(offered, reserved, peaks),
    )


def _mark(offered: int, reserved: int, peaks: int) -> HostMark | None:
    if max(reserved, peaks) > offered:
        return HostMark.OVER_COMMITTED
    return HostMark.IDLE if peaks <= IDLE_SHARE * offered else None
