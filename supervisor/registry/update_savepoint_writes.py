"""Builds the two multis of the leader about the savepoint of an update (``update.rollback: savepoint``, protocol §9.2). What
the second one rests on is read by ``registry.checkpoint_move``.

``keep_savepoint`` writes the id of the savepoint into the reference, while the attempt of the revision before is claimed.
``roll_back_to_savepoint`` makes a copy of it the checkpoint of the job, and the spec of before its spec. It has the guards
of ``user_writes.resume_from``, and those of every write of a leader.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.checkpoint_expectation import CheckpointExpectation, moved_to
from supervisor.model.records import (
    DETAIL_MAX_BYTES,
    PREPARED_WHY_MAX_BYTES,
    CheckpointClaim,
    HistoryEntry,
    JobRef,
    Ownership,
    clip,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, Create, Delete, Op, SetData, Transaction
from supervisor.model.view import UpdateRestored
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry.attempt_writes import ring_doorbell
from supervisor.registry.leader_write_context import LeaderWriteContext


def keep_savepoint(
    context: LeaderWriteContext, ref: Found[JobRef], own: Found[Ownership], savepoint: str
) -> Transaction:
    """Returns the multi that writes down the savepoint from which the update can be undone.

    It is for an attempt of the revision before that is claimed, at the version of /own by which the savepoint is named: so
    nothing is in it that another attempt has committed. Nothing stops or starts by it.
    """
    job, layout = ref.record, context.layout
    assert job.update is not None
    changed = replace(job, op=context.op_id, update=replace(job.update, savepoint=savepoint))
    return context.transaction(
        "keep_savepoint",
        SetData(layout.job(job.name), encode(changed), ref.version),
        Check(layout.own(job.name), own.version),
        ring_doorbell(layout, job.name),
    )


def roll_back_to_savepoint(
    context: LeaderWriteContext, ref: Found[JobRef], own: Found[Ownership], restored: UpdateRestored, why: str
) -> Transaction:
    """Returns the multi that makes the revision before an update the newest one again, with a copy of the savepoint as its
    checkpoint (protocol §9.2).

    It is for a job whose attempt of the target has ended: nobody writes to the old checkpoint, and no wait rests on the
    lease, which goes; what it remembered stays in /own, beside what the next start has to find in the copy. So /own is set
    at its version, and not only checked. The copy is complete, and the spec is stored. The old checkpoint is given up as it
    is. The roll back is not judged: an update is rolled back once.
    """
    job, layout, revision = ref.record, context.layout, restored.revision
    assert job.update is not None and revision is not None
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
            rolled_back=clip(back, PREPARED_WHY_MAX_BYTES * 2),
            moved_sha256=restored.moved_sha256,
        ),
        fresh_start="",
        begins_with=(),
        left_by="",
        fork=None,
        declared=declared,
    )
    return context.transaction(
        "roll_back_to_savepoint",
        SetData(layout.job(job.name), encode(changed), ref.version),
        context.set_own(job.name, own, replace(own.record, remembered=_remembered(own, restored))),
        *_take(context, job, restored),
        *_leave(layout, job.name, restored),
        ring_doorbell(layout, job.name),
    )


def _remembered(own: Found[Ownership], restored: UpdateRestored) -> CheckpointExpectation:
    """Returns what the next start has to find in the copy, and what was known of other places."""
    assert restored.revision is not None
    newest = restored.lease.record.remembered if isinstance(restored.lease, Found) else None
    place = restored.revision.terms.checkpoint or ""
    return moved_to(place, restored.queries, newest, own.record.remembered)


def _take(context: LeaderWriteContext, job: JobRef, restored: UpdateRestored) -> tuple[Op, ...]:
    """Returns the ops that claim the place of the copy. /checkpoints is set at the version read before all claims were
    searched, so that of two claims that overlap one fails."""
    kept = restored.claim.record.extra if isinstance(restored.claim, Found) else {}
    data = encode(CheckpointClaim(location=restored.location, name=job.name, uid=job.uid, extra=kept))
    take: Op = (
        Create(restored.claim_path, data)
        if restored.claim is None
        else SetData(restored.claim_path, data, restored.claim.version)
    )
    return (take, SetData(context.layout.checkpoints, context.op_id.encode(), restored.generation))


def _leave(layout: Layout, name: str, restored: UpdateRestored) -> tuple[Op, ...]:
    """Returns the ops that delete the claim of the old checkpoint, and the lease that described it."""
    left, lease = restored.left, restored.lease
    claim = (Delete(left[0], left[1].version),) if left is not None else ()
    return (*claim, *((Delete(layout.lease(name), lease.version),) if lease is not None else ()))
