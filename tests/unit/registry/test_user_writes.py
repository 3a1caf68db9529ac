"""``registry.user_writes``: the multis of the command line, compared as values (protocol §5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    BlobRef,
    CheckpointClaim,
    Cleanliness,
    Desired,
    Driver,
    HistoryEntry,
    JobRef,
    Lease,
    Outcome,
    Ownership,
    OwnState,
    Phase,
    Result,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import revision_of, with_quarantined
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, SetData
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout
from supervisor.registry import user_writes
from supervisor.registry.leader_writes import next_attempt
from supervisor.registry.revisions import NO_RECORD, NewRevision, keep_revision
from supervisor.registry.user_writes import AskedRevision, Move, UserWriteContext
from tests.fakes.registry_bench import AT, SHA, terms

LAYOUT = Layout("/r")
CONTEXT = UserWriteContext(LAYOUT, "op1", "2026-11-21T01:00:00.000Z")
SPEC = BlobRef(key="specs/j/u1/1-ab.json", sha256=SHA, bytes=10)
JOB = JobRef(
    name="j",
    uid="u1",
    revision=1,
    spec=SPEC,
    desired=Desired.RUNNING,
    restart_nonce="n1",
    terms=terms("s3://bkt/c"),
    submitted_at=AT,
    changed=HistoryEntry(at=AT, event="submitted"),
    op="op0",
)
DOORBELL = SetData("/r/doorbell", b"j", ANY_VERSION)
PLACE = ClaimedLocation("/r/checkpoints/h", "s3://bkt/c", None, 4)
CLAIM = Found(CheckpointClaim(location="s3://bkt/c", name="j", uid="u0"), 6)


def own(
    state: OwnState = OwnState.VACANT, uid: str = "u1", version: int = 5, **changes: object
) -> Found[Ownership]:
    record = Ownership(
        state=state, op="op0", newest_uid="u1", uid=uid, attempt=3, claims=2, supervisor="s1", **changes
    )  # type: ignore[arg-type]
    return Found(record, version)


def own_written(tx: user_writes.Transaction) -> Ownership:
    (data,) = [op.data for op in tx.ops if isinstance(op, Create | SetData) and op.path == "/r/own/j"]
    return decode(Ownership, data, "own")


def result_written(tx: user_writes.Transaction) -> Result:
    (data,) = [op.data for op in tx.ops if isinstance(op, Create | SetData) and op.path == "/r/results/u1"]
    return decode(Result, data, "result")


def test_first_submit_creates_everything() -> None:
    tx = user_writes.submit(CONTEXT, JOB, None, PLACE)
    assert tx.id == "op1" and tx.ops == (
        Create("/r/jobs/j", encode(replace(JOB, op="op1"))),
        Create("/r/own/j", encode(Ownership(state=OwnState.VACANT, op="op1", newest_uid="u1"))),
        Create("/r/results/u1", b""),
        Delete("/r/results/u1", 0),
        Create("/r/checkpoints/h", encode(CheckpointClaim(location="s3://bkt/c", name="j", uid="u1"))),
        SetData("/r/checkpoints", b"op1", 4),
        DOORBELL,
    )


def test_later_submit_bumps_the_fence_and_changes_nothing_else_of_it() -> None:
    before = own(OwnState.DRAINING, uid="u0")
    tx = user_writes.submit(CONTEXT, JOB, before, None)
    assert SetData("/r/own/j", encode(replace(before.record, op="op1", newest_uid="u1")), 5) in tx.ops


def test_submit_takes_over_the_claim_of_an_older_uid_at_its_version() -> None:
    tx = user_writes.submit(CONTEXT, JOB, None, replace(PLACE, claim=CLAIM))
    assert (
        SetData("/r/checkpoints/h", encode(CheckpointClaim(location="s3://bkt/c", name="j", uid="u1")), 6)
        in tx.ops
    )


def test_submit_without_a_checkpoint_leaves_the_claims_alone() -> None:
    assert not [
        op for op in user_writes.submit(CONTEXT, JOB, None, None).ops if op.path.startswith("/r/checkpoints")
    ]


def test_submit_over_an_unreadable_ownership_is_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="refused before"):
        user_writes.submit(CONTEXT, JOB, Unreadable("x", 1), None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OwnState.VACANT, OwnState.VACANT),
        (OwnState.ASSIGNED, OwnState.VACANT),
        (OwnState.CLAIMED, OwnState.DRAINING),
        (OwnState.DRAINING, OwnState.DRAINING),
        (OwnState.REVOKED, OwnState.REVOKED),
        (OwnState.EXITED, OwnState.EXITED),
    ],
)
def test_cancel_and_suspend_always_move_the_fence(before: OwnState, after: OwnState) -> None:
    found = own(before, claim="c1")
    cancel = user_writes.cancel(CONTEXT, Found(JOB, 7), "j", "u1", found)
    suspend = user_writes.suspend(CONTEXT, Found(JOB, 7), found)
    for tx in (cancel, suspend):
        assert [op.version for op in tx.ops if isinstance(op, SetData) and op.path == "/r/own/j"] == [5]
        written = own_written(tx)
        assert (written.state, written.uid, written.attempt, written.claim) == (after, "u1", 3, "c1")
        entry = Delete("/r/assigned/s1/u1.3", ANY_VERSION)
        assert (entry in tx.ops) == (before is OwnState.ASSIGNED)
        assert tx.ops[-1] == DOORBELL


def test_cancel_replaces_the_reference_by_a_dirty_result_in_one_step() -> None:
    tx = user_writes.cancel(CONTEXT, Found(JOB, 7), "j", "u1", own(OwnState.CLAIMED))
    assert tx.ops[0] == Delete("/r/jobs/j", 7)
    result = result_written(tx)
    assert isinstance(tx.ops[1], Create)
    assert (result.outcome, result.state, result.spec, result.attempt, result.claims) == (
        Outcome.CANCELLED,
        Cleanliness.DIRTY,
        SPEC,
        3,
        2,
    )
    assert [entry.event for entry in result.history] == ["cancelled"]


def test_cancel_while_the_ownership_is_still_of_an_older_uid_counts_none_of_its_attempts() -> None:
    tx = user_writes.cancel(CONTEXT, Found(JOB, 7), "j", "u1", own(OwnState.DRAINING, uid="u0"))
    assert result_written(tx).attempt == 0
    assert own_written(tx).uid == "u0" and own_written(tx).state is OwnState.DRAINING


def test_cancel_with_an_unreadable_ownership_revokes_for_the_uid() -> None:
    tx = user_writes.cancel(CONTEXT, Found(JOB, 7), "j", "u1", Unreadable("x", 9))
    written = own_written(tx)
    assert (written.state, written.uid) == (OwnState.REVOKED, "u1")
    assert [op.version for op in tx.ops if isinstance(op, SetData) and op.path == "/r/own/j"] == [9]


@pytest.mark.parametrize("unreadable", [None, Unreadable("x", 9)])
def test_where_the_ownership_cannot_say_it_the_lease_does(unreadable: Seen[Ownership]) -> None:
    """Attempts are never numbered anew, and whoever still runs is waited for."""
    last = Lease(
        name="j",
        uid="u1",
        attempt=7,
        claim="c7",
        lease_s=30.0,
        stop_grace_s=30.0,
        phase=Phase.RUNNING,
        driver=Driver(host="host1", shim_pid=1),
        since=AT,
    )
    for tx in (
        user_writes.suspend(CONTEXT, Found(JOB, 7), unreadable, Found(last, 4)),
        user_writes.cancel(CONTEXT, Found(JOB, 7), "j", "u1", unreadable, Found(last, 4)),
    ):
        written = own_written(tx)
        assert (written.state, written.uid, written.attempt, written.claim) == (
            OwnState.REVOKED,
            "u1",
            7,
            "c7",
        )
        assert next_attempt(JOB, written) == 8
    for other in (Found(replace(last, uid="u0"), 4), Unreadable("y", 4)):
        written = own_written(user_writes.suspend(CONTEXT, Found(JOB, 7), unreadable, other))
        assert (written.state, written.uid, written.attempt, written.claim) == (OwnState.REVOKED, "u1", 0, "")


def test_an_ownership_that_is_absent_and_was_never_claimed_has_nobody_to_wait_for() -> None:
    assert own_written(user_writes.suspend(CONTEXT, Found(JOB, 7), None, None)).state is OwnState.VACANT


def test_cancel_of_an_unreadable_reference_needs_nothing_of_it() -> None:
    tx = user_writes.cancel(CONTEXT, Unreadable("x", 2), "j", "u1", own())
    assert tx.ops[0] == Delete("/r/jobs/j", 2)
    assert result_written(tx).spec is None


@pytest.mark.parametrize("found", [None, own()])
def test_cancel_of_a_failed_uid_guards_its_result(found: Seen[Ownership]) -> None:
    failed = Result(
        name="j",
        uid="u1",
        outcome=Outcome.FAILED,
        state=Cleanliness.CLEAN,
        revision=1,
        spec=SPEC,
        terms=JOB.terms,
        attempt=3,
        claims=2,
        reason="spent",
        at=AT,
        submitted_at=AT,
        op="op0",
    )
    tx = user_writes.cancel_failed(CONTEXT, Found(failed, 8), found)
    assert isinstance(tx.ops[0], SetData) and (tx.ops[0].path, tx.ops[0].version) == ("/r/results/u1", 8)
    assert (result_written(tx).outcome, result_written(tx).state) == (Outcome.CANCELLED, Cleanliness.DIRTY)


def test_suspend_changes_the_reference_at_its_version() -> None:
    tx = user_writes.suspend(CONTEXT, Found(JOB, 7), own())
    changed = replace(
        JOB, desired=Desired.SUSPENDED, op="op1", changed=HistoryEntry(at=CONTEXT.at, event="suspended")
    )
    assert tx.ops[0] == SetData("/r/jobs/j", encode(changed), 7)


def test_running_again_only_checks_the_fence() -> None:
    tx = user_writes.run_again(CONTEXT, Found(JOB, 7), own(OwnState.CLAIMED), "n2", "restarted")
    changed = replace(
        JOB, restart_nonce="n2", op="op1", changed=HistoryEntry(at=CONTEXT.at, event="restarted")
    )
    assert tx.ops == (SetData("/r/jobs/j", encode(changed), 7), Check("/r/own/j", 5), DOORBELL)


def test_registering_again_undoes_the_result_and_keeps_the_attempt_number() -> None:
    failed = Result(
        name="j",
        uid="u1",
        outcome=Outcome.FAILED,
        state=Cleanliness.CLEAN,
        revision=1,
        spec=SPEC,
        terms=JOB.terms,
        attempt=3,
        claims=2,
        reason="spent",
        at=AT,
        submitted_at=AT,
        op="op0",
    )
    before = own(OwnState.EXITED, failures=4, charged=3, permanent=True)
    tx = user_writes.register_again(CONTEXT, JOB, before, Found(failed, 8), PLACE)
    written = own_written(tx)
    assert (written.attempt, written.failures, written.charged, written.permanent) == (3, 0, 0, False)
    assert tx.ops[0] == Create("/r/jobs/j", encode(replace(JOB, op="op1")))
    assert tx.ops[1] == Delete("/r/results/u1", 8)
    assert SetData("/r/checkpoints", b"op1", 4) in tx.ops and tx.ops[-1] == DOORBELL


LAST = Found(
    Lease(
        name="j",
        uid="u1",
        attempt=3,
        claim="c1",
        lease_s=30.0,
        stop_grace_s=30.0,
        phase=Phase.RUNNING,
        driver=Driver(host="host1", shim_pid=1),
        since=AT,
    ),
    9,
)
LEFT = ("/r/checkpoints/old", Found(CheckpointClaim(location="s3://bkt/old", name="j", uid="u1"), 3))
MOVED = Move(CheckpointExpectation(place="p2", queries=("q 12",), elsewhere=("p1 q 40",)), LAST, LEFT)


def test_going_on_from_a_savepoint_moves_reference_claims_and_memory_in_one_step() -> None:
    """Each at the version seen; the fence is set, not only checked: nothing that was planned before can commit after it."""
    job = replace(JOB, revision=2, restart_nonce="op1")
    before = own(OwnState.EXITED, permanent=True)
    tx = user_writes.resume_from(CONTEXT, Found(JOB, 7), before, job, PLACE, MOVED)
    assert tx.ops == (
        SetData("/r/jobs/j", encode(replace(job, op="op1")), 7),
        SetData("/r/own/j", encode(replace(before.record, op="op1", remembered=MOVED.remembered)), 5),
        Create("/r/checkpoints/h", encode(CheckpointClaim(location="s3://bkt/c", name="j", uid="u1"))),
        SetData("/r/checkpoints", b"op1", 4),
        Delete("/r/checkpoints/old", 3),
        Delete("/r/lease/j", 9),
        *keep_revision(CONTEXT.layout, JOB, job, NewRevision(why=job.changed.detail), NO_RECORD),
        DOORBELL,
    )
    assert Create in map(type, tx.ops[-2:-1])


def test_what_is_not_there_needs_not_go_when_it_goes_on_from_a_savepoint() -> None:
    tx = user_writes.resume_from(
        CONTEXT, Found(JOB, 7), own(), JOB, PLACE, Move(MOVED.remembered, None, None)
    )
    assert not [op for op in tx.ops if isinstance(op, Delete)]


def test_a_failed_uid_is_registered_again_with_a_savepoint_in_the_same_step() -> None:
    failed = Result(
        name="j",
        uid="u1",
        outcome=Outcome.FAILED,
        state=Cleanliness.DIRTY,
        revision=1,
        spec=SPEC,
        terms=JOB.terms,
        attempt=3,
        claims=2,
        reason="spent",
        at=AT,
        submitted_at=AT,
        op="op0",
    )
    tx = user_writes.register_again(CONTEXT, JOB, own(OwnState.EXITED), Found(failed, 8), PLACE, MOVED)
    assert own_written(tx).remembered == MOVED.remembered
    assert {Delete("/r/results/u1", 8), Delete("/r/checkpoints/old", 3), Delete("/r/lease/j", 9)} <= set(
        tx.ops
    )
    plain = user_writes.register_again(
        CONTEXT, JOB, own(OwnState.EXITED, remembered=MOVED.remembered), Found(failed, 8), PLACE
    )
    assert own_written(plain).remembered == MOVED.remembered


# -- a quarantine that the write ends ------------------------------------------------------------------------------------

QUARANTINED = own(OwnState.EXITED, permanent=True, restart_nonce="n1", revision=1)
KEPT = Found(replace(JOB, quarantined=(1,)), 4)


def moved_by_savepoint(found: Found[Ownership]) -> user_writes.Transaction:
    move = Move(CheckpointExpectation(place="p"), None, None)
    return user_writes.resume_from(CONTEXT, KEPT, found, replace(KEPT.record, revision=2), PLACE, move)


ENDERS: dict[str, Callable[[Found[Ownership]], user_writes.Transaction]] = {
    "resume": lambda found: user_writes.run_again(CONTEXT, KEPT, found, "n2", "resumed"),
    "restart": lambda found: user_writes.run_again(CONTEXT, KEPT, found, "n2", "restarted"),
    "suspend": lambda found: user_writes.suspend(CONTEXT, KEPT, found),
    "move": lambda found: user_writes.move(CONTEXT, KEPT, found, "s2"),
    "update": lambda found: user_writes.update(
        CONTEXT, KEPT, found, AskedRevision(replace(revision_of(JOB), revision=2), "me")
    ),
    "resume_from": moved_by_savepoint,
    "cancel": lambda found: user_writes.cancel(CONTEXT, KEPT, "j", "u1", found),
}


def kept_of(tx: user_writes.Transaction) -> tuple[int, ...]:
    """What is kept of quarantines by the reference, or by the result that takes its place."""
    for op in tx.ops:
        if isinstance(op, SetData) and op.path == LAYOUT.job("j"):
            return decode(JobRef, op.data, op.path).quarantined
    return result_written(tx).quarantined


@pytest.mark.parametrize("ender", ENDERS)
def test_who_ends_a_quarantine_keeps_that_it_was(ender: str) -> None:
    assert kept_of(ENDERS[ender](QUARANTINED)) == (1, 3)


@pytest.mark.parametrize("ender", ENDERS)
@pytest.mark.parametrize(
    "found",
    [
        own(OwnState.EXITED, restart_nonce="n1", revision=1),
        own(OwnState.EXITED, permanent=True, restart_nonce="n0", revision=1),
        own(OwnState.EXITED, permanent=True, restart_nonce="n1", revision=2),
        own(OwnState.EXITED, "u0", permanent=True, restart_nonce="n1", revision=1),
        own(OwnState.VACANT, permanent=True, restart_nonce="n1", revision=1),
    ],
    ids=["not for good", "restarted before", "updated before", "of another submission", "no end"],
)
def test_nobody_keeps_a_quarantine_that_was_none(ender: str, found: Found[Ownership]) -> None:
    assert kept_of(ENDERS[ender](found)) == (1,)


def test_a_suspended_job_is_quarantined_no_more_and_four_quarantines_are_kept() -> None:
    suspended = replace(JOB, desired=Desired.SUSPENDED)
    assert with_quarantined(suspended, QUARANTINED.record) == ()
    assert with_quarantined(replace(JOB, quarantined=(1, 2, 4, 5)), QUARANTINED.record) == (2, 4, 5, 3)
    assert with_quarantined(replace(JOB, quarantined=(1, 3)), QUARANTINED.record) == (1, 3)
    assert with_quarantined(replace(JOB, quarantined=(1,)), None) == (1,)


def test_a_reference_that_is_written_over_an_ownership_that_can_not_be_read_keeps_what_it_has() -> None:
    unreadable = Unreadable("bad", 5, 50)
    assert kept_of(user_writes.suspend(CONTEXT, KEPT, unreadable)) == (1,)
    assert kept_of(user_writes.cancel(CONTEXT, KEPT, "j", "u1", unreadable)) == (1,)
