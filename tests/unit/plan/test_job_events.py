"""What a view shows of jobs that receivers are told of: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from supervisor.model.lag_window import LAG_MIN, SAMPLE_S, WINDOW_S
from supervisor.model.notifications import JobEvent
from supervisor.model.records import (
    Cause,
    Desired,
    HistoryEntry,
    NotifiedEvent,
    Outcome,
    OwnState,
    Progress,
    QueryProgress,
    QueryState,
    RollbackRule,
    UpdatePolicy,
)
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import is_quarantined
from supervisor.model.view import Leftover, Row, View
from supervisor.plan.falling_behind import LagVerdict, LagWatch
from supervisor.plan.job_events import SeenEvents, events_of
from supervisor.plan.make import Policy, make_plan
from supervisor.shim.queries import after_report, shown
from supervisor.shim.state import Life, Reported
from tests.unit.plan.rows import HOST, NOW_S, exited, job, lease, leftover, own, updated

E = NotifiedEvent
NO_LAG = LagVerdict()


def seen(row: Row, lag: LagVerdict = NO_LAG, **changes: Any) -> SeenEvents:
    view = View({row.name: row}, {}, 1, **changes)
    return events_of(view, make_plan(view, Policy(), NOW_S), lag)


def permanent(**changes: Any) -> Any:
    return own(OwnState.EXITED, cause=Cause.BAD_CHECKPOINT, reason="it is gone", permanent=True, **changes)


def test_a_job_that_runs_is_told_of_nobody() -> None:
    shown = seen(Row("j", job(), own(OwnState.CLAIMED), lease=lease()))
    assert (shown.happened, shown.lasting) == ((), ())
    assert shown.over == {("u1", E.QUARANTINED)}


def test_a_quarantined_job_is_told_with_its_cause_its_sentence_and_the_first_command() -> None:
    shown = seen(Row("j", job(), permanent()))
    assert shown.lasting == (
        JobEvent(
            E.QUARANTINED,
            "j",
            "u1",
            2,
            1,
            "quarantined",
            "it is gone",
            "bad_checkpoint",
            "spark-supervisor checkpoint verify j",
        ),
    )
    assert shown.over == frozenset()


def test_records_that_can_not_be_read_are_told_of_whom_they_are_still_known_to_be() -> None:
    damaged = Unreadable("it is not JSON", 3, 30)
    (event,) = seen(Row("j", damaged, own(OwnState.CLAIMED))).lasting
    assert (event.uid, event.state, event.revision) == ("u1", "quarantined", 0)
    (event,) = seen(Row("j", job(), damaged)).lasting
    assert (event.uid, event.attempt) == ("u1", 0)
    assert seen(Row("j", damaged, damaged)).lasting == (), "nobody knows of which uid"
    assert seen(Row("j", None, damaged)).lasting == ()


def test_a_job_that_has_failed_is_told_by_its_dirty_result_and_other_ends_are_not() -> None:
    failed = leftover(uid="u1")
    record = replace(failed.result.record, outcome=Outcome.FAILED, reason="exit code 7", attempt=4)
    row = Row("j", None, own(OwnState.VACANT), leftovers=(Leftover(Found(record, 1)),))
    (event,) = seen(row).happened
    assert (event.event, event.occurrence, event.reason) == (E.FAILED, 4, "exit code 7")
    assert event.command == "spark-supervisor resume j"
    for outcome in (Outcome.CANCELLED, Outcome.FINISHED):
        other = Leftover(Found(replace(record, outcome=outcome), 1))
        assert seen(replace(row, leftovers=(other,))).happened == ()


def test_an_update_that_was_rolled_back_is_told_and_one_that_was_given_up_is_not() -> None:
    ref = updated(target=3)
    assert ref.record.update is not None
    back = replace(ref.record, update=replace(ref.record.update, rolled_back="it stalled"))
    (event,) = seen(Row("j", Found(back, 4), own(OwnState.CLAIMED), lease=lease())).happened
    assert (event.event, event.occurrence) == (E.ROLLED_BACK, 3)
    assert event.reason == "revision 3 was rolled back: it stalled"
    given_up = replace(ref.record, update=replace(ref.record.update, given_up="no driver"))
    assert seen(Row("j", Found(given_up, 4), own(OwnState.CLAIMED), lease=lease())).happened == ()


def test_a_registry_that_is_not_trusted_shows_nothing() -> None:
    assert seen(Row("j", job(), permanent()), distrust="restored") == SeenEvents()


# -- quarantines that are over -----------------------------------------------------------------------------------------


def test_a_quarantine_that_a_write_has_ended_is_told_with_the_end_of_its_attempt_if_that_is_known() -> None:
    history = (
        HistoryEntry(at="t", event="no_spark", attempt=1, detail="no Spark"),
        HistoryEntry(at="t", event="assigned", attempt=2),
    )
    quarantined = replace(job().record, quarantined=(1, 2))
    shown = seen(Row("j", Found(quarantined, 4), own(OwnState.CLAIMED, history=history), lease=lease()))
    first, second = shown.happened
    assert first == JobEvent(
        E.QUARANTINED,
        "j",
        "u1",
        1,
        0,
        "quarantined",
        "it was quarantined by the end of attempt 1: no Spark",
        "no_spark",
        "spark-supervisor history j",
        past=True,
    )
    assert (second.attempt, second.cause) == (2, "")
    assert second.reason == "it was quarantined by the end of attempt 2"
    of_another = own(OwnState.CLAIMED, "u2", history=history)
    assert [each.cause for each in seen(Row("j", Found(quarantined, 4), of_another)).happened] == ["", ""]


def test_a_result_shows_what_its_reference_kept() -> None:
    record = replace(leftover(uid="u1").result.record, quarantined=(2,))
    (event,) = seen(Row("j", None, own(OwnState.VACANT), leftovers=(Leftover(Found(record, 1)),))).happened
    assert (event.event, event.attempt, event.past) == (E.QUARANTINED, 2, True)


def ended_for_good() -> Iterator[tuple[Row, bool]]:
    """Rows of jobs whose attempt has ended, and whether it depends on more than records what becomes of them."""
    for rule, revision, nonce, desired, is_permanent, left, place, waited_s in product(
        (None, *RollbackRule),
        (1, 2),
        ("n0", "n1"),
        Desired,
        (True, False),
        (None, "", "a state"),
        (None, "s3a://b/j"),
        (0.0, 1000.0),
    ):
        found = updated(desired=desired, checkpoint=place)
        assert found.record.update is not None
        policy = UpdatePolicy(rollback=rule) if rule is not None else None
        ref = Found(replace(found.record, update=replace(found.record.update, policy=policy)), 4)
        ended = exited(Cause.NO_SPARK, permanent=is_permanent, revision=revision, restart_nonce=nonce)
        row = Row("j", ref, ended, own_seen_at_s=NOW_S - waited_s, left_behind=left)
        yield row, rule in (RollbackRule.CLEAN, RollbackRule.SAVEPOINT) and place is not None


def test_what_a_write_keeps_of_a_quarantine_is_what_the_plan_makes_of_the_job() -> None:
    found = []
    for row, depends in ended_for_good():
        assert isinstance(row.ref, Found) and isinstance(row.own, Found)
        notes = make_plan(View({"j": row}, {"s1": HOST}, 4), Policy(), NOW_S).notes
        by_plan = any(note.quarantined for note in notes)
        by_records = is_quarantined(row.ref.record, row.own.record)
        assert by_records == by_plan or (depends and not by_records)
        found.append((by_plan, by_records))
    assert set(found) == {(True, True), (False, False), (True, False)}


# -- lag ---------------------------------------------------------------------------------------------------------------


def lagging(lag: float | None, **changes: Any) -> View:
    query = QueryProgress(query="q", lag=lag)
    held = own(OwnState.CLAIMED, **changes)
    row = Row("j", job(), held, lease=lease(queries=(query,), attempt=held.record.attempt))
    return View({"j": row}, {}, 1)


def watched(lags: list[float], watch: LagWatch | None = None) -> LagVerdict:
    """One each minute."""
    watch = LagWatch() if watch is None else watch
    verdict = LagVerdict()
    for number, lag in enumerate(lags):
        verdict = watch.judge(lagging(lag), NOW_S + number * SAMPLE_S)
    return verdict


MINUTES = round(WINDOW_S / SAMPLE_S)


def test_a_query_falls_behind_when_its_lag_was_large_and_grew_for_the_whole_window() -> None:
    grows = [LAG_MIN + 10.0 * number for number in range(1, MINUTES + 2)]
    assert watched(grows[:-1]).behind == {}
    assert watched(grows).behind == {
        "u1": "query q is 1160 records behind its source, and was falling behind for 15 minutes"
    }


def test_a_large_lag_that_does_not_grow_is_no_event_and_no_end_of_one() -> None:
    verdict = watched([50_000.0 - number for number in range(2 * MINUTES)])
    assert (verdict.behind, verdict.caught_up) == ({}, frozenset())


def test_a_small_lag_in_between_begins_the_window_anew() -> None:
    grows = [LAG_MIN + 10.0 * number for number in range(1, MINUTES + 2)]
    assert watched([*grows[:-2], LAG_MIN, grows[-1]]).behind == {}
    assert watched([LAG_MIN]).caught_up == {"u1"}


def by_shim(behind: bool | None, lag: float = 5000.0, **changes: Any) -> View:
    query = QueryProgress(query="q", lag=lag, behind=behind, **changes)
    return View({"j": Row("j", job(), own(OwnState.CLAIMED), lease=lease(queries=(query,)))}, {}, 1)


def test_the_word_of_a_lease_counts_before_what_a_leader_has_seen_itself() -> None:
    sentence = "query q is 5000 records behind its source, and was falling behind for 15 minutes"
    assert LagWatch().judge(by_shim(True), NOW_S).behind == {"u1": sentence}, "the first view of a leader"
    watch = LagWatch()
    for number in range(3 * MINUTES):
        verdict = watch.judge(by_shim(False, 5000.0 + number), NOW_S + number * SAMPLE_S)
        assert (verdict.behind, verdict.caught_up) == ({}, frozenset())
    assert watch._windows == {}
    assert LagWatch().judge(by_shim(True, state=QueryState.STALLED), NOW_S).behind == {}
    assert LagWatch().judge(by_shim(False, LAG_MIN), NOW_S).caught_up == {"u1"}


def test_a_change_of_leader_in_the_middle_of_the_window_changes_nothing_but_with_a_shim_of_the_version_before() -> (
    None
):
    """A query of which one leader sees fourteen minutes, and the next one as many."""
    for judges in (True, False):
        life = Life()
        watches = [LagWatch(), LagWatch()]
        found = []
        for number in range(2 * MINUTES - 1):
            progress = Progress(query="q", batch_id=number, at="t", lag=5000.0 + number)
            now_s = NOW_S + number * SAMPLE_S
            life = after_report(life, Reported("progress", progress, "", "q", "id"), now_s)
            shown_queries, _ = shown(life, 10_000.0, now_s)
            if not judges:
                shown_queries = tuple(replace(query, behind=None) for query in shown_queries)
            row = Row("j", job(), own(OwnState.CLAIMED), lease=lease(queries=shown_queries))
            watch = watches[number >= MINUTES]
            found.append(bool(watch.judge(View({"j": row}, {}, 1), now_s).behind))
        assert found == [judges and number >= MINUTES for number in range(2 * MINUTES - 1)]


def test_another_attempt_is_neither_behind_nor_has_it_caught_up() -> None:
    watch = LagWatch()
    grows = [LAG_MIN + 10.0 * number for number in range(1, MINUTES + 2)]
    assert watched(grows, watch).behind
    at_s = NOW_S + (MINUTES + 1) * SAMPLE_S
    verdict = watch.judge(lagging(90_000.0, attempt=3), at_s)
    assert (verdict.behind, verdict.caught_up) == ({}, frozenset())
    verdict = watch.judge(lagging(None, attempt=3), at_s + 1)
    assert (verdict.behind, verdict.caught_up) == ({}, frozenset())
    assert watch._windows == {}


def test_what_falls_behind_and_what_has_caught_up_become_events() -> None:
    row = Row("j", job(), own(OwnState.CLAIMED), lease=lease())
    (event,) = seen(row, LagVerdict({"u1": "query q is behind"})).lasting
    assert (event.event, event.state, event.reason) == (E.FALLING_BEHIND, "running", "query q is behind")
    assert event.command == "spark-supervisor show j"
    assert ("u1", E.FALLING_BEHIND) in seen(row, LagVerdict(caught_up=frozenset({"u1"}))).over
