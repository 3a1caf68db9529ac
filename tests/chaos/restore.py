"""Old ZooKeeper data is put back, as after a disaster, and an operator accepts it. Rare: everything else waits meanwhile.

Nothing is asked for by users between saving and accepting, so no acknowledgement is among what gets lost; attempts are: they
are killed in between, so that the old state knows only of those before.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

from supervisor.clients.ensemble import EmbeddedEnsemble
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from tests.chaos import on_attempts
from tests.chaos.nemesis import Skipped
from tests.chaos.world import NODES, World
from tests.testbed.docker_ensemble import DockerEnsemble
from tests.waiting import wait_until

RESTORED_S = 120.0


def data_of(world: World, node: int) -> Path:
    ensemble = world.ensemble
    if isinstance(ensemble, EmbeddedEnsemble):
        return ensemble.directory / f"node{node}" / "data"
    assert isinstance(ensemble, DockerEnsemble)
    return Path(f"/proc/{ensemble.pid(node)}/root/data")


def restore_old_data(world: World, choice: random.Random) -> None:
    """Back when the registry is trusted again. Raises AssertionError."""
    saved = world.directory / f"saved-{boottime_s():.0f}"
    with world.gate.alone(), world.diary.harm("old ZooKeeper data restored", aftermath_s=30.0):
        world.diary.fault("old ZooKeeper data restored")
        world.ensemble.wait_serving(60)
        for node in range(NODES):
            shutil.copytree(data_of(world, node), saved / str(node))
        for _ in range(3):
            with contextlib.suppress(Skipped):
                on_attempts.kill_driver(world, choice)
            world.wait(1.0)
        put_back(world, saved)
        shutil.rmtree(saved)
        accept(world)
        wait_until(lambda: world.done.is_set() or world.fleet.attempts(), RESTORED_S, "a job to run again", period_s=0.5)


def put_back(world: World, saved: Path) -> None:
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


def accept(world: World) -> None:
    """As soon as a leader says that it does not trust the registry."""
    fleet = world.fleet

    def distrust() -> object:
        said = fleet.cli("status", "-o", "json")
        if said.code != 0 or not said.document["leader"]:
            return None
        return said.document

    wait_until(lambda: (distrust() or {}).get("distrust"), RESTORED_S, "the distrust of a leader", period_s=0.5)  # type: ignore[attr-defined]

    def accepted() -> bool:
        with contextlib.suppress(SupervisorError):
            fleet.cli("accept-registry", "--yes", "-o", "json")
        found = distrust()
        return found is not None and found["distrust"] is None  # type: ignore[index]

    wait_until(accepted, RESTORED_S, "that all trust again", period_s=1.0)
    world.diary.write("accepted")
