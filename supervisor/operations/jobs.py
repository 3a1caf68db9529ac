"""Carries out what the command line does to the registry: reads, builds a multi with ``user_writes``, commits
it, resolves an unknown outcome, and answers.

Called by ``cli``. It works without any supervisor and never talks to a driver. Every command does a ``sync``
before its first read, resolves name → uid once, and names that uid in every retry. Nothing is acknowledged
that is not durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final

from supervisor.clock import boottime_s, wall_iso
from supervisor.errors import (
    Conflict,
    Corrupt,
    GuardFailed,
    SupervisorError,
    TimedOut,
    Unreachable,
)
from supervisor.model.checkpoint_expectation import SeenQuery, moved_to, pairs_of, place_of
from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.policies import refuses
from supervisor.model.records import (
    BY_MAX_BYTES,
    OCCUPYING,
    BlobRef,
    Cleanliness,
    Cordon,
    Desired,
    Fork,
    HistoryEntry,
    JobRef,
    KeptRevision,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Result,
    Revisions,
    SchedulingSpec,
    clip,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import has_finished, is_pending
from supervisor.model.submission_records import reference_of
from supervisor.model.transaction import Create, SetData, Transaction
from supervisor.model.view import cordoned_by
from supervisor.operations.auditing import NO_AUDIT, AskedWrite, Auditor
from supervisor.operations.names import check_host, no_job
from supervisor.operations.savepoint_resume import (
    Basis,
    Revision,
    moved_reference,
    require_basis,
    why_running,
)
from supervisor.operations.updating import (
    Change,
    Judged,
    MovedPlace,
    Target,
    is_rolled_back,
    judge_change,
    rolled_back,
)
from supervisor.plan.placement import why_unfit
from supervisor.records.codec import decode
from supervisor.records.ids import new_op_id, new_uid
from supervisor.records.layout import Layout
from supervisor.records.ports import ReplaceableSession, ZkSession
from supervisor.records.reading import seen, seen_all
from supervisor.registry import user_writes
from supervisor.registry.blob_sweep import SUBMIT_MAX_S
from supervisor.registry.checkpoint_claims import (
    CheckpointClaims,
    LeftCheckpoint,
    being_deleted,
    previous_users,
)
from supervisor.registry.fixed_znodes import ANY_AGE, fixed_paths, judge_fixed_znodes
from supervisor.registry.promotion_writes import was_suspended
from supervisor.registry.resolve_outcome import commit_resolved
from supervisor.registry.revisions import NO_RECORD, known, read_revisions
from supervisor.registry.user_writes import AskedRevision, Move, UserWriteContext

EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
JOBS_MAX = 10_000
ENDED_BEFORE = "an earlier submission of it has ended; this is a new one"
TRIES_MAX = 20


class Did(StrEnum):
    """Says what came of a command. All values are exit code 0."""

    SUBMITTED = "submitted"
    UNCHANGED = "unchanged"
    CANCELLED = "cancelled"
    ALREADY_CANCELLED = "already cancelled"
    ALREADY_FINISHED = "already finished"
    SUSPENDED = "suspended"
    ALREADY_SUSPENDED = "already suspended"
    RESUMED = "resumed"
    ALREADY_RUNNING = "already running"
    RESTARTED = "restarted"
    REGISTERED_AGAIN = "registered again"
    UPDATED = "updated"
    UPDATE_WITHDRAWN = "update withdrawn"
    ROLLED_BACK = "rolled back"
    ALREADY_ROLLED_BACK = "already rolled back"
    MOVE_ASKED = "to be moved"
    MOVE_WITHDRAWN = "move withdrawn"
    ALREADY_TO_BE_MOVED = "already to be moved"
    ALREADY_THERE = "already there"
    FORKED = "forked"
    INTENDED = "to be promoted"
    PROMOTED = "promoted"
    ALREADY_PROMOTED = "already promoted"
    UNDONE = "promotion undone"
    ALREADY_UNDONE = "promotion already undone"
    WITHDRAWN = "promotion withdrawn"


@dataclass(frozen=True, slots=True)
class Done:
    """Acknowledges a command, whose effect is durable when a ``Done`` is returned."""

    name: str
    uid: str
    did: Did


@dataclass(frozen=True, slots=True)
class ChosenJob:
    """Names what a command has chosen to cancel: a uid, and the version of its reference, or None if it had none."""

    uid: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Submission:
    """Holds a validated spec whose blob and artifacts are in the store already.

    ``stored_from_at_s`` is the BOOTTIME before the first of them was stored; ``registry.blob_sweep`` relies
    on a bound from that time on. With ``fresh_start``, the first start may find another checkpoint than an
    earlier submission of the name left, or none. ``queries`` is what it has to find then, if a savepoint was
    restored there. ``fork`` is set for a fork, whose checkpoint is yet to be copied.
    """

    name: str
    uid: str
    spec: BlobRef
    scheduling: SchedulingSpec
    desired: Desired = Desired.RUNNING
    stored_from_at_s: float = field(default_factory=boottime_s)
    fresh_start: bool = False
    queries: tuple[SeenQuery, ...] = ()
    fork: Fork | None = None


@dataclass(frozen=True, slots=True)
class JobRecords:
    """Holds what is known of a name. ``result`` is that of the uid asked about, or else of the newest uid of
    the name."""

    ref: Seen[JobRef]
    own: Seen[Ownership]
    result: Seen[Result]


@dataclass(frozen=True, slots=True)
class JobWrite:
    """Holds a multi to commit, what to answer then, and how to find out from a later reading whether it was
    applied."""

    tx: Transaction
    done: Done
    applied: Callable[[JobRecords], bool | None]
    claimed: ClaimedLocation | None = None


class JobOperations:
    """Gives one command access to the registry. ``author`` returns who gives it, and ``auditor`` writes that
    down. It is not thread-safe."""

    def __init__(
        self,
        sessions: ReplaceableSession,
        layout: Layout,
        author: Callable[[], str] = lambda: "",
        auditor: Auditor = NO_AUDIT,
    ) -> None:
        self._sessions = sessions
        self._layout = layout
        self._author = author
        self._auditor = auditor
        self._claims: CheckpointClaims | None = None
        self._previous_users: LeftCheckpoint | None = None

    def job_records(self, name: str, uid: str | None = None) -> JobRecords:
        """Returns the records of ``name`` after a sync. Raises NotFound for a name that was never
        submitted."""
        zoo = self._sessions.zoo()
        zoo.sync()
        found = self._read(zoo, name, uid)
        if found.ref is None and found.own is None:
            raise no_job(zoo, self._layout, name)
        return found

    # -- submit ---------------------------------------------------------------------------------------------------

    def check_submit(
        self, name: str, spec_sha256: str, checkpoint: str | None, signature: str = ""
    ) -> Done | None:
        """Refuses what can't be submitted before anything is stored. A Done means that this same spec is
        registered already, with this ``signature`` if there is one."""
        zoo = self._sessions.zoo()
        zoo.sync()
        found = self._read(zoo, name, None)
        done = _same_or_conflict(found, name, spec_sha256, signature)
        if done is None:
            self._reserve(zoo, name, None, checkpoint)
        return done

    def check_location(self, name: str, location: str) -> None:
        """Raises Conflict if ``name`` can't have its checkpoint at ``location`` now. Call ``sync`` before."""
        self._reserve(self._sessions.zoo(), name, None, location)

    def submit(self, submission: Submission) -> Done:
        """Registers a stored submission. The same spec again is a no-op; another spec for a live name is a
        Conflict.

        Raises TimedOut more than 10 minutes after storing began, because the sweeper may delete the blobs
        then. The time is checked when the session is known to exist: a process that is stopped after the
        check loses its session, and with it the multi.
        """
        name, uid = submission.name, submission.uid
        self._sessions.zoo().sync()

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            if boottime_s() - submission.stored_from_at_s > SUBMIT_MAX_S:
                raise TimedOut(
                    f"storing {name} took more than {SUBMIT_MAX_S:g} s, nothing was registered: submit it again"
                )
            found = self._read(zoo, name, uid)
            if found.result is not None:
                raise Conflict(f"{name} was cancelled while it was being submitted")
            done = _same_or_conflict(found, name, submission.spec.sha256, submission.spec.signature)
            if done is not None:
                return done
            claimed = self._reserve(zoo, name, uid, submission.scheduling.checkpoint)
            self._check_room(zoo)
            context = self._context()
            last = self._last_claim(zoo, found, name)
            job = replace(_reference(submission, context), left_by=self._other_of(zoo, submission))
            tx = user_writes.submit(context, job, found.own, claimed, last)
            return JobWrite(tx, Done(name, uid, Did.SUBMITTED), lambda now: _newest(now) == uid, claimed)

        return self._carry_out(name, uid, attempt)

    def _other_of(self, zoo: ZkSession, submission: Submission) -> str:
        """Returns a job that committed batches in this checkpoint before, or ``""`` if there is none or this
        name did so too.

        The ownerships are read once per command.
        """
        if submission.scheduling.checkpoint is None:
            return ""
        if self._previous_users is None:
            self._previous_users = previous_users(zoo, self._layout)
        names = self._previous_users.by(place_of(submission.scheduling.checkpoint))
        return "" if submission.name in names else min(names, default="")

    def _check_room(self, zoo: ZkSession) -> None:
        """Raises Conflict if no more jobs may be registered. Call it after the claims were read.

        If another job was registered since then, the multi fails and the number is checked again.
        """
        node = zoo.read(self._layout.jobs)
        if node is not None and node.stat.children >= JOBS_MAX:
            raise Conflict(f"{JOBS_MAX} jobs are registered already: cancel some, or use a second cluster")

    # -- update -----------------------------------------------------------------------------------------------------

    def judge_changes(
        self,
        wanted: Sequence[tuple[str, str, str | None]],
        *,
        again: bool,
        signatures: Mapping[str, str] = EMPTY,
    ) -> list[Judged | SupervisorError]:
        """Returns for each of ``wanted`` (name, sha256 of the spec, checkpoint) what it takes to make that spec the job's,
        or why it cannot be. ``signatures`` has by name those that the specs shall have. Nothing is written, and all are
        read at once. Raises Unreachable."""
        zoo, layout = self._sessions.zoo(), self._layout
        zoo.sync()
        paths = [path for name, _, _ in wanted for path in (layout.job(name), layout.own(name))]
        nodes = zoo.read_many(paths).nodes
        refs: list[Seen[JobRef]] = seen_all(JobRef, paths[::2], nodes[::2])
        owns: list[Seen[Ownership]] = seen_all(Ownership, paths[1::2], nodes[1::2])
        kept = self._kept_revisions(zoo, refs)
        judged: list[Judged | SupervisorError] = []
        for (name, sha256, checkpoint), ref, own in zip(wanted, refs, owns, strict=True):
            try:
                if ref is None:
                    self._reserve(zoo, name, None, checkpoint)
                    ended = isinstance(own, Found) and bool(own.record.newest_uid)
                    judged.append(Judged(Change.CREATE, why=ENDED_BEFORE if ended else ""))
                    continue
                found = JobRecords(ref, own, None)
                job, of_job = _live(found, name).record, _owned(found, name).record
                entries = known(job, kept.get(job.uid, ()))
                judged.append(
                    judge_change(
                        job, of_job, sha256, checkpoint, entries, signatures.get(name, ""), again=again
                    )
                )
            except Unreachable:
                raise
            except SupervisorError as error:
                judged.append(error)
        return judged

    def moved_places(self, names: Sequence[str]) -> dict[str, MovedPlace]:
        """Returns by name where those of ``names`` are that the leader has moved to a copy of a savepoint. Raises
        Unreachable."""
        paths = [self._layout.job(name) for name in names]
        refs: list[Seen[JobRef]] = seen_all(JobRef, paths, self._sessions.zoo().read_many(paths).nodes)
        jobs = [ref.record for ref in refs if isinstance(ref, Found)]
        return {
            job.name: MovedPlace(job.declared, job.terms.checkpoint)
            for job in jobs
            if job.declared and job.terms.checkpoint is not None
        }

    def _kept_revisions(
        self, zoo: ZkSession, refs: Iterable[Seen[JobRef]]
    ) -> dict[str, tuple[KeptRevision, ...]]:
        """Returns by uid what is kept of the revisions of the jobs in ``refs``."""
        uids = [ref.record.uid for ref in refs if isinstance(ref, Found)]
        paths = [self._layout.revisions_of(uid) for uid in uids]
        found = seen_all(Revisions, paths, zoo.read_many(paths).nodes) if paths else []
        return {
            uid: each.record.revisions
            for uid, each in zip(uids, found, strict=True)
            if isinstance(each, Found)
        }

    def revisions(self, name: str) -> tuple[JobRef | Result, Ownership | None, tuple[KeptRevision, ...]]:
        """Returns the newest submission of ``name`` and all that is known of its revisions, oldest first.
        Raises NotFound and Corrupt."""
        found = self.job_records(name)
        record = found.ref if found.ref is not None else found.result
        if not isinstance(record, Found):
            raise Corrupt(f"the records of {name} are missing or unreadable")
        kept = read_revisions(self._sessions.zoo(), self._layout, record.record.uid).kept
        own = found.own.record if isinstance(found.own, Found) else None
        return record.record, own, known(record.record, kept)

    def update(self, target: Target) -> Done:
        """Makes ``target`` the spec of a job, whose spec and files are stored (protocol §9.2). The driver that runs goes
        on until one of the target is prepared.

        Raises Conflict if the job was changed since it was judged.
        """
        name, uid, basis = target.name, target.uid, target.basis
        self._sessions.zoo().sync()

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            ref, own = _live(found, name, uid), _owned(found, name)
            job = ref.record
            if (job.revision, job.spec.sha256, job.next_revision) != basis:
                raise Conflict(
                    f"{name} was changed by somebody else meanwhile: nothing was done", "try again"
                )
            withdrawn = target.asked.target.revision < job.next_revision
            if withdrawn and not is_pending(job, own.record):
                raise Conflict(
                    f"{name} has begun with revision {job.revision} meanwhile: nothing was done", "try again"
                )
            tx = user_writes.update(
                self._context(), ref, own, target.asked, read_revisions(zoo, self._layout, uid)
            )
            did = Did.ROLLED_BACK if target.asked.rolls_back else Did.UPDATED
            done = Done(name, uid, Did.UPDATE_WITHDRAWN if withdrawn else did)
            return JobWrite(tx, done, _changed_by(tx, ref))

        return self._carry_out(name, uid, attempt)

    def roll_back_failed(self, name: str, basis: Basis, asked: AskedRevision) -> Done:
        """Registers a job that has failed again, with the revision that is asked for. Raises Conflict if it was changed
        since ``basis``."""

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, basis.uid)
            require_basis(basis, _failed(found, name).record)
            return self._register_again(zoo, found, name, fresh_start=False, asked=asked)

        return self._carry_out(name, basis.uid, attempt)

    def roll_back(self, name: str, by: str, judge: Callable[[BlobRef], None] = lambda _spec: None) -> Done:
        """Makes the spec that ran before the newest update that of the job, as a new revision; an update that waits for
        its prepared driver is withdrawn. A job that has failed is registered again with it. Given again, it changes
        nothing: it does not go forward. Raises Conflict if there is none, and what ``judge`` raises of the spec that is to
        be started."""
        start = self.job_records(name)
        uid = start.ref.record.uid if isinstance(start.ref, Found) else _failed(start, name).record.uid

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            if found.ref is None:
                return self._register_again(zoo, found, name, fresh_start=False, roll_back_by=by, judge=judge)
            ref, own = _live(found, name, uid), _owned(found, name)
            if is_rolled_back(ref.record):
                return Done(name, uid, Did.ALREADY_ROLLED_BACK)
            before, withdrawn = rolled_back(ref.record, own.record)
            if not withdrawn:  # else it runs already
                judge(before.spec)
            asked = AskedRevision(before, by, rolls_back=True)
            tx = user_writes.update(self._context(), ref, own, asked, read_revisions(zoo, self._layout, uid))
            done = Done(name, uid, Did.UPDATE_WITHDRAWN if withdrawn else Did.ROLLED_BACK)
            return JobWrite(tx, done, _changed_by(tx, ref))

        return self._carry_out(name, uid, attempt)

    # -- cancel, suspend ------------------------------------------------------------------------------------------

    def cancel(self, name: str, *, chosen: ChosenJob | None = None, only_uid: str | None = None) -> Done:
        """Cancels the live uid, or a failed one. When this returns, the uid never starts again (I2).

        With ``chosen`` it cancels only what was chosen before: raises Conflict, and has done nothing, if the job was
        submitted anew since, or if its reference is not at that version any more. ``only_uid`` is as in ``suspend``.
        """
        start = self.job_records(name)
        uid = _must_be_only(name, _uid_to_cancel(start, name), only_uid)
        if isinstance(start.ref, Unreadable) and start.result is not None:
            uid = new_uid(name)  # the reference can't say whose it is, and that uid has ended already

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            if chosen is not None:
                _must_be_as_chosen(found, name, uid, chosen)
            if isinstance(found.result, Found):
                return self._cancel_ended(found, found.result)
            other = isinstance(found.ref, Found) and found.ref.record.uid != uid
            if other or (
                found.ref is None and found.result is None and not isinstance(found.own, Unreadable)
            ):
                raise Conflict(f"{name} was submitted anew while it was being cancelled", "try again")
            if found.result is not None:
                _must_be_newest(found, name, uid)
            tx = user_writes.cancel(
                self._context(),
                found.ref,
                name,
                uid,
                found.own,
                self._last_claim(zoo, found, name),
                entry_exists=self._entry_exists(zoo, found),
                ended=found.result,
            )
            return JobWrite(tx, Done(name, uid, Did.CANCELLED), _is_cancelled)

        return self._carry_out(name, uid, attempt)

    def _cancel_ended(self, found: JobRecords, result: Found[Result]) -> Done | JobWrite:
        record = result.record
        if record.outcome is Outcome.CANCELLED:
            return Done(record.name, record.uid, Did.ALREADY_CANCELLED)
        if record.outcome is Outcome.FINISHED:
            return Done(record.name, record.uid, Did.ALREADY_FINISHED)
        _must_be_newest(found, record.name, record.uid)
        tx = user_writes.cancel_failed(self._context(), result, found.own)
        return JobWrite(tx, Done(record.name, record.uid, Did.CANCELLED), _is_cancelled)

    def suspend(self, name: str, *, only_uid: str | None = None) -> Done:
        """Stops the job but keeps it. Raises Conflict for a job that has ended, and if ``only_uid`` is given and the name
        has another submission now."""
        uid = _must_be_only(name, _live(self.job_records(name), name).record.uid, only_uid)

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            ref = _live(found, name, uid)
            job = ref.record
            is_copied = job.fork is not None and job.fork.copying
            if job.desired is Desired.SUSPENDED and not (is_copied and not was_suspended(job)):
                return Done(name, uid, Did.ALREADY_SUSPENDED)
            tx = user_writes.suspend(
                self._context(),
                ref,
                found.own,
                self._last_claim(zoo, found, name),
                entry_exists=self._entry_exists(zoo, found),
            )
            return JobWrite(tx, Done(name, uid, Did.SUSPENDED), _changed_by(tx, ref))

        return self._carry_out(name, uid, attempt)

    # -- resume, restart ------------------------------------------------------------------------------------------

    def resume(self, name: str, *, fresh_start: bool = False, only_uid: str | None = None) -> Done:
        """Runs the job again; also clears a spent budget or a quarantine. A failed uid is registered again.

        With ``fresh_start``, the next start, once, may find another checkpoint than the job left, or none. ``only_uid`` is
        as in ``suspend``.
        """
        return self._run_again(name, "resumed", Did.RESUMED, fresh_start=fresh_start, only_uid=only_uid)

    def restart(self, name: str, *, cold: bool = False, only_uid: str | None = None) -> Done:
        """Asks for a new attempt now; with ``cold``, without a prepared driver. Raises Conflict for a suspended
        job (resume it). ``only_uid`` is as in ``suspend``."""
        return self._run_again(name, "restarted", Did.RESTARTED, cold=cold, only_uid=only_uid)

    def move(self, name: str, to: str) -> Done:
        """Asks that the job goes on on the host ``to``. The leader has a driver prepared there, and then stops the present
        one. If the job is on ``to``, a move that was asked for is withdrawn.

        Raises NotFound (no such host), Conflict (the host is cordoned, the job is suspended or just being stopped).
        """
        uid = _live(self.job_records(name), name).record.uid

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            ref, own = _live(found, name, uid), _owned(found, name)
            job, of_job = ref.record, own.record
            if job.desired is Desired.SUSPENDED:
                raise Conflict(f"{name} is suspended: resume it instead, it is placed where there is room")
            request = job.move_in_force if of_job.restart_nonce != job.restart_nonce else None
            is_there = (of_job.uid, of_job.supervisor) == (uid, to) and of_job.state in OCCUPYING
            if is_there and request is None:
                return Done(name, uid, Did.ALREADY_THERE)
            if is_there and of_job.state in (OwnState.DRAINING, OwnState.REVOKED):
                raise Conflict(f"{name} is just being stopped on {to}", "try again when it runs")
            if not is_there:
                self._check_target(zoo, to, job, of_job)
            if request is not None and request.to == to:
                return Done(name, uid, Did.ALREADY_TO_BE_MOVED)
            tx = user_writes.move(self._context(), ref, own, None if is_there else to)
            done = Done(name, uid, Did.MOVE_WITHDRAWN if is_there else Did.MOVE_ASKED)
            return JobWrite(tx, done, _changed_by(tx, ref))

        return self._carry_out(name, uid, attempt)

    def _check_target(self, zoo: ZkSession, host: str, job: JobRef, own: Ownership) -> None:
        """Raises NotFound or Conflict if ``job`` can't be moved to ``host``."""
        check_host(zoo, self._layout, host)
        path = self._layout.host(host)
        wanted: Seen[Cordon] = seen(Cordon, zoo.read(path), path)
        if wanted is not None:
            closed = cordoned_by({host: wanted})
            if closed:
                raise Conflict(closed[host], f"spark-supervisor uncordon {host} lets it take jobs again")
        path = self._layout.supervisor(host)
        member: Seen[Member] = seen(Member, zoo.read(path), path)
        if member is None:
            raise Conflict(f"{host} is not up", "move it when status shows it, or name another host")
        if not isinstance(member, Found):
            return
        unfit = why_unfit(member.record, job.terms)
        if unfit is not None:
            raise Conflict(
                f"{unfit}, which the job requires", "status shows the labels and Sparks of each host"
            )
        if refuses(member.record, job, own):
            helps = f"name another host; spark-supervisor restart {job.name} asks every host again"
            raise Conflict(f"the policy of {host} has refused {job.name}", helps)

    def _run_again(
        self,
        name: str,
        event: str,
        did: Did,
        *,
        fresh_start: bool = False,
        cold: bool = False,
        only_uid: str | None = None,
    ) -> Done:
        start = self.job_records(name)
        uid = start.ref.record.uid if isinstance(start.ref, Found) else _failed(start, name).record.uid
        _must_be_only(name, uid, only_uid)

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            if found.ref is None:
                return self._register_again(zoo, found, name, fresh_start=fresh_start)
            ref = _live(found, name, uid)
            own = _owned(found, name)
            _require_copied(ref.record)
            if did is Did.RESUMED and ref.record.desired is Desired.RUNNING and not _is_parked(own.record):
                return Done(name, uid, Did.ALREADY_RUNNING)
            if did is Did.RESTARTED and ref.record.desired is Desired.SUSPENDED:
                raise Conflict(f"{name} is suspended: resume it instead")
            tx = user_writes.run_again(
                self._context(), ref, own, new_op_id(), event, fresh_start=fresh_start, cold=cold
            )
            return JobWrite(tx, Done(name, uid, did), _changed_by(tx, ref))

        return self._carry_out(name, uid, attempt)

    def _register_again(
        self,
        zoo: ZkSession,
        found: JobRecords,
        name: str,
        *,
        fresh_start: bool,
        roll_back_by: str | None = None,
        asked: AskedRevision | None = None,
        judge: Callable[[BlobRef], None] = lambda _spec: None,
    ) -> JobWrite:
        result = _failed(found, name)
        own, record = _owned(found, name), result.record
        _must_be_newest(found, name, record.uid)
        if record.spec is None or record.terms is None:
            raise Conflict(f"the spec of {name} is not known any more: submit it again")
        claimed = self._reserve(zoo, name, record.uid, record.terms.checkpoint)
        self._check_room(zoo)
        context = self._context()
        job = _again(record, context)
        if roll_back_by is not None:
            before, _ = rolled_back(job, own.record)
            judge(before.spec)
            asked = AskedRevision(before, roll_back_by, rolls_back=True)
        if asked is not None:
            job = user_writes.with_update(context, job, own, asked)
        tx = user_writes.register_again(
            context,
            replace(job, fresh_start=context.op_id if fresh_start else ""),
            own,
            result,
            claimed,
            revisions=NO_RECORD if asked is None else read_revisions(zoo, self._layout, record.uid),
            by="" if asked is None else asked.by,
        )
        return JobWrite(tx, Done(name, record.uid, Did.REGISTERED_AGAIN), _registered_by(tx, own), claimed)

    def basis(self, name: str) -> Basis:
        """Returns what a resume from a savepoint would begin with.

        Raises Conflict for a uid that was cancelled or has finished.
        """
        found = self.job_records(name)
        record = _live(found, name).record if found.ref is not None else _failed(found, name).record
        if record.spec is None or record.terms is None:
            raise Conflict(f"the spec of {name} is not known any more: submit it again")
        running = why_running(record, _owned(found, name)) if isinstance(record, JobRef) else ""
        last_known = record.changed.detail if isinstance(record, JobRef) else ""
        return Basis(
            name,
            record.uid,
            record.revision,
            record.spec,
            record.terms.checkpoint,
            running,
            last_known,
            record.next_revision,
        )

    def resume_from(self, revision: Revision) -> Done:
        """Runs the job again with the checkpoint of ``revision``, in one step: the claim of the old one is
        given up, its data stay.

        Raises Conflict if the job runs, or was changed since ``basis``.
        """
        name, uid = revision.basis.name, revision.basis.uid
        self._sessions.zoo().sync()

        def attempt(zoo: ZkSession) -> Done | JobWrite:
            found = self._read(zoo, name, uid)
            own = _owned(found, name)
            context, claimed = self._context(), self._reserve(zoo, name, uid, revision.scheduling.checkpoint)
            path = self._layout.lease(name)
            lease: Seen[Lease] = seen(Lease, zoo.read(path), path)
            last_known = lease.record.remembered if isinstance(lease, Found) else None
            remembered = moved_to(
                revision.scheduling.checkpoint or "", revision.queries, last_known, own.record.remembered
            )
            left = self._all_claims(zoo).held(revision.basis.checkpoint, uid)
            if left is not None and left[0] == claimed.path:
                raise Conflict(
                    f"{name} has its checkpoint at {claimed.location} already: choose another location"
                )
            move = Move(remembered, lease, left)
            if found.ref is None:
                return self._register_moved(zoo, found, revision, context, claimed, move)
            ref = _live(found, name, uid)
            running = why_running(ref.record, own)
            if running:
                raise Conflict(running)
            require_basis(revision.basis, ref.record)
            job = moved_reference(ref.record, revision, "resumed", context.op_id, context.at, context.by)
            revisions = read_revisions(zoo, self._layout, uid)
            tx = user_writes.resume_from(context, ref, own, job, claimed, move, revisions, revision.by)
            return JobWrite(tx, Done(name, uid, Did.RESUMED), _changed_by(tx, ref), claimed)

        return self._carry_out(name, uid, attempt)

    def _register_moved(
        self,
        zoo: ZkSession,
        found: JobRecords,
        revision: Revision,
        context: UserWriteContext,
        claimed: ClaimedLocation,
        move: Move,
    ) -> JobWrite:
        name = revision.basis.name
        result, own = _failed(found, name), _owned(found, name)
        _must_be_newest(found, name, result.record.uid)
        require_basis(revision.basis, result.record)
        self._check_room(zoo)
        again = _again(result.record, context)
        job = moved_reference(again, revision, "registered again", context.op_id, context.at, context.by)
        revisions = read_revisions(zoo, self._layout, job.uid)
        tx = user_writes.register_again(context, job, own, result, claimed, move, revisions, revision.by)
        return JobWrite(tx, Done(name, job.uid, Did.REGISTERED_AGAIN), _registered_by(tx, own), claimed)

    # -- the loop -------------------------------------------------------------------------------------------------

    def _carry_out(self, name: str, uid: str, attempt: Callable[[ZkSession], Done | JobWrite]) -> Done:
        """Reads, builds and commits, and starts over when another write came first.

        The number of tries is bounded, and an unknown outcome is resolved.
        """
        for _ in range(TRIES_MAX):
            zoo = self._sessions.zoo()
            step = attempt(zoo)
            if isinstance(step, Done):
                return step
            try:
                if self._commit(zoo, step, name, uid):
                    return step.done
            except GuardFailed:
                self._claims = None
        whole = judge_fixed_znodes(
            self._layout, self._sessions.zoo().read_many(fixed_paths(self._layout)).nodes, ANY_AGE
        )
        if whole.distrust is not None:
            raise Conflict(f"nothing was done: {whole.distrust}")
        if whole.missing:
            gone = ", ".join(whole.missing)
            raise Conflict(
                f"nothing was done: {gone} is missing, it was removed by hand; a leader makes it anew"
            )
        raise Conflict(
            f"other commands came first each time, of {name} or of other jobs: nothing was done", "try again"
        )

    def _commit(self, zoo: ZkSession, write: JobWrite, name: str, uid: str) -> bool:
        """Commits on the session that the reads used: a process that was stopped since then has lost it, and
        with it this multi."""
        commit = partial(
            commit_resolved,
            self._sessions,
            zoo,
            write.tx,
            lambda now: write.applied(self._read(now, name, uid)),
            f"show {name} tells as soon as ZooKeeper answers, and the same command may be given again",
        )
        asked, *beside = self._asked(write)
        committed = self._auditor.commit(asked, commit, beside)
        if committed and write.claimed is not None and self._claims is not None:
            self._claims.taken(write.claimed, name, uid)
        return committed

    def _asked(self, write: JobWrite) -> list[AskedWrite]:
        """Returns what ``write`` does, to the job that it answers about first, and then to others."""
        tx, done = write.tx, write.done
        set_jobs = {
            op.path: decode(JobRef, op.data, op.path)
            for op in tx.ops
            if isinstance(op, Create | SetData) and op.path.startswith(f"{self._layout.jobs}/")
        }
        job = set_jobs.pop(self._layout.job(done.name), None)
        revision = job.revision if job is not None else 0
        return [
            AskedWrite(tx.what, tx.id, done.name, done.uid, revision, done.did.value),
            *(
                AskedWrite(
                    tx.what,
                    tx.id,
                    other.name,
                    other.uid,
                    other.revision,
                    f"{other.changed.event}, with {done.name}: {done.did.value}",
                )
                for other in set_jobs.values()
            ),
        ]

    def _read(self, zoo: ZkSession, name: str, uid: str | None) -> JobRecords:
        layout = self._layout
        paths = [layout.job(name), layout.own(name), *([layout.result(uid)] if uid else [])]
        nodes = zoo.read_many(paths).nodes
        ref: Seen[JobRef] = seen(JobRef, nodes[0], paths[0])
        own: Seen[Ownership] = seen(Ownership, nodes[1], paths[1])
        if uid is None and isinstance(own, Found) and own.record.newest_uid:
            paths.append(layout.result(own.record.newest_uid))
            nodes = (*nodes, zoo.read(paths[2]))
        return JobRecords(ref, own, seen(Result, nodes[2], paths[2]) if len(nodes) > 2 else None)

    def _registered(
        self, zoo: ZkSession, name: str, uid: str
    ) -> tuple[JobRecords, Found[JobRef], Found[Ownership]]:
        """Returns the records of a job that may be changed. Raises Conflict if it is not that uid, or over."""
        found = self._read(zoo, name, uid)
        return found, _live(found, name, uid), _owned(found, name)

    @staticmethod
    def _change(tx: Transaction, ref: Found[JobRef], did: Did) -> JobWrite:
        """Returns the write of a multi that sets the reference ``ref``."""
        return JobWrite(tx, Done(ref.record.name, ref.record.uid, did), _changed_by(tx, ref))

    def _last_claim(self, zoo: ZkSession, found: JobRecords, name: str) -> Seen[Lease]:
        """Reads the lease if the ownership cannot say which attempt is the last one; else returns None."""
        path = self._layout.lease(name)
        return None if isinstance(found.own, Found) else seen(Lease, zoo.read(path), path)

    def _entry_exists(self, zoo: ZkSession, found: JobRecords) -> bool:
        """Returns whether the entry of an assigned attempt exists; False if no attempt is assigned.

        The entry comes and goes with the ownership, unless it is changed by hand.
        """
        own = found.own.record if isinstance(found.own, Found) else None
        if own is None or own.state is not OwnState.ASSIGNED:
            return False
        return zoo.read(self._layout.assignment(own.supervisor, own.uid, own.attempt)) is not None

    def _reserve(self, zoo: ZkSession, name: str, uid: str | None, location: str | None) -> ClaimedLocation:
        """Returns the claim that ``name`` makes at ``location``. Raises Conflict if it can have none.

        It also refuses a location that an older uid of the name still claims only to have it deleted:
        otherwise it would depend on timing whether the new uid goes on from there. To be called after the
        ownership was read, whose version every end of a uid changes.
        """
        cached = self._claims is not None
        try:
            claimed = self._all_claims(zoo).reserve(name, location)
        except Conflict:
            if not cached:
                raise
            self._claims = None  # what was in the way when they were read may be gone
            claimed = self._all_claims(zoo).reserve(name, location)
        claim = claimed.claim.record if isinstance(claimed.claim, Found) else None
        if claim is not None and claim.uid != uid:
            path = self._layout.result(claim.uid)
            result: Seen[Result] = seen(Result, zoo.read(path), path)
            if (
                isinstance(result, Found)
                and result.record.deletes_checkpoint
                and result.record.state is Cleanliness.DIRTY
            ):
                raise Conflict(being_deleted(name, claim.location))
        return claimed

    def _all_claims(self, zoo: ZkSession) -> CheckpointClaims:
        if self._claims is None:
            self._claims = CheckpointClaims.load(zoo, self._layout)
        return self._claims

    def _context(self) -> UserWriteContext:
        by = clip(self._author(), BY_MAX_BYTES)
        return UserWriteContext(self._layout, new_op_id(), wall_iso(), by)


