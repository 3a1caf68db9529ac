"""Derives the state of a job, as users see it, from its records. It is pure; ``list``, ``show`` and metrics
use it.

The states are those of ``list -o json`` (``state``), on which scripts rely; nothing stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from supervisor.model.checkpoint_expectation import CheckpointExpectation, SeenQuery, queries_of
from supervisor.model.driver_memory import next_memory
from supervisor.model.headline import headline
from supervisor.model.history import Series, opened
from supervisor.model.lag_window import behind_sentence, query_behind
from supervisor.model.location import is_inside
from supervisor.model.query_name import query_name
from supervisor.model.records import (
    DEAD,
    DELAYABLE,
    DETAIL_MAX_BYTES,
    LEASED,
    PLANNED_CAUSES,
    QUARANTINED_KEPT,
    ROLLED_BACK_KEPT,
    UNCHARGED_CAUSES,
    Cause,
    CheckpointState,
    Cleanliness,
    ClusterWait,
    Desired,
    HistoryEntry,
    JobRef,
    JudgedUpdate,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Phase,
    QueryProgress,
    QueryState,
    Result,
    RollbackRule,
    SpecRevision,
    Update,
)
from supervisor.model.reported_sinks import no_way_back
from supervisor.model.restart import Account, account, spent
from supervisor.model.root_cause import cause_text
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.view import Row
from supervisor.model.working_directory import directory_of, only_here

UPDATE_FAILED: Final = "update failed"
"""The event of an update that the leader gives up before anything of it has begun."""


class JobState(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    SUSPENDED = "suspended"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Shown:
    """Holds the state, and the sentence that says why. ``trouble`` is the same in its shortest form, for a
    list of many jobs. It is empty if all is well; None means that ``reason`` itself is shown.
    """

    state: JobState
    reason: str
    trouble: str | None = None


ENDED = {
    Outcome.CANCELLED: JobState.CANCELLED,
    Outcome.FAILED: JobState.FAILED,
    Outcome.FINISHED: JobState.FINISHED,
}


FATES: Final[dict[CheckpointState, str]] = {
    CheckpointState.DELETING: "its checkpoint is being deleted",
    CheckpointState.DELETED: "its checkpoint was deleted",
    CheckpointState.KEPT: "its checkpoint was kept (see history)",
}


def shown_state(
    row: Row, *, host: Member | None = None, backoff_is_over: bool = False, quarantined: str | None = None
) -> Shown:
    """Returns the state of a job as every command and metric shows it: ``list``, ``show``, ``explain``,
    ``--wait``, the metrics.

    ``host`` is the supervisor to which the job is assigned: it may say why a start does not come about. The
    records do not show when a back-off is over, since the leader measures it with its own clock:
    ``backoff_is_over`` is the caller's answer. ``quarantined`` is why the leader leaves the job alone, if it
    does.
    """
    shown = _state_of_records(row)
    if quarantined is not None:
        return Shown(JobState.QUARANTINED, quarantined)
    if shown.state is JobState.BACKOFF and backoff_is_over:
        why = row.own.record.reason if isinstance(row.own, Found) else ""
        return Shown(JobState.PENDING, f"to be started again: {why}", f"to be started again: {headline(why)}")
    return _with_delay(shown, row.own, host)


def _state_of_records(row: Row) -> Shown:
    if isinstance(row.own, Unreadable) and row.ref is None:
        return Shown(JobState.QUARANTINED, f"its ownership is unreadable: {row.own.reason}")
    if row.flaws:
        return Shown(JobState.QUARANTINED, "; ".join(row.flaws))
    if row.ref is None and isinstance(row.own, Found) and row.own.record.state in LEASED:
        return Shown(JobState.STOPPING, f"cancelled: attempt {row.own.record.attempt} is being stopped")
    return _state_of_registered(row.ref, row.own, row.lease.seen if row.lease is not None else None)


def _state_of_registered(ref: Seen[JobRef], own: Seen[Ownership], lease: Seen[Lease]) -> Shown:
    """Returns the state of a name from its three records. ``lease`` is that of the name, of any uid and
    attempt.
    """
    for record, what in ((ref, "reference"), (own, "ownership")):
        if isinstance(record, Unreadable):
            return Shown(JobState.QUARANTINED, f"its {what} is unreadable: {record.reason}")
    if not isinstance(ref, Found) or not isinstance(own, Found):
        return Shown(JobState.QUARANTINED, "its ownership record is missing")
    job, owner = ref.record, own.record
    if owner.uid != job.uid:
        return _not_yet_owned(job, owner)
    if owner.state in (OwnState.DRAINING, OwnState.REVOKED):
        being = f"attempt {owner.attempt} is being stopped"
        return Shown(JobState.STOPPING, f"{being} ({owner.state.value})", being)
    if owner.state is OwnState.CLAIMED:
        return _of_claimed(job, owner, lease)
    if job.desired is Desired.SUSPENDED:
        return _suspended(job)
    if owner.state is OwnState.ASSIGNED:
        return Shown(JobState.STARTING, f"assigned to {owner.supervisor}")
    if owner.state is OwnState.EXITED and owner.restart_nonce == job.restart_nonce:
        return _of_exited(job, owner)
    return Shown(JobState.PENDING, "waiting for the leader to place it")


def delay_of(own: Ownership, host: Member | None) -> str:
    """Returns why ``host`` cannot start the attempt that is assigned to it, or cannot let its driver begin,
    as the host itself says. The result is empty if it says nothing.
    """
    delays = host.delays if host is not None and own.state in DELAYABLE else ()
    return next((delay.why for delay in delays if (delay.uid, delay.attempt) == (own.uid, own.attempt)), "")


def _with_delay(shown: Shown, own: Seen[Ownership], host: Member | None) -> Shown:
    """Returns ``shown`` of a registered job, with what its host says of a start that does not come about."""
    why = delay_of(own.record, host) if isinstance(own, Found) and shown.state is JobState.STARTING else ""
    if not why:
        return shown
    what = (
        ""
        if isinstance(own, Found) and own.record.state is OwnState.CLAIMED
        else ", which can't start it yet"
    )
    again = "tried again every few seconds"
    return replace(
        shown, reason=f"{shown.reason}{what}: {why}; {again}", trouble=f"can't start yet: {why}; {again}"
    )


HOW_FAR: Final[dict[Phase, str]] = {
    Phase.CLAIMED: "its process starts",
    Phase.WAITING: "its driver waits until its checkpoint was looked at",
    Phase.BEGUN: "the application runs, Spark is not up yet",
    Phase.SESSION: "Spark is up, no query yet",
    Phase.QUERY: "a query prepares its first batch",
}
"""These texts say what an attempt is at, for people who never heard of phases."""


def state_of_ended(result: Result) -> Shown:
    """Returns the state of a uid with a terminal result."""
    fate = _fate(result)
    why = "" if result.outcome is Outcome.FINISHED else headline(result.reason)
    trouble = "; ".join(part for part in (why, fate) if part)
    return Shown(ENDED[result.outcome], f"{result.reason}; {fate}" if fate else result.reason, trouble)


def _fate(result: Result) -> str:
    """Returns what becomes of the checkpoint of an ended uid, where the spec asks for its deletion, else the
    empty text.
    """
    if result.checkpoint_state is not None:
        return FATES.get(result.checkpoint_state, "")
    deletion = result.deletes_checkpoint and result.state is Cleanliness.DIRTY
    return "its checkpoint will be deleted once no driver of it can be alive" if deletion else ""


def next_attempt(job: JobRef, own: Ownership) -> int:
    """Returns the number of the next attempt of ``job``. It is never reused within its uid, also not after an
    un-assignment.
    """
    return own.attempt + 1 if own.uid == job.uid else 1


def is_attempt_over(own: Ownership, uid: str, attempt: int) -> bool:
    """Returns whether nothing of an attempt that was given out can run any more, by the ownership of its job: it has a
    tombstone, or another attempt or submission has followed. One that the registry has not given out yet is not over:
    it may be of a state of the registry that was lost."""
    if own.uid != uid:
        return True
    return attempt < own.attempt or (attempt == own.attempt and own.state in DEAD)


def has_finished(job: JobRef, own: Ownership) -> bool:
    """Returns whether a bounded job has ended by itself, with 0: it is over, whether or not a leader has
    concluded it yet.
    """
    ended = own.state is OwnState.EXITED and own.uid == job.uid
    return ended and own.cause is Cause.FINISHED and not job.terms.unbounded


def account_of(job: JobRef, own: Ownership) -> Account:
    """Returns the account after the latest exit of ``own``, with the failures up to and including it, and the
    back-off that follows.
    """
    return account(
        job.terms.restart,
        failures=own.failures,
        charged=own.charged,
        recent_s=own.recent_s,
        ran_s=own.ran_s,
        failed=own.cause not in PLANNED_CAUSES,
        counts=own.cause not in UNCHARGED_CAUSES,
        seed=f"{own.uid}.{own.attempt}",
    )


def history_of(
    ref: JobRef | None, own: Ownership | None, result: Result | None, uid: str
) -> tuple[HistoryEntry, ...]:
    """Returns what happened to ``uid``, oldest first: from the ownership, what the user last changed, and the
    result.

    Entries about an attempt keep the records' own order, since their times come from the clocks of several
    hosts. What a user did is put among them by its time: the ownership takes it over only with the next
    assignment.
    """
    entries = [*opened(own.earlier, uid), *own.history] if own is not None and own.uid == uid else []
    if result is not None:
        besides = (*opened(result.earlier, uid), *result.history)
        entries = [entry for entry in besides if not _holds(entries, entry)] + entries
    recorded = [ref.changed] if ref is not None and ref.changed.event != "submitted" else []
    known = ref if ref is not None else result
    if known is not None and known.update is not None and known.update.given_up:
        recorded.append(_given_up_entry(known.update, ref))
    if known is not None and known.submitted_at:
        recorded += [HistoryEntry(at=known.submitted_at, event="submitted", by=known.submitted_by)]
    ordered = [entry for entry in entries if entry.attempt]
    by_user = [entry for entry in entries if not entry.attempt]
    by_user += [entry for entry in recorded if not _holds(entries, entry)]
    for entry in sorted(by_user, key=lambda entry: entry.at, reverse=True):
        later = (n for n, other in enumerate(ordered) if other.at > entry.at)
        ordered.insert(next(later, len(ordered)), entry)
    return tuple(ordered)


def _given_up_entry(update: Update, ref: JobRef | None) -> HistoryEntry:
    """Returns who asked for an update that was given up. The leader's word about it has taken the place of that in the
    reference, and no attempt of the update has brought it into the ownership. What became of it is added where that word
    has been replaced, too."""
    detail = f"revision {update.target} replaces {update.before.revision}"
    if ref is None or ref.changed.event != UPDATE_FAILED:
        detail = cause_text(f"{detail}; it was given up: {update.given_up}", DETAIL_MAX_BYTES)
    event = "rolled back" if update.rolls_back else "updated"
    return HistoryEntry(at=update.at, event=event, detail=detail, by=update.by)


def last_exit_of(history: tuple[HistoryEntry, ...]) -> HistoryEntry | None:
    """Returns the newest end of an attempt, whatever came after it; its event is the cause."""
    causes = {cause.value for cause in Cause}
    return next((entry for entry in reversed(history) if entry.attempt and entry.event in causes), None)


def _holds(entries: list[HistoryEntry], entry: HistoryEntry) -> bool:
    """Returns whether ``entries`` have ``entry`` as it is, or within a series."""
    return any(
        (other.at, other.event) == (entry.at, entry.event)
        or (isinstance(other, Series) and other.covers(entry))
        for other in entries
    )


def _not_yet_owned(job: JobRef, own: Ownership) -> Shown:
    """Returns the state of a job whose ownership is still about an earlier submission of the name."""
    if job.desired is Desired.SUSPENDED:
        return _suspended(job)
    if own.state in (OwnState.VACANT, OwnState.EXITED):
        return Shown(JobState.PENDING, "waiting for the leader to place it")
    return Shown(
        JobState.PENDING,
        f"attempt {own.attempt} of an earlier submission has not ended yet ({own.state.value})",
    )


def _suspended(job: JobRef) -> Shown:
    return Shown(JobState.SUSPENDED, job.changed.detail or "suspended", headline(job.changed.detail))


def _of_claimed(job: JobRef, own: Ownership, lease: Seen[Lease]) -> Shown:
    if job.desired is Desired.SUSPENDED:
        return Shown(JobState.STOPPING, "suspended: waiting for its driver to stop")
    if not isinstance(lease, Found) or lease.record.claim != own.claim:
        return Shown(JobState.STARTING, f"claimed on {own.host}", HOW_FAR[Phase.CLAIMED])
    phase = lease.record.phase
    if phase is Phase.RUNNING:
        others = (
            _own_master(lease.record),
            _unnamed(lease.record),
            _strays(lease.record),
            only_here(lease.record.usage, own.host),
            no_way_back(job, lease.record),
            _behind(lease.record),
            _unused(job, lease.record),
            _of_update(job, own),
            _of_restart(job, own),
        )
        unproven = _unproven(own, lease.record)
        where = f"running on {own.host}" + (f", {unproven}" if unproven else "")
        waits = waiting_for_cluster(lease.record)
        reason = _joined((where, waits, _of_failed(lease.record, str), *others))
        trouble = _joined((waits, unproven, _of_failed(lease.record, headline), *others))
        return Shown(JobState.RUNNING, reason, trouble)
    if phase is Phase.STOPPING:
        return Shown(JobState.STOPPING, "its driver is being stopped")
    how_far = waiting_for_cluster(lease.record) or HOW_FAR.get(phase, phase.value)
    return Shown(JobState.STARTING, f"starting on {own.host}: {how_far}", how_far)


def executors_wanted(wait: ClusterWait) -> str:
    """Returns for what a driver waits, with what the cluster says, as half a sentence."""
    says = f" ({wait.says})" if wait.says else ""
    return f"{executors_of(wait)}{says}"


def executors_of(wait: ClusterWait) -> str:
    """Returns for whose executors a driver waits."""
    return f"executors of cluster {wait.cluster}" if wait.cluster else "executors of its cluster"


def waiting_for_cluster(lease: Lease) -> str:
    """Returns that the driver has no executor, since when, and what the cluster says; empty if it has some."""
    wait = lease.cluster_wait
    if wait is None:
        return ""
    since = f" since {wait.since}" if wait.since else ""
    says = f": {wait.says}" if wait.says else ""
    return f"waiting for {executors_of(wait)}{since}{says}"


def _of_update(job: JobRef, own: Ownership) -> str:
    """Returns what there is to say of the newest update beside a driver that runs, with the command that tells more."""
    update = job.update
    if update is None:
        return ""
    if update.rolled_back:
        return f"revision {update.target} was rolled back (revisions {job.name})"
    if update.given_up:
        return f"revision {update.target} was given up (revisions {job.name})"
    if is_pending(job, own):
        return f"its update to revision {update.target} is under way"
    if why_update_failed(job, own):
        return f"revision {update.target} has failed and is not rolled back (explain {job.name})"
    return f"revision {update.target} is observed" if observed_update(job) is not None else ""


def _of_restart(job: JobRef, own: Ownership) -> str:
    """Returns that a restart or a move was asked for and has not begun, with the command that says why; else empty."""
    if own.restart_nonce == job.restart_nonce or own.revision != job.revision:
        return ""
    move = job.move_in_force
    what = f"it is to move to {move.to}" if move is not None else "a restart was asked for"
    return f"{what} (explain {job.name})"


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)


def _unproven(own: Ownership, lease: Lease) -> str:
    """Returns a remark if this attempt has no batch yet after failures, else the empty text. A job without
    queries runs, too; but after failures that is no sign that this attempt fares better.
    """
    return f"no batch yet; {own.failures} failed before" if own.failures and lease.progress is None else ""


def failed_query(lease: Lease) -> QueryProgress | None:
    """Returns a query that has ended with an error while its application lives on, or None. Such a job does
    only a part of its work, and nothing else would report it.
    """
    return next((query for query in lease.queries if query.state is QueryState.FAILED), None)


def has_failed_query(lease: Lease) -> bool:
    """Returns whether any query has failed and was not started again, also one that the lease has no room for."""
    return lease.failed_queries > 0 or failed_query(lease) is not None


def _of_failed(lease: Lease, form: Callable[[str], str]) -> str:
    """Returns that queries have failed, and the error of one."""
    failed, count = failed_query(lease), lease.failed_queries
    if failed is None:
        return f"{count} of its queries failed" if count else ""
    more = f", and {count - 1} more" if count > 1 else ""
    return f"query {query_name(failed.query, failed.id)} has failed{more}: {form(failed.error or '')}"


def strays_of(lease: Lease) -> tuple[QueryProgress, ...]:
    """Returns the queries whose checkpoint is not in that of the job: their state is lost with it, and
    nothing else would report it.
    """
    return tuple(query for query in lease.queries if query.elsewhere)


def _own_master(lease: Lease) -> str:
    master = lease.own_master
    return f"its code has set the master {master}: that of its spec does not count" if master else ""


def unnamed_of(lease: Lease) -> tuple[str, ...]:
    """Returns the ids of the queries without a name, which can't go on after this attempt."""
    return lease.remembered.unnamed if lease.remembered is not None else ()


