"""F22: the disks of all ZooKeeper servers are full. A server that can't write its log ends itself; what it has said was written stays."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.run_dir import read_deadline
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.lease_terms import shim_acts_at_s
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER, Fleet
from tests.testbed.requirements import need
from tests.waiting import wait_until

NODES = 3
LEASE_S = 30.0


class SmallDisks:
    """An ensemble with its data on a small disk per server."""

    def __init__(self, ensemble: EmbeddedEnsemble, disks: list[Path]) -> None:
        self.ensemble = ensemble
        self._disks = disks

    def fill(self) -> None:
        """To the last page, but for what the servers have in use already."""
        for disk in self._disks:
            with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))

    def make_room(self) -> None:
        for disk in self._disks:
            (disk / "ballast").unlink()

    def down(self) -> list[int]:
        return [node for node in range(NODES) if not self.ensemble.runs(node)]

    def wait_no_quorum(self) -> None:
        wait_until(lambda: len(self.down()) > NODES // 2, 60, "servers to end for want of room")

    def start_again(self) -> None:
        for node in self.down():
            self.ensemble.restart(node)

    def wait_serving(self) -> None:
        """Started again as long as any ends of what it met before there was room."""

        def serving() -> bool:
            self.start_again()
            return None not in self.ensemble.modes()

        wait_until(serving, 90, "servers that serve", period_s=0.3)

    def log(self, node: int) -> str:
        return self.ensemble.node(node).log.read_text(errors="replace")


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[SmallDisks]:
    need("mount")
    directory = tmp_path / "zookeeper"
    disks = [directory / f"node{node}" / "data" for node in range(NODES)]
    mounted = []
    try:
        for disk in disks:
            disk.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
            mounted.append(disk)
        with EmbeddedEnsemble(directory, NODES) as ensemble:
            yield SmallDisks(ensemble, disks)
    finally:
        for disk in mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


class Submits(threading.Thread):
    """A user who registers job after job, until one is not acknowledged or ``enough`` is said. No other command may run meanwhile."""

    def __init__(self, fleet: Fleet, prefix: str) -> None:
        super().__init__(daemon=True)
        self._fleet, self._prefix = fleet, prefix
        self._enough = threading.Event()
        self.codes: dict[str, int] = {}

    def run(self) -> None:
        while set(self.codes.values()) <= {0} and not self._enough.is_set():
            name = f"{self._prefix}-{len(self.codes)}"
            self.codes[name] = self._fleet.cli("submit", str(self._fleet.spec_file(name)), "--suspended").code

    def enough(self) -> None:
        self._enough.set()
        self.join(60)
        assert not self.is_alive()

    def acknowledged(self) -> set[str]:
        return {name for name, code in self.codes.items() if code == 0}


def test_f22_the_disks_of_zookeeper_are_full(
    small_disks: SmallDisks, make_fleet: MakeFleet, job: str
) -> None:
    """Nothing acknowledged is lost, no driver is touched before its lease ends. Room made and servers started, all goes on: a job
    with a lease that was long enough as it was, one with a shorter lease by its next attempt."""
    fleet, short = make_fleet(small_disks.ensemble, lease_s=LEASE_S), f"{job}-short"
    fleet.submit(job, knobs={"child": True})
    fleet.submit(short, lease="6s")
    for name in (job, short):
        fleet.wait_state(name, "running")
    driver, directory, epoch = fleet.process(job, DRIVER), fleet.run_dir(job), fleet.epoch()
    short_driver = fleet.process(short, DRIVER)
    submits = Submits(fleet, f"{job}-more")
    submits.start()
    wait_until(lambda: len(submits.codes) >= 2, 30, "commands that are acknowledged")
    small_disks.fill()
    small_disks.wait_no_quorum()
    deadline_at_s = read_deadline(str(directory))
    assert deadline_at_s is not None
    assert all("No space left on device" in small_disks.log(node) for node in small_disks.down())
    small_disks.start_again()  # as systemd does: they elect, can't write that down, and end again
    small_disks.wait_no_quorum()
    fleet.wait_gone(short_driver)
    assert processes.alive(driver) or boottime_s() >= shim_acts_at_s(deadline_at_s)

    room_at_s = boottime_s()
    small_disks.make_room()
    small_disks.wait_serving()
    submits.enough()
    assert set(submits.codes.values()) <= {0, 5, 6}
    fleet.wait_complete()
    fleet.wait_state(job, "running")
    fleet.wait_batches(job)
    assert fleet.wait_attempt(short, 2).at_s > room_at_s
    fleet.wait_state(short, "running")
    fleet.wait_batches(short)
    assert fleet.epoch() >= epoch
    starts = fleet.starts(job)
    assert [note.attempt for note in starts] in ([1], [1, 2])
    assert all(note.at_s > shim_acts_at_s(deadline_at_s) for note in starts[1:])
    registered = {row["name"] for row in fleet.rows()}
    assert submits.acknowledged() <= registered
    assert not registered & {name for name, code in submits.codes.items() if code == 5}
    fleet.submit(f"{job}-new")
    fleet.wait_state(f"{job}-new", "running")