# -- what a reading says ------------------------------------------------------------------------------------------


def _reference(submission: Submission, context: UserWriteContext) -> JobRef:
    fork = submission.fork
    detail = f"a fork of {fork.of}: its checkpoint is being copied" if fork is not None else ""
    return JobRef(
        name=submission.name,
        uid=submission.uid,
        revision=1,
        spec=submission.spec,
        desired=submission.desired,
        restart_nonce=context.op_id,
        terms=submission.scheduling,
        submitted_at=context.at,
        submitted_by=context.by,
        changed=HistoryEntry(at=context.at, event="submitted", detail=detail, by=context.by),
        op=context.op_id,
        fresh_start=context.op_id if submission.fresh_start else "",
        begins_with=pairs_of(submission.queries),
        fork=submission.fork,
    )


def _again(record: Result, context: UserWriteContext) -> JobRef:
    """Returns the reference with which a failed uid comes back. ``record`` knows its spec and terms."""
    assert record.spec is not None and record.terms is not None
    return reference_of(
        record,
        desired=Desired.RUNNING,
        restart_nonce=context.op_id,
        changed=HistoryEntry(at=context.at, event="registered again", attempt=record.attempt, by=context.by),
        op=context.op_id,
    )


def _same_or_conflict(found: JobRecords, name: str, spec_sha256: str, signature: str) -> Done | None:
    if isinstance(found.ref, Unreadable) or isinstance(found.own, Unreadable):
        raise Conflict(f"the records of {name} are unreadable: cancel {name} first, then submit it")
    if found.ref is None:
        return None
    live = _live(found, name).record
    if live.spec.sha256 == spec_sha256:
        if signature not in ("", live.spec.signature):
            raise Conflict(
                f"{name} is registered with this spec, and without this signature: spark-supervisor apply gives it that"
            )
        return Done(name, live.uid, Did.UNCHANGED)
    raise Conflict(
        f"{name} is registered with another spec: spark-supervisor apply changes the job to this one"
    )


