"""F22: ZooKeeper is restored from an older backup, twice. Nothing runs on it before an operator accepts it; no job runs twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import FAILED, MakeFleet
from tests.testbed.fleet import DRIVER, Fleet
from tests.testbed.secured_ensemble import running
from tests.waiting import wait_until

RESTORED_S = 90.0


NODES = 3


class Backups:
    """The data of all servers, saved while they run, as operators do."""

    def __init__(self, ensemble: EmbeddedEnsemble, directory: Path) -> None:
        self.ensemble = ensemble
        self.directory = directory
        self.restored_at_s: list[float] = []

    def _data(self, node: int) -> Path:
        return self.ensemble.directory / f"node{node}" / "data"

    def save(self, name: str) -> None:
        for node in range(NODES):
            shutil.copytree(self._data(node), self.directory / name / str(node))

    def restore(self, name: str) -> None:
        """Servers down, old data in place, servers up. Their new ZooKeeper epoch is higher than the one that is lost."""
        for node in range(NODES):
            self.ensemble.stop(node)
        self.restored_at_s.append(boottime_s())
        for node in range(NODES):
            shutil.rmtree(self._data(node))
            shutil.copytree(self.directory / name / str(node), self._data(node))
        for node in range(NODES):
            self.ensemble.restart(node)
        self.ensemble.wait_serving(60)


@pytest.fixture
def backups(tmp_path: Path) -> Iterator[Backups]:
    with running(tmp_path / "zookeeper", NODES) as ensemble:
        yield Backups(ensemble, tmp_path / "backups")


def wait_distrusted(fleet: Fleet) -> str:
    """Said by the leader, in ``status``."""

    def distrust() -> str | None:
        answer = fleet.cli("status", "-o", "json")
        return answer.document["distrust"] if answer.code == 0 and answer.document["leader"] else None

    return str(wait_until(distrust, RESTORED_S, "the distrust of a leader", period_s=0.3))


def wait_remembered(fleet: Fleet) -> None:
    """Returns when a supervisor keeps that the registry has come this far: what is lost before any of them has read it is not
    missed (SAFETY.md)."""
    doorbell = fleet.read_znode(fleet.layout.doorbell)
    assert doorbell is not None
    files = [member.directory / "run" / "zxid" for member in fleet.members]

    def remembered() -> bool:
        return any(json.loads(file.read_text())["rings"] >= doorbell.stat.version for file in files)

    wait_until(remembered, RESTORED_S, "that somebody remembers it", period_s=0.3)


def accept(fleet: Fleet) -> None:
    fleet.ok("accept-registry", "--yes", "-o", "json")
    wait_until(lambda: fleet.status()["distrust"] is None, RESTORED_S, "that all trust again", period_s=0.3)


@pytest.fixture
def fleet(make_fleet: MakeFleet, backups: Backups, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    fleet = make_fleet(backups.ensemble, lease_s=6.0)
    fleet.restored_at_s = backups.restored_at_s
    yield fleet
    if request.node.stash.get(FAILED, False):
        fleet.tell_logs()


def test_a_restored_registry_is_accepted_by_an_operator_each_time(fleet: Fleet, backups: Backups) -> None:
    kept, moved = "kept", "moved"
    fleet.submit(kept)
    fleet.submit(moved)
    fleet.wait_state(kept, "running")
    fleet.wait_state(moved, "running")
    backups.save("first")
    fleet.ok("restart", moved)  # attempt 2 runs in a state that will be lost
    wait_until(lambda: fleet.show(moved)["attempt"] == 2, RESTORED_S, "attempt 2")
    fleet.wait_state(moved, "running")
    fleet.submit("lost")
    fleet.wait_state("lost", "running")
    lost_driver = fleet.process("lost", DRIVER)

    wait_remembered(fleet)
    backups.restore("first")
    assert "restored" in wait_distrusted(fleet)
    epoch = fleet.epoch()
    looked = fleet.ok("accept-registry", "--dry-run", "-o", "json").document
    assert {job["name"] for job in looked["jobs"]} == {kept, moved}
    assert [spec["name"] for spec in looked["lost"]] == ["lost"]
    assert looked["accepted"] is None and looked["wait_s"] < 15
    assert fleet.cli("accept-registry").code == 2, "nobody to ask"

    accept(fleet)
    assert fleet.wait_new_leader(epoch)
    fleet.wait_state(kept, "running")
    fleet.wait_state(moved, "running", timeout_s=RESTORED_S)
    assert not processes.alive(lost_driver), "the driver of the lost job ended at its deadline"
    assert fleet.cli("show", "lost").code == 3
    assert fleet.ok("accept-registry", "--yes").out.startswith("nobody distrusts")

    backups.save("second")
    before = fleet.show(kept)["attempt"]  # its lease may have run out meanwhile, on a busy machine
    fleet.ok("restart", kept)
    wait_until(lambda: (fleet.show(kept)["attempt"] or 0) > before, RESTORED_S, "its next attempt")
    wait_remembered(fleet)
    backups.restore("second")  # a state that knows the first acceptance
    assert "restored" in wait_distrusted(fleet)
    fleet.add_member()  # a host that remembers nothing
    fleet.wait_complete()
    assert fleet.status()["distrust"]
    accept(fleet)
    fleet.wait_state(kept, "running", timeout_s=RESTORED_S)
    fleet.wait_state(moved, "running", timeout_s=RESTORED_S)
