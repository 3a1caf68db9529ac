"""Restart strategies and the user's orders, over failovers: what was counted and what was wanted is not forgotten."""

from __future__ import annotations

import signal

from tests.faults import checker
from tests.faults.conftest import on_embedded
from tests.testbed.fleet import DRIVER, SHIM, Fleet, eventually
from tests.waiting import wait_until

pytestmark = on_embedded

CRASH = {"exit_after_s": 0.1, "exit_code": 1, "child": True}


def pauses(fleet: Fleet, job: str) -> list[float]:
    """From the last word of each attempt to the first of the next, in seconds."""
    spans = checker.spans(fleet.notes(job))
    return [new.first_at_s - old.last_at_s for old, new in zip(spans, spans[1:], strict=False)]


def test_f55_a_crash_loop_over_failovers(fleet: Fleet, job: str) -> None:
    """The back-off grows and the budget is spent over two changes of leader; the others do not notice."""
    fleet.submit(f"{job}-other")
    restart = {"strategy": "exponential", "initial": "300ms", "max": "5s", "jitter": 0.0, "attempts": 4}
    fleet.wait_state(f"{job}-other", "running")
    fleet.submit(job, knobs=CRASH, restart=restart)
    for attempt in (2, 4):
        fleet.wait_attempt(job, attempt)
        epoch = fleet.epoch()
        fleet.kill(fleet.leader())
        fleet.restart_all()
        fleet.wait_new_leader(epoch)
    row = fleet.wait_state(job, "failed")
    assert "budget" in row["reason"] and row["failures"] == 5
    assert [note.attempt for note in fleet.starts(job)] == [1, 2, 3, 4, 5]
    assert all(pause > delay for pause, delay in zip(pauses(fleet, job), [0.3, 0.6, 1.2, 2.4], strict=True))
    fleet.assert_undisturbed(f"{job}-other")

    uid = fleet.uid(job)
    fleet.ok("resume", job)
    fleet.wait_attempt(job, 6)
    assert fleet.uid(job) == uid, "the same uid, the next attempt"
    fleet.wait_state(job, "failed")
    assert [note.attempt for note in fleet.starts(job)] == list(range(1, 11)), "a fresh budget"
    fleet.cancel(job)
    assert fleet.cli("resume", job).code == 4
    fleet.judge()


def test_f55_on_exhausted_suspend(fleet: Fleet, job: str) -> None:
    restart = {"strategy": "fixed", "initial": "100ms", "attempts": 1, "on_exhausted": "suspend"}
    fleet.submit(job, knobs=CRASH, restart=restart)
    row = fleet.wait_state(job, "suspended")
    assert row["desired"] == "suspended" and "budget" in row["reason"]
    assert [note.attempt for note in fleet.starts(job)] == [1, 2]
    fleet.ok("resume", job)
    fleet.wait_attempt(job, 4)
    fleet.wait_state(job, "suspended")
    assert [note.attempt for note in fleet.starts(job)] == [1, 2, 3, 4]
    fleet.judge()


def test_strategy_none_and_exit_zero(fleet: Fleet, job: str) -> None:
    """No restart at all; a bounded job that exits with 0 is finished; of an unbounded one that is a failure."""
    fleet.submit(f"{job}-none", knobs=CRASH, restart={"strategy": "none"})
    fleet.submit(f"{job}-bounded", knobs={"exit_after_batches": 2}, unbounded=False)
    fleet.submit(f"{job}-unbounded", knobs={"exit_after_batches": 2}, restart={"strategy": "none"})
    assert fleet.wait_state(f"{job}-none", "failed")["attempt"] == 1
    assert fleet.wait_state(f"{job}-bounded", "finished")["attempt"] == 1
    row = fleet.wait_state(f"{job}-unbounded", "failed")
    assert any(entry["event"] == "exited_zero" for entry in row["history"])
    assert fleet.ok("cancel", f"{job}-bounded", "-o", "json").document["did"] == "already finished"
    for name in (f"{job}-none", f"{job}-bounded", f"{job}-unbounded"):
        assert [note.attempt for note in fleet.starts(name)] == [1]
    fleet.judge()


