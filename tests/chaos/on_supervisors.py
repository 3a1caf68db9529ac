"""Faults of supervisors: none of them may end an attempt, so none of them is written down as a harm."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor.clients import processes
from supervisor.clients.sessions import keep_session
from supervisor.errors import Conflict, NotFound, SupervisorError
from supervisor.operations.cluster import ClusterOperations
from tests.chaos.nemesis import Fault, Skipped
from tests.chaos.sessions import expel
from tests.chaos.terms import SeenTerm
from tests.chaos.world import SESSION_S, ChaosWorld
from tests.testbed.fleet import FleetMember
from tests.waiting import wait_until

UNPAUSED_S = 300.0
NEXT_S = 20.0
"""How long the nemesis waits for the next leader before it goes on to the next fault; nothing is judged by it."""


def leading(world: ChaosWorld) -> SeenTerm:
    term = world.terms.current()
    if term is None:
        raise Skipped
    return term


@contextmanager
def held(world: ChaosWorld, i: int) -> Iterator[FleetMember]:
    """Member ``i``, running, and nobody else's victim meanwhile."""
    member = world.fleet.members[i]
    if not world.fleet.locks[i].acquire(blocking=False):
        raise Skipped
    try:
        if not member.running:
            raise Skipped
        yield member
    finally:
        world.fleet.locks[i].release()


def number_of(world: ChaosWorld, supervisor: str) -> int:
    return next(i for i, member in enumerate(world.fleet.members) if member.id == supervisor)


def standby_number(world: ChaosWorld, choice: random.Random) -> int:
    leads = number_of(world, leading(world).supervisor)
    return choice.choice([i for i in range(len(world.fleet.members)) if i != leads])


def wait_next(world: ChaosWorld, epoch: int) -> None:
    if not world.terms.wait_after(epoch, NEXT_S, world.done.is_set):
        world.diary.write("no_next_leader", after=epoch)


def expel_leader(world: ChaosWorld, choice: random.Random) -> None:
    """Its session is closed by id and password."""
    term = leading(world)
    world.diary.fault("leader's session closed", term.supervisor)
    expel(world.ensemble.hosts, term.session)
    wait_next(world, term.epoch)


def expel_agent(world: ChaosWorld, choice: random.Random) -> None:
    """The session with which a supervisor is registered as a host."""
    member = choice.choice(world.fleet.members)
    node = world.fleet.client.read(f"{world.fleet.layout.supervisors}/{member.id}")
    if node is None:
        raise Skipped
    world.diary.fault("agent's session closed", member.id)
    expel(world.ensemble.hosts, node.stat.ephemeral_owner)


def hand_over(world: ChaosWorld, choice: random.Random) -> None:
    term = leading(world)
    others = [member.id for member in world.fleet.members if member.id != term.supervisor]
    to = choice.choice([None, *others])
    sessions = keep_session(world.ensemble.hosts, SESSION_S)
    try:
        ClusterOperations(sessions, world.fleet.layout, "nemesis").switchover(to)
        world.diary.fault("switchover", term.supervisor, to=to)
    except (Conflict, NotFound) as error:
        raise Skipped from error  # who should take over is away just now
    finally:
        sessions.close()
    wait_next(world, term.epoch)


def kill_leader(world: ChaosWorld, choice: random.Random) -> None:
    term = leading(world)
    i = number_of(world, term.supervisor)
    with held(world, i) as member:
        world.diary.fault("leader killed", member.id)
        world.fleet.kill(member)
        wait_next(world, term.epoch)
        world.fleet.start_member(i)


def leave(world: ChaosWorld, choice: random.Random) -> None:
    """The leader is restarted in an orderly way (SIGTERM)."""
    term = leading(world)
    i = number_of(world, term.supervisor)
    with held(world, i) as member:
        world.diary.fault("leader restarted", member.id)
        world.fleet.signal_member(member, signal.SIGTERM)
        world.fleet.start_member(i)
        wait_next(world, term.epoch)


def restart_all_in_turn(world: ChaosWorld, choice: random.Random) -> None:
    """A rolling restart."""
    for i in range(len(world.fleet.members)):
        with held(world, i) as member:
            world.diary.fault("rolling restart", member.id)
            world.fleet.signal_member(member, signal.SIGTERM)
            world.fleet.start_member(i)
            world.wait(2.0)