def _uid_to_cancel(found: JobRecords, name: str) -> str:
    """Returns the live uid, or else the newest one. A corrupt reference is cancelled by what /own says of
    it."""
    if isinstance(found.ref, Found):
        return found.ref.record.uid
    own = found.own.record if isinstance(found.own, Found) else None
    if own is not None and (own.newest_uid or own.uid):
        return own.newest_uid or own.uid
    return new_uid(name)  # nobody can say whose it is; the ownership becomes revoked, and is waited out


def _live(found: JobRecords, name: str, uid: str | None = None) -> Found[JobRef]:
    """Returns the reference of a job that may be changed: it is registered, of that uid, and not over.

    Every write that rests on it checks or sets the ownership at the version that was read here, so an exit
    that comes in between makes the write fail.
    """
    if isinstance(found.ref, Unreadable):
        raise Corrupt(
            f"the reference of {name} is unreadable ({found.ref.reason}): cancel {name} and submit it again"
        )
    if found.ref is None:
        outcome = found.result.record.outcome.value if isinstance(found.result, Found) else "gone"
        raise Conflict(f"{name} is {outcome}: submit it again")
    if uid is not None and found.ref.record.uid != uid:
        raise Conflict(f"{name} was cancelled and submitted anew meanwhile: try again")
    if isinstance(found.own, Found) and has_finished(found.ref.record, found.own.record):
        # Whatever is acknowledged now a leader would undo: it concludes the job by that exit.
        raise Conflict(
            f"{name} has finished (exit 0 of a bounded job): the leader records that next, then submit it again"
        )
    return found.ref