def test_strategy_failure_rate(fleet: Fleet, job: str) -> None:
    """Two failures within the time are allowed, the third is one too many."""
    restart = {"strategy": "failure-rate", "initial": "100ms", "attempts": 2, "reset_after": "10m"}
    fleet.submit(job, knobs=CRASH, restart=restart)
    fleet.wait_state(job, "failed")
    assert [note.attempt for note in fleet.starts(job)] == [1, 2, 3]
    fleet.judge()


def test_a_fault_of_ours_is_not_charged_to_the_job(fleet: Fleet, job: str) -> None:
    """One restart is allowed: two dead shims cost nothing, a dead driver costs it."""
    fleet.submit(job, restart={"strategy": "fixed", "initial": "100ms", "attempts": 1})
    for attempt in (1, 2):
        fleet.wait_attempt(job, attempt)
        fleet.wait_batches(job)
        fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    for attempt in (3, 4):
        fleet.wait_attempt(job, attempt)
        fleet.wait_batches(job)
        fleet.signal(fleet.process(job, DRIVER), signal.SIGKILL)
    assert fleet.wait_state(job, "failed")["attempt"] == 4
    assert [note.attempt for note in fleet.starts(job)] == [1, 2, 3, 4]
    fleet.judge()


def test_suspend_resume_restart_over_failovers(fleet: Fleet, job: str) -> None:
    fleet.submit(job, knobs={"child": True, "child_ignores_term": True})
    fleet.wait_state(job, "running")
    fleet.ok("suspend", job)
    fleet.kill(fleet.leader())
    wait_until(lambda: not fleet.alive_pids(job), 30, "the driver to stop")
    fleet.restart_all()
    fleet.submit(f"{job}-other")
    fleet.wait_attempt(f"{job}-other", 1)
    assert fleet.wait_state(job, "suspended")["attempt"] == 1
    assert fleet.ok("suspend", job, "-o", "json").document["did"] == "already suspended"
    assert fleet.cli("restart", job).code == 4

    fleet.ok("resume", job)
    fleet.wait_attempt(job, 2)
    fleet.wait_state(job, "running")
    epoch = fleet.epoch()
    fleet.ok("restart", job)
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.wait_attempt(job, 3)
    fleet.wait_state(job, "running")
    fleet.wait_batches(job)
    *before, last = [note.attempt for note in fleet.starts(job)]
    assert before == [1, 2] and last in (3, 4), "3 may have been given to the supervisor that was killed then"
    row = fleet.show(job)
    assert row["failures"] == 0 and row["restarts"] == 2
    fleet.judge()


def test_restart_without_a_leader_stops_nothing(fleet: Fleet, job: str) -> None:
    """Nobody could start it again, so it runs on until somebody can."""
    fleet.submit(job)
    fleet.wait_state(job, "running")
    for member in fleet.members:
        fleet.kill(member)
    fleet.ok("restart", job)
    fleet.assert_undisturbed(job)
    fleet.restart_all()
    fleet.wait_attempt(job, 2)
    eventually(lambda: fleet.show(job)["state"] == "running", 30, "it runs")
    assert [note.attempt for note in fleet.starts(job)] == [1, 2]
    fleet.judge()


def test_f36_a_driver_that_ignores_sigterm(fleet: Fleet, job: str) -> None:
    """SIGKILL of the whole tree after the grace; its lease is renewed until then, so nothing starts beside it."""
    first = fleet.submit(
        job, knobs={"ignore_term": True, "child": True, "child_ignores_term": True}, stop_grace="2s"
    )
    fleet.wait_state(job, "running")
    fleet.ok("restart", job)
    fleet.wait_attempt(job, 2)
    assert not {n.pid for n in fleet.notes(job) if n.attempt == 1} & set(fleet.alive_pids(job))
    fleet.cancel(job)
    fleet.wait_gone(fleet.process(job, SHIM, first))
    assert fleet.alive_pids(job) == []
    fleet.judge()