def stop_leader(world: ChaosWorld, choice: random.Random) -> None:
    """Beyond its session: it is deposed, and wakes up."""
    term = leading(world)
    with (
        held(world, number_of(world, term.supervisor)) as member,
        stopped(world, member, "leader stopped beyond its session"),
    ):
        wait_next(world, term.epoch)
        world.wait(choice.uniform(0.0, 2.0))


def stop_leader_briefly(world: ChaosWorld, choice: random.Random) -> None:
    with (
        held(world, number_of(world, leading(world).supervisor)) as member,
        stopped(world, member, "leader stopped briefly"),
    ):
        world.wait(choice.uniform(0.1, SESSION_S / 2))


def stop_standby(world: ChaosWorld, choice: random.Random) -> None:
    with held(world, standby_number(world, choice)) as member, stopped(world, member, "standby stopped"):
        world.wait(choice.choice([0.3, 1.0, SESSION_S + 2]))


@contextmanager
def stopped(world: ChaosWorld, member: FleetMember, kind: str) -> Iterator[None]:
    with world.diary.lasting(kind, member.id):
        world.fleet.signal_member(member, signal.SIGSTOP)
        try:
            yield
        finally:
            world.fleet.signal_member(member, signal.SIGCONT)


def kill_standby(world: ChaosWorld, choice: random.Random) -> None:
    i = standby_number(world, choice)
    with held(world, i) as member:
        world.diary.fault("standby killed", member.id)
        world.fleet.kill(member)
        world.wait(choice.choice([0.0, 0.5, SESSION_S]))
        world.fleet.start_member(i)


def kill_all(world: ChaosWorld, choice: random.Random) -> None:
    """Every supervisor at once; the shims renew alone for a while."""
    victims = []
    for i, member in enumerate(world.fleet.members):
        if member.running and world.fleet.locks[i].acquire(blocking=False):
            victims.append(i)
    try:
        for i in victims:
            world.diary.fault("supervisor killed with all others", world.fleet.members[i].id)
            world.fleet.kill(world.fleet.members[i])
        world.wait(choice.uniform(0.0, 12.0))
        for i in victims:
            world.fleet.start_member(i)
    finally:
        for i in victims:
            world.fleet.locks[i].release()


def kill_session_closer(world: ChaosWorld, choice: random.Random) -> None:
    member = choice.choice(world.fleet.members)
    if not member.running:
        raise Skipped
    for process in world.fleet.processes():
        found = processes.stat(process.pid)
        if (
            found is not None
            and found.ppid == member.pid
            and b"supervisor.daemon.process.session_closer" in _command(process.pid)
        ):
            world.diary.fault("session closer killed", member.id)
            processes.kill(process)
            return
    raise Skipped


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def pause_cluster(world: ChaosWorld, choice: random.Random) -> None:
    """And unpause it, however long that takes: what nobody unpauses is paused for the rest of the run."""
    sessions = keep_session(world.ensemble.hosts, SESSION_S)
    try:
        operator = ClusterOperations(sessions, world.fleet.layout, "nemesis")
        with world.diary.lasting("cluster paused"):
            try:
                operator.pause("chaos")
                world.wait(choice.uniform(1.0, 5.0))
            finally:
                wait_until(
                    lambda: _unpaused(operator), UNPAUSED_S, "the cluster to be unpaused", period_s=0.5
                )
    finally:
        sessions.close()


def _unpaused(operator: ClusterOperations) -> bool:
    with contextlib.suppress(SupervisorError):
        operator.unpause()
        return True
    return False


def change_leader_often() -> list[tuple[float, Fault]]:
    return _weighted(
        (68, expel_leader),
        (20, hand_over),
        (7, kill_leader),
        (2, leave),
        (3, stop_leader),
        (3, stop_leader_briefly),
    )


def others() -> list[tuple[float, Fault]]:
    return _weighted(
        (8, kill_standby),
        (16, stop_standby),
        (22, expel_agent),
        (12, kill_session_closer),
        (6, pause_cluster),
        (2, restart_all_in_turn),
        (2, kill_all),
    )


def _weighted(*pairs: tuple[float, Callable[[ChaosWorld, random.Random], None]]) -> list[tuple[float, Fault]]:
    return list(pairs)
