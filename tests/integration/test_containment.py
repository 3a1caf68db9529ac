"""Real processes in both containments: what escapes a process group does not escape us, and dead means empty."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.containment import (
    CLAIM_MARKER,
    CgroupContainment,
    Containment,
    ScanContainment,
    find_cgroup_parent,
    find_own_cgroup,
)
from supervisor.clients.processes import ProcessId
from supervisor.model.emptiness import Emptiness
from tests.testbed import requirements
from tests.waiting import wait_until

# Writes the pid of each process of the tree: a root, a child, a daemon in a session of its own without environment.
TREE = """
import os, sys, time
out = open(sys.argv[1], "a")
def note(): os.write(out.fileno(), b"%d\\n" % os.getpid())
note()
if os.fork() == 0:
    note()
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note()
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cgroup_parent() -> Iterator[str]:
    requirements.need("cgroup")
    parent = find_cgroup_parent(find_own_cgroup(), f"containment-{os.getpid()}")
    assert parent is not None
    yield parent
    os.rmdir(parent)


class Tree:
    """A tree of three processes that is started inside ``containment``."""

    def __init__(self, directory: Path, containment: Containment, claim: str) -> None:
        self.containment = containment
        self.pid_file = directory / "pids"
        env = {**os.environ, CLAIM_MARKER: claim}
        self.child = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", TREE, str(self.pid_file)],
            env=env,
            start_new_session=True,
            preexec_fn=containment.enter,
        )
        wait_until(lambda: len(self.pids()) == 3, 20, "three processes")

    def pids(self) -> list[int]:
        return [int(line) for line in self.pid_file.read_text().split()] if self.pid_file.exists() else []

    def living(self) -> list[int]:
        self.child.poll()
        return [pid for pid in self.pids() if (found := processes.stat(pid)) is not None and not found.dead]

    def end(self) -> None:
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)
        self.child.wait()


