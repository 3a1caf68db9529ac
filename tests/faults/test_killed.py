"""kill -9 of every process there is: supervisors, shims, drivers. One fleet, restored before each test.

On both ensembles; without a cgroup, and where only a twin dies, once: that is the host's own matter.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from supervisor.clients import processes
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.lease_terms import full_wait_s
from tests.faults import checker
from tests.faults.conftest import on_embedded
from tests.testbed.fleet import DRIVER, SHIM, TWIN, Fleet, eventually
from tests.waiting import wait_until


def test_f1_kill_9_of_the_leader(fleet: Fleet, job: str) -> None:
    """0 restarts, all shims adopted by the next leader, which acts on new jobs."""
    fleet.submit(job)
    fleet.submit(f"{job}-2")
    for name in (job, f"{job}-2"):
        fleet.wait_state(name, "running")
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.assert_undisturbed(job, f"{job}-2")
    fleet.submit(f"{job}-3")
    fleet.wait_attempt(f"{job}-3", 1)
    fleet.judge()


def test_f5_kill_9_of_the_standby(fleet: Fleet, job: str) -> None:
    """No effect at all: same leader, same epoch, same drivers (FLINK-10255)."""
    fleet.submit(job)
    fleet.wait_state(job, "running")
    leader, epoch = fleet.leader().id, fleet.epoch()
    standby = fleet.standby()
    fleet.kill(standby)
    eventually(
        lambda: standby.id not in (fleet.client.children(fleet.layout.supervisors) or ()), 30, "its departure"
    )
    fleet.assert_undisturbed(job)
    assert (fleet.leader_id(), fleet.epoch()) == (leader, epoch)
    fleet.judge()


def test_f6_kill_9_of_all_supervisors(fleet: Fleet, job: str) -> None:
    """Shims renew alone for longer than a lease and the full wait; then they are adopted: 0 restarts."""
    fleet.submit(job, lease="6s")
    fleet.wait_state(job, "running")
    epoch = fleet.epoch()
    for member in fleet.members:
        fleet.kill(member)
    alone_at_s = boottime_s()
    wait_until(lambda: boottime_s() > alone_at_s + full_wait_s(6.0), 20, "the full wait")
    fleet.assert_undisturbed(job)
    for i in range(len(fleet.members)):
        fleet.start_member(i)
    fleet.wait_new_leader(epoch)
    fleet.wait_complete()
    row = fleet.wait_state(job, "running")
    assert (row["attempt"], row["restarts"]) == (1, 0)
    fleet.assert_undisturbed(job)
    fleet.judge()


def test_f33_kill_9_of_the_shim(fleet: Fleet, job: str) -> None:
    """The twin kills the tree at once, the guardian writes the tombstone, and the next attempt follows."""
    fleet.submit(job, knobs={"child": True, "setsid_child": True})
    fleet.wait_state(job, "running")
    fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    fleet.wait_attempt(job, 2)
    row = fleet.wait_state(job, "running")
    assert (row["attempt"], row["restarts"]) == (2, 1)
    assert any(entry["event"] == "shim_died" for entry in row["history"])
    fleet.judge()


def test_f33_kill_9_of_the_shim_while_its_supervisor_is_down(fleet: Fleet, job: str) -> None:
    """Twin alone. Nobody proves the tree empty, so the next attempt waits for the full time (or for the guardian)."""
    uid = fleet.submit(job, knobs={"child": True})
    fleet.wait_state(job, "running")
    host = fleet.host_of(job)
    fleet.kill(host)
    fleet.leader()
    shim, twin = fleet.process(job, SHIM), fleet.process(job, TWIN)
    fleet.signal(shim, signal.SIGKILL)
    fleet.wait_gone(shim, twin)
    wait_until(lambda: not fleet.alive_pids(job), 30, "the driver tree to be gone")
    died_at_s = checker.spans(fleet.notes(job))[-1].last_at_s
    second = fleet.wait_attempt(job, 2)
    assert second.at_s > died_at_s
    assert fleet.host_of(job) is not host
    assert fleet.uid(job) == uid
    assert any(entry["event"] == "revoked" for entry in fleet.show(job)["history"])
    fleet.judge()


def test_f38_kill_9_of_the_driver_root_leaves_no_child(fleet: Fleet, job: str) -> None:
    """The "JVM" dies; the "Python" that would live on goes with it, before the next attempt."""
    fleet.submit(job, knobs={"child": True, "setsid_child": True})
    fleet.wait_state(job, "running")
    fleet.signal(fleet.process(job, DRIVER), signal.SIGKILL)
    fleet.wait_attempt(job, 2)
    first = {note.pid for note in fleet.notes(job) if note.attempt == 1}
    assert len(first) == 3
    assert not first & set(fleet.alive_pids(job))
    row = fleet.wait_state(job, "running")
    assert any(entry["event"] == "killed" for entry in row["history"])
    fleet.wait_batches(job)
    fleet.judge()


def test_f38_kill_9_of_a_child_of_the_driver_is_the_drivers_own_matter(fleet: Fleet, job: str) -> None:
    """Killed "Python": under a real JVM that ends the driver (e2e); here the root lives on, and so does the attempt."""
    fleet.submit(job, knobs={"child": True})
    fleet.wait_state(job, "running")
    child = fleet.child(job)
    fleet.signal(child, signal.SIGKILL)
    fleet.wait_gone(child)
    fleet.assert_undisturbed(job)
    fleet.judge()


def test_f33_kill_9_of_leader_and_shim_at_once(fleet: Fleet, job: str) -> None:
    """The leader hosts the job itself: takeover, full wait or tombstone, then one new attempt elsewhere or there."""
    names = [f"{job}-{i}" for i in range(2)]
    fleet.submit_many(names, knobs={"child": True})
    for name in names:
        fleet.wait_state(name, "running")
    leader, epoch = fleet.leader(), fleet.epoch()
    victim = next((name for name in names if fleet.host_of(name) is leader), names[0])
    fleet.kill(leader)
    fleet.signal(fleet.process(victim, SHIM), signal.SIGKILL)
    fleet.wait_new_leader(epoch)
    fleet.wait_attempt(victim, 2)
    fleet.assert_undisturbed(*(name for name in names if name != victim))
    fleet.judge()


@on_embedded
def test_f38_kill_9_of_twin_does_not_disturb(fleet: Fleet, job: str) -> None:
    """Two killers are left; the job runs on."""
    fleet.submit(job)
    fleet.wait_state(job, "running")
    twin = fleet.process(job, TWIN)
    fleet.signal(twin, signal.SIGKILL)
    fleet.wait_gone(twin)
    fleet.assert_undisturbed(job)
    assert processes.alive(fleet.process(job, SHIM))
    fleet.judge()


# -- without cgroups ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_fleet(
    embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Supervisors that find no cgroup v2: subreaper, session and a scan by marker hold a driver's tree together."""
    with Fleet(embedded_ensemble, "/bare", tmp_path_factory.mktemp("bare"), without_cgroup=True) as fleet:
        yield fleet