def has_written_here(lease: Lease) -> bool:
    """Says whether the job has in its working directory what a driver on another host would begin without."""
    return directory_of(lease.usage) is not None


def _unnamed(lease: Lease) -> str:
    unnamed = unnamed_of(lease)
    if not unnamed:
        return ""
    which = query_name(None, unnamed[-1])
    return f"query {which} can't go on after this attempt: its next start is refused; give it a queryName"


def _behind(lease: Lease) -> str:
    behind = query_behind(lease)
    return behind_sentence(behind) if behind is not None else ""


def _strays(lease: Lease) -> str:
    strays = strays_of(lease)
    if not strays:
        return ""
    name = query_name(strays[0].query, strays[0].id)
    which = f"query {name} keeps its checkpoint elsewhere, in {strays[0].elsewhere}"
    more = f" ({len(strays) - 1} more do)" if len(strays) > 1 else ""
    directory = None if lease.usage is None else lease.usage.directory
    is_here = directory is not None and is_inside(str(strays[0].elsewhere), f"file://{directory.path}")
    unused = "; no query uses the job's own" if len(strays) == len(lease.queries) + lease.more_queries else ""
    where = "on this host alone" if is_here else "it can't be recovered from there"
    return f"{which}{more}: {where}{unused}"


def _unused(job: JobRef, lease: Lease) -> str:
    """Returns a remark if this attempt has not used the job's checkpoint so far, else the empty text. Its
    application makes no query, or it is a JVM application that keeps a checkpoint where it is not looked for.
    """
    place = job.terms.checkpoint
    if place is None or lease.progress is not None or lease.queries or lease.more_queries:
        return ""
    return f"this attempt has not used its checkpoint {place} so far"


