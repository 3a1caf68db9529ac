"""Builds the multis of the command line: submit, cancel, suspend, resume, restart, register again, resume
from a savepoint.

All builders are pure (protocol §5). ``operations.jobs`` reads, builds with these, commits and resolves the
outcome. The writes need no leader: shims watch their /own record and obey. Submit, cancel and suspend always
move /own/<name>, whatever uid it carries, so that no write that was planned before can commit after them;
resume and restart only check it, because the leader will do what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    BY_MAX_BYTES,
    SUSPENDED_WHY_MAX_BYTES,
    CheckpointClaim,
    Cleanliness,
    Desired,
    HistoryEntry,
    JobRef,
    Lease,
    MoveRequest,
    Outcome,
    Ownership,
    OwnState,
    Result,
    SpecRevision,
    Update,
    UpdatePolicy,
    clip,
    with_entry,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import (
    has_begun,
    observed_update,
    revision_of,
    standing_update,
    with_quarantined,
)
from supervisor.model.submission_records import result_of
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry import location_ops
from supervisor.registry.attempt_writes import ring_doorbell
from supervisor.registry.older_history import encode_result
from supervisor.registry.reference_room import encode_with_room
from supervisor.registry.revisions import NO_RECORD, NewRevision, SeenRevisions, keep_revision

SUSPENDED: Final = "suspended"
"""The event of a job that somebody has suspended."""

UPDATE_WITHDRAWN: Final = "update withdrawn"
"""It is the event of a change that withdraws an update."""


@dataclass(frozen=True, slots=True)
class UserWriteContext:
    """Says from where a command writes: it holds the layout and the stamp of this one write. ``by`` is who gives the
    command."""

    layout: Layout
    op_id: str
    at: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Says that a dead job's checkpoint is another one from now on. ``remembered`` is what a start has to
    find there. ``lease`` is the lease of the name, which described the old one. ``left`` has the path and
    record of the claim that goes, or is None if there is none."""

    remembered: CheckpointExpectation
    lease: Seen[Lease]
    left: tuple[str, Found[CheckpointClaim]] | None


def submit(
    context: UserWriteContext,
    job: JobRef,
    own: Seen[Ownership],
    claimed: ClaimedLocation | None,
    last: Seen[Lease] = None,
) -> Transaction:
    """Returns the multi that registers a new uid. Its blob and artifacts must be in the store already.

    It fails on /jobs/<name> if the name is live. Creating and deleting /results/<uid> makes a retry fail that
    comes after somebody's cancel of this very uid. ``last`` is the lease of the name, read after an ownership
    that is not there: that attempt may be alive, and is waited out.
    """
    layout, name = context.layout, job.name
    job = replace(job, op=context.op_id)
    if own is None:
        first = Ownership(state=OwnState.VACANT, op=context.op_id, newest_uid=job.uid)
        if last is not None:  # removed by hand
            uid = last.record.uid if isinstance(last, Found) else ""
            first = replace(_recovered(context, uid, "its ownership was gone", last), newest_uid=job.uid)
        fence: Op = Create(layout.own(name), encode(first))
    else:
        kept = replace(_readable(own).record, op=context.op_id, newest_uid=job.uid)
        fence = SetData(layout.own(name), encode(kept), own.version)
    return Transaction(
        "submit",
        context.op_id,
        (
            Create(layout.job(name), encode_with_room(job)),
            fence,
            Create(layout.result(job.uid), b""),
            Delete(layout.result(job.uid), 0),
            *_claim_location(context, job, claimed),
            ring_doorbell(layout, name),
        ),
    )


