"""An update that replaces another which has not proved itself: what comes back, from where, and what counts as left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.actions import Assign, Drain, KeepSavepoint, Note, RollBack
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import (
    BlobRef,
    Cause,
    JobRef,
    JudgedUpdate,
    Ownership,
    OwnState,
    RollbackRule,
    SpecRevision,
    UpdateMode,
    UpdatePolicy,
)
from supervisor.model.seen import Found
from supervisor.model.state import queries_before
from supervisor.model.view import SeenLease, UpdateSaved
from supervisor.plan.decide import asks_what_was_left
from supervisor.records.layout import Layout
from supervisor.registry.user_writes import AskedRevision, UserWriteContext, with_update
from tests.unit.plan.rows import NOW_S, lease, own, row
from tests.unit.plan.test_observed_update import PLACE, after, ended, judged, written
from tests.unit.plan.test_prepare import HOSTS, asked, keeps, only, plan_of
from tests.unit.plan.test_update_savepoint import ID, running, wanted

S = OwnState
CONTEXT = UserWriteContext(Layout("/c"), "op-u", "t")


def updated_to(
    target: int, job: JobRef, owned: Found[Ownership], rule: RollbackRule = RollbackRule.SAVEPOINT
) -> Found[JobRef]:
    spec = BlobRef(key=f"k{target}", sha256=str(target), bytes=1)
    revision = SpecRevision(revision=target, spec=spec, terms=job.terms)
    policy = UpdatePolicy(rollback=rule, mode=UpdateMode.RESTART)
    return Found(with_update(CONTEXT, job, owned, AskedRevision(revision, "me", policy=policy)), 9)


TWO = JudgedUpdate(target=2, queries=("q 6",), before=1)
NOT_RUNNING = {
    "1 has ended": own(S.EXITED, cause=Cause.STOPPED),
    "1 is being stopped for 2": own(S.DRAINING),
    "1 was given up": own(S.REVOKED),
    "2 has failed": ended(judged=TWO),
    "2 was given out": own(S.ASSIGNED, revision=2, judged=TWO),
    "2 was taken back": own(S.VACANT, revision=2, judged=TWO),
    "2 is being stopped": own(S.DRAINING, revision=2, judged=TWO),
    "2 was given up": own(S.REVOKED, revision=2, judged=TWO),
}


@pytest.mark.parametrize("state", NOT_RUNNING)
def test_what_ran_before_and_its_savepoint_are_kept_whatever_the_moment(state: str) -> None:
    update = updated_to(3, wanted(ID).record, NOT_RUNNING[state]).record.update
    assert update is not None
    assert (update.before.revision, update.savepoint) == (1, ID)


def test_while_the_attempt_of_the_savepoint_runs_another_is_made() -> None:
    update = updated_to(3, wanted(ID).record, own(S.CLAIMED)).record.update
    assert update is not None and (update.before.revision, update.savepoint) == (1, "")


def test_what_runs_while_it_is_observed_comes_back() -> None:
    owned = own(S.CLAIMED, revision=2, judged=TWO)
    update = updated_to(3, wanted(ID).record, owned).record.update
    assert update is not None and (update.before.revision, update.savepoint) == (2, "")


# -- what counts as left behind ---------------------------------------------------------------------------------------


def assigned(ref: Found[JobRef], owned: Found[Ownership], known: str = "q 7") -> Ownership:
    """The next attempt, where ``known`` is the newest batch that anybody knows of."""
    expected = CheckpointExpectation(place=place_of(PLACE), queries=(known,))
    seen = SeenLease(lease(remembered=expected).seen, NOW_S, NOW_S)
    action = only(plan_of(row(ref=ref, own=owned, lease=seen, own_seen_at_s=NOW_S)))
    assert isinstance(action, Assign)
    found: Ownership = written(action, Ownership, "/c/own/j")
    return found


@pytest.mark.parametrize("rule", [RollbackRule.CLEAN, RollbackRule.SAVEPOINT])
def test_it_is_measured_from_the_revision_that_would_come_back(rule: RollbackRule) -> None:
    """Revision 2 has left batch 7, and 3 nothing beyond: for 1 it is still batch 7 that was left. And so for 4."""
    ref, owned = judged(rule, checkpoint=PLACE), ended(judged=TWO, committed=("q 7",))
    for target in (3, 4):
        ref = updated_to(target, ref.record, owned, rule)
        kept = assigned(ref, owned)
        assert kept.judged == JudgedUpdate(target=target, queries=("q 6",), before=1)
        owned = own(S.EXITED, cause=Cause.USER_ERROR, reason="boom", revision=target, judged=kept.judged)
        assert queries_before(ref.record, owned.record) == ("q 6",)
        assert asks_what_was_left(after(ref, owned)), "with the savepoint of an older update, too"


def test_the_memory_that_the_revision_before_had_come_to_is_kept_as_well() -> None:
    two = replace(TWO, driver_memory=2 << 30, raised=2, failures=1)
    owned = ended(judged=two)
    kept = assigned(updated_to(3, judged(checkpoint=PLACE).record, owned), owned).judged
    assert kept is not None and (kept.driver_memory, kept.raised, kept.failures) == (2 << 30, 2, 0)


def test_what_is_not_known_is_not_clean() -> None:
    owned = ended(judged=None)
    ref = updated_to(3, judged(RollbackRule.CLEAN, checkpoint=PLACE).record, owned, RollbackRule.CLEAN)
    kept = assigned(ref, owned)
    assert kept.judged == JudgedUpdate(target=3)
    failed = own(S.EXITED, cause=Cause.USER_ERROR, revision=3, judged=kept.judged)
    assert queries_before(ref.record, failed.record) is None


# -- a revision that never ran ----------------------------------------------------------------------------------------

UNBEGUN = {
    "never assigned": own(S.VACANT, uid="", claims=0),
    "of an earlier submission": own(S.EXITED, uid="u0", cause=Cause.STOPPED),
    "taken back unclaimed": own(S.VACANT, claims=0),
}


@pytest.mark.parametrize("state", UNBEGUN)
@pytest.mark.parametrize("rule", [RollbackRule.CONTINUE, RollbackRule.CLEAN])
def test_the_leader_does_not_go_back_to_what_never_ran(state: str, rule: RollbackRule) -> None:
    first = judged(rule, checkpoint=PLACE).record
    ref = updated_to(2, replace(first, revision=1, update=None), UNBEGUN[state], rule)
    for target in (2, 3):  # an update of the update neither
        assert ref.record.update is not None and ref.record.update.untried
        owned = own(S.EXITED, cause=Cause.USER_ERROR, revision=target, judged=JudgedUpdate(target=target))
        one = replace(after(ref, owned, ""), own_seen_at_s=NOW_S - 600)
        plan = plan_of(one)
        assert not any(isinstance(each, RollBack) for each in plan.actions)
        assert "revision 1 has never run" in str(plan.alarms[0])
        assert not asks_what_was_left(one)
        ref = updated_to(3, ref.record, owned, rule)


# -- a savepoint is of the hand-over for which it was made ------------------------------------------------------------


def hand_over(savepoint: str = "", **changes: Any) -> Found[JobRef]:
    return wanted(savepoint, mode=UpdateMode.HANDOVER, **changes)


FULL = {"s1": replace(HOSTS["s1"], memory=100), "s2": replace(HOSTS["s2"], memory=0)}
READY = {"s1": HOSTS["s1"], "s2": keeps(HOSTS["s2"], revision=2, sha256="1")}


def request() -> Any:
    return (asked("s2", revision=2, spec=hand_over().record.spec),)


def test_it_is_dropped_while_the_hand_over_waits_and_made_anew() -> None:
    action = only(plan_of(running(None, hand_over(ID)), members=FULL))
    assert isinstance(action, KeepSavepoint) and action.savepoint == ""
    dropped: JobRef = written(action, JobRef, "/c/jobs/j")
    assert dropped.update is not None and dropped.update.savepoint == ""
    again = plan_of(running(None, Found(dropped, 9)), members=READY, asked=request())
    assert again.actions == () and again.notes[0].saves


def test_one_that_was_made_and_not_kept_is_dropped_too() -> None:
    action = only(plan_of(running(UpdateSaved(NOW_S, savepoint=ID), hand_over()), members=FULL))
    assert isinstance(action, KeepSavepoint) and action.savepoint == ""
    plan = plan_of(running(UpdateSaved(NOW_S), hand_over()), members=FULL)
    assert plan.actions == (), "one that is being made"


def test_the_hand_over_itself_drops_nothing() -> None:
    plan = plan_of(running(None, hand_over(ID)), members=READY, asked=request())
    assert [type(each) for each in plan.actions if not isinstance(each, Note)][:1] == [Drain]


def test_none_is_made_for_a_stop_that_does_not_come() -> None:
    """No host could start it again: the savepoint would be as old as that lasts."""
    cold = running(None, wanted("", mode=UpdateMode.RESTART))
    plan = plan_of(cold, members={"s2": replace(HOSTS["s2"], memory=0)})
    assert plan.actions == () and not plan.notes[0].saves and plan.notes[0].holds_stop