def _of_exited(job: JobRef, own: Ownership) -> Shown:
    why = own.reason or (own.cause.value if own.cause else "exited")
    if own.permanent:
        return Shown(JobState.QUARANTINED, why, headline(why))
    if own.cause is Cause.FINISHED:
        return Shown(JobState.FINISHED, why, "")
    if own.cause in PLANNED_CAUSES:
        return Shown(JobState.PENDING, "to be started again")
    acc = account_of(job, own)
    if acc.exhausted:
        no_more = spent(job.terms.restart)
        return Shown(JobState.FAILED, f"{no_more}: {why}", f"{headline(why)}; {no_more}")
    reason = f"failure {acc.failures}, next attempt after {acc.delay_s:.1f} s: {why}"
    return Shown(JobState.BACKOFF, reason, headline(why))


def is_quarantined(job: JobRef, own: Ownership) -> bool:
    """Says whether ``job`` is quarantined for certain by the end of the attempt in ``own``: trying again cannot help, and
    nobody has asked for anything else since.

    It is False for a target of an update that may be rolled back instead. Where that depends on what it has left in the
    checkpoint, the records do not say it.
    """
    is_of_job = (own.uid, own.restart_nonce, own.revision) == (job.uid, job.restart_nonce, job.revision)
    if not is_of_job or not own.permanent or own.state is not OwnState.EXITED:
        return False
    update = observed_update(job)
    stays = update is None or update.policy is None or update.policy.rollback is RollbackRule.NEVER
    return stays and job.desired is Desired.RUNNING