def register_again(
    context: UserWriteContext,
    job: JobRef,
    own: Found[Ownership],
    result: Found[Result],
    claimed: ClaimedLocation | None,
    move: Move | None = None,
    revisions: SeenRevisions = NO_RECORD,
    by: str = "",
) -> Transaction:
    """Returns the multi for a resume or restart of a failed uid: the same uid, the next attempt number, no
    failures, a fresh budget.

    With ``move`` its checkpoint is at ``claimed`` from now on, as in ``resume_from``. If ``job`` is another revision than
    has failed, that is written down in ``revisions``, with who asked for it.
    """
    layout, name = context.layout, job.name
    made, is_new = NewRevision(by, job.changed.detail), job.revision != result.record.revision
    kept = replace(
        own.record,
        op=context.op_id,
        failures=0,
        charged=0,
        recent_s=(),
        permanent=False,
        remembered=move.remembered if move is not None else own.record.remembered,
        history=with_entry(
            own.record.history, context.at, "registered again", own.record.attempt, by=context.by
        ),
    )
    return Transaction(
        "register_again",
        context.op_id,
        (
            Create(layout.job(name), encode_with_room(replace(job, op=context.op_id))),
            Delete(layout.result(job.uid), result.version),
            SetData(layout.own(name), encode(kept), own.version),
            *_claim_location(context, job, claimed),
            *_leave(context, name, move),
            *(keep_revision(layout, result.record, job, made, revisions) if is_new else ()),
            ring_doorbell(layout, name),
        ),
    )


def cancel(
    context: UserWriteContext,
    ref: Seen[JobRef],
    name: str,
    uid: str,
    own: Seen[Ownership],
    last: Seen[Lease] = None,
    *,
    entry_exists: bool = True,
    ended: Unreadable | None = None,
) -> Transaction:
    """Returns the multi by which the reference goes, a dirty result comes and the fence moves: after it no
    claim for the uid ever commits (I2).

    If ``ref`` is None, only the ownership is there, unreadable; the multi makes it one that the leader can
    wait out and clean. ``last`` is the lease of the name, read after an ownership that is missing or
    unreadable. If ``entry_exists`` is False, the entry of an assigned attempt is not there (removed by hand),
    as read after the ownership. If ``ended`` is given, the uid has a result already, which is unreadable; it
    is written anew, and can be cleaned then.
    """
    layout = context.layout
    job = ref.record if isinstance(ref, Found) else None
    old = own.record if isinstance(own, Found) and own.record.uid == uid else None
    attempt = old.attempt if old else 0
    of_the_end: dict[str, Any] = {
        "outcome": Outcome.CANCELLED,
        "state": Cleanliness.DIRTY,
        "attempt": attempt,
        "claims": old.claims if old else 0,
        "reason": "cancelled by the user",
        "at": context.at,
        "op": context.op_id,
        "failures": old.failures if old else 0,
        "history": with_entry(old.history if old else (), context.at, "cancelled", attempt, by=context.by),
        "earlier": old.earlier if old else "",
    }
    if job is not None:
        written = result_of(job, **of_the_end, quarantined=with_quarantined(job, old))
    else:
        written = Result(name=name, uid=uid, revision=0, spec=None, terms=None, submitted_at="", **of_the_end)
    path, data = layout.result(uid), encode_result(written)
    return Transaction(
        "cancel",
        context.op_id,
        (
            *(() if ref is None else (Delete(layout.job(name), ref.version),)),
            Create(path, data) if ended is None else SetData(path, data, ended.version),
            *_stop(context, name, uid, own, "cancelled", last, entry_exists=entry_exists),
            ring_doorbell(layout, name),
        ),
    )


def cancel_failed(context: UserWriteContext, result: Found[Result], own: Seen[Ownership]) -> Transaction:
    """Returns the multi by which a failed uid becomes a cancelled one: a restart of it that is under way
    loses, and it can never come back."""
    record = result.record
    changed = replace(
        record,
        outcome=Outcome.CANCELLED,
        state=Cleanliness.DIRTY,
        reason="cancelled by the user",
        at=context.at,
        op=context.op_id,
        history=with_entry(record.history, context.at, "cancelled", record.attempt, by=context.by),
    )
    return Transaction(
        "cancel_failed",
        context.op_id,
        (
            SetData(context.layout.result(record.uid), encode(changed), result.version),
            *_stop(context, record.name, record.uid, own, "cancelled"),
            ring_doorbell(context.layout, record.name),
        ),
    )


