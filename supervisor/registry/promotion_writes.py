"""Builds the multis by which one job takes the place of another (blue/green, protocol §9.4), and the one that lets a
fork start.

All builders are pure (protocol §5); ``operations.promoting`` reads, builds with these, commits and resolves the
outcome. A promotion writes two jobs in one multi, so that there is no moment at which neither is to run: the one that
goes is suspended as by ``user_writes.suspend``, and of the one that stays both records are guarded at the versions
that were read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from supervisor.model.records import (
    Desired,
    HistoryEntry,
    JobRef,
    Ownership,
    OwnState,
    Promotion,
    with_complete_copy,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.registry.attempt_writes import ring_doorbell
from supervisor.registry.reference_room import encode_with_room
from supervisor.registry.user_writes import SUSPENDED, UserWriteContext, run_again, suspend

_PROMOTED: Final = " was promoted over it"
_ITS_PROMOTION: Final = "its promotion over "
_UNDONE: Final = " was undone"


def finish_fork(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    begins_with: tuple[str, ...],
    *,
    suspended: bool,
) -> Transaction:
    """Returns the multi after which a fork may start, as its checkpoint is copied; ``begins_with`` is what its first
    start has to find there. If ``suspended``, or if somebody has suspended it meanwhile, it is left to ``resume``.

    The reference is set at the version read, which is one that says that the copy is under way. /own is checked, since
    that version begins anew when the name is submitted again: a cancel of the fork, and another submission, move /own.
    """
    job = ref.record
    assert job.fork is not None
    changed = replace(
        job,
        desired=Desired.SUSPENDED if suspended or was_suspended(job) else Desired.RUNNING,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at,
            event="forked",
            detail=f"from {job.fork.of}, savepoint {job.fork.savepoint}",
            by=context.by,
        ),
        fresh_start=context.op_id,
        begins_with=begins_with,
        fork=with_complete_copy(job.fork),
    )
    return Transaction(
        "finish_fork",
        context.op_id,
        (
            SetData(context.layout.job(job.name), encode_with_room(changed, job), ref.version),
            Check(context.layout.own(job.name), own.version),
            ring_doorbell(context.layout, job.name),
        ),
    )


def was_suspended(job: JobRef) -> bool:
    """Says whether somebody has suspended a fork whose checkpoint is being copied. It is registered suspended, so that
    alone says nothing: it is the newest thing that anybody has said of it."""
    return job.changed.event == SUSPENDED


def set_promotion(
    context: UserWriteContext, ref: Found[JobRef], own: Found[Ownership], promotion: Promotion | None
) -> Transaction:
    """Returns the multi that stores the intent of a promotion in the job that is to be promoted, or if it is None,
    withdraws it. Nothing is started or stopped by it. /own is checked as for ``finish_fork``."""
    job = ref.record
    changed = replace(job, op=context.op_id, promotion=promotion)
    return Transaction(
        "set_promotion",
        context.op_id,
        (
            SetData(context.layout.job(job.name), encode_with_room(changed, job), ref.version),
            Check(context.layout.own(job.name), own.version),
            ring_doorbell(context.layout, job.name),
        ),
    )


def promote(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    over: Found[JobRef],
    over_own: Found[Ownership],
    *,
    entry_exists: bool = True,
) -> Transaction:
    """Returns the multi that suspends the job ``over``, because the job ``ref`` has taken its place.

    ``ref`` wants to run, and its /own is claimed: the caller has seen it, and both are guarded at the versions read.
    So a suspend or a cancel of it, or an exit of its driver, that came first makes this fail, and ``over`` runs on.
    ``over`` is suspended like by any user: its fence moves, and its shim obeys without a supervisor. ``entry_exists``
    is as for ``user_writes.cancel``.
    """
    job, layout = ref.record, context.layout
    if own.record.state is not OwnState.CLAIMED or own.record.uid != job.uid or job.promotion is None:
        raise ValueError("only a job that runs is promoted, and with an intent")
    stopped = suspend(context, over, over_own, entry_exists=entry_exists, why=f"{job.name}{_PROMOTED}")
    changed = replace(job, op=context.op_id, promotion=replace(job.promotion, done=True, at=context.at))
    return Transaction(
        "promote",
        context.op_id,
        (
            *stopped.ops,
            SetData(layout.job(job.name), encode(changed), ref.version),
            Check(layout.own(job.name), own.version),
            ring_doorbell(layout, job.name),
        ),
    )


def undo_promotion(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    over: Found[JobRef],
    over_own: Found[Ownership],
    nonce: str,
    *,
    entry_exists: bool = True,
) -> Transaction:
    """Returns the multi that undoes a promotion: ``over`` runs again, as by a resume, and ``ref`` is suspended. If
    ``over`` runs already, it is only checked to.

    All four records are guarded at the versions read: whatever a user has asked of either of them meanwhile makes
    this fail.
    """
    job, layout = ref.record, context.layout
    stopped = suspend(
        context,
        Found(replace(job, promotion=None), ref.version),
        own,
        entry_exists=entry_exists,
        why=undone_detail(over.record.name),
    )
    if over.record.desired is Desired.RUNNING:
        again = (
            Check(layout.job(over.record.name), over.version),
            Check(layout.own(over.record.name), over_own.version),
        )
        return Transaction("undo_promotion", context.op_id, (*stopped.ops, *again))
    resumed = run_again(context, over, over_own, nonce, "resumed")
    return Transaction("undo_promotion", context.op_id, (*stopped.ops, *resumed.ops))


def undone_detail(over: str) -> str:
    """Returns what is written beside the change of a job whose promotion over ``over`` is undone."""
    return f"{_ITS_PROMOTION}{over}{_UNDONE}"


def ran_instead(job: JobRef) -> str:
    """Returns the job that has run in the place of ``job`` since a promotion, or its undoing, suspended it; or nothing."""
    detail = job.changed.detail
    if job.changed.event != SUSPENDED:
        return ""
    if detail.startswith(_ITS_PROMOTION) and detail.endswith(_UNDONE):
        return detail.removeprefix(_ITS_PROMOTION).removesuffix(_UNDONE)
    return detail.removesuffix(_PROMOTED) if detail.endswith(_PROMOTED) else ""