def with_quarantined(job: JobRef, own: Ownership | None) -> tuple[int, ...]:
    """Returns the attempts of ``job`` whose quarantine is over, after a write that ends the present one, if there is one.
    ``own`` is what the write rests on, or None if it can't be read."""
    if own is None or not is_quarantined(job, own):
        return job.quarantined
    return (*(each for each in job.quarantined if each != own.attempt), own.attempt)[-QUARANTINED_KEPT:]


# -- updates ------------------------------------------------------------------------------------------------------


def revision_of(job: JobRef) -> SpecRevision:
    """Returns the revision that ``job`` has now."""
    return SpecRevision(revision=job.revision, spec=job.spec, terms=job.terms)


def revision_before(job: JobRef, update: Update) -> SpecRevision:
    """Returns what ran before ``update`` of ``job``, whole: the checkpoint is that of the job."""
    before = update.before
    return replace(before, terms=replace(before.terms, checkpoint=job.terms.checkpoint))


def with_rolled_back(job: JobRef, update: Update) -> tuple[int, ...]:
    """Returns the revisions of ``job`` that leaders have rolled back, once ``update`` is."""
    return (*job.rolled_back, update.target)[-ROLLED_BACK_KEPT:]


def standing_update(job: JobRef | Result) -> Update | None:
    """Returns the update to the revision that ``job`` has now, or None: there was none, or it was given up or rolled back,
    or the revision came about otherwise."""
    update = job.update
    if update is None or update.given_up or update.rolled_back:
        return None
    return update if job.revision == update.target else None