def _failed(found: JobRecords, name: str) -> Found[Result]:
    """Returns the result to be undone. Only a failed uid can be registered again, never a cancelled or
    finished one."""
    if isinstance(found.ref, Unreadable) or isinstance(found.result, Unreadable):
        raise Corrupt(f"the records of {name} are unreadable: cancel {name} and submit it again")
    if found.result is None or found.result.record.outcome is not Outcome.FAILED:
        outcome = found.result.record.outcome.value if found.result else "gone"
        raise Conflict(f"{name} is {outcome}: submit it again")
    return found.result


def _owned(found: JobRecords, name: str) -> Found[Ownership]:
    if isinstance(found.own, Found):
        return found.own
    raise Corrupt(f"the ownership of {name} is missing or unreadable: cancel {name} and submit it again")


def _require_copied(job: JobRef) -> None:
    """Raises Conflict if the checkpoint of ``job`` is being copied: it would begin with half of it."""
    if job.fork is not None and job.fork.copying:
        raise Conflict(
            f"the checkpoint of {job.name} is a copy that is not complete yet",
            f"fork {job.fork.of} {job.name}, as it was given, goes on with it; cancel {job.name} gives it up",
        )


def _must_be_newest(found: JobRecords, name: str, uid: str) -> None:
    """Raises Conflict if ``uid`` is not the newest of the name.

    Since name → uid was resolved, another uid may have come and gone: a change of /own would then apply to
    that one.
    """
    if _newest(found) not in ("", uid):
        raise Conflict(f"{name} was submitted anew meanwhile: try again")


