"""What becomes of an update after it has begun: it is observed, done, or rolled back by the leader (protocol §9.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.model.actions import Action, Alarm, Assign, Conclude, Drain, FinishUpdate, Prepare, RollBack
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.driver_memory import next_memory
from supervisor.model.records import (
    Cause,
    ClusterWait,
    HistoryEntry,
    JobRef,
    JudgedUpdate,
    Ownership,
    OwnState,
    Phase,
    QueryProgress,
    QueryState,
    RollbackRule,
    UpdateMode,
    UpdatePolicy,
)
from supervisor.model.restart import OnExhausted, RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.state import UpdateState, account_of, left_by_update, update_state, why_of_update
from supervisor.model.transaction import Check, SetData
from supervisor.model.view import Row, SeenLease
from supervisor.observe.listing import row_of
from supervisor.operations.explain_words import brief
from supervisor.operations.spans import span
from supervisor.plan.check import violations
from supervisor.plan.decide import LEFT_BEHIND_MAX_S
from supervisor.plan.explain import UNLESS, Await, Explainer, Explanation
from supervisor.plan.make import Policy
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.revisions import known
from tests.unit.plan.rows import NOW_S, job, lease, own, row, updated, view
from tests.unit.plan.test_prepare import HOSTS, SESSION, only, plan_of

S = OwnState
LAYOUT = Layout("/c")
CONTEXT = LeaderWriteContext(LAYOUT, epoch=4, fence_version=11, op_id="op-1", at="now")
PLACE = "s3a://bucket/j"


def judged(rollback: RollbackRule = RollbackRule.CONTINUE, **changes: Any) -> Found[JobRef]:
    """Revision 2 is wanted, and is to be judged."""
    policy = {key: changes.pop(key) for key in ("mode", "observe_s", "failures") if key in changes}
    found = updated(prepare=SESSION, **changes)
    assert found.record.update is not None
    update = replace(found.record.update, policy=UpdatePolicy(rollback=rollback, **policy))
    return Found(replace(found.record, update=update), found.version)


def ended(cause: Cause = Cause.USER_ERROR, **changes: Any) -> Found[Ownership]:
    """An attempt of revision 2 has ended."""
    fields = {"cause": cause, "reason": "boom", "revision": 2, "judged": JudgedUpdate(target=2)}
    return own(S.EXITED, **{**fields, **changes})


def runs(since_s: float | None, **changes: Any) -> Row:
    """An attempt of revision 2 has run for ``since_s`` as this leader saw it."""
    seen = lease(phase=Phase.RUNNING if since_s is not None else Phase.BEGUN, **changes)
    seen = replace(seen, running_at_s=None if since_s is None else NOW_S - since_s)
    return row(ref=judged(), own=own(S.CLAIMED, revision=2, judged=JudgedUpdate(target=2)), lease=seen)


def after(ref: Found[JobRef], owned: Found[Ownership], left: str | None = None, **changes: Any) -> Row:
    return row(ref=ref, own=owned, left_behind=left, own_seen_at_s=NOW_S, **changes)


def written(action: Action, kind: type[Any], path: str) -> Any:
    (data,) = (
        op.data for op in transaction_for(action, CONTEXT).ops if isinstance(op, SetData) and op.path == path
    )
    return decode(kind, data, path)


# -- observing ------------------------------------------------------------------------------------------------------


def test_it_is_done_after_its_time_of_observation() -> None:
    action = only(plan_of(runs(600.0)))
    assert isinstance(action, FinishUpdate)
    record = written(action, JobRef, "/c/jobs/j")
    assert record.update.done and record.revision == 2
    assert update_state(record, own(S.CLAIMED, revision=2).record) is UpdateState.DONE


def test_until_then_it_is_observed_and_the_leader_comes_back_in_time() -> None:
    plan = plan_of(runs(590.0))
    assert plan.actions == ()
    assert plan.notes[0].wait_s == pytest.approx(10.0)
    ref = judged().record
    assert update_state(ref, own(S.CLAIMED, revision=2).record) is UpdateState.OBSERVING


def test_without_a_first_batch_it_is_not_done_however_long_it_lasts() -> None:
    plan = plan_of(runs(None))
    assert plan.actions == ()
    assert "from its first batch on" in plan.notes[0].why


def test_while_it_waits_for_executors_it_is_not_done() -> None:
    wait = ClusterWait(cluster="prod", since="2026-11-26T12:00:00Z")
    assert plan_of(runs(700.0, cluster_wait=wait)).actions == ()


def test_a_revision_that_got_no_executors_in_time_is_rolled_back() -> None:
    action = only(plan_of(after(judged(), ended(Cause.CLUSTER_TIMED_OUT))))
    assert isinstance(action, RollBack)


def test_with_a_failed_query_it_is_not_done() -> None:
    failed = QueryProgress(query="q", state=QueryState.FAILED, error="boom")
    assert plan_of(runs(700.0, queries=(failed,))).actions == ()


def test_one_that_is_done_is_a_job_as_any_other() -> None:
    ref = judged()
    assert ref.record.update is not None
    done = Found(replace(ref.record, update=replace(ref.record.update, done=True)), ref.version)
    assert not any(isinstance(a, RollBack) for a in plan_of(after(done, ended())).actions)


def test_an_update_of_the_version_before_is_not_judged() -> None:
    assert not any(isinstance(a, RollBack) for a in plan_of(after(updated(), ended())).actions)


# -- what counts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cause",
    [
        Cause.USER_ERROR,
        Cause.EXITED_ZERO,
        Cause.STALLED,
        Cause.START_TIMED_OUT,
        Cause.KILLED,
        Cause.CHECKPOINT_CONFLICT,
        Cause.OUT_OF_MEMORY,
    ],
)
def test_a_failure_of_the_application_counts(cause: Cause) -> None:
    action = only(plan_of(after(judged(), ended(cause))))
    assert isinstance(action, RollBack)
    assert action.why == "revision 2 failed: boom"


def test_why_it_is_rolled_back_is_the_error_itself() -> None:
    """Not what wraps it: `explain` and `revisions` say no more than that."""
    reason = "exit code 1: STREAM_FAILED: StreamingQueryException: ValueError: a new bug | [STREAM_FAILED] Query [id = 1]"
    action = only(plan_of(after(judged(), ended(Cause.USER_ERROR, reason=reason))))
    assert isinstance(action, RollBack)
    assert action.why == "revision 2 failed: ValueError: a new bug"


def test_a_permanent_refusal_counts() -> None:
    assert isinstance(only(plan_of(after(judged(), ended(Cause.BAD_ARTIFACT, permanent=True)))), RollBack)


@pytest.mark.parametrize(
    "cause",
    [
        Cause.LOST,
        Cause.SHIM_DIED,
        Cause.LEASE_EXPIRED,
        Cause.NO_ROOM,
        Cause.NO_ACCESS,
        Cause.STOPPED,
        Cause.PREPARED_LOST,
    ],
)
def test_what_is_no_fault_of_the_revision_does_not_count(cause: Cause) -> None:
    assert not any(isinstance(a, RollBack) for a in plan_of(after(judged(), ended(cause))).actions)


def test_an_out_of_memory_after_which_the_memory_is_raised_does_not_count() -> None:
    policy = RestartPolicy(memory_step=1.5, memory_max=8 << 30, jitter=0.0)
    ref = judged(restart=policy, memory=100, driver_memory=1 << 30)
    assert not any(isinstance(a, RollBack) for a in plan_of(after(ref, ended(Cause.OUT_OF_MEMORY))).actions)
    top = ended(Cause.OUT_OF_MEMORY, raised=5, driver_memory=8 << 30)
    assert isinstance(only(plan_of(after(ref, top))), RollBack)


def test_failures_are_counted_over_attempts_and_a_restart_forgets_them() -> None:
    first = after(judged(failures=2), ended())
    assert not any(isinstance(a, RollBack) for a in plan_of(first).actions)
    over = replace(first, own_seen_at_s=NOW_S - 600)
    action = only(plan_of(over))
    assert isinstance(action, Assign)
    kept = written(action, Ownership, "/c/own/j").judged
    assert kept == JudgedUpdate(target=2, failures=1)
    assert isinstance(only(plan_of(after(judged(failures=2), ended(judged=kept)))), RollBack)
    again = only(plan_of(after(judged(failures=2, restart_nonce="n2"), ended(judged=kept))))
    assert isinstance(again, Assign)
    assert written(again, Ownership, "/c/own/j").judged == JudgedUpdate(target=2)


# -- rolling back ---------------------------------------------------------------------------------------------------


def test_a_roll_back_is_a_new_revision_with_the_spec_of_before_and_stops_nothing() -> None:
    action = only(plan_of(after(judged(checkpoint=PLACE), ended())))
    tx = transaction_for(action, CONTEXT)
    assert [(op.path, op.version) for op in tx.ops if isinstance(op, SetData | Check)] == [
        ("/c/epoch", 11),
        ("/c/jobs/j", 4),
        ("/c/own/j", 7),
        ("/c/doorbell", -1),
    ]
    record = written(action, JobRef, "/c/jobs/j")
    assert (record.revision, record.spec.sha256, record.terms.checkpoint) == (3, "0", PLACE)
    assert record.update.rolled_back == "revision 2 failed: boom"
    assert update_state(record, ended().record) is UpdateState.ROLLED_BACK


def test_a_roll_back_says_which_supervisor_did_it() -> None:
    action = only(plan_of(after(judged(), ended())))
    tx = transaction_for(action, replace(CONTEXT, by="supervisor:host-a"))
    data = next(op.data for op in tx.ops if isinstance(op, SetData) and op.path == "/c/jobs/j")
    job = decode(JobRef, data, "/c/jobs/j")
    assert job.changed.by == "supervisor:host-a"
    assert known(job, ())[-1].by == "supervisor:host-a"


def rolled_back(**changes: Any) -> Found[JobRef]:
    action = only(plan_of(after(judged(**changes), ended())))
    assert isinstance(action, RollBack)
    return Found(written(action, JobRef, "/c/jobs/j"), 5)


def test_the_revision_of_before_starts_at_once_and_keeps_the_account_of_failures() -> None:
    restart = RestartPolicy(jitter=0.0, initial_s=60.0, attempts=0, on_exhausted=OnExhausted.FAIL)
    ref = rolled_back(restart=restart)
    action = only(plan_of(after(ref, ended())))
    assert isinstance(action, Assign), "it is tried once, whatever is left of the budget"
    after_it = written(action, Ownership, "/c/own/j")
    assert (after_it.revision, after_it.failures, after_it.charged, after_it.judged) == (3, 1, 1, None)
    fails_too = replace(after_it, state=S.EXITED, cause=Cause.USER_ERROR)
    assert isinstance(only(plan_of(after(ref, Found(fails_too, 8, 80)))), Conclude)


def test_a_roll_back_is_not_judged() -> None:
    ref = rolled_back()
    third = ended(revision=3, judged=None)
    assert not any(isinstance(a, RollBack) for a in plan_of(after(ref, third)).actions)


def test_a_refusal_for_good_of_the_target_does_not_hold_the_revision_of_before() -> None:
    assert isinstance(only(plan_of(after(rolled_back(), ended(Cause.BAD_ARTIFACT, permanent=True)))), Assign)


def test_it_comes_before_the_end_of_the_job() -> None:
    """A fix must not be lost with the job: the budget is spent, and the job is rolled back and not concluded."""
    ref = judged(restart=RestartPolicy(jitter=0.0, attempts=0))
    assert isinstance(only(plan_of(after(ref, ended()))), RollBack)


def test_the_memory_that_was_raised_before_comes_back() -> None:
    policy = RestartPolicy(memory_step=1.5, memory_max=8 << 30, jitter=0.0)
    ref = judged(restart=policy, memory=100, driver_memory=1 << 30)
    stable = own(S.EXITED, cause=Cause.STOPPED, revision=1, raised=2, driver_memory=2 << 30)
    first = written(only(plan_of(after(ref, stable))), Ownership, "/c/own/j")
    assert (first.raised, first.judged) == (
        0,
        JudgedUpdate(target=2, driver_memory=2 << 30, raised=2, before=1),
    )
    failed = Found(replace(first, state=S.EXITED, cause=Cause.USER_ERROR, claim="c"), 8, 80)
    back = written(only(plan_of(after(ref, failed))), JobRef, "/c/jobs/j")
    memory = next_memory(back, failed.record)
    assert (memory.driver, memory.raised) == (2 << 30, 2)


def test_an_assigned_attempt_keeps_the_reference_as_it_is() -> None:
    assigned = own(S.ASSIGNED, revision=2, job_version=4, judged=JudgedUpdate(target=2, failures=5))
    assert plan_of(after(judged(), assigned)).actions == ()


def test_a_suspended_job_is_not_rolled_back() -> None:
    from supervisor.model.records import Desired

    assert plan_of(after(judged(desired=Desired.SUSPENDED), ended())).actions == ()


# -- clean ----------------------------------------------------------------------------------------------------------


def test_clean_waits_until_somebody_has_looked() -> None:
    plan = plan_of(after(judged(RollbackRule.CLEAN, checkpoint=PLACE), ended()))
    assert plan.actions == () and plan.alarms == ()
    assert plan.notes[0].wait_s == pytest.approx(LEFT_BEHIND_MAX_S)


def test_nothing_left_is_rolled_back() -> None:
    assert isinstance(
        only(plan_of(after(judged(RollbackRule.CLEAN, checkpoint=PLACE), ended(), ""))), RollBack
    )


def test_without_a_checkpoint_nothing_can_be_left() -> None:
    assert isinstance(only(plan_of(after(judged(RollbackRule.CLEAN), ended()))), RollBack)


@pytest.mark.parametrize(
    ("rule", "left", "seen_s"),
    [
        (RollbackRule.CLEAN, "batch 7 was begun", 0.0),
        (RollbackRule.CLEAN, None, LEFT_BEHIND_MAX_S),
        (RollbackRule.NEVER, "", 0.0),
        (RollbackRule("later"), "", 0.0),
    ],
)
def test_else_the_job_goes_on_as_any_other_and_an_alarm_says_what_to_do(
    rule: RollbackRule, left: str | None, seen_s: float
) -> None:
    one = replace(after(judged(rule, checkpoint=PLACE), ended(), left), own_seen_at_s=NOW_S - seen_s)
    plan = plan_of(one)
    assert not any(isinstance(a, RollBack) for a in plan.actions)
    (alarm,) = plan.alarms
    assert isinstance(alarm, Alarm) and "rollback j makes revision 1 go on" in alarm.text


def test_why_it_goes_on_is_kept_beside_the_next_attempt_until_somebody_restarts_it() -> None:
    ref = judged(RollbackRule.CLEAN, checkpoint=PLACE)
    late = replace(after(ref, ended(), "batch 7 was committed"), own_seen_at_s=NOW_S - 3600)
    kept = written(only(plan_of(late)), Ownership, "/c/own/j")
    assert kept.judged == JudgedUpdate(target=2, failures=1, left="batch 7 was committed")
    assert left_by_update(ref.record, kept) == "batch 7 was committed"
    assert "(batch 7 was committed)" in why_of_update(ref.record, kept)
    assert update_state(ref.record, kept) is UpdateState.BROKEN
    again = Found(replace(ref.record, restart_nonce="n2"), ref.version)
    failed = replace(late, ref=again, own=Found(replace(kept, state=S.EXITED, cause=Cause.USER_ERROR), 9))
    afresh = written(only(plan_of(failed)), Ownership, "/c/own/j")
    assert (
        afresh.judged == JudgedUpdate(target=2) and update_state(again.record, afresh) is UpdateState.ADOPTED
    )


def explained(one: Row) -> Explanation:
    return Explainer(view(one, members=HOSTS), Policy(), NOW_S, "s1").job("j")


def test_while_the_checkpoint_is_looked_at_the_next_attempt_is_said_to_begin_when_list_says_it_does() -> None:
    """The bound of the look (a minute) is no instant of anything."""
    found = explained(after(judged(RollbackRule.CLEAN, checkpoint=PLACE), ended()))
    assert found.waits_for is not None and found.waits_for.kind is Await.CHECKPOINT
    delay_s = account_of(judged().record, ended().record).delay_s
    assert found.wait_s == pytest.approx(delay_s) and found.wait_s < LEFT_BEHIND_MAX_S
    assert brief(found)[0] == f"starts attempt 3 in {span(delay_s)} unless it is rolled back"
    assert found.remedies[0].command == "spark-supervisor rollback j"


def test_a_failed_update_that_stays_is_told_why_and_how_to_go_back_first() -> None:
    one = after(judged(RollbackRule.CLEAN, checkpoint=PLACE), ended(), "batch 7 was committed")
    found = explained(one)
    assert found.failed_update.endswith("(batch 7 was committed)")
    assert found.waits_for is not None and found.waits_for.kind is Await.BACKOFF
    assert found.remedies[0].command == "spark-supervisor rollback j"
    undone = explained(replace(one, left_behind=""))
    assert isinstance(undone.step, RollBack)
    assert not any("rollback" in (each.command or "") for each in undone.remedies), "the leader does so now"


@pytest.mark.parametrize(
    ("rule", "has_instant"), [(RollbackRule.CONTINUE, False), (RollbackRule.CLEAN, True)]
)
def test_list_has_the_instant_of_an_attempt_and_none_where_the_job_goes_back(
    rule: RollbackRule, has_instant: bool
) -> None:
    exited_at = HistoryEntry(at="2026-11-28T10:00:00.000Z", event="user_error", attempt=2)
    owned = ended(history=(exited_at,), attempt=2)
    shown = row_of(after(judged(rule, checkpoint=PLACE), owned), 0.0)
    assert shown.state == "backoff" and (shown.next_attempt_at is not None) is has_instant


def test_of_each_wait_it_is_said_whether_its_time_is_an_instant_or_a_bound() -> None:
    assert set(UNLESS) == set(Await)


def test_the_alarm_stays_while_the_next_attempt_is_observed() -> None:
    seen = replace(lease(), running_at_s=NOW_S - 1)
    owned = own(S.CLAIMED, revision=2, judged=JudgedUpdate(target=2, failures=1))
    assert len(plan_of(row(ref=judged(RollbackRule.NEVER), own=owned, lease=seen)).alarms) == 1


def test_what_is_known_of_the_checkpoint_is_kept_from_the_first_assignment_on() -> None:
    known = CheckpointExpectation(place=place_of(PLACE), queries=("q 6",))
    stopped = own(S.EXITED, cause=Cause.STOPPED, revision=1)
    seen = SeenLease(lease(remembered=known).seen, NOW_S, NOW_S)
    ref = judged(RollbackRule.CLEAN, checkpoint=PLACE)
    first = written(only(plan_of(after(ref, stopped, lease=seen))), Ownership, "/c/own/j")
    assert first.judged == JudgedUpdate(target=2, queries=("q 6",), before=1)
    later = SeenLease(lease(remembered=replace(known, queries=("q 9",))).seen, NOW_S, NOW_S)
    lost = Found(replace(first, state=S.EXITED, cause=Cause.LOST), 8, 80)
    again = replace(after(ref, lost, lease=later), own_seen_at_s=NOW_S - 600)
    assert written(only(plan_of(again)), Ownership, "/c/own/j").judged == first.judged


def test_the_tombstone_of_the_attempt_before_may_know_more_than_its_lease() -> None:
    known = CheckpointExpectation(place=place_of(PLACE), queries=("q 6",))
    stopped = own(S.EXITED, cause=Cause.STOPPED, revision=1, committed=("q 8", "other 1"))
    seen = SeenLease(lease(remembered=known).seen, NOW_S, NOW_S)
    ref = judged(RollbackRule.CLEAN, checkpoint=PLACE)
    first = written(only(plan_of(after(ref, stopped, lease=seen))), Ownership, "/c/own/j")
    assert first.judged == JudgedUpdate(target=2, queries=("q 8", "other 1"), before=1)


def test_what_a_leader_of_the_version_before_has_assigned_is_judged_from_there() -> None:
    """It keeps nothing beside the attempt, so nobody knows what was in the checkpoint."""
    unknown = ended(judged=None)
    assert isinstance(only(plan_of(after(judged(), unknown))), RollBack)
    late = replace(after(judged(failures=2), unknown), own_seen_at_s=NOW_S - 600)
    again = written(only(plan_of(late)), Ownership, "/c/own/j")
    assert again.judged == JudgedUpdate(target=2, failures=1)


def test_what_is_kept_of_another_target_is_void() -> None:
    """A leader of the version before carries it on unread."""
    stale = ended(judged=JudgedUpdate(target=9, failures=5, queries=("q 1",)))
    assert not any(isinstance(a, RollBack) for a in plan_of(after(judged(failures=2), stale)).actions)


# -- mode -----------------------------------------------------------------------------------------------------------


def waiting(ref: Found[JobRef]) -> Row:
    return row(ref=ref, own=own(S.CLAIMED), lease=lease())


def test_mode_restart_stops_at_once() -> None:
    action = only(plan_of(waiting(judged(mode=UpdateMode.RESTART))))
    assert isinstance(action, Drain)
    assert action.why == "revision 2 replaces 1; it starts cold, as its spec says (update.mode: restart)"


def test_mode_manual_waits_for_a_restart() -> None:
    plan = plan_of(waiting(judged(mode=UpdateMode.MANUAL)))
    assert plan.actions == ()
    assert plan.notes[0].why.endswith("(update.mode: manual): restart j")
    assert isinstance(only(plan_of(waiting(judged(mode=UpdateMode.MANUAL, restart_nonce="n2")))), Prepare)


# -- the check ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ref", "owned"),
    [
        (RollBack, judged(), own(S.ASSIGNED, revision=2)),
        (RollBack, judged(), own(S.CLAIMED, revision=2)),
        (RollBack, judged(), own(S.EXITED, revision=1)),
        (RollBack, judged(), own(S.EXITED, revision=2, uid="u2")),
        (RollBack, updated(), own(S.EXITED, revision=2)),
        (RollBack, job(), own(S.EXITED)),
        (FinishUpdate, judged(), own(S.ASSIGNED, revision=2)),
        (FinishUpdate, judged(), own(S.CLAIMED, revision=1)),
    ],
)
def test_the_check_refuses_to_write_the_reference_otherwise(kind: Any, ref: Any, owned: Any) -> None:
    one = row(ref=ref, own=owned, lease=lease())
    plan = replace(plan_of(row()), actions=(kind("j", "w", ref, owned),), notes=(), alarms=())
    (sentence,) = violations(view(one, members=HOSTS), plan)
    assert sentence.startswith(f"j: {kind.__name__} although no observed update of it")


# -- an exit after which nothing is tried again ---------------------------------------------------------------------


def test_a_refusal_for_good_is_rolled_back_although_more_failures_were_allowed() -> None:
    refused = ended(Cause.BAD_ARTIFACT, permanent=True)
    assert isinstance(only(plan_of(after(judged(failures=3), refused))), RollBack)


def test_a_budget_that_is_spent_first_is_rolled_back_before_the_job_is_concluded() -> None:
    ref = judged(failures=3, restart=RestartPolicy(jitter=0.0, attempts=0))
    assert isinstance(only(plan_of(after(ref, ended()))), RollBack)


def test_what_is_no_fault_of_the_revision_is_not_rolled_back_for_a_spent_budget() -> None:
    ref = judged(failures=3, restart=RestartPolicy(jitter=0.0, attempts=0))
    assert not any(isinstance(a, RollBack) for a in plan_of(after(ref, ended(Cause.SHIM_DIED))).actions)


def test_a_command_that_has_no_answer_of_its_own_does_not_say_that_nobody_looked() -> None:
    """The leader has looked, and found something; ``explain`` reads the same records later, without its answer."""
    old = replace(after(judged(RollbackRule.CLEAN, checkpoint=PLACE), ended()), own_seen_at_s=NOW_S - 61)
    explained = Explainer(view(old, members=HOSTS), Policy(), NOW_S, "s1").job("j")
    assert explained.alarm is not None
    assert "(nothing says that it left its checkpoint as it was)" in explained.alarm.text