def has_begun(job: JobRef, update: Update, own: Ownership) -> bool:
    """Says whether an attempt of the target of ``update``, or of a later revision, was ever assigned."""
    return own.uid != job.uid or own.revision != update.before.revision


class UpdateState(StrEnum):
    """Says how far an update is. Without a driver of the target it is ``adopted``: the next attempt is of the target.
    ``failed`` is one that was given up, ``broken`` one whose target has failed while it was observed, for as long as it is
    not rolled back."""

    PREPARING = "preparing"
    ADOPTED = "adopted"
    OBSERVING = "observing"
    DONE = "done"
    BROKEN = "broken"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


def update_state(job: JobRef, own: Ownership | None) -> UpdateState | None:
    """Returns how far the newest update of ``job`` is, or None if there was none."""
    update = job.update
    if update is None:
        return None
    if update.given_up:
        return UpdateState.FAILED
    if update.rolled_back:
        return UpdateState.ROLLED_BACK
    if update.done:
        return UpdateState.DONE
    if own is None or own.uid != job.uid:
        return UpdateState.ADOPTED
    if is_pending(job, own):
        return UpdateState.PREPARING
    if why_update_failed(job, own):
        return UpdateState.BROKEN
    if own.revision != update.target or own.state is OwnState.ASSIGNED:
        return UpdateState.ADOPTED
    if observed_update(job) is not None:
        return UpdateState.OBSERVING
    return UpdateState.DONE if own.state is OwnState.CLAIMED else UpdateState.ADOPTED


