"""``observe.listing``: every record leads to the row that scripts rely on, nulls included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.clock import boottime_s, wall_iso
from supervisor.model.records import Cause, Delay, Member, Phase, Progress
from supervisor.model.state import JobState, Shown, history_of
from supervisor.model.transaction import Delete, Transaction
from supervisor.model.view import View
from supervisor.observe.listing import (
    JobRow,
    aged,
    exited_at_s,
    job_row,
    read_job,
    seconds_of,
    take_rows,
    with_reasons,
)
from supervisor.observe.observer import Observer
from tests.fakes.registry_bench import AT, Bench

NOW_S = seconds_of(AT) or 0.0


@pytest.fixture
def bench() -> Bench:
    return Bench()


def view_of(bench: Bench) -> View:
    return Observer(bench.zoo.client(), bench.layout, boottime_s, epoch=0).take_view(None)


def pending(reasons: dict[str, str]) -> dict[str, Shown]:
    return {name: Shown(JobState.PENDING, why) for name, why in reasons.items()}


def rows(bench: Bench, now_s: float = NOW_S, *, every_uid: bool = False, **reasons: str) -> list[JobRow]:
    client = bench.zoo.client()
    return with_reasons(
        take_rows(client, bench.layout, view_of(bench), now_s, every_uid=every_uid), lambda: pending(reasons)
    )


def only(bench: Bench, now_s: float = NOW_S, **reasons: str) -> JobRow:
    (row,) = rows(bench, now_s, **reasons)
    shown = read_job(bench.zoo.client(), bench.layout, row.name or "")
    assert shown is not None
    assert job_row(shown, now_s, pending(reasons).get(row.name or "")) == row, "list and show must agree"
    return row


def test_what_only_the_plan_knows_to_be_quarantined_is_shown_so(bench: Bench) -> None:
    bench.submit("a")
    forbidden = {"a": Shown(JobState.QUARANTINED, "policy.checkpoints of this host has no rule for it")}
    (listed,) = with_reasons(rows(bench), lambda: forbidden)
    shown = read_job(bench.zoo.client(), bench.layout, "a")
    assert shown is not None and job_row(shown, NOW_S, forbidden["a"]) == listed
    assert (listed.state, listed.reason) == ("quarantined", forbidden["a"].reason)


def test_a_new_job_is_pending_with_the_reason_of_the_plan(bench: Bench) -> None:
    uid = bench.submit("a", checkpoint="s3a://bkt/a").uid
    row = only(bench, a="no supervisor is up")
    assert (row.uid, row.state, row.reason, row.attempt, row.restarts) == (
        uid,
        "pending",
        "no supervisor is up",
        None,
        0,
    )
    assert (row.host, row.driver_pid, row.progress, row.next_attempt_at) == (None, None, None, None)
    assert (row.revision, row.desired, row.checkpoint) == (1, "running", "s3a://bkt/a")


def test_a_running_job_shows_its_driver_and_progress(bench: Bench) -> None:
    bench.submit("a")
    bench.run(
        "a",
        progress=Progress(
            query="counts",
            batch_id=41,
            input_rows_per_s=10.5,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=7.0,
        ),
    )
    row = only(bench)
    assert (row.state, row.attempt, row.supervisor, row.host) == ("running", 1, "host-a", "host-a.example")
    assert (row.shim_pid, row.driver_pid, row.started_at) == (100, 101, AT)
    assert row.document()["progress"] == {
        "query": "counts",
        "batch_id": 41,
        "input_rows_per_s": 10.5,
        "processed_rows_per_s": 20.25,
        "batch_ms": 300.0,
        "at": AT,
        "lag": 7.0,
        "state_rows": None,
        "trigger_interval_s": None,
    }


def test_a_job_is_starting_until_its_first_batch(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a", Phase.SESSION)
    assert only(bench).state == "starting"


def test_what_delays_a_driver_that_waits_at_its_start_barrier_is_shown_wherever_the_job_is(
    bench: Bench,
) -> None:
    """Its attempt is claimed by then; its host says why it may not begin."""
    bench.submit("a")
    bench.run("a", Phase.WAITING)
    bench.join("host-a")
    path, own = bench.layout.supervisor("host-a"), bench.own("a")
    member = bench.record(Member, path).record
    bench.put(path, replace(member, delays=(Delay(uid=own.uid, attempt=own.attempt, why="S3 is silent"),)))
    row = only(bench)
    assert (row.state, "S3 is silent" in row.reason) == ("starting", True)


def test_a_lease_of_another_attempt_says_nothing(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    bench.put(bench.layout.own("a"), replace(bench.own("a"), attempt=2, claims=2, claim="c2"))
    row = only(bench)
    assert (row.state, row.driver_pid, row.progress, row.restarts) == ("starting", None, None, 1)


def test_back_off_tells_when_it_ends(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a", failures=2)
    row = only(bench, NOW_S + 1)
    assert (row.state, row.failures, row.next_attempt_at) == ("backoff", 3, wall_iso(NOW_S + 4.0))
    assert row.host is None and row.supervisor is None


def test_after_the_back_off_a_job_is_pending_and_says_why(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a")
    row = only(bench, NOW_S + 60, a="no room: host-a has all its 1 drivers")
    assert (row.state, row.reason) == ("pending", "no room: host-a has all its 1 drivers")


def test_a_resume_that_is_not_carried_out_yet_has_no_failures(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a", failures=2)
    bench.commands().resume("a")
    row = only(bench)
    assert (row.state, row.failures, row.next_attempt_at) == ("pending", 0, None)


def test_a_permanent_refusal_is_quarantined(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a", Cause.BAD_ARTIFACT, permanent=True)
    assert (only(bench).state, only(bench).reason) == ("quarantined", "exit code 7")


def test_a_new_uid_waits_for_the_driver_of_the_old_one(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    bench.commands().cancel("a")
    uid = bench.submit("a").uid
    row = only(bench)
    assert (row.uid, row.state, row.attempt, row.host, row.driver_pid) == (uid, "pending", None, None, None)
    assert "earlier submission" in row.reason


def test_cancel_shows_as_stopping_nowhere_but_hides_the_job(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    uid = bench.commands().cancel("a").uid
    assert rows(bench) == []
    (row,) = rows(bench, every_uid=True)
    assert (row.uid, row.state, row.desired, row.attempt) == (uid, "cancelled", None, 1)


def test_suspended_and_stopping(bench: Bench) -> None:
    bench.submit("a")
    bench.commands().suspend("a")
    assert (only(bench).state, only(bench).desired) == ("suspended", "suspended")
    bench.commands().resume("a")
    bench.run("a")
    bench.commands().suspend("a")
    row = only(bench)
    assert (row.state, row.driver_pid) == ("stopping", 101)


def test_a_failed_job_is_listed_until_its_name_is_used_again(bench: Bench) -> None:
    bench.submit("a")
    failed = bench.fail("a")
    row = only(bench)
    assert (row.uid, row.state, row.reason, row.failures) == (failed, "failed", "budget is spent", 1)
    live = bench.submit("a").uid
    assert [row.uid for row in rows(bench)] == [live]
    assert [row.uid for row in rows(bench, every_uid=True)] == [live, failed]


def test_rows_are_sorted_by_name_and_every_kept_uid_is_shown_once(bench: Bench) -> None:
    for name in ("b", "a", "c"):
        bench.submit(name)
    bench.commands().cancel("b")
    bench.submit("b")
    assert [row.name for row in rows(bench)] == ["a", "b", "c"]
    assert [(row.name, row.state) for row in rows(bench, every_uid=True)] == [
        ("a", "pending"),
        ("b", "pending"),
        ("b", "cancelled"),
        ("c", "pending"),
    ]


NULLS = {
    "uid",
    "revision",
    "desired",
    "attempt",
    "supervisor",
    "host",
    "driver_pid",
    "shim_pid",
    "started_at",
    "since",
    "restarts",
    "failures",
    "next_attempt_at",
    "checkpoint",
    "in_place_of",
    "progress",
    "trouble",
}


def test_a_corrupt_reference_is_a_row_of_nulls_with_the_reason(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b")
    bench.zoo.put(bench.layout.job("a"), b"{")
    corrupt, sound = rows(bench)
    document = corrupt.document()
    assert document.pop("name") == "a" and document.pop("state") == "quarantined"
    assert "/bench/jobs/a is not JSON" in document.pop("reason")
    assert document.pop("prepared") == document.pop("sinks") == [] and document.pop("labels") == {}
    assert set(document) == NULLS and set(document.values()) == {None}
    assert (sound.name, sound.state) == ("b", "pending")


def test_a_corrupt_ownership_quarantines_what_is_known_of_the_reference(bench: Bench) -> None:
    uid = bench.submit("a").uid
    bench.zoo.put(bench.layout.own("a"), b"[]")
    row = only(bench)
    assert (row.uid, row.state, row.attempt, row.restarts) == (uid, "quarantined", None, None)
    assert "/bench/own/a" in row.reason


def test_a_corrupt_ownership_without_a_reference_is_listed(bench: Bench) -> None:
    bench.submit("a")
    bench.commands().cancel("a")
    bench.zoo.put(bench.layout.own("a"), b"[]")
    assert [(row.name, row.state) for row in rows(bench)] == [("a", "quarantined")]


def test_a_corrupt_result_is_listed_under_its_name(bench: Bench) -> None:
    bench.submit("a")
    uid = bench.commands().cancel("a").uid
    bench.zoo.put(bench.layout.result(uid), b"\xff")
    for every_uid in (False, True):
        (row,) = rows(bench, every_uid=every_uid)
        assert (row.name, row.uid, row.state) == ("a", uid, "quarantined")


def test_a_corrupt_lease_hides_only_what_it_would_tell(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    bench.zoo.put(bench.layout.lease("a"), b"{")
    row = only(bench)
    assert (row.state, row.host, row.driver_pid) == ("starting", "host-a.example", None)


def test_a_name_of_which_nothing_is_kept_is_not_shown(bench: Bench) -> None:
    client = bench.zoo.client()
    assert read_job(client, bench.layout, "a") is None
    uid = bench.submit("a").uid
    bench.commands().cancel("a")
    assert read_job(client, bench.layout, "a") is not None
    client.commit(Transaction("prune", "x", (Delete(bench.layout.result(uid), -1),)))
    assert read_job(client, bench.layout, "a") is None
    assert rows(bench, every_uid=True) == []


def test_history_goes_from_submit_to_the_end(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a")
    bench.commands().cancel("a")
    job = read_job(bench.zoo.client(), bench.layout, "a")
    assert job is not None and job.result is not None
    events = [entry.event for entry in history_of(job.ref, job.own, job.result.record, job.uid)]  # type: ignore[union-attr]
    assert sorted(events) == ["cancelled", "submitted", "user_error"]


def test_a_fresh_view_is_aged_by_the_exits_it_shows(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a")
    view = aged(view_of(bench), now_s=5000.0, wall_now_s=NOW_S + 42)
    assert view.rows["a"].own_seen_at_s == pytest.approx(5000.0 - 42)
    assert exited_at_s(bench.own("a")) == NOW_S
