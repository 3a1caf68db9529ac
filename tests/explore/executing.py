"""Executors of a job on a cluster: they may outlive the driver that they lost, when its host is cut off from them.

They are modelled at their worst: nothing ends them before ``EXECUTORS_S`` after the driver tree was empty. A tombstone says
that the driver's host still reached somebody; its executors saw the connection break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from supervisor.model.records import Cause
from tests import judges
from tests.explore.setting import EXECUTORS_S, TICK_S, executors_outlive_s

if TYPE_CHECKING:
    from tests.explore.world import ExploredWorld, Shim

EXECUTORS_TICKS = int(EXECUTORS_S / TICK_S)


class Orphans(NamedTuple):
    """The executors of an attempt whose driver tree was empty at ``since``, a tick."""

    of: judges.Driver
    since: int

    def are_alive(self, tick: int) -> bool:
        return tick < self.since + EXECUTORS_TICKS


def outlive(world: ExploredWorld, shim: Shim) -> ExploredWorld:
    """The driver of ``shim`` ends; its executors do not know it yet."""
    if not executors_outlive_s(shim.name):
        return world
    orphans = Orphans(judges.Driver(shim.name, shim.uid, shim.attempt), world.tick)
    return world._replace(orphans=(*(each for each in world.orphans if each.are_alive(world.tick)), orphans))


def buried(world: ExploredWorld, shim: Shim) -> ExploredWorld:
    """A tombstone of ``shim`` commits. If its lease had run out, its host was cut off, and its executors do not know yet."""
    by = shim.state if shim.state is not None else shim.guarded_attempt
    if by is not None and by.cause is Cause.LEASE_EXPIRED:
        return world
    gone = (shim.uid, shim.attempt)
    return world._replace(
        orphans=tuple(each for each in world.orphans if (each.of.uid, each.of.attempt) != gone)
    )


def execute(world: ExploredWorld, new: judges.Driver) -> ExploredWorld:
    """A driver begins to live: no task of a lost attempt may write beside it (protocol §7.8)."""
    for each in world.orphans:
        if each.are_alive(world.tick) and judges.exclude_each_other(new, each.of):
            return world.breaks(judges.two_writers(new, each.of))
    return world


def key_of(world: ExploredWorld) -> tuple[object, ...]:
    """What of it can still matter, with times counted from now."""
    return tuple((each.of, world.tick - each.since) for each in world.orphans if each.are_alive(world.tick))