def observed_update(job: JobRef | Result) -> Update | None:
    """Returns the update whose target the leader still judges, or None: its target stands, and was not observed for long
    enough."""
    update = standing_update(job)
    return update if update is not None and update.policy is not None and not update.done else None


def judged_update(job: JobRef, own: Ownership) -> JudgedUpdate | None:
    """Returns what is kept beside ``own`` of the update of ``job``, if that is of its very target."""
    update, judged = job.update, own.judged
    if update is None or judged is None or own.uid != job.uid or own.revision != update.target:
        return None
    return judged if judged.target == update.target else None


def queries_before(job: JobRef, own: Ownership) -> tuple[str, ...] | None:
    """Returns what was known of the checkpoint when the revision before the update of ``job`` had run last, as pairs of
    ``CheckpointExpectation``; None if that is not known."""
    update, judged = job.update, judged_update(job, own)
    if update is None or judged is None or judged.before != update.before.revision:
        return None
    return judged.queries


def known_before(job: JobRef, own: Ownership) -> tuple[SeenQuery, ...] | None:
    """Returns the batches that were known when the revision before the update had run last; None if nobody knows."""
    queries = queries_before(job, own)
    return None if queries is None else queries_of(CheckpointExpectation(place="", queries=queries))


def failures_of_update(job: JobRef, own: Ownership) -> int:
    """Returns how many failures of attempts of the target count against the update of ``job``, with the exit in ``own``.

    What a host, a lost connection or a stop has ended does not count, nor an ``out_of_memory`` after which the memory
    is raised.
    """
    if job.update is None or own.uid != job.uid or own.revision != job.update.target:
        return 0
    judged = judged_update(job, own)
    before = judged.failures if judged is not None else 0
    return before + (own.state is OwnState.EXITED and _counts(job, own))


