"""Builds the multis of the leader (protocol §5): pure functions, one per row of the table there; ``act`` commits them.

Every one begins with the guards that ``leader_write_context`` explains: the epoch of this term (I4), and no pause.
Every one about a job sets or checks /own/<name> at the version that the plan was made from. Those that rest on a full
wait also check the lease at the version seen (``Waited``): an attempt in ``draining`` renews without moving /own, and a
leader that slept on an old reading would start a second driver.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.actions import (
    Assign,
    Bury,
    CleanUp,
    Conclude,
    Drain,
    FinishUpdate,
    GiveUpdateUp,
    Prepare,
    Revoke,
    RollBack,
    SuspendExhausted,
    Unassign,
    Waited,
    Withdraw,
)
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of, places_of
from supervisor.model.driver_memory import DriverMemory, as_spark_size, next_memory
from supervisor.model.policies import refused_policies
from supervisor.model.records import (
    DETAIL_MAX_BYTES,
    GIVEN_UP_MAX_BYTES,
    LEFT_MAX_BYTES,
    PREPARED_WHY_MAX_BYTES,
    SUSPENDED_WHY_MAX_BYTES,
    Acceptance,
    Assignment,
    Cause,
    CheckpointState,
    Cleanliness,
    Desired,
    HistoryEntry,
    JobRef,
    JudgedUpdate,
    Lease,
    Member,
    Ownership,
    OwnState,
    Preparation,
    Result,
    Update,
    clip,
    version_of,
    with_entry,
)
from supervisor.model.root_cause import cause_text
from supervisor.model.seen import Found, Seen
from supervisor.model.state import (
    UPDATE_FAILED,
    failures_of_update,
    judged_update,
    next_attempt,
    observed_update,
    revision_before,
    with_rolled_back,
)
from supervisor.model.submission_records import result_of
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry.attempt_writes import ring_doorbell
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.older_history import encode_result
from supervisor.registry.pending_deletions import pending_deletion, reported

KEPT_UNSEEN = "no attempt of this submission was claimed, or no batch of the name was seen committed there"
KEPT_SINCE = (
    "its location was not this submission's alone any more, or was claimed before a restore of the registry"
)


def end_wait(context: LeaderWriteContext, accepted: Found[Acceptance]) -> Transaction:
    """Returns the multi that records that a leader has waited until no driver of a lost state can be alive:
    jobs are started again, by later leaders too."""
    data = encode(replace(accepted.record, waited=True))
    return context.transaction("end_wait", SetData(context.layout.accepted, data, accepted.version))


def make_parents(context: LeaderWriteContext, missing: tuple[str, ...]) -> Transaction:
    """Returns the multi that creates parents that somebody removed by hand, empty: hosts and shims write
    again what was below them (``registry.fixed_znodes``)."""
    return context.transaction("make_parents", *(Create(path, b"") for path in missing))


def _guard(waited: Waited | None, layout: Layout, name: str) -> tuple[Op, ...]:
    """Returns ops that hold only while the lease is exactly as it was seen for the full wait: not renewed,
    not appeared, not gone."""
    if waited is None:
        return ()
    path = layout.lease(name)
    if waited.lease is None:
        return (Create(path, b""), Delete(path, 0))
    return (Check(path, waited.lease.version),)


def assign(context: LeaderWriteContext, action: Assign) -> Transaction:
    """Returns the multi that gives the next attempt to ``host``. The entry carries the versions that the
    claim must meet. The policies that refuse the job stay known, or it would go back and forth between hosts. With
    ``prepared``, the host hands it to a prepared driver, if it still has one that fits; that
    changes nothing of what the claim must meet. ``moved_by`` is kept beside the attempt, for the leader's own count of
    what a drain of a host has under way; nothing is guarded by it. ``queries`` is what is known of the checkpoint; it is
    kept beside the attempts of an update that is judged, and so is ``left``, why that was not rolled back."""
    ref, own, host, account = action.ref, action.own, action.host, action.account
    job, old, name = ref.record, own.record, ref.record.name
    same, attempt, memory = old.uid == job.uid, next_attempt(job, old), next_memory(job, old)
    history = _history_before(context, job, old, attempt, memory, action.waited)
    changed = Ownership(
        state=OwnState.ASSIGNED,
        op=context.op_id,
        newest_uid=old.newest_uid,
        uid=job.uid,
        attempt=attempt,
        revision=job.revision,
        supervisor=host.id,
        host=host.host,
        memory=memory.whole,
        driver_memory=memory.driver,
        raised=memory.raised,
        claims=old.claims if same else 0,
        failures=account.failures,
        charged=account.charged,
        recent_s=account.recent_s,
        restart_nonce=job.restart_nonce,
        history=with_entry(history, context.at, "assigned", attempt, _where(context, host, action.prepared)),
        earlier=old.earlier if same else "",
        job_version=ref.version,
        remembered=old.remembered,
        moved_by=action.moved_by,
        judged=_judged_after(job, old, action.queries, action.left),
        extra=old.extra,
    )
    entry = replace(_entry_of(ref, own.version + 1, attempt, memory), prepared=action.prepared)
    return context.transaction(
        "assign",
        Check(context.layout.job(name), ref.version),
        context.set_own(name, own, _with_diagnostics(_with_refusals(changed, job, old), old)),
        *_guard(action.waited, context.layout, name),
        Create(context.layout.assignment(host.id, job.uid, attempt), encode(entry)),
        ring_doorbell(context.layout, name),
    )


def _where(context: LeaderWriteContext, host: Member, prepared: bool) -> str:
    return f"to {host.id} by epoch {context.epoch}{', where a driver is prepared' if prepared else ''}"


def _with_diagnostics(changed: Ownership, old: Ownership) -> Ownership:
    """Returns the next attempt with what is known of the end of an earlier one of the same submission."""
    return replace(changed, diagnostics=old.diagnostics) if old.uid == changed.uid else changed


def _with_refusals(changed: Ownership, job: JobRef, old: Ownership) -> Ownership:
    """Returns the next attempt with the policies that refuse the job as it is now."""
    refused = refused_policies(job, old)
    return replace(changed, refused_by=refused, refused_of=version_of(changed)) if refused else changed


def _judged_first(job: JobRef, old: Ownership, update: Update, queries: tuple[str, ...]) -> JudgedUpdate:
    """Returns what is kept beside the first attempt of the target of ``update``.

    If the last attempt was of the target of an update that this one has replaced, what was kept beside that goes on: it is
    about the same revision before. What is known now has that target's batches in it. If that is not known either, it is
    not known what the checkpoint had before, and so nothing of it is ever called clean.
    """
    before = update.before.revision
    if old.uid != job.uid:
        return JudgedUpdate(target=update.target, before=before, queries=queries)
    if old.revision == before:
        memory, raised = (old.driver_memory, old.raised) if old.raised > 0 else (0, 0)
        return JudgedUpdate(
            target=update.target, driver_memory=memory, raised=raised, queries=queries, before=before
        )
    replaced = old.judged
    if replaced is not None and (replaced.target, replaced.before) == (old.revision, before):
        return replace(replaced, target=update.target, failures=0)
    return JudgedUpdate(target=update.target)


def _judged_after(job: JobRef, old: Ownership, queries: tuple[str, ...], left: str) -> JudgedUpdate | None:
    """Returns what is kept beside the next attempt, if that is of an update which is judged. A restart that somebody has
    asked for forgets the failures."""
    update, judged = observed_update(job), judged_update(job, old)
    if update is None:
        return None
    if judged is None and old.uid == job.uid and old.revision == update.target:
        judged = JudgedUpdate(target=update.target)  # a leader of the version before assigned it
    if judged is None:
        return _judged_first(job, old, update, queries)
    if old.restart_nonce != job.restart_nonce:
        return replace(judged, failures=0, left="")
    kept = clip(left, LEFT_MAX_BYTES) or judged.left
    return replace(judged, failures=failures_of_update(job, old), left=kept)


def _entry_of(ref: Found[JobRef], own_version: int, attempt: int, memory: DriverMemory) -> Assignment:
    """Returns what the host must start, and the versions that its claim must meet."""
    job = ref.record
    return Assignment(
        name=job.name,
        uid=job.uid,
        attempt=attempt,
        revision=job.revision,
        job_version=ref.version,
        own_version=own_version,
        spec=job.spec,
        memory=memory.whole,
        driver_memory=memory.driver,
    )


def _history_before(
    context: LeaderWriteContext,
    job: JobRef,
    old: Ownership,
    attempt: int,
    memory: DriverMemory,
    waited: Waited | None,
) -> tuple[HistoryEntry, ...]:
    """Returns the history of the uid up to the assignment of ``attempt``: what its user changed last, an
    attempt that was lost, memory that is raised."""
    same = old.uid == job.uid
    submitted = HistoryEntry(at=job.submitted_at, event="submitted", by=job.submitted_by)
    history = old.history if same else (submitted,)
    unchanged = same and (old.restart_nonce, old.revision) == (job.restart_nonce, job.revision)
    if job.changed not in history and not unchanged:
        # what the user changed last stands only in the reference, until the next change
        history = (*history, job.changed)
    if same and waited is not None:
        why = f"nothing was heard from {old.host or old.supervisor} until its driver was certainly dead"
        history = with_entry(history, context.at, Cause.LOST.value, old.attempt, why)
    if same and memory.raised > old.raised:
        had = as_spark_size(old.driver_memory or job.terms.driver_memory)
        detail = f"driver memory {had} → {as_spark_size(memory.driver)} after {Cause.OUT_OF_MEMORY.value}"
        history = with_entry(history, context.at, "memory raised", attempt, detail)
    return history


def unassign(context: LeaderWriteContext, action: Unassign, *, entry_exists: bool = True) -> Transaction:
    """Returns the multi that takes back an assignment that nobody claimed. It needs no wait: a late claim
    fails on /own."""
    name, own, why = action.name, action.own, action.why
    old = own.record
    changed = replace(
        old,
        state=OwnState.VACANT,
        history=with_entry(old.history, context.at, "unassigned", old.attempt, why),
    )
    entry = Delete(context.layout.assignment(old.supervisor, old.uid, old.attempt), ANY_VERSION)
    return context.transaction(
        "unassign",
        context.set_own(name, own, changed),
        *((entry,) if entry_exists else ()),
        ring_doorbell(context.layout, name),
    )


def drain(context: LeaderWriteContext, action: Drain) -> Transaction:
    """Returns the multi that asks for an orderly stop: the attempt goes on renewing while its driver
    stops."""
    ref, own, why = action.ref, action.own, action.why
    old, name = own.record, ref.record.name
    changed = replace(
        old,
        state=OwnState.DRAINING,
        history=with_entry(old.history, context.at, "draining", old.attempt, why),
    )
    return context.transaction(
        "drain",
        Check(context.layout.job(name), ref.version),
        context.set_own(name, own, changed),
        ring_doorbell(context.layout, name),
    )


def prepare(context: LeaderWriteContext, action: Prepare) -> Transaction:
    """Returns the multi that asks ``host`` to keep a prepared driver (protocol §9.1).

    Nothing runs because of it, and no write is guarded by it: what is prepared has no claim, and its application waits
    until it has one. So it neither checks nor sets /own, and rings no doorbell. The reference is checked at the version
    that was read, so that nothing is prepared of a job that was cancelled or changed meanwhile; the leader would take
    it back in its next pass.
    """
    ref, own, host = action.ref, action.own, action.host
    job, memory, layout = ref.record, next_memory(ref.record, own.record), context.layout
    record = Preparation(
        name=job.name,
        uid=job.uid,
        revision=job.revision,
        spec=job.spec,
        level=action.level,
        memory=memory.whole,
        driver_memory=memory.driver,
        priority=job.terms.priority,
        why=cause_text(action.why, PREPARED_WHY_MAX_BYTES),
        at=context.at,
    )
    parent = (Create(layout.preparations_of(host.id), b""),) if action.new_host else ()
    return context.transaction(
        "prepare",
        Check(layout.job(job.name), ref.version),
        *parent,
        Create(layout.preparation(host.id, job.uid, job.revision), encode(record)),
    )


def withdraw(context: LeaderWriteContext, action: Withdraw) -> Transaction:
    """Returns the multi that takes back the request for a prepared driver at ``path``. The host discards the driver, if
    no attempt was handed to it by then: a hand-over rests on the assignment alone, and is not undone by this."""
    return context.transaction("withdraw", Delete(action.path, action.version))


def give_update_up(context: LeaderWriteContext, action: GiveUpdateUp) -> Transaction:
    """Returns the multi that puts the revision that runs in the place of one that could not be prepared (protocol §9.2).

    It is for an attempt that is claimed and of that revision, at the versions read: so what runs is what is wanted, and
    nothing is stopped or started by it. The number of the revision that is given up is not used again.
    """
    ref, own, why = action.ref, action.own, action.why
    job, layout = ref.record, context.layout
    assert job.update is not None
    before, number = revision_before(job, job.update), job.revision
    changed = replace(
        job,
        revision=before.revision,
        spec=before.spec,
        terms=before.terms,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at,
            event=UPDATE_FAILED,
            detail=cause_text(f"revision {number}: {why}", DETAIL_MAX_BYTES),
            by=context.by,
        ),
        last_revision=max(number, job.last_revision),
        update=replace(job.update, given_up=cause_text(why, GIVEN_UP_MAX_BYTES)),
    )
    return context.transaction(
        "give_update_up",
        SetData(layout.job(job.name), encode(changed), ref.version),
        Check(layout.own(job.name), own.version),
        ring_doorbell(layout, job.name),
    )


def roll_update_back(context: LeaderWriteContext, action: RollBack) -> Transaction:
    """Returns the multi that makes the revision before an update the newest one again, under a new number (protocol §9.2).

    It is for a job whose attempt of the target has ended, at the versions read: so no assignment rests on the reference,
    and nothing is stopped by it. It is judged no more: an update is rolled back once.
    """
    ref, own, why = action.ref, action.own, action.why
    job, layout = ref.record, context.layout
    assert job.update is not None
    before, number = revision_before(job, job.update), job.next_revision
    changed = replace(
        job,
        revision=number,
        spec=before.spec,
        terms=before.terms,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at,
            event="rolled back",
            detail=cause_text(f"revision {number} is {before.revision} again: {why}", DETAIL_MAX_BYTES),
            by=context.by,
        ),
        last_revision=number,
        update=replace(job.update, rolled_back=cause_text(why, GIVEN_UP_MAX_BYTES)),
        rolled_back=with_rolled_back(job, job.update),
    )
    return context.transaction(
        "roll_update_back",
        SetData(layout.job(job.name), encode(changed), ref.version),
        Check(layout.own(job.name), own.version),
        ring_doorbell(layout, job.name),
    )


def finish_update(context: LeaderWriteContext, action: FinishUpdate) -> Transaction:
    """Returns the multi that notes that the target of an update was observed for long enough: from then on its failures are
    those of any job. It is for an attempt that is claimed; nothing stops or starts by it."""
    ref, own = action.ref, action.own
    job, layout = ref.record, context.layout
    assert job.update is not None
    changed = replace(job, op=context.op_id, update=replace(job.update, done=True))
    return context.transaction(
        "finish_update",
        SetData(layout.job(job.name), encode(changed), ref.version),
        Check(layout.own(job.name), own.version),
        ring_doorbell(layout, job.name),
    )


def suspend_exhausted(context: LeaderWriteContext, action: SuspendExhausted) -> Transaction:
    """Returns the multi that suspends a job whose restart budget is spent and whose spec says ``on_exhausted:
    suspend``."""
    ref, own, why = action.ref, action.own, action.why
    job, old = ref.record, own.record
    suspended = replace(
        job,
        desired=Desired.SUSPENDED,
        op=context.op_id,
        changed=HistoryEntry(
            at=context.at,
            event="suspended",
            attempt=old.attempt,
            detail=cause_text(why, SUSPENDED_WHY_MAX_BYTES),
            by=context.by,
        ),
    )
    history = with_entry(old.history, context.at, "suspended", old.attempt, why, context.by)
    changed = replace(old, history=history)
    return context.transaction(
        "suspend_exhausted",
        SetData(context.layout.job(job.name), encode(suspended), ref.version),
        context.set_own(job.name, own, changed),
        ring_doorbell(context.layout, job.name),
    )


def revoke(context: LeaderWriteContext, action: Revoke) -> Transaction:
    """Returns the multi after which no renewal of the attempt can commit. It is guarded by the lease: a
    renewal in flight wins."""
    name, own, lease, why = action.name, action.own, action.lease, action.why
    old = own.record
    changed = replace(
        old,
        state=OwnState.REVOKED,
        history=with_entry(old.history, context.at, "revoked", old.attempt, why),
    )
    return context.transaction(
        "revoke",
        *_guard(Waited(lease), context.layout, name),
        context.set_own(name, own, changed),
        ring_doorbell(context.layout, name),
    )


def bury(context: LeaderWriteContext, action: Bury) -> Transaction:
    """Returns the multi that records an attempt as lost after the full wait: it is dead without a tombstone,
    and its job shall not run now."""
    name, own, waited, why = action.name, action.own, action.waited, action.why
    old = own.record
    changed = replace(
        old,
        state=OwnState.EXITED,
        cause=Cause.LOST,
        reason=why,
        exit_code=None,
        ran_s=_ran_s(old, waited.lease),
        history=with_entry(old.history, context.at, "lost", old.attempt, why),
    )
    return context.transaction(
        "bury",
        *_guard(waited, context.layout, name),
        context.set_own(name, own, changed),
        ring_doorbell(context.layout, name),
    )


def _ran_s(own: Ownership, lease: Seen[Lease]) -> float:
    """Returns for how many seconds the attempt ran at least, as its last renewal said."""
    if not isinstance(lease, Found) or (lease.record.uid, lease.record.claim) != (own.uid, own.claim):
        return 0.0
    return lease.record.ran_s


def conclude(context: LeaderWriteContext, action: Conclude) -> Transaction:
    """Returns the multi for a job that has failed for good, or finished: the reference goes, the result
    comes, in one step (FLINK-2354)."""
    ref, own, outcome, why = action.ref, action.own, action.outcome, action.why
    job, old, name = ref.record, own.record, ref.record.name
    history = with_entry(old.history, context.at, outcome.value, old.attempt, why)
    result = result_of(
        job,
        outcome=outcome,
        state=Cleanliness.DIRTY,
        attempt=old.attempt,
        claims=old.claims,
        reason=why,
        at=context.at,
        op=context.op_id,
        failures=action.account.failures,
        history=history,
        earlier=old.earlier,
    )
    return context.transaction(
        "conclude",
        Delete(context.layout.job(name), ref.version),
        context.set_own(name, own, replace(old, history=history)),
        Create(context.layout.result(job.uid), encode_result(result)),
        ring_doorbell(context.layout, name),
    )


def _remembered(own: Ownership, lease: Seen[Lease]) -> CheckpointExpectation | None:
    """Returns what stays with the name, for a later submit, when the lease goes: what it knew of the
    checkpoint."""
    newest = lease.record.remembered if isinstance(lease, Found) else None
    return newest if newest is not None else own.remembered


def _wrote(result: Result, own: Ownership, lease: Seen[Lease]) -> str:
    """Returns the place of its checkpoint, if an attempt of this uid has claimed and batches were seen
    committed there; else an empty string.

    Batches are remembered per name: those of an earlier uid count with them, which had the place for the same
    name.
    """
    location = result.terms.checkpoint if result.terms is not None else None
    place = place_of(location) if location else ""
    seen_at = places_of(_remembered(own, lease)) | places_of(own.remembered)
    return place if result.claims > 0 and place in seen_at else ""


def clean_up(context: LeaderWriteContext, action: CleanUp) -> Transaction:
    """Returns the multi that removes what a terminal uid left behind, and marks its result clean.

    If ``dead``, no attempt of the *name* can be alive (vacant, exited, or the full wait is over) and no newer
    uid owns it: the ownership becomes vacant and the lease goes. Otherwise only the uid's own things are
    touched. ``claim`` has the path and the record of the checkpoint claim if that still carries this uid
    (else a resubmitted name has taken it over), or is None. If ``deletes_checkpoint``, the claim is not given up
    but made nobody's, until the objects of the checkpoint are deleted (``pending_deletions``): only where an
    attempt of the uid was seen to write, which the result says from then on.
    """
    result, own, lease, claim = action.leftover.result, action.own, action.lease, action.leftover.claim
    name, old = result.record.name, own.record
    ops: list[Op] = []
    if action.dead:
        ops.append(
            context.set_own(
                name, own, replace(old, state=OwnState.VACANT, remembered=_remembered(old, lease))
            )
        )
        ops.extend(_guard(action.waited, context.layout, name))
        if lease is not None:
            ops.append(Delete(context.layout.lease(name), lease.version))
    else:
        ops.append(Check(context.layout.own(name), own.version))
    clean = replace(result.record, state=Cleanliness.CLEAN)
    wrote = _wrote(result.record, own.record, lease)
    if claim is not None and action.deletes_checkpoint and wrote:
        clean = replace(clean, wrote=wrote)
        ops.append(
            SetData(
                claim[0],
                encode(pending_deletion(claim[1].record, result.record, context.at)),
                claim[1].version,
            )
        )
        clean = reported(clean, CheckpointState.DELETING, context.at)
    elif claim is not None:
        ops.append(Delete(claim[0], claim[1].version))
    if result.record.deletes_checkpoint and not (action.deletes_checkpoint and wrote):
        clean = reported(
            clean, CheckpointState.KEPT, context.at, KEPT_UNSEEN if action.deletes_checkpoint else KEPT_SINCE
        )
    ops.append(SetData(context.layout.result(result.record.uid), encode(clean), result.version))
    return context.transaction("clean_up", *ops, ring_doorbell(context.layout, name))
