"""Where the time of a start went: the shim's own figures, and the wait before it without the back-off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.model.records import Driver, HistoryEntry, Lease, Ownership, OwnState, Phase, StartTimes
from supervisor.model.seen import Found
from supervisor.model.view import Row, SeenLease
from supervisor.observe.start import start_of
from tests.unit.plan.rows import job


def at(second: float) -> str:
    return f"2026-11-21T00:00:{second:06.3f}Z"


def row(*history: tuple[float, str, int], start: StartTimes | None = None, **own: Any) -> Row:
    entries = tuple(
        HistoryEntry(at=at(second), event=event, attempt=attempt) for second, event, attempt in history
    )
    attempt = own.pop("attempt", 1)
    record = Ownership(
        state=OwnState.CLAIMED, op="op", uid="u1", attempt=attempt, claim="c", history=entries, **own
    )
    lease = Lease(
        name="j",
        uid="u1",
        attempt=attempt,
        claim="c",
        lease_s=30.0,
        stop_grace_s=10.0,
        phase=Phase.RUNNING,
        driver=Driver(host="h", shim_pid=1),
        since="t",
        start=start,
    )
    return Row("j", job(), Found(record, 1), lease=SeenLease(Found(lease, 1), 0.0, 0.0))


def test_a_first_start() -> None:
    start = StartTimes(spawn_s=0.5, session_s=4.0, first_batch_s=2.0)
    assert start_of(row((1, "submitted", 0), (1.25, "assigned", 1), (2, "claimed", 1), start=start)) == {
        "queued_s": 0.25,
        "spawn_s": 0.5,
        "session_s": 4.0,
        "first_batch_s": 2.0,
    }


def test_what_is_not_known_yet_is_left_out() -> None:
    assert start_of(row((1, "submitted", 0), (2, "assigned", 1), start=StartTimes(spawn_s=0.5))) == {
        "queued_s": 1.0,
        "spawn_s": 0.5,
    }
    assert start_of(row((1, "submitted", 0), (2, "assigned", 1))) == {"queued_s": 1.0}
    assert start_of(row((2, "assigned", 1))) == {}, "the ring has forgotten what was before"


def test_back_off_is_no_time_in_the_queue() -> None:
    after_failure = row((1, "assigned", 1), (5, "user_error", 1), (6.5, "assigned", 2), attempt=2, failures=1)
    assert start_of(after_failure) == {"queued_s": 0.5}  # initial: 1 s, no jitter
    raised = row(
        (5, "out_of_memory", 1), (6.5, "memory raised", 2), (6.5, "assigned", 2), attempt=2, failures=1
    )
    assert start_of(raised) == {"queued_s": 0.5}
    stopped = row((5, "stopped", 1), (9, "resumed", 0), (9.5, "assigned", 2), attempt=2)
    assert start_of(stopped) == {"queued_s": 0.5}


def test_time_in_the_queue_begins_with_the_end_of_the_attempt_that_a_restart_stopped() -> None:
    """The history has the user's command after that end: the ownership takes it over with the assignment."""
    restarted = row(
        (8, "draining", 1), (9, "stopped", 1), (1, "restarted", 0), (9.5, "assigned", 2), attempt=2
    )
    assert start_of(restarted) == {"queued_s": 0.5}


def test_an_attempt_that_is_over_has_none_and_another_claims_lease_is_not_believed() -> None:
    found = row((1, "submitted", 0), (2, "assigned", 1), start=StartTimes(spawn_s=0.5))
    assert isinstance(found.own, Found)
    over = replace(found, own=Found(replace(found.own.record, state=OwnState.EXITED), 2))
    assert start_of(over) is None
    other = replace(found, own=Found(replace(found.own.record, claim="d"), 2))
    assert start_of(other) == {"queued_s": 1.0}
    assert start_of(replace(found, ref=None)) is None
