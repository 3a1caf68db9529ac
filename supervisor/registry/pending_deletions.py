"""Builds the writes about the claim of a checkpoint that is to be deleted (``checkpoint_on_cancel: delete``),
from the end of its uid to the end of the claim.

All builders are pure. ``leader_writes.clean_up`` makes the claim a pending deletion in the multi that
declares the uid clean: no attempt of it lives then. The claim stays, and with it the location is nobody's:
equal, enclosing and inner locations are refused at submit, to the same name as well.
``daemon.leader.remover`` then deletes the objects, and gives the claim up last. So there is no moment at
which somebody can claim what is being deleted, whatever becomes of the leader in between.

A pending deletion can't be taken over, because ``registry.checkpoint_claims`` refuses it. A command of an
older version, which does not know the field ``doom``, refuses it as another job's, because the name in it is
one that no job can have; and the sweep of an older leader searches for that name, finds no such job, and
leaves it alone.

What the commands refuse is not relied upon: ``daemon.leader.remover`` deletes nothing that overlaps another
living claim, or one that it can't read. It judges that from all claims
(``registry.checkpoint_claims.Others``) once the claim is a pending deletion, in the multi that begins,
guarded by the version of /checkpoints that was read before them, and again right before each batch. A claim
that comes in between, which only a command of an older version makes, or a person by hand, moves that
version. The multi fails then, and the next judgement reads only what is new: that takes a few milliseconds,
so that it needs submits by the hundred a second, without a break, to put a deletion off. A batch goes on
after a judgement of its own, whatever else is claimed meanwhile.

A deletion can't hit those that come after, because a leader gives the claim up only when every request that
anybody can have sent is over. Its own requests were each answered, or are waited for as well. Those of an
earlier term (``PendingDeletion.epoch`` is not its own) can't be asked about, so it waits for as long as one
may be under way (``Removal.late_s``), counted from its own first observation.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.checkpoint_expectation import forgotten
from supervisor.model.records import (
    DEAD,
    DETAIL_MAX_BYTES,
    CheckpointClaim,
    CheckpointState,
    Ownership,
    PendingDeletion,
    Result,
    clip,
    with_entry,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, Delete, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.registry.leader_write_context import LeaderWriteContext

EVENTS = {
    CheckpointState.DELETING: "deleting checkpoint",
    CheckpointState.DELETED: "checkpoint deleted",
    CheckpointState.KEPT: "checkpoint kept",
}


def pending_deletion(claim: CheckpointClaim, result: Result, at: str) -> CheckpointClaim:
    """Returns ``claim`` as one that nobody can take."""
    name = f"{claim.name} (its checkpoint is being deleted)"
    return replace(
        claim, name=name, doom=PendingDeletion(name=claim.name, uid=claim.uid, at=at, spec=result.spec)
    )


def reported(result: Result, state: CheckpointState, at: str, detail: str = "") -> Result:
    """Returns ``result`` with what became of the checkpoint, also as an entry of its history."""
    return replace(
        result,
        checkpoint_state=state,
        history=with_entry(result.history, at, EVENTS[state], result.attempt, detail),
    )


def begin_deletion(
    context: LeaderWriteContext,
    path: str,
    claim: Found[CheckpointClaim],
    own: Found[Ownership],
    generation: int,
) -> Transaction:
    """Returns the multi by which this term begins to delete, before its first request. ``path`` is that of
    the claim. ``generation`` is the version of /checkpoints, read before the claims of which none is in the
    way."""
    begun = replace(claim.record, doom=replace(_pending_deletion_of(claim), epoch=context.epoch))
    return context.transaction(
        "begin_deletion",
        Check(context.layout.own(_pending_deletion_of(claim).name), own.version),
        SetData(path, encode(begun), claim.version),
        Check(context.layout.checkpoints, generation),
    )


def publish_waiting(
    context: LeaderWriteContext, claim: Found[CheckpointClaim], path: str, result: Found[Result], why: str
) -> Transaction:
    """Returns the multi by which ``result`` says why nothing is deleted yet; the claim stays as it is."""
    written = reported(result.record, CheckpointState.DELETING, context.at, why)
    return context.transaction(
        "publish_waiting",
        Check(path, claim.version),
        SetData(context.layout.result(result.record.uid), encode(written), result.version),
    )


def is_published(result: Result, why: str) -> bool:
    """Returns whether the newest entry of ``result`` says already why nothing is deleted, as ``publish_waiting`` does."""
    newest = result.history[-1] if result.history else None
    return newest is not None and newest.detail == clip(why, DETAIL_MAX_BYTES)


def give_up_claim(
    context: LeaderWriteContext,
    path: str,
    claim: Found[CheckpointClaim],
    own: Found[Ownership],
    result: Found[Result] | None,
    state: CheckpointState,
    detail: str,
) -> Transaction:
    """Returns the multi that makes the location free again; ``result``, if it is still kept, says what became
    of the checkpoint.

    The next start there does not miss what was deleted: the ownership forgets it, unless an attempt of a
    newer uid may live, whose fence is left alone (a start there asks for ``--accept-fresh-start`` then).
    """
    name = _pending_deletion_of(claim).name
    fence: Op = Check(context.layout.own(name), own.version)
    if state is CheckpointState.DELETED and own.record.state in DEAD:
        fence = context.set_own(
            name, own, replace(own.record, remembered=forgotten(own.record.remembered, claim.record.location))
        )
    ops: list[Op] = [fence, Delete(path, claim.version)]
    if result is not None:
        written = reported(result.record, state, context.at, detail)
        ops.append(SetData(context.layout.result(result.record.uid), encode(written), result.version))
    return context.transaction("give_up_claim", *ops)


def _pending_deletion_of(claim: Found[CheckpointClaim]) -> PendingDeletion:
    if claim.record.doom is None:
        raise ValueError("only the claim of a pending deletion is written here")
    return claim.record.doom
