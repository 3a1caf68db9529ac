"""What the containments tell of a tree: on looks at /proc that follow each other, and on the files of a group."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.containment import CgroupContainment, ScanContainment
from supervisor.clients.processes import ProcessId, ProcessStat
from supervisor.model.emptiness import Emptiness
from supervisor.shim.children import Children

ROOT, CHILD, DAEMON = (
    ProcessStat(4_000_001, "S", 1, 4_000_001, 50),
    ProcessStat(4_000_002, "S", 4_000_001, 4_000_001, 51),
    ProcessStat(4_000_003, "S", 4_000_002, 4_000_003, 52),
)
"""A root, its child, and a daemon in a session of its own."""


def root_of(ticks: int = ROOT.start_ticks, boot_id: str | None = None) -> ProcessId:
    return ProcessId(ROOT.pid, ticks, processes.boot_id() if boot_id is None else boot_id)


def scans(monkeypatch: pytest.MonkeyPatch, *seen: tuple[ProcessStat, ...]) -> list[int]:
    """``seen`` at each look at /proc, the last for ever. Returns the pids that are killed."""
    left, killed = list(seen), list[int]()

    def all_stats() -> Iterator[ProcessStat]:
        yield from (left.pop(0) if len(left) > 1 else left[0])

    def kill(process: ProcessId) -> bool:
        killed.append(process.pid)
        return True

    monkeypatch.setattr(processes, "all_stats", all_stats)
    monkeypatch.setattr(processes, "kill", kill)
    return killed


def test_a_tree_that_was_not_seen_once_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc is no snapshot: who forks while it is read may be missed, parent and child."""
    killed = scans(monkeypatch, (ROOT,), (), (ROOT, CHILD), (), ())
    ScanContainment("c", root_of).kill(10.0)
    assert killed == [ROOT.pid, ROOT.pid, CHILD.pid] or killed == [ROOT.pid, CHILD.pid, ROOT.pid]


def test_all_descendants_are_seen_whatever_they_did_to_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    scans(monkeypatch, (ROOT, CHILD, DAEMON, ProcessStat(4_000_009, "S", 1, 4_000_009, 60)))
    assert sorted(ScanContainment("c", root_of).pids()) == [ROOT.pid, CHILD.pid, DAEMON.pid]


@pytest.mark.parametrize("root", [root_of(ticks=49), root_of(boot_id="another")])
def test_a_number_that_means_another_process_now_is_no_root(
    monkeypatch: pytest.MonkeyPatch, root: ProcessId
) -> None:
    scans(monkeypatch, (ROOT, CHILD))
    assert ScanContainment("c", lambda: root).pids() == []


def test_orphans_that_fell_to_the_shim_are_seen_by_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    orphan = ProcessStat(4_000_004, "S", os.getpid(), 4_000_004, 53)
    scans(monkeypatch, (orphan,))
    assert ScanContainment("c", lambda: None, lambda: False).pids() == [orphan.pid]
    assert ScanContainment("c", lambda: None).pids() == []


def test_a_scan_proves_nothing_but_to_who_has_no_child_left(monkeypatch: pytest.MonkeyPatch) -> None:
    scans(monkeypatch, ())
    assert ScanContainment("c", lambda: None).emptiness() is Emptiness.UNPROVABLE
    assert ScanContainment("c", lambda: None, lambda: False).emptiness() is Emptiness.POPULATED
    assert ScanContainment("c", lambda: None, lambda: True).emptiness() is Emptiness.EMPTY
    scans(monkeypatch, (ROOT,))
    assert ScanContainment("c", root_of, lambda: True).emptiness() is Emptiness.POPULATED


def test_who_has_a_child_that_lives_is_not_childless() -> None:
    ready, wait = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(wait)
            os.read(ready, 1)
        finally:
            os._exit(3)
    children = Children()
    children.watched = child
    try:
        assert not children.reap() and children.ended == {}
    finally:
        os.close(wait)
        os.close(ready)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    children.reap()
    assert children.ended == {child: 3}


def test_the_time_of_a_child_that_is_kept_apart_is_known_when_it_was_reaped() -> None:
    child = os.fork()
    if child == 0:
        try:
            while time.process_time() < 0.5:
                pass
        finally:
            os._exit(0)
    children = Children()
    children.apart.add(child)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    children.reap()
    assert children.apart == set() and children.apart_cpu_s >= 0.25 and children.ended == {}


class Group(CgroupContainment):
    """Its files stand in for those of the kernel; it is empty after ``blows``."""

    def __init__(self, directory: Path, blows: int) -> None:
        super().__init__(str(directory))
        self._left, self.blows = blows, 0
        self.write_populated(blows)

    def write_populated(self, populated: int) -> None:
        Path(f"{self.path}/cgroup.events").write_text(f"populated {min(populated, 1)}\nfrozen 0\n")

    def _kill_once(self) -> None:
        self.blows += 1
        self.write_populated(self._left - self.blows)


def test_a_group_is_killed_until_it_is_empty(tmp_path: Path) -> None:
    """Who enters, or is forked, between the kernel's kill and the look is killed by the next one."""
    group = Group(tmp_path, 3)
    group.kill(10.0)
    assert (group.blows, group.emptiness()) == (3, Emptiness.EMPTY)


def test_a_group_that_can_not_be_looked_at_is_not_empty(tmp_path: Path) -> None:
    group = CgroupContainment(str(tmp_path))
    assert group.emptiness() is Emptiness.UNPROVABLE, "it is not there"
    Path(tmp_path, "cgroup.events").write_text("frozen 0\n")
    assert group.emptiness() is Emptiness.UNPROVABLE, "it does not say"