def suspend(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Seen[Ownership],
    last: Seen[Lease] = None,
    *,
    entry_exists: bool = True,
    why: str = "",
) -> Transaction:
    """Returns the multi that stops a job but keeps it, ``why`` for people. The fence moves as for a cancel, so that the
    shim obeys without any supervisor. The rest is as for ``cancel``."""
    job = ref.record
    changed = replace(
        job,
        desired=Desired.SUSPENDED,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at, event=SUSPENDED, detail=clip(why, SUSPENDED_WHY_MAX_BYTES), by=context.by
        ),
        move=None,
        quarantined=with_quarantined(job, own.record if isinstance(own, Found) else None),
    )
    return Transaction(
        "suspend",
        context.op_id,
        (
            SetData(context.layout.job(job.name), encode(changed), ref.version),
            *_stop(context, job.name, job.uid, own, "suspended", last, entry_exists=entry_exists),
            ring_doorbell(context.layout, job.name),
        ),
    )


WHAT_OF: Final = {"resumed": "resume", "restarted": "restart"}


def run_again(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    nonce: str,
    event: str,
    *,
    fresh_start: bool = False,
    cold: bool = False,
) -> Transaction:
    """Returns the multi of a resume or restart, by which of the two history tells as ``event``: it sets the desired state to
    running and a new nonce, which also clears failures, budget and quarantine.

    With ``fresh_start`` the next start may find another checkpoint than the job left; with ``cold`` it uses no
    prepared driver. The leader drains a running attempt because of the nonce, so nothing stops that nobody can
    start again.
    """
    job = ref.record
    changed = replace(
        job,
        desired=Desired.RUNNING,
        restart_nonce=nonce,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at,
            event=event,
            detail="a fresh start is accepted" if fresh_start else "",
            by=context.by,
        ),
        fresh_start=context.op_id if fresh_start else job.fresh_start,
        begins_with=() if fresh_start else job.begins_with,
        cold_restart=nonce if cold else "",
        move=None,
        quarantined=with_quarantined(job, own.record),
    )
    return Transaction(
        WHAT_OF[event],
        context.op_id,
        (
            SetData(context.layout.job(job.name), encode(changed), ref.version),
            Check(context.layout.own(job.name), own.version),
            ring_doorbell(context.layout, job.name),
        ),
    )


def move(context: UserWriteContext, ref: Found[JobRef], own: Found[Ownership], to: str | None) -> Transaction:
    """Returns the multi that asks that the next attempt of a job is placed on the host ``to``; None withdraws that.

    It is a restart with a place: it sets a new restart nonce, which the assignment that follows takes over, so it is obeyed
    once. Nothing stops because of it: the leader, who finds no room there, leaves the job where it is. A withdrawal puts the
    nonce of before back; /own is checked at the version that was read, so what runs then is what is wanted.
    """
    job, name = ref.record, ref.record.name
    standing = job.move_in_force
    if to is None:
        assert standing is not None
        nonce, request, event = standing.before, None, "move withdrawn"
    else:
        nonce, event, before = context.op_id, "to be moved", job.restart_nonce
        if standing is not None and own.record.restart_nonce != standing.nonce:
            before = standing.before  # it replaces a request that no assignment has obeyed yet
        request = MoveRequest(to=to, nonce=nonce, before=before)
    detail = f"to {to}" if to is not None else ""
    changed = replace(
        job,
        restart_nonce=nonce,
        move=request,
        op=context.op_id,
        changed=HistoryEntry(at=context.at, event=event, detail=detail, by=context.by),
        quarantined=with_quarantined(job, own.record),
    )
    return Transaction(
        "move",
        context.op_id,
        (
            SetData(context.layout.job(name), encode_with_room(changed, ref.record), ref.version),
            Check(context.layout.own(name), own.version),
            ring_doorbell(context.layout, name),
        ),
    )