def _must_be_only(name: str, uid: str, only_uid: str | None) -> str:
    """Returns ``uid``, which the name has now. Raises Conflict if the command is for another submission only. Whatever is
    written from here on names that uid."""
    if only_uid is not None and only_uid != uid:
        raise Conflict(f"{name} is another submission now: nothing was done", "look at it again")
    return uid


def _must_be_as_chosen(found: JobRecords, name: str, uid: str, chosen: ChosenJob) -> None:
    """Raises Conflict if a job is not what was chosen. That it is cancelled by now is no reason."""
    is_same = uid == chosen.uid and (
        _is_cancelled(found)
        or (found.ref.version == chosen.version if isinstance(found.ref, Found) else chosen.version is None)
    )
    if not is_same:
        raise Conflict(
            f"{name} was changed by somebody else meanwhile: it was not cancelled", "look at it again"
        )


def _is_parked(own: Ownership) -> bool:
    """Returns whether the job waits after an exit (back-off or quarantine), so that a resume has something to
    clear."""
    return own.state is OwnState.EXITED


def _newest(found: JobRecords) -> str:
    return found.own.record.newest_uid if isinstance(found.own, Found) else ""


def _is_cancelled(found: JobRecords) -> bool:
    return isinstance(found.result, Found) and found.result.record.outcome is Outcome.CANCELLED


def _changed_by(tx: Transaction, before: Found[JobRef]) -> Callable[[JobRecords], bool | None]:
    """Returns a check that says True (applied) if the reference carries this multi's id, False (certainly not
    applied) if it is at the version that was read, and else None (unknown)."""

    def applied(now: JobRecords) -> bool | None:
        if not isinstance(now.ref, Found):
            return None
        if now.ref.record.op == tx.id:
            return True
        same = now.ref.record.uid == before.record.uid and now.ref.version == before.version
        return False if same else None

    return applied


def _registered_by(tx: Transaction, before: Found[Ownership]) -> Callable[[JobRecords], bool | None]:
    def applied(now: JobRecords) -> bool | None:
        if isinstance(now.ref, Found) and now.ref.record.op == tx.id:
            return True
        return False if isinstance(now.own, Found) and now.own.version == before.version else None

    return applied
