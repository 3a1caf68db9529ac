"""Loss of ZooKeeper servers: one, the leader's, the leader; the quorum for a while, and for longer than the leases."""

from __future__ import annotations

import pytest

from supervisor.clock import boottime_s
from tests.faults.conftest import Fragile
from tests.testbed.fleet import Fleet
from tests.waiting import wait_until


def running_jobs(fleet: Fleet, job: str) -> tuple[str, str]:
    names = (job, f"{job}-2")
    fleet.submit_many(names, knobs={"child": True})
    for name in names:
        fleet.wait_state(name, "running")
    return names


def assert_nothing_happened(fleet: Fleet, epoch: int, *names: str) -> None:
    """0 restarts, no change of leader, and the leader goes on acting: with one more job."""
    fleet.assert_undisturbed(*names)
    more = f"{names[0]}-more"
    fleet.submit(more)
    fleet.wait_state(more, "running")
    assert fleet.epoch() == epoch
    fleet.judge()


def wait_renewed(fleet: Fleet, name: str) -> None:
    """Until two more renewals are committed."""

    def version() -> int:
        node = fleet.read_znode(fleet.layout.lease(name))
        assert node is not None
        return node.stat.version

    first = version()
    wait_until(lambda: version() >= first + 2, 60, "renewals")


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_f7_f11_a_follower_is_lost(fragile: Fragile, job: str, how: str) -> None:
    """At most a moment of SUSPENDED: 0 restarts, no change of leader."""
    fleet, names = fragile.fleet, running_jobs(fragile.fleet, job)
    epoch, leads = fleet.epoch(), fragile.ensemble.leader()
    getattr(fragile, how)((leads + 1) % 3)
    assert_nothing_happened(fleet, epoch, *names)


def test_f7_the_server_of_the_leaders_session_is_lost(fragile: Fragile, job: str) -> None:
    """The leader is SUSPENDED, reconnects elsewhere with the same session, and stays leader (FLINK-10011)."""
    fleet, names = fragile.fleet, running_jobs(fragile.fleet, job)
    epoch, session = fleet.epoch(), fleet.leader_session()
    node = fragile.node_of(session)
    fragile.kill(node)
    assert_nothing_happened(fleet, epoch, *names)
    assert fleet.leader_session() == session
    assert fragile.node_of(session) != node


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_f8_f11_the_zookeeper_leader_is_lost(fragile: Fragile, job: str, how: str) -> None:
    """ZooKeeper elects another within the session time: 0 restarts, no change of our leader."""
    fleet, names = fragile.fleet, running_jobs(fragile.fleet, job)
    epoch, lost = fleet.epoch(), fragile.ensemble.leader()
    getattr(fragile, how)(lost)
    wait_until(lambda: fragile.ensemble.leader() != lost, 60, "another ZooKeeper leader")
    assert_nothing_happened(fleet, epoch, *names)


def test_f10_quorum_lost_for_less_than_the_lease(fragile: Fragile, job: str) -> None:
    """No command is acknowledged meanwhile; afterwards 0 restarts."""
    fleet, names = fragile.fleet, running_jobs(fragile.fleet, job)
    lost_at_s = boottime_s()
    fragile.pause(0, 1)
    wait_until(lambda: boottime_s() > lost_at_s + 2.5, 10, "a while")  # D - K - r is 10.5 s
    fragile.repair()
    wait_renewed(fleet, names[0])
    fleet.assert_undisturbed(*names)
    fleet.leader()
    fleet.judge()


def test_f9_quorum_lost_for_longer_than_the_lease(fragile: Fragile, job: str) -> None:
    """Every driver is stopped by its deadline, while ZooKeeper is away; all are back after it healed, but for a job
    that was cancelled before. A cancel that cannot be committed is not acknowledged (F47)."""
    fleet = fragile.fleet
    names, gone = (job, f"{job}-2"), f"{job}-gone"
    fleet.submit_many((*names, gone), knobs={"child": True}, lease="6s")
    for name in (*names, gone):
        fleet.wait_state(name, "running")
    fleet.cancel(gone)
    cancelled = {note.attempt for note in fleet.starts(gone)}
    fragile.pause(0, 1)
    ran = fleet.cli("cancel", names[1])
    assert ran.code in (5, 6) and ran.err
    wait_until(lambda: not any(fleet.alive_pids(name) for name in names), 60, "all drivers to be stopped")
    healed_at_s = boottime_s()
    fragile.repair()
    for name in names:
        if name == names[0] or ran.code == 5:  # an unknown outcome may have been committed after all
            fleet.wait_attempt(name, 2)
            fleet.wait_state(name, "running")
            fleet.wait_batches(name)
            assert fleet.starts(name)[1].at_s > healed_at_s
    assert {note.attempt for note in fleet.starts(gone)} == cancelled
    fleet.judge()