@dataclass(frozen=True, slots=True)
class AskedRevision:
    """Holds the revision that a job shall have, whose spec is stored, who asks for it (for people), and whether it is a
    roll back. ``policy`` says how it is carried out and judged; if it is None, it is not judged after its begin."""

    target: SpecRevision
    by: str
    rolls_back: bool = False
    policy: UpdatePolicy | None = None


def update(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    asked: AskedRevision,
    revisions: SeenRevisions = NO_RECORD,
) -> Transaction:
    """Returns the multi that makes ``asked.target`` the spec of a job (protocol §9.2), whose files are stored already.

    Nothing stops because of it. The leader, who sees that another revision runs than is wanted, has a driver of the new
    one prepared first. If that is what runs, the update that is under way is withdrawn: the caller has seen that it
    can be, and /own is checked at the version that it has read.
    """
    layout, name = context.layout, ref.record.name
    changed = with_update(context, ref.record, own, asked)
    made = NewRevision(asked.by, changed.changed.detail if asked.rolls_back else "")
    return Transaction(
        "update",
        context.op_id,
        (
            SetData(layout.job(name), encode_with_room(changed, ref.record), ref.version),
            Check(layout.own(name), own.version),
            *keep_revision(layout, ref.record, changed, made, revisions),
            ring_doorbell(layout, name),
        ),
    )


def with_update(
    context: UserWriteContext, job: JobRef, own: Found[Ownership], asked: AskedRevision
) -> JobRef:
    """Returns ``job`` with ``asked.target`` as its revision.

    What runs now is kept, so that the leader can put it back, and a user can roll back to it. An update of which nothing
    has begun is replaced: what ran before it is kept; so is one that has begun, but whose target does not run and was not
    observed for long enough. An attempt that is only assigned, that stops or that was given up does not run: what it is
    when it has ended, a moment later, must make no difference.

    A replaced update hands its savepoint over, unless the attempt of which it was made still runs: then another is made.
    """
    standing, target = standing_update(job), asked.target
    runs = own.record.state is OwnState.CLAIMED
    unproven = not runs and observed_update(job) is not None
    replaced = standing is not None and (unproven or not has_begun(job, standing, own.record))
    kept = standing.before if standing is not None and replaced else revision_of(job)
    never_ran = own.record.uid != job.uid or own.record.claims == 0
    if standing is not None and replaced:
        never_ran = standing.untried
    withdrawn = target.revision == kept.revision
    if withdrawn:
        event, detail = UPDATE_WITHDRAWN, f"revision {kept.revision} stays"
    else:
        event = "rolled back" if asked.rolls_back else "updated"
        detail = f"revision {target.revision} replaces {kept.revision}"
    before = replace(kept, terms=replace(kept.terms, checkpoint=None))
    is_last = replaced and not runs and not asked.rolls_back
    newest = Update(
        target=target.revision,
        sha256=target.spec.sha256,
        before=before,
        by=clip(asked.by, BY_MAX_BYTES),
        at=context.at,
        rolls_back=asked.rolls_back,
        policy=asked.policy,
        savepoint=standing.savepoint if standing is not None and is_last else "",
        untried=never_ran,
    )
    return replace(
        job,
        revision=target.revision,
        spec=target.spec,
        terms=target.terms,
        op=context.op_id,
        changed=HistoryEntry(at=context.at, event=event, detail=detail, by=context.by),
        last_revision=max(job.revision, job.last_revision, target.revision),
        update=None if withdrawn else newest,
        quarantined=with_quarantined(job, own.record),
    )


