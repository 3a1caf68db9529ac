"""Old ZooKeeper data is put back, as after a disaster, and an operator accepts it. Rare: everything else waits meanwhile.

Nothing is asked for by users between saving and accepting, so no acknowledgement is among what gets lost. What gets lost are
attempts (drivers are killed in between) and a term of leadership: without any of that, nobody would have reason for distrust.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.chaos import on_attempts, on_supervisors
from tests.chaos.nemesis import Skipped
from tests.chaos.on_servers import revive
from tests.chaos.world import NODES, ChaosWorld
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble

RESTORED_S = 120.0


def data_of(world: ChaosWorld, node: int) -> Path:
    ensemble = world.ensemble
    if isinstance(ensemble, EmbeddedEnsemble):
        return ensemble.directory / f"node{node}" / "data"
    return Path(f"/proc/{cast('DockerEnsemble', ensemble).pid(node)}/root/data")


def restore_old_data(world: ChaosWorld, choice: random.Random) -> None:
    """Back when the registry is trusted again. Raises AssertionError."""
    saved = world.directory / f"saved-{boottime_s():.0f}"
    with world.shared_lock.exclusive(), world.diary.harm("old ZooKeeper data restored", aftermath_s=30.0):
        world.diary.fault("old ZooKeeper data restored")
        revive(world)
        world.ensemble.wait_serving(60)
        for node in range(NODES):
            shutil.copytree(data_of(world, node), saved / str(node))
        for _ in range(3):
            with contextlib.suppress(Skipped):
                on_attempts.kill_driver(world, choice)
            world.wait(1.0)
        on_supervisors.expel_leader(world, choice)
        put_back(world, saved)
        world.restored_at_s.append(boottime_s())
        shutil.rmtree(saved)
        accept(world)
        wait_until(
            lambda: world.done.is_set() or world.fleet.attempts(),
            RESTORED_S,
            "a job to run again",
            period_s=0.5,
        )


def put_back(world: ChaosWorld, saved: Path) -> None:
    """Servers stand still, old data in place, servers killed and started: no orderly end may write anything anew."""
    for node in range(NODES):
        world.ensemble.pause(node)
    for node in range(NODES):
        data = data_of(world, node)
        shutil.rmtree(data / "version-2")
        shutil.copytree(saved / str(node) / "version-2", data / "version-2")
        for epochs in (saved / str(node)).glob("*Epoch"):
            shutil.copy(epochs, data)
    for node in range(NODES):
        world.ensemble.kill(node)
    for node in range(NODES):
        world.ensemble.restart(node)
    world.ensemble.wait_serving(60)


def accept(world: ChaosWorld) -> None:
    """As soon as a leader says that it does not trust the registry."""
    wait_until(lambda: _status(world).get("distrust"), RESTORED_S, "the distrust of a leader", period_s=0.5)

    def accepted() -> bool:
        world.fleet.cli("accept-registry", "--yes", "-o", "json")
        found = _status(world)
        return bool(found) and found["distrust"] is None

    wait_until(accepted, RESTORED_S, "that all trust again", period_s=1.0)
    world.diary.write("accepted")


def _status(world: ChaosWorld) -> dict[str, Any]:
    """What ``status`` says; empty while nobody leads."""
    ran = world.fleet.cli("status", "-o", "json")
    return dict(ran.document) if ran.code == 0 and ran.document["leader"] else {}
