"""Whatever a command accepts: each later write of that job fits into its reference, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.errors import Conflict
from supervisor.model.actions import (
    FinishUpdate,
    GiveUpdateUp,
    KeepSavepoint,
    RollBack,
    RollBackToSavepoint,
    SuspendExhausted,
)
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    BlobRef,
    Cause,
    Desired,
    Fork,
    HistoryEntry,
    JobRef,
    Ownership,
    OwnState,
    Promotion,
    RollbackRule,
    SpecRevision,
    UpdatePolicy,
)
from supervisor.model.seen import Found
from supervisor.model.state import revision_before
from supervisor.model.transaction import Create, SetData, Transaction
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import UpdateRestored
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.records.layout import Layout
from supervisor.registry import leader_writes, promotion_writes, update_savepoint_writes, user_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.reference_room import fits_later, largest_later
from supervisor.registry.user_writes import AskedRevision, UserWriteContext
from supervisor.savepoints.target import fresh_location
from tests.unit.plan.rows import job, own

LAYOUT = Layout("/spark-supervisor/prod")
BY, ID, AT = "b" * 80, "e" * 32, "2026-11-28T08:01:00.123Z"
USER = UserWriteContext(LAYOUT, ID, AT, BY)
LEADER = LeaderWriteContext(LAYOUT, 4, 11, ID, AT, BY)
WHY = '"' * 2000
UID = "clicks-enrichment-0c1d2e3f4a5b"
Write = Callable[[Found[JobRef]], Transaction]


def blob(number: int) -> BlobRef:
    return BlobRef(key=f"specs/clicks/{UID}/{number}-{'a' * 64}.json", sha256="a" * 64, bytes=1234)


def reference(place: str, labels: int, **changes: object) -> JobRef:
    pairs = tuple(f"team{number}=payments" for number in range(labels))
    ref = job("clicks", UID, checkpoint=place, labels=pairs).record
    changed = HistoryEntry(at=AT, event="submitted", by=BY)
    return replace(
        ref, spec=blob(1), restart_nonce=ID, op=ID, submitted_at=AT, submitted_by=BY, changed=changed
    )


def held(ref: JobRef, state: OwnState) -> Found[Ownership]:
    owned = own(state, uid=UID, revision=ref.revision, cause=Cause.USER_ERROR, permanent=True, attempt=123456)
    return Found(replace(owned.record, restart_nonce=ref.restart_nonce), 7, 70)


def asked(ref: JobRef, rule: RollbackRule) -> AskedRevision:
    number = ref.next_revision
    place = ref.declared or ref.terms.checkpoint
    terms = replace(ref.terms, checkpoint=place if not ref.declared else ref.terms.checkpoint)
    revision = SpecRevision(revision=number, spec=blob(number), terms=terms)
    return AskedRevision(revision, BY, policy=UpdatePolicy(rollback=rule))


def copied(found: Found[JobRef]) -> UpdateRestored:
    ref = found.record
    assert ref.update is not None and ref.terms.checkpoint is not None
    place = fresh_location(ref.terms.checkpoint, ref.update.savepoint, UID, ref.revision, 4)
    before = revision_before(ref, ref.update)
    number = ref.next_revision
    revision = SpecRevision(revision=number, spec=blob(number), terms=replace(before.terms, checkpoint=place))
    claimed = ClaimedLocation("/c/checkpoints/x", "s3://bucket/x", None, 3)
    return UpdateRestored(revision=revision, moved_sha256="0" * 16, claimed=claimed, lease=None, left=None)


def later(rnd: random.Random, found: Found[JobRef]) -> list[Write]:
    """The writes that are to have room, of a leader and of commands that nobody is to be refused."""
    ref = found.record
    ended, runs = held(ref, OwnState.EXITED), held(ref, OwnState.CLAIMED)
    writes: list[Write] = [
        lambda f: user_writes.suspend(USER, f, ended, why=WHY),
        lambda f: user_writes.run_again(USER, f, ended, ID, "restarted", cold=True, fresh_start=True),
        lambda f: user_writes.run_again(USER, f, ended, ID, "resumed"),
        lambda f: leader_writes.suspend_exhausted(LEADER, SuspendExhausted("j", WHY, f, ended)),
    ]
    if ref.move is not None:
        writes.append(lambda f: user_writes.move(USER, f, runs, None))
    if ref.promotion is not None:
        promoted = replace(ref.promotion, done=True, at=AT)
        writes.append(lambda f: promotion_writes.set_promotion(USER, f, runs, promoted))
    update = ref.update
    if update is not None and not (update.rolled_back or update.given_up) and ref.revision == update.target:
        savepoint = savepoint_id(UID, update.target, 7, 3)
        writes += [
            lambda f: leader_writes.give_update_up(LEADER, GiveUpdateUp("j", WHY, f, runs)),
            lambda f: leader_writes.roll_update_back(LEADER, RollBack("j", WHY, f, ended)),
            lambda f: leader_writes.finish_update(LEADER, FinishUpdate("j", "w", f, runs)),
        ]
        assert update.policy is not None
        if update.policy.rollback is RollbackRule.SAVEPOINT:
            writes.append(
                lambda f: update_savepoint_writes.keep_savepoint(
                    LEADER, KeepSavepoint("j", "w", f, runs, savepoint)
                )
            )
            if update.savepoint:
                writes.append(
                    lambda f: update_savepoint_writes.roll_back_to_savepoint(
                        LEADER, RollBackToSavepoint("j", WHY, f, ended, copied(f))
                    )
                )
    return writes


def accepted(rnd: random.Random, found: Found[JobRef]) -> list[Write]:
    """The commands that add to a reference: each is accepted, or refused as a whole."""
    ref = found.record
    runs = held(ref, rnd.choice([OwnState.CLAIMED, OwnState.EXITED]))
    promotion = Promotion(over="c" * 63, uid="u" * 64, by=BY, at=AT, offsets=f"artifacts/clicks/{UID}/o.json")
    return [
        lambda f: user_writes.update(USER, f, runs, asked(ref, rnd.choice(list(RollbackRule)))),
        lambda f: user_writes.move(USER, f, runs, "h" * rnd.choice([8, 127])),
        lambda f: promotion_writes.set_promotion(USER, f, runs, promotion),
    ]


def written(tx: Transaction, found: Found[JobRef]) -> Found[JobRef]:
    path = LAYOUT.job(found.record.name)
    data = next(op.data for op in tx.ops if isinstance(op, SetData | Create) and op.path == path)
    assert len(data) <= MAX_RECORD_BYTES
    return Found(decode(JobRef, data, path), found.version + 1)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_a_command_accepts_each_later_write_fits(seed: int) -> None:
    rnd = random.Random(seed)
    place = "s3a://lake/" + "x" * rnd.choice([10, 200, 400, 500, 600, 800, 950])
    ref = reference(place, rnd.choice([0, 4, 8, 16]))
    if not fits_later(ref):
        return  # it is not submitted
    found = Found(ref, 3)
    for _ in range(12):
        try:
            if rnd.random() < 0.4:
                found = written(rnd.choice(accepted(rnd, found))(found), found)
        except Conflict:
            continue  # nothing of it was done
        for each in later(rnd, found):
            each(found)
        found = written(rnd.choice(later(rnd, found))(found), found)


def test_what_would_leave_no_room_is_refused_and_says_what_helps() -> None:
    found = Found(reference("s3a://lake/" + "x" * 900, 8), 3)
    with pytest.raises(Conflict, match="would have no room") as caught:
        user_writes.update(
            USER, found, held(found.record, OwnState.CLAIMED), asked(found.record, RollbackRule.SAVEPOINT)
        )
    assert "shorten its checkpoint" in str(caught.value)


def test_what_leaves_no_less_room_than_there_was_is_not_refused() -> None:
    """A reference that an older version has accepted: its move is withdrawn, its promotion given up."""
    ref = reference("s3a://lake/" + "x" * 990, 16)
    tight = replace(ref, fork=Fork(of="c" * 63, uid="u" * 64, savepoint="s" * 1000), left_by="x" * 63)
    asked_for = Promotion(over="c" * 63, uid="u" * 64, by=BY, at=AT)
    tight = replace(tight, promotion=asked_for)
    assert not fits_later(tight)
    promotion_writes.set_promotion(USER, Found(tight, 3), held(tight, OwnState.CLAIMED), None)


def test_the_largest_is_larger_than_the_reference_in_each_way() -> None:
    ref = reference("s3a://lake/x", 0)
    runs = held(ref, OwnState.CLAIMED)
    ref = user_writes.with_update(USER, ref, runs, asked(ref, RollbackRule.SAVEPOINT))
    largest = largest_later(ref)
    assert len(encode(largest)) > len(encode(ref))
    assert largest.desired is Desired.SUSPENDED and largest.declared == ref.terms.checkpoint