def resume_from(
    context: UserWriteContext,
    ref: Found[JobRef],
    own: Found[Ownership],
    job: JobRef,
    claimed: ClaimedLocation,
    move: Move,
    revisions: SeenRevisions = NO_RECORD,
    by: str = "",
) -> Transaction:
    """Returns the multi that makes ``job`` the new revision, whose checkpoint is a copy of a savepoint; it
    runs again from there. Its spec and the copy are stored already.

    It is for a job whose /own is vacant or exited only: then nobody writes to what is left, and no wait rests
    on the lease, which goes, as in ``clean_up``; what it remembered stays in /own. So /own is set at its
    version, not only checked: an assignment, a claim or a renewal that was planned before fails.
    """
    layout, name = context.layout, job.name
    job = replace(job, op=context.op_id, quarantined=with_quarantined(ref.record, own.record))
    return Transaction(
        "resume_from",
        context.op_id,
        (
            SetData(layout.job(name), encode_with_room(job, ref.record), ref.version),
            SetData(
                layout.own(name),
                encode(replace(own.record, op=context.op_id, remembered=move.remembered)),
                own.version,
            ),
            *_claim_location(context, job, claimed),
            *_leave(context, name, move),
            *keep_revision(layout, ref.record, job, NewRevision(by, job.changed.detail), revisions),
            ring_doorbell(layout, name),
        ),
    )


def _leave(context: UserWriteContext, name: str, move: Move | None) -> tuple[Op, ...]:
    """Returns the ops that delete the claim of the old checkpoint, and the lease that described it, at the
    versions seen."""
    if move is None:
        return ()
    return location_ops.leave(context.layout, name, move.lease, move.left)


def _stop(
    context: UserWriteContext,
    name: str,
    uid: str,
    own: Seen[Ownership],
    event: str,
    last: Seen[Lease] = None,
    *,
    entry_exists: bool = True,
) -> tuple[Op, ...]:
    """Returns the ops that move the fence: assigned becomes vacant, claimed becomes draining, and any other
    state stays as it is, but the version is always bumped."""
    layout = context.layout
    if own is None and last is None:  # never a claim, or all is cleaned
        return (
            Create(
                layout.own(name), encode(Ownership(state=OwnState.VACANT, op=context.op_id, newest_uid=uid))
            ),
        )
    if not isinstance(own, Found):
        data = encode(_recovered(context, uid, event, last))
        return (
            Create(layout.own(name), data) if own is None else SetData(layout.own(name), data, own.version),
        )
    old = own.record
    state = {OwnState.ASSIGNED: OwnState.VACANT, OwnState.CLAIMED: OwnState.DRAINING}.get(
        old.state, old.state
    )
    changed = replace(
        old,
        state=state,
        op=context.op_id,
        history=with_entry(old.history, context.at, event, old.attempt, by=context.by),
    )
    ops: tuple[Op, ...] = (SetData(layout.own(name), encode(changed), own.version),)
    if old.state is OwnState.ASSIGNED and entry_exists:
        ops = (*ops, Delete(layout.assignment(old.supervisor, old.uid, old.attempt), ANY_VERSION))
    return ops


def _recovered(context: UserWriteContext, uid: str, event: str, last: Seen[Lease]) -> Ownership:
    """Returns what takes the place of an ownership that nobody can read: a revoked one, to be waited out. Its
    lease was set by the newest claim.

    Attempts are numbered on from that one (never reused), and with its claim id its shim can report when the
    tree is gone.
    """
    lost = Ownership(
        state=OwnState.REVOKED,
        op=context.op_id,
        newest_uid=uid,
        uid=uid,
        history=with_entry((), context.at, event, by=context.by),
    )
    if not isinstance(last, Found) or last.record.uid != uid:
        return lost
    attempt = last.record.attempt
    return replace(
        lost, attempt=attempt, claim=last.record.claim, claims=attempt, host=last.record.driver.host
    )


def _claim_location(
    context: UserWriteContext, job: JobRef, claimed: ClaimedLocation | None
) -> tuple[Op, ...]:
    if claimed is None:
        return ()
    return location_ops.take(context.layout, context.op_id, job, claimed)


def _readable(own: Found[Ownership] | Unreadable) -> Found[Ownership]:
    if isinstance(own, Unreadable):
        raise ValueError("submit over an unreadable ownership must be refused before")
    return own
