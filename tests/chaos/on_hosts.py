"""Faults of a member's host: its disk is full, its wall clock jumps; neither may end an attempt. And an operator who drains one
host after the other, and lets it take jobs again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from supervisor.clients.sessions import keep_session
from supervisor.errors import SupervisorError
from supervisor.operations.hosts import HostOperations
from tests.chaos.fleet import disks_of
from tests.chaos.nemesis import Fault, Skipped
from tests.chaos.world import SESSION_S, ChaosWorld
from tests.waiting import wait_until

BALLAST = "ballast"
DRAINED_S = 30.0
"""For so long after a drain an attempt may still be stopped by it: of a plan that was made before."""
UNCORDONED_S = 300.0
HOUR_S = 3600
JUMPS_S = (HOUR_S, -HOUR_S, 24 * HOUR_S, -24 * HOUR_S, 10 * 365 * 24 * HOUR_S, -10 * 365 * 24 * HOUR_S)


def fill_disk(world: ChaosWorld, choice: random.Random) -> None:
    """Run directory, log directory or both."""
    if not world.fleet.has_disks:
        raise Skipped
    member = choice.choice(world.fleet.members)
    disks = choice.choice([disks_of(member), *((disk,) for disk in disks_of(member))])
    title = f"{member.id} {' and '.join(disk.name for disk in disks)}"
    with world.diary.lasting("disk full", title), filled(disks):
        world.wait(choice.uniform(0.5, 6.0))


@contextmanager
def filled(disks: tuple[Path, ...]) -> Iterator[None]:
    try:
        for disk in disks:
            fill(disk)
        yield
    finally:
        for disk in disks:
            (disk / BALLAST).unlink(missing_ok=True)


def fill(disk: Path) -> None:
    """To the last byte."""
    state = os.statvfs(disk)
    with suppress(OSError), (disk / BALLAST).open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, max(1, state.f_bavail * state.f_frsize))
    with suppress(OSError), (disk / BALLAST).open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def move_clock(world: ChaosWorld, choice: random.Random) -> None:
    if not world.fleet.clocks:
        raise Skipped
    i = choice.randrange(len(world.fleet.clocks))
    offset_s = choice.choice(JUMPS_S)
    with world.diary.lasting("wall clock moved", world.fleet.members[i].id, offset_s=offset_s):
        world.fleet.clocks[i].set_off(offset_s)
        try:
            world.wait(choice.uniform(0.5, 8.0))
        finally:
            world.fleet.clocks[i].set_off(0)


def drain_host(world: ChaosWorld, choice: random.Random) -> None:
    """Its jobs are stopped there for it; no other attempt may end by it."""
    member = choice.choice(world.fleet.members)
    with closing(keep_session(world.ensemble.hosts, SESSION_S)) as sessions:
        operator = HostOperations(sessions, world.fleet.layout, "nemesis")
        harm = world.diary.harm("drain", None, member.id, DRAINED_S)
        with world.diary.lasting("host drained", member.id), harm:
            try:
                operator.drain(member.id, choice.randrange(1, 4), "chaos")
                world.wait(choice.uniform(5.0, 25.0))
            finally:
                wait_until(
                    lambda: _uncordoned(operator, member.id), UNCORDONED_S, "the host to be uncordoned"
                )


def uncordon_all(world: ChaosWorld) -> None:
    """After the faults. Raises AssertionError."""
    with closing(keep_session(world.ensemble.hosts, SESSION_S)) as sessions:
        operator = HostOperations(sessions, world.fleet.layout, "nemesis")
        for member in world.fleet.members:
            wait_until(partial(_uncordoned, operator, member.id), UNCORDONED_S, "each host to be uncordoned")


def _uncordoned(operator: HostOperations, host: str) -> bool:
    with suppress(SupervisorError):
        operator.uncordon(host)
        return True
    return False


def of_operator() -> list[tuple[float, Fault]]:
    return [(1, drain_host)]


def all_faults() -> list[tuple[float, Fault]]:
    return [(1, fill_disk), (1, move_clock)]
