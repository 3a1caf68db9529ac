"""``update.rollback: savepoint``: what the leader does before the hand-over of an update, and after its target has failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.model.actions import (
    Drain,
    GiveUpdateUp,
    KeepSavepoint,
    Plan,
    RollBack,
    RollBackToSavepoint,
)
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    SeenQuery,
    place_of,
    to_be_expected,
)
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    BlobRef,
    CheckpointClaim,
    Desired,
    JobRef,
    Ownership,
    OwnState,
    RollbackRule,
    SpecRevision,
    UpdateMode,
)
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import UpdateState, follows_roll_back, update_state
from supervisor.model.transaction import Check, Create, Delete, SetData
from supervisor.model.update_savepoint import restore_max_s, savepoint_id, target_of
from supervisor.model.view import Row, SeenLease, UpdateRestored, UpdateSaved
from supervisor.plan.check import violations
from supervisor.plan.decide import LEFT_BEHIND_MAX_S
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.registry.revisions import known
from supervisor.registry.user_writes import AskedRevision, UserWriteContext, with_update
from tests.unit.plan.rows import NOW_S, lease, own, row, view
from tests.unit.plan.test_observed_update import CONTEXT, PLACE, after, ended, judged, written
from tests.unit.plan.test_prepare import HOSTS, only, plan_of

S = OwnState
ID = savepoint_id("u1", 2, 7, 4)
COPY = f"{PLACE}.from-{ID}-0a1b2c3d"
LATER = NOW_S - LEFT_BEHIND_MAX_S
KNOWN = CheckpointExpectation(place=place_of(PLACE), queries=("q 6",))


def wanted(savepoint: str = "", **changes: Any) -> Found[JobRef]:
    """Revision 2 is wanted, by the rule ``savepoint``; ``savepoint`` was made."""
    found = judged(RollbackRule.SAVEPOINT, **{"checkpoint": PLACE, "mode": UpdateMode.RESTART, **changes})
    assert found.record.update is not None
    update = replace(found.record.update, savepoint=savepoint)
    return Found(replace(found.record, update=update), found.version)


def running(saved: UpdateSaved | None, ref: Found[JobRef] | None = None, *, known: bool = True) -> Row:
    """An attempt of revision 1 runs."""
    seen = SeenLease(lease(remembered=KNOWN if known else None).seen, NOW_S, NOW_S)
    return row(ref=ref or wanted(), own=own(S.CLAIMED), lease=seen, saved=saved)


def failed(
    restored: UpdateRestored | None = None, left: str | None = "batch 7 was begun", **changes: Any
) -> Row:
    ref = changes.pop("ref", None) or wanted(ID)
    return replace(after(ref, ended(), left, restored=restored), **changes)


REVISION = SpecRevision(
    revision=3,
    spec=BlobRef(key="specs/j/u1/3-9.json", sha256="9", bytes=1),
    terms=replace(wanted().record.terms, checkpoint=COPY),
)
CLAIM = ("/c/checkpoints/old", Found(CheckpointClaim(location=PLACE, name="j", uid="u1"), 2))
RESTORED = UpdateRestored(
    revision=REVISION,
    queries=(SeenQuery("q", 4),),
    moved_sha256="8",
    lease=lease(remembered=KNOWN).seen,
    claimed=ClaimedLocation("/c/checkpoints/new", COPY, None, 12),
    left=CLAIM,
)


# -- before the hand-over -------------------------------------------------------------------------------------------


def test_the_driver_goes_on_until_the_savepoint_is_made() -> None:
    plan = plan_of(running(None))
    assert plan.actions == ()
    (note,) = plan.notes
    assert note.saves and "a savepoint is made before revision 2 begins" in note.why


def test_a_savepoint_that_is_complete_is_written_down_and_nothing_is_stopped() -> None:
    action = only(plan_of(running(UpdateSaved(NOW_S, savepoint=ID))))
    assert isinstance(action, KeepSavepoint)
    tx = transaction_for(action, CONTEXT)
    assert [(op.path, op.version) for op in tx.ops if isinstance(op, SetData | Check)] == [
        ("/c/epoch", 11),
        ("/c/jobs/j", 4),
        ("/c/own/j", 7),
        ("/c/doorbell", -1),
    ]
    record = written(action, JobRef, "/c/jobs/j")
    assert record.update.savepoint == ID
    assert replace(record, update=wanted().record.update, op="op") == wanted().record


def test_then_the_driver_is_stopped() -> None:
    assert isinstance(only(plan_of(running(None, wanted(ID)))), Drain)


def test_no_savepoint_within_start_timeout_gives_the_update_up_and_stops_nothing() -> None:
    failing = UpdateSaved(NOW_S - 59, why="the store does not answer")
    plan = plan_of(running(failing))
    assert plan.actions == () and plan.notes[0].saves
    assert plan.notes[0].wait_s == pytest.approx(1.0)
    action = only(plan_of(running(replace(failing, since_at_s=NOW_S - 60))))
    assert isinstance(action, GiveUpdateUp)
    assert action.why == "no savepoint was made within 60 s: the store does not answer"


def test_where_no_savepoint_could_ever_be_restored_the_update_is_given_up_at_once() -> None:
    action = only(plan_of(running(UpdateSaved(NOW_S, why="args of j names it", for_good=True))))
    assert isinstance(action, GiveUpdateUp)
    assert action.why == "no savepoint can be made: args of j names it"


def test_a_job_without_a_committed_batch_has_nothing_to_save() -> None:
    nothing = UpdateSaved(NOW_S, nothing=True, why="no batch was committed")
    assert isinstance(only(plan_of(running(nothing, known=False))), Drain)


def test_but_one_whose_batches_the_leader_does_not_see_is_not_taken_for_one() -> None:
    """Its checkpoint is on the file system of another host."""
    nothing = UpdateSaved(NOW_S, nothing=True, why="no checkpoint is seen")
    assert plan_of(running(nothing)).notes[0].saves


@pytest.mark.parametrize(
    "ref",
    [
        wanted(checkpoint=None),
        judged(RollbackRule.CLEAN, checkpoint=PLACE, mode=UpdateMode.RESTART),
        judged(RollbackRule.CONTINUE, checkpoint=PLACE, mode=UpdateMode.RESTART),
        wanted(restart_nonce="n2", cold_restart="n2"),
    ],
)
def test_without_need_no_savepoint_is_waited_for(ref: Found[JobRef]) -> None:
    assert isinstance(only(plan_of(running(None, ref))), Drain)


def test_a_manual_update_is_saved_when_the_restart_is_asked_for() -> None:
    manual = wanted(mode=UpdateMode.MANUAL)
    terms = replace(manual.record.terms, prepare=None)
    assert not plan_of(running(None, Found(replace(manual.record, terms=terms), 4))).notes[0].saves
    asked = Found(replace(manual.record, terms=terms, restart_nonce="n2"), 4)
    assert plan_of(running(None, asked)).notes[0].saves


# -- after the failure ----------------------------------------------------------------------------------------------


def test_a_target_that_has_left_nothing_is_rolled_back_on_the_same_checkpoint() -> None:
    assert isinstance(only(plan_of(failed(left=""))), RollBack)


def test_it_is_looked_at_first() -> None:
    plan = plan_of(failed(left=None))
    assert plan.actions == () and not plan.notes[0].restores


@pytest.mark.parametrize("one", [failed(), failed(left=None, own_seen_at_s=LATER)])
def test_else_the_job_waits_for_the_copy(one: Row) -> None:
    plan = plan_of(one)
    assert plan.actions == () and plan.alarms == ()
    assert plan.notes[0].restores and f"savepoint {ID} is being restored" in plan.notes[0].why


def test_without_a_savepoint_it_is_as_clean() -> None:
    """There was nothing to save, or no driver of the revision before ran."""
    plan = plan_of(failed(ref=wanted()))
    assert not any(isinstance(a, RollBack | RollBackToSavepoint) for a in plan.actions)
    assert "rollback j makes revision 1 go on" in plan.alarms[0].text
    assert isinstance(only(plan_of(failed(ref=wanted(), left=""))), RollBack)


@pytest.mark.parametrize(
    ("restored", "seen_s", "why"),
    [
        (UpdateRestored(why="j has no savepoint"), 0.0, "could not be restored: j has no savepoint"),
        (None, LEFT_BEHIND_MAX_S + restore_max_s(60.0), "was not restored within 900 s"),
    ],
)
def test_without_a_copy_the_job_goes_on_as_any_other_and_an_alarm_says_what_to_do(
    restored: UpdateRestored | None, seen_s: float, why: str
) -> None:
    plan = plan_of(failed(restored, own_seen_at_s=NOW_S - seen_s))
    assert not any(isinstance(a, RollBack | RollBackToSavepoint) for a in plan.actions)
    (alarm,) = plan.alarms
    assert f"rollback j --from-savepoint {ID}" in alarm.text and why in alarm.text


def back() -> RollBackToSavepoint:
    action = only(plan_of(failed(RESTORED)))
    assert isinstance(action, RollBackToSavepoint)
    return action


def test_the_roll_back_has_the_guards_of_a_resume_from_a_savepoint_and_those_of_a_leader() -> None:
    ops = transaction_for(back(), CONTEXT).ops
    assert ops[0] == Check("/c/epoch", 11)
    assert [(type(op), op.path, getattr(op, "version", None)) for op in ops[3:]] == [
        (SetData, "/c/jobs/j", 4),
        (SetData, "/c/own/j", 7),
        (Create, "/c/checkpoints/new", None),
        (SetData, "/c/checkpoints", 12),
        (Delete, "/c/checkpoints/old", 2),
        (Delete, "/c/lease/j", 5),
        (SetData, "/c/doorbell", -1),
    ]


def test_a_claim_of_an_older_uid_at_the_place_is_taken_over_and_an_unreadable_lease_goes() -> None:
    older = Found(CheckpointClaim(location=COPY, name="j", uid="u0"), 6)
    assert RESTORED.claimed is not None
    place = replace(RESTORED.claimed, claim=older)
    one = replace(RESTORED, claimed=place, lease=Unreadable("", 9), left=None)
    ops = transaction_for(replace(back(), restored=one), CONTEXT).ops
    assert [op.path for op in ops if isinstance(op, Delete)][1:] == ["/c/lease/j"]
    (claim,) = (op for op in ops if isinstance(op, SetData) and op.path == "/c/checkpoints/new")
    assert claim.version == 6
    assert decode(CheckpointClaim, claim.data, "c").uid == "u1"


def test_it_is_the_spec_of_before_at_the_place_of_the_copy() -> None:
    record = written(back(), JobRef, "/c/jobs/j")
    assert (record.revision, record.spec, record.terms.checkpoint) == (3, REVISION.spec, COPY)
    assert (record.declared, record.restart_nonce, record.desired) == (PLACE, "n1", Desired.RUNNING)
    assert record.update.rolled_back == f"back to savepoint {ID}: revision 2 failed: boom"
    assert record.update.moved_sha256 == "8"
    assert update_state(record, ended().record) is UpdateState.ROLLED_BACK
    assert known(record, ())[-1].why == f"revision 1 again, from savepoint {ID}"
    assert record.changed.detail.startswith(f"revision 3 is 1 again, from savepoint {ID}")


def test_the_next_start_has_to_find_what_was_saved_and_the_old_place_is_remembered() -> None:
    kept = written(back(), Ownership, "/c/own/j")
    assert (kept.state, kept.attempt, kept.op) == (S.EXITED, 2, "op-1")
    expected = to_be_expected(COPY, "", None, kept.remembered)
    assert expected is not None and expected.queries == ("q 4",)
    old = to_be_expected(PLACE, "", None, kept.remembered)
    assert old is not None and old.queries == ("q 6",)


def test_it_starts_at_once_and_is_not_judged() -> None:
    record = written(back(), JobRef, "/c/jobs/j")
    kept = Found(written(back(), Ownership, "/c/own/j"), 8, 80)
    assert follows_roll_back(record, kept.record)
    plan = plan_of(after(Found(record, 5), kept))
    assert [type(a).__name__ for a in plan.actions] == ["Assign"]


def test_a_second_roll_back_remembers_what_was_declared_first() -> None:
    moved = wanted(ID)
    moved = Found(replace(moved.record, declared="s3a://bucket/first"), moved.version)
    action = replace(back(), ref=moved)
    assert written(action, JobRef, "/c/jobs/j").declared == "s3a://bucket/first"


def test_a_suspended_job_is_not_rolled_back() -> None:
    ref = wanted(ID, desired=Desired.SUSPENDED)
    plan = plan_of(failed(RESTORED, ref=ref))
    assert plan.actions == () and not plan.notes[0].restores


# -- a second update ------------------------------------------------------------------------------------------------


def second(owned: Found[Ownership]) -> JobRef:
    target = SpecRevision(
        revision=3, spec=BlobRef(key="k3", sha256="3", bytes=1), terms=wanted().record.terms
    )
    update = wanted().record.update
    assert update is not None
    asked = AskedRevision(target, "somebody", policy=update.policy)
    return with_update(UserWriteContext(Layout("/c"), "op", "t"), wanted(ID).record, owned, asked)


def test_an_update_of_one_that_has_failed_keeps_its_way_back() -> None:
    fixed = second(ended())
    assert fixed.update is not None
    assert (fixed.update.before.revision, fixed.update.savepoint) == (1, ID)


def test_what_it_replaces_may_have_left_something_so_nothing_is_looked_at() -> None:
    fixed = Found(second(ended()), 5)
    third = ended(revision=3, judged=None)
    plan = plan_of(after(fixed, third, ""))
    assert plan.actions == () and plan.notes[0].restores


@pytest.mark.parametrize("owned", [own(S.CLAIMED), own(S.CLAIMED, revision=2)])
def test_an_update_of_one_that_runs_gets_a_savepoint_of_its_own(owned: Found[Ownership]) -> None:
    newest = second(owned).update
    assert newest is not None and newest.savepoint == ""


# -- the check ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (KeepSavepoint("j", "w", wanted(), own(S.ASSIGNED), ID), "what runs is not the revision before"),
        (KeepSavepoint("j", "w", wanted(), own(S.CLAIMED, revision=2), ID), "what runs is not the revision"),
        (RollBackToSavepoint("j", "w", wanted(ID), own(S.CLAIMED, revision=2), RESTORED), "no observed"),
        (RollBackToSavepoint("j", "w", wanted(ID), own(S.ASSIGNED, revision=2), RESTORED), "no observed"),
        (RollBackToSavepoint("j", "w", wanted(), ended(), RESTORED), "no savepoint was made"),
        (
            RollBackToSavepoint("j", "w", wanted(ID), ended(), replace(RESTORED, revision=None)),
            "the copy is of another revision",
        ),
        (
            RollBackToSavepoint(
                "j",
                "w",
                wanted(ID),
                ended(),
                replace(
                    RESTORED,
                    revision=replace(REVISION, terms=replace(REVISION.terms, checkpoint=f"{PLACE}/in")),
                ),
            ),
            "the copy is where it is",
        ),
    ],
)
def test_the_check_refuses(action: Any, sentence: str) -> None:
    one = row(ref=action.ref, own=action.own, lease=lease())
    (found,) = violations(view(one, members=HOSTS), Plan((action,)))
    assert f"{type(action).__name__} although {sentence}" in found


# -- names ----------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_named_by_uid_target_and_the_fence_of_the_attempt_that_runs() -> None:
    assert (
        len(
            {
                savepoint_id(uid, target, own, job, epoch)
                for uid in ("u1", "u2")
                for target in (2, 3)
                for own in (7, 8)
                for job in (7, 8)
                for epoch in (0, 1)
            }
        )
        == 32
    )
    assert target_of(savepoint_id("u1", 12, 7, 4)) == 12
    assert [target_of(each) for each in ("before-upgrade", "update-2", "scheduled-20261122-061742")] == [
        None
    ] * 3


def test_an_older_leader_makes_nothing_of_it() -> None:
    """It does not know the rule, and leaves the job as it is."""
    plan = plan_of(after(judged(RollbackRule("later"), checkpoint=PLACE), ended()))
    assert not any(isinstance(a, RollBack | RollBackToSavepoint) for a in plan.actions)
