"""Faults of servers: ZooKeeper's (one after the other, so that a minority stays one) and the S3 API's.

What containers allow beyond processes: cuts between servers, and "the leader cut from its peers while its clients reach it".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, cast

from supervisor.clock import boottime_s
from tests.chaos.nemesis import Fault
from tests.chaos.world import NODES, ChaosWorld
from tests.fakes import faulty_s3
from tests.fakes.faulty_s3 import Handler

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble

SERVE_S = 60.0
ELECTION_S = 4.5
"""For ZooKeeper to replace a leader that is cut or stands still (measured: 3.0 to 3.4 s)."""


@contextmanager
def outage(world: ChaosWorld, kind: str, node: int | str, lasts_s: float) -> Iterator[None]:
    """For some clients nothing is committed for up to ``lasts_s``. In the end all servers serve."""
    with (
        world.diary.harm(kind, world.frail(lasts_s)) as widen,
        world.diary.lasting(kind, f"node {node}", for_s=round(lasts_s, 2)),
    ):
        if revive(world):
            widen()
        try:
            yield
        finally:
            late_at_s = boottime_s() + lasts_s
            deadline_at_s = boottime_s() + SERVE_S
            while None in world.ensemble.modes() and boottime_s() < deadline_at_s:
                if revive(world) or boottime_s() > late_at_s:
                    widen()
                time.sleep(0.2)


def revive(world: ChaosWorld) -> bool:
    """Servers that ended by themselves, as ZooKeeper's do now and then, are started again, as an operator's systemd would."""
    ended = [node for node in range(NODES) if not world.ensemble.runs(node)]
    for node in ended:
        world.diary.write("server_ended", node=node)
        world.ended_servers += 1
        world.ensemble.restart(node)
    return bool(ended)


def follower(world: ChaosWorld, choice: random.Random) -> int:
    leads = world.ensemble.leader()
    return choice.choice([i for i in range(NODES) if i != leads])


def kill_follower(world: ChaosWorld, choice: random.Random) -> None:
    node = follower(world, choice)
    with outage(world, "ZooKeeper follower killed", node, 1.0):
        _down(world, choice, node)


def kill_zookeeper_leader(world: ChaosWorld, choice: random.Random) -> None:
    node = world.ensemble.leader()
    with outage(world, "ZooKeeper leader killed", node, ELECTION_S):
        _down(world, choice, node)


def _down(world: ChaosWorld, choice: random.Random, node: int) -> None:
    world.ensemble.kill(node)
    try:
        world.wait(choice.uniform(0.2, 4.0))
    finally:
        world.ensemble.restart(node)


def pause_follower(world: ChaosWorld, choice: random.Random) -> None:
    node = follower(world, choice)
    with outage(world, "ZooKeeper follower stopped", node, 1.0):
        _paused(world, choice.uniform(0.5, 5.0), node)


def pause_zookeeper_leader(world: ChaosWorld, choice: random.Random) -> None:
    node = world.ensemble.leader()
    with outage(world, "ZooKeeper leader stopped", node, ELECTION_S):
        _paused(world, choice.uniform(0.5, 5.0), node)


def pause_quorum_briefly(world: ChaosWorld, choice: random.Random) -> None:
    lasts_s = choice.uniform(0.3, 2.0)
    with outage(world, "quorum lost briefly", "0, 1", lasts_s):
        _paused(world, lasts_s, 0, 1)


def pause_quorum(world: ChaosWorld, choice: random.Random) -> None:
    """Longer than most leases: drivers are stopped by their deadlines."""
    lasts_s = choice.uniform(6.0, 16.0)
    with outage(world, "quorum lost", "0, 1", lasts_s + ELECTION_S):
        _paused(world, lasts_s, 0, 1)


def _paused(world: ChaosWorld, lasts_s: float, *nodes: int) -> None:
    for node in nodes:
        world.ensemble.pause(node)
    try:
        world.wait(lasts_s)
    finally:
        for node in nodes:
            if world.ensemble.runs(node):
                world.ensemble.resume(node)


# -- only containers ------------------------------------------------------------------------------------------------------


def cut_leader_from_peers(world: ChaosWorld, choice: random.Random) -> None:
    """Its clients still reach it: it answers pings and reads for a while, and commits nothing."""
    node = world.ensemble.leader()
    _cut(
        world,
        choice,
        "ZooKeeper leader cut from its peers only",
        node,
        ELECTION_S,
        lambda e: e.cut_quorum(node),
    )


def cut_follower_from_peers(world: ChaosWorld, choice: random.Random) -> None:
    node = follower(world, choice)
    _cut(
        world,
        choice,
        "ZooKeeper follower cut from its peers only",
        node,
        ELECTION_S,
        lambda e: e.cut_quorum(node),
    )


def cut_between(world: ChaosWorld, choice: random.Random) -> None:
    first, second = choice.sample(range(NODES), 2)
    _cut(
        world,
        choice,
        "two ZooKeeper servers cut from each other",
        f"{first}, {second}",
        ELECTION_S,
        lambda e: e.cut_between(first, second),
    )


def cut_one_way(world: ChaosWorld, choice: random.Random) -> None:
    """May keep the ensemble without a leader for as long as it lasts."""
    node = choice.randrange(NODES)
    _cut(world, choice, "ZooKeeper server heard by no peer", node, 16.0, lambda e: e.cut_one_way(node))


def cut_clients(world: ChaosWorld, choice: random.Random) -> None:
    node = choice.randrange(NODES)
    _cut(
        world, choice, "ZooKeeper server cut from its clients only", node, 1.0, lambda e: e.cut_clients(node)
    )


def isolate(world: ChaosWorld, choice: random.Random) -> None:
    node = choice.randrange(NODES)
    _cut(world, choice, "ZooKeeper server isolated", node, ELECTION_S, lambda e: e.isolate(node))


def _cut(
    world: ChaosWorld,
    choice: random.Random,
    kind: str,
    node: int | str,
    lasts_s: float,
    do: Callable[[DockerEnsemble], None],
) -> None:
    ensemble = cast("DockerEnsemble", world.ensemble)
    with outage(world, kind, node, lasts_s):
        do(ensemble)
        try:
            world.wait(choice.uniform(0.5, 6.0))
        finally:
            ensemble.heal()


def of_zookeeper(kind: str) -> list[tuple[float, Fault]]:
    everywhere: list[tuple[float, Fault]] = [
        (10, kill_follower),
        (8, kill_zookeeper_leader),
        (14, pause_follower),
        (10, pause_zookeeper_leader),
        (12, pause_quorum_briefly),
        (2, pause_quorum),
    ]
    only_containers: list[tuple[float, Fault]] = [
        (10, cut_leader_from_peers),
        (8, cut_follower_from_peers),
        (8, cut_between),
        (3, cut_one_way),
        (10, cut_clients),
        (6, isolate),
    ]
    chosen = everywhere if kind == "embedded" else [*everywhere, *only_containers]
    return [(weight, _of_all_servers(fault)) for weight, fault in chosen]


def _of_all_servers(fault: Fault) -> Fault:
    """``fault``, once all servers serve."""

    @wraps(fault)
    def done(world: ChaosWorld, choice: random.Random) -> None:
        if not all(world.ensemble.runs(node) for node in range(NODES)):
            with world.diary.harm("ZooKeeper server ended by itself"):
                revive(world)
                world.ensemble.wait_serving(SERVE_S)
        fault(world, choice)

    return done


# -- the store ------------------------------------------------------------------------------------------------------------


def late(handler: Handler) -> None:
    """The answer takes its time."""
    handler.owner.released.wait(0.5)
    faulty_s3.relay(handler)


STORE_FAULTS: tuple[tuple[str, faulty_s3.Fault], ...] = (
    ("S3 says SlowDown", faulty_s3.refuse(503, "SlowDown")),
    ("S3 says InternalError", faulty_s3.refuse(500, "InternalError")),
    ("S3 hangs", faulty_s3.hang),
    ("S3 resets", faulty_s3.reset_before),
    ("S3 resets instead of the answer", faulty_s3.lose_reply),
    ("S3 breaks off in the body", faulty_s3.reset_in_body),
    ("S3 truncates", faulty_s3.truncate_body),
    ("S3 is slow", late),
)


def break_store(world: ChaosWorld, choice: random.Random) -> None:
    """For a while every request meets the fault; what hangs then is let go."""
    kind, fault = choice.choice(STORE_FAULTS)
    with world.diary.lasting(kind):
        world.s3.always = fault
        try:
            world.wait(choice.uniform(0.3, 5.0))
        finally:
            repair_store(world)


def repair_store(world: ChaosWorld) -> None:
    released = world.s3.released
    world.s3.reset()
    released.set()


def of_store() -> list[tuple[float, Fault]]:
    return [(1, break_store)]