def why_update_failed(job: JobRef, own: Ownership) -> str:
    """Returns that an update has failed, with the command that helps; it is empty if it has not.

    It has failed if its target is still observed, and either the attempt number ``failures`` of its policy has failed, or
    one after which no other follows.
    """
    update = observed_update(job)
    if update is None or update.policy is None or own.restart_nonce != job.restart_nonce:
        return ""
    failures = failures_of_update(job, own)
    is_last = own.state is OwnState.EXITED and (own.permanent or account_of(job, own).exhausted)
    if failures < (1 if is_last else max(1, update.policy.failures)):
        return ""
    what = f"revision {update.target} has failed while it was observed, and is not rolled back by itself"
    if update.savepoint:
        return (
            f"{what}: suspend {job.name} --wait, then rollback {job.name} --from-savepoint {update.savepoint} makes "
            f"revision {update.before.revision} go on as it was before"
        )
    return (
        f"{what}: rollback {job.name} makes revision {update.before.revision} go on from the same checkpoint"
    )


def goes_back_in_any_case(job: JobRef, own: Ownership) -> bool:
    """Says whether the failed update of ``job`` is rolled back whatever it has left: then no attempt follows by back-off."""
    update = job.update
    if update is None or update.policy is None or not why_update_failed(job, own):
        return False
    rule = update.policy.rollback
    return rule is RollbackRule.CONTINUE or (rule is RollbackRule.SAVEPOINT and bool(update.savepoint))


def left_by_update(job: JobRef, own: Ownership) -> str:
    """Returns why the failed update of ``job`` was not rolled back, as the leader kept it with the next attempt; it is empty
    if nothing was kept."""
    judged = judged_update(job, own)
    return judged.left if judged is not None else ""


def why_of_update(job: JobRef, own: Ownership | None) -> str:
    """Returns why the newest update of ``job`` did not come to stay, with what helps; it is empty if it did, or may."""
    update = job.update
    if update is None:
        return ""
    failed = why_update_failed(job, own) if own is not None else ""
    left = left_by_update(job, own) if own is not None else ""
    return update.rolled_back or update.given_up or (f"{failed} ({left})" if failed and left else failed)


def _counts(job: JobRef, own: Ownership) -> bool:
    if own.permanent:
        return True
    if own.cause is Cause.CLUSTER_TIMED_OUT:
        # the revision before got executors, and this one may ask for too much
        return True
    if own.cause is None or own.cause in PLANNED_CAUSES | UNCHARGED_CAUSES:
        return False
    return own.cause is not Cause.OUT_OF_MEMORY or next_memory(job, own).raised <= own.raised


def follows_roll_back(job: JobRef, own: Ownership) -> bool:
    """Says whether the next attempt is the first after the leader has rolled an update back, of which ``own`` still is."""
    update = job.update
    if update is None or not update.rolled_back or own.uid != job.uid:
        return False
    return own.revision == update.target and own.restart_nonce == job.restart_nonce


def is_pending(job: JobRef, own: Ownership) -> bool:
    """Says whether an attempt of the revision before the update of ``job`` still runs, and may go on: then the update
    can be given up, and nothing was changed by it (protocol §9.2)."""
    update = standing_update(job)
    return update is not None and not has_begun(job, update, own) and own.state is OwnState.CLAIMED