@pytest.fixture
def bare(bare_fleet: Fleet) -> Fleet:
    bare_fleet.restore()
    return bare_fleet


def contained_by(fleet: Fleet, job: str) -> str:
    launch = json.loads((fleet.run_dir(job) / "launch.json").read_text())
    return "scan" if launch["cgroup"] is None else "cgroup"


@pytest.mark.netns
def test_f39_without_a_cgroup_the_whole_tree_goes_with_the_driver_root(bare: Fleet, job: str) -> None:
    bare.submit(job, knobs={"child": True, "setsid_child": True, "child_ignores_term": True})
    bare.wait_state(job, "running")
    assert contained_by(bare, job) == "scan"
    bare.signal(bare.process(job, DRIVER), signal.SIGKILL)
    bare.wait_attempt(job, 2)
    first = {note.pid for note in bare.notes(job) if note.attempt == 1}
    assert len(first) == 3 and not first & set(bare.alive_pids(job))
    bare.wait_batches(job)
    uid = bare.cancel(job)
    bare.wait_gone(bare.process(job, SHIM, uid))
    assert bare.alive_pids(job) == []
    bare.judge()


@pytest.mark.netns
def test_f33_without_a_cgroup_a_dead_shim_means_the_full_wait(bare: Fleet, job: str) -> None:
    """The tree is killed at once, but nobody can prove it empty: no tombstone; the next attempt waits for the full time."""
    bare.submit(job, knobs={"child": True, "setsid_child": True})
    bare.wait_state(job, "running")
    bare.signal(bare.process(job, SHIM), signal.SIGKILL)
    wait_until(lambda: not bare.alive_pids(job), 30, "the tree to be gone")
    bare.wait_attempt(job, 2)
    events = [entry["event"] for entry in bare.show(job)["history"]]
    assert "revoked" in events and "shim_died" not in events
    bare.wait_batches(job)
    bare.judge()


@pytest.mark.netns
def test_f6_without_a_cgroup_supervisors_are_killed_and_adopt(bare: Fleet, job: str) -> None:
    bare.submit(job, knobs={"child": True})
    bare.wait_state(job, "running")
    for member in bare.members:
        bare.kill(member)
    bare.assert_undisturbed(job)
    bare.restart_all()
    bare.assert_undisturbed(job)
    assert contained_by(bare, job) == "scan"
    bare.judge()
