"""Pause and switchover on real supervisors: what an operator does to the whole cluster, judged by the witness."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.faults.conftest import on_embedded
from tests.testbed.fleet import DRIVER, Fleet
from tests.waiting import wait_until


def run_two(fleet: Fleet, job: str) -> list[str]:
    """Two jobs, both running."""
    names = [f"{job}-a", f"{job}-b"]
    for name in names:
        fleet.submit(name)
    for name in names:
        fleet.wait_state(name, "running")
    return names


@on_embedded
def test_switchover_to_and_fro_restarts_nothing(
    fleet: Fleet,
    job: str,
    record_property: Callable[[str, object], None],
) -> None:
    names = run_two(fleet, job)
    first, second = fleet.leader().id, fleet.standby().id
    for target in (second, first, second):
        done = fleet.ok("switchover", "--to", target, "-o", "json").document
        assert (done["leader"], done["did"], fleet.leader_id()) == (target, "handed over", target)
        record_property("switchover_s", done["took_s"])
        print(f"switchover --to {target}: {done['took_s']} s")
    assert fleet.ok("switchover", "-o", "json").document["leader"] == first
    assert "leads already" in fleet.ok("switchover", "--to", first).out
    assert fleet.cli("switchover", "--to", "nobody").code == 3
    assert fleet.read_znode(fleet.layout.switchover) is None
    fleet.assert_undisturbed(*names)


@on_embedded
def test_a_hand_over_to_a_supervisor_that_stands_still_falls_to_another(fleet: Fleet, job: str) -> None:
    """It was stopped before it could take over. There are only two: the old leader leads again after the session time."""
    leader, standby = fleet.leader(), fleet.standby()
    epoch = fleet.epoch()
    fleet.signal_member(standby, signal.SIGSTOP)
    ran = fleet.cli("switchover", "--to", standby.id)
    fleet.signal_member(standby, signal.SIGCONT)
    assert ran.code == 1 and f"{leader.id} leads again" in ran.err
    assert fleet.epoch() > epoch and fleet.leader_id() == leader.id


@on_embedded
def test_paused_nothing_is_started_but_a_cancel_is_obeyed(fleet: Fleet, job: str) -> None:
    killed, cancelled = run_two(fleet, job)
    waiting = f"{job}-c"
    fleet.ok("pause", "--reason", "a test")
    try:
        fleet.signal(fleet.process(killed, DRIVER), signal.SIGKILL)
        fleet.wait_state(killed, "backoff", "pending")
        fleet.submit(waiting)
        uid = fleet.cancel(cancelled)
        wait_until(lambda: not fleet.alive_pids(cancelled, uid), 30, "the end of the cancelled driver")
        row = fleet.wait_state(killed, "pending")
        assert row["reason"].startswith("paused by ") and "(a test)" in row["reason"]
        assert fleet.show(waiting)["reason"].startswith("paused by ")
        # Nothing is started even by a new leader, and nothing is cleaned.
        fleet.ok("switchover")
        assert [len(fleet.starts(name)) for name in (killed, cancelled, waiting)] == [1, 1, 0]
        result = fleet.read_znode(fleet.layout.result(uid))
        assert result is not None and b'"dirty"' in result.data
    finally:
        fleet.ok("unpause")
    fleet.wait_state(killed, "running")
    fleet.wait_state(waiting, "running")
    assert [len(fleet.starts(name)) for name in (killed, cancelled, waiting)] == [2, 1, 1]
    wait_until(
        lambda: b'"clean"' in (node.data if (node := fleet.read_znode(fleet.layout.result(uid))) else b""),
        30,
        "clean-up",
    )
