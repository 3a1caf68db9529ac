"""Builds the two multis of the leader about the savepoint of an update (``update.rollback: savepoint``, protocol §9.2), and
reads what the second one rests on.

``keep_savepoint`` writes the id of the savepoint into the reference, while the attempt of the revision before is claimed.
``roll_back_to_savepoint`` makes a copy of it the checkpoint of the job, and the spec of before its spec. It has the guards
of ``user_writes.resume_from``, and those of every write of a leader.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.errors import Conflict
from supervisor.model.actions import KeepSavepoint, RollBackToSavepoint
from supervisor.model.checkpoint_expectation import CheckpointExpectation, moved_to
from supervisor.model.records import (
    DETAIL_MAX_BYTES,
    GIVEN_UP_MAX_BYTES,
    HistoryEntry,
    JobRef,
    Lease,
    Ownership,
    clip,
    with_complete_copy,
)
from supervisor.model.root_cause import cause_text
from supervisor.model.seen import Found, Seen
from supervisor.model.state import with_rolled_back
from supervisor.model.transaction import Check, SetData, Transaction
from supervisor.model.view import UpdateRestored
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.registry import location_ops
from supervisor.registry.attempt_writes import ring_doorbell
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.registry.leader_write_context import LeaderWriteContext


def keep_savepoint(context: LeaderWriteContext, action: KeepSavepoint) -> Transaction:
    """Returns the multi that writes down the savepoint from which the update can be undone; with an empty ``savepoint`` it
    drops the one that was kept, since the hand-over for which it was made has not come.

    It is for an attempt of the revision before that is claimed, at the version of /own by which the savepoint is named: so
    nothing is in it that another attempt has committed. Nothing stops or starts by it.
    """
    ref, own = action.ref, action.own
    job, layout = ref.record, context.layout
    assert job.update is not None
    changed = replace(job, op=context.op_id, update=replace(job.update, savepoint=action.savepoint))
    return context.transaction(
        "keep_savepoint",
        SetData(layout.job(job.name), encode(changed), ref.version),
        Check(layout.own(job.name), own.version),
        ring_doorbell(layout, job.name),
    )


def read_for_move(zoo: ZkSession, layout: Layout, job: JobRef, location: str) -> UpdateRestored:
    """Returns what a move of the checkpoint of ``job`` to ``location`` rests on, as it is now; the revision is not in it.
    Raises Conflict if somebody has claimed a place that overlaps ``location``, and Unreachable."""
    claims = CheckpointClaims.load(zoo, layout)
    claimed = claims.reserve(job.name, location)
    left = claims.held(job.terms.checkpoint, job.uid)
    if left is not None and left[0] == claimed.path:
        raise Conflict(f"{job.name} has its checkpoint at {claimed.location} already")
    path = layout.lease(job.name)
    lease: Seen[Lease] = seen(Lease, zoo.read(path), path)
    return UpdateRestored(lease=lease, claimed=claimed, left=left)


def roll_back_to_savepoint(context: LeaderWriteContext, action: RollBackToSavepoint) -> Transaction:
    """Returns the multi that makes the revision before an update the newest one again, with a copy of the savepoint as its
    checkpoint (protocol §9.2).

    It is for a job whose attempt of the target has ended: nobody writes to the old checkpoint, and no wait rests on the
    lease, which goes; what it remembered stays in /own, beside what the next start has to find in the copy. So /own is set
    at its version, and not only checked. The copy is complete, and the spec is stored. The old checkpoint is given up as it
    is. The roll back is not judged: an update is rolled back once.
    """
    ref, own, restored, why = action.ref, action.own, action.restored, action.why
    job, layout, revision, claimed = ref.record, context.layout, restored.revision, restored.claimed
    assert job.update is not None and revision is not None and claimed is not None
    before, declared = job.update.before, job.declared or job.terms.checkpoint or ""
    detail = f"revision {revision.revision} is {before.revision} again, from savepoint {job.update.savepoint}: {why}"
    back = f"back to savepoint {job.update.savepoint}: {why}"
    changed = replace(
        job,
        revision=revision.revision,
        spec=revision.spec,
        terms=revision.terms,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at, event="rolled back", detail=clip(detail, DETAIL_MAX_BYTES), by=context.by
        ),
        last_revision=revision.revision,
        update=replace(
            job.update,
            rolled_back=cause_text(back, GIVEN_UP_MAX_BYTES),
            moved_sha256=restored.moved_sha256,
        ),
        rolled_back=with_rolled_back(job, job.update),
        fresh_start="",
        begins_with=(),
        left_by="",
        fork=with_complete_copy(job.fork),
        declared=declared,
    )
    return context.transaction(
        "roll_back_to_savepoint",
        SetData(layout.job(job.name), encode(changed), ref.version),
        context.set_own(job.name, own, replace(own.record, remembered=_remembered(own, restored))),
        *location_ops.take(layout, context.op_id, job, claimed),
        *location_ops.leave(layout, job.name, restored.lease, restored.left),
        ring_doorbell(layout, job.name),
    )


def _remembered(own: Found[Ownership], restored: UpdateRestored) -> CheckpointExpectation:
    """Returns what the next start has to find in the copy, and what was known of other places."""
    assert restored.revision is not None
    newest = restored.lease.record.remembered if isinstance(restored.lease, Found) else None
    place = restored.revision.terms.checkpoint or ""
    return moved_to(place, restored.queries, newest, own.record.remembered)