@pytest.fixture(params=["cgroup", "scan"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tree]:
    claim = uuid.uuid4().hex[:16]
    roots: list[ProcessId] = []
    containment: Containment
    if request.param == "cgroup":
        group = CgroupContainment(f"{request.getfixturevalue('cgroup_parent')}/{claim}")
        group.create()
        containment = group
    else:
        containment = ScanContainment(claim, lambda: roots[0] if roots else None)
    made = Tree(tmp_path, containment, claim)
    root = processes.identify(made.child.pid)
    assert root is not None
    roots.append(root)
    yield made
    made.end()
    wait_until(lambda: containment.emptiness() is not Emptiness.POPULATED, 10)
    containment.remove()


def test_all_members_are_seen(tree: Tree) -> None:
    assert sorted(tree.containment.pids()) == sorted(tree.pids())
    assert tree.containment.emptiness() is Emptiness.POPULATED


def test_a_daemon_in_its_own_session_escapes_killpg_but_not_us(tree: Tree) -> None:
    os.killpg(tree.child.pid, signal.SIGKILL)
    wait_until(lambda: len(tree.living()) == 1, 10, "only the daemon left")
    assert tree.containment.emptiness() is Emptiness.POPULATED
    tree.containment.kill(5.0)
    assert not tree.living()
    assert tree.containment.emptiness() is not Emptiness.POPULATED


def test_a_stopped_tree_dies(tree: Tree) -> None:
    for pid in tree.pids():
        os.kill(pid, signal.SIGSTOP)
    tree.containment.kill(5.0)
    assert not tree.living()


def test_only_a_cgroup_proves_emptiness_from_outside(tree: Tree) -> None:
    tree.containment.kill(5.0)
    proof = Emptiness.EMPTY if isinstance(tree.containment, CgroupContainment) else Emptiness.UNPROVABLE
    assert tree.containment.emptiness() is proof


def test_a_kill_of_nothing_is_harmless(tree: Tree) -> None:
    tree.containment.kill(5.0)
    tree.containment.kill(5.0)
    assert not tree.living()


@pytest.mark.parametrize("tree", ["cgroup"], indirect=True)
def test_a_frozen_cgroup_dies(tree: Tree) -> None:
    assert isinstance(tree.containment, CgroupContainment)
    Path(tree.containment.path, "cgroup.freeze").write_text("1")
    tree.containment.kill(5.0)
    assert not tree.living()


@pytest.mark.parametrize("tree", ["cgroup"], indirect=True)
def test_kernels_without_cgroup_kill_freeze_and_signal(tree: Tree) -> None:
    assert isinstance(tree.containment, CgroupContainment)
    tree.containment._kill_frozen()
    wait_until(lambda: not tree.living(), 10, "the end of all members")
    assert tree.containment.emptiness() is Emptiness.EMPTY


def test_a_missing_cgroup_proves_nothing(cgroup_parent: str) -> None:
    assert CgroupContainment(f"{cgroup_parent}/never-made").emptiness() is Emptiness.UNPROVABLE


def test_the_probe_of_a_supervisor_that_was_killed_is_removed_and_that_of_a_living_one_is_not(
    cgroup_parent: str,
) -> None:
    own, name = os.path.split(cgroup_parent)
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    groups = [CgroupContainment(f"{cgroup_parent}/probe-{pid}") for pid in (dead.pid, os.getppid())]
    for group in groups:
        group.create()
    assert find_cgroup_parent(own, name) == cgroup_parent
    assert [os.path.exists(group.path) for group in groups] == [False, True]
    groups[1].remove()


def test_a_cgroup_that_is_somebody_elses_is_not_used(cgroup_parent: str) -> None:
    group = CgroupContainment(f"{cgroup_parent}/once")
    group.create()
    with pytest.raises(FileExistsError):
        CgroupContainment(group.path).create()
    group.remove()


def test_a_group_that_somebody_removed_is_empty_to_who_holds_it_and_unknown_to_others(
    cgroup_parent: str,
) -> None:
    """The kernel removes a group only if it has no member, and lets nobody in afterwards."""
    group = CgroupContainment(f"{cgroup_parent}/short")
    group.create()
    with subprocess.Popen(["sleep", "600"], preexec_fn=group.enter) as member:
        with pytest.raises(OSError):
            os.rmdir(group.path)
        assert group.emptiness() is Emptiness.POPULATED
        group.kill(10.0)
        member.wait()
    wait_until(lambda: group.emptiness() is Emptiness.EMPTY, 10, "the end of the member")
    os.rmdir(group.path)
    assert group.emptiness() is Emptiness.EMPTY
    assert group.kill(1.0) < 1.0
    assert CgroupContainment(group.path).emptiness() is Emptiness.UNPROVABLE


def test_nobody_enters_a_group_that_was_removed_and_made_anew(cgroup_parent: str) -> None:
    group = CgroupContainment(f"{cgroup_parent}/twice")
    group.create()
    os.rmdir(group.path)
    Path(group.path).mkdir()
    with pytest.raises(OSError):
        group.enter()
    assert CgroupContainment(group.path).emptiness() is Emptiness.EMPTY
    os.rmdir(group.path)


def test_a_session_number_that_was_handed_out_again_is_not_ours(tmp_path: Path) -> None:
    stranger = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        found = processes.identify(stranger.pid)
        assert found is not None
        reused = found._replace(start_ticks=found.start_ticks - 1)
        ScanContainment(uuid.uuid4().hex, lambda: reused).kill(1.0)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_killer_that_is_not_root_and_comes_later_kills(cgroup_parent: str) -> None:
    """As the guardian of a service: ``cgroup.kill`` may be written by its owner, and read by nobody."""
    requirements.need("netns")  # root
    user, path = 20000, f"{cgroup_parent}/delegated"
    group = CgroupContainment(path)
    group.create()
    child = subprocess.Popen(["sleep", "600"])
    try:
        Path(path, "cgroup.procs").write_text(str(child.pid))
        for name in ("", "cgroup.procs", "cgroup.kill", "cgroup.freeze", "cgroup.events"):
            os.chown(f"{path}/{name}", user, user)
        killer = os.fork()
        if killer == 0:
            try:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                CgroupContainment(path).kill(10.0)
            finally:
                os._exit(0)
        os.waitpid(killer, 0)
        assert child.wait(10) == -signal.SIGKILL
        assert group.emptiness() is Emptiness.EMPTY
    finally:
        child.kill()
        group.release()
        group.remove()
