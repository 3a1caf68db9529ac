"""Explains what the leader would do about a job, and why, from the plan itself: the plan of now, and of when
its wait is over.

The command line calls it (``explain``, and the waits that ran out of time) with a View of its own. It is as
pure as the rest of ``plan``. Nothing here decides anything, so what it says is what the leader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from supervisor.model.acceptance import why_held
from supervisor.model.actions import (
    ROOM_ELSEWHERE,
    Action,
    Alarm,
    Assign,
    Note,
    Prepare,
    RollBack,
    RollBackToSavepoint,
    Withdraw,
)
from supervisor.model.driver_memory import next_memory
from supervisor.model.load import Load, absent_of, has_absent_supervisor
from supervisor.model.policies import refused_policies
from supervisor.model.records import (
    DEAD,
    LEASED,
    PLANNED_CAUSES,
    Cause,
    DriverDiagnostics,
    HistoryEntry,
    Lease,
    Ownership,
    OwnState,
    Phase,
    Result,
)
from supervisor.model.reported_sinks import sink_documents
from supervisor.model.requirements import has_spark, lacked_by_all
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import (
    JobState,
    Shown,
    account_of,
    delay_of,
    executors_wanted,
    has_failed_query,
    has_written_here,
    last_exit_of,
    left_by_update,
    observed_update,
    state_of_ended,
    unnamed_of,
    why_update_failed,
)
from supervisor.model.view import Row, View
from supervisor.plan.after_restore import may_start
from supervisor.plan.decide import MAY_HAVE_LEFT, Decision, WaitingAssignment, cell_of, decide, wait_of_s
from supervisor.plan.make import Policy, make_plan
from supervisor.plan.place import lacking, not_judged
from supervisor.plan.placement import why_barred
from supervisor.plan.prepare import Preparations
from supervisor.plan.remedies import (
    MissingHost,
    Remedy,
    remedies_of_broken_update,
    remedies_of_copied,
    remedies_of_ended,
    remedies_of_held,
    remedies_of_quarantined,
    remedies_of_risk,
    remedies_of_state,
    remedies_of_waiting_for_cluster,
    runbook_of,
)
from supervisor.plan.room import starts_at_once
from supervisor.plan.shown import shown_by
from supervisor.plan.table import TABLE, Do, Owned, Wanted


class Await(Enum):
    """Names what a job waits for: a person, a slot on a host, or something that its records or a clock will
    show."""

    PERSON = "you"
    SLOT = "a place"
    RESTORE = "the wait after an accepted restore"
    BACKOFF = "its back-off"
    CLAIM = "its shim to claim it"
    EXIT = "the exit of its attempt"
    RENEWAL = "a renewal of its lease, or the full wait"
    FIRST_BATCH = "its first batch"
    PREPARED = "a prepared driver"
    LABELS = "a host with the labels that its spec requires"
    MOVE = "its move to another host"
    START_PLACE = "a host that could start it again"
    CLUSTER = "executors of its cluster"
    CHECKPOINT = "a look at what its failed revision has left in the checkpoint"
    COPY = "the copy of a savepoint"


UNLESS: Final[Mapping[Await, str]] = {
    Await.PERSON: "",
    Await.SLOT: "",
    Await.RESTORE: "",
    Await.BACKOFF: "",
    Await.CLAIM: "unless it is claimed before",
    Await.EXIT: "at the latest",
    Await.RENEWAL: "unless it is heard of before",
    Await.FIRST_BATCH: "unless it has a batch before",
    Await.PREPARED: "unless a driver is ready before",
    Await.LABELS: "",
    Await.MOVE: "",
    Await.CLUSTER: "",
    Await.START_PLACE: "",
    Await.CHECKPOINT: "unless it is rolled back",
    Await.COPY: "unless the copy is there before",
}
"""It says what the time of a wait is: the instant of what follows (empty), or its bound, with what ends it before that."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Holds ``kind``, and the same as text with what is special about this job."""

    kind: Await
    text: str = ""

    def __str__(self) -> str:
        return self.text or self.kind.value


@dataclass(frozen=True, slots=True)
class Hold:
    """Says what keeps the leader from acting. If ``is_unrecorded`` is True, that is no more than its own
    term, which is to be recorded first."""

    text: str
    is_unrecorded: bool = False

    def __str__(self) -> str:
        return self.text


NOT_RECORDED = "this epoch is not yet recorded in the store: nothing is started or cleaned before"
SILENT_AFTER = 1 / 3
"""After this share of its length a lease counts as silent: two renewals are missing by then, and a person
should know."""


@dataclass(frozen=True, slots=True)
class Host:
    """Holds what a supervisor has free (in bytes for memory), and what keeps it from taking the job, or None
    if nothing does."""

    id: str
    drivers: int
    drivers_max: int
    free_memory: int
    starting: int
    starting_max: int
    lacking: str | None


@dataclass(frozen=True, slots=True)
class LeaseReading:
    """Holds how long a lease has been silent. ``silent_s`` counts from the last renewal; the attempt is dead
    when it has been silent for ``full_wait_s``."""

    lease_s: float | None
    silent_s: float
    full_wait_s: float
    executors_outlive_s: float = 0.0

    @property
    def is_silent(self) -> bool:
        return self.lease_s is None or self.silent_s > self.lease_s * SILENT_AFTER


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains one job. ``held_by`` is what keeps the leader from acting at all, or None.

    ``action`` is what the leader does now, and ``then`` what it does when ``wait_s`` (seconds from now) is
    over; None means nothing. ``waits_for`` is None for a job of which nobody waits for anything. ``step`` and
    ``later`` are what ``action`` and ``then`` describe. ``error`` is what ended the last attempt that failed,
    as its records have it; it is empty if nothing did. ``after_earlier`` is True if an attempt of an earlier
    submission of the name may be alive still. ``standby`` says what there is of the prepared driver that its spec
    asks for, or is empty; ``failed_update`` says what became of its newest update if that has failed (given up, rolled back
    or neither yet), ``move`` why it is to leave its host and what keeps it there for now; both may be empty.
    ``absent`` is the supervisor of its driver's host if that is not connected, else empty. ``goes_on`` says why its driver
    is not stopped yet, although that was asked for; it is empty if it waits for no host.
    ``diagnostics`` is what is known of the end of the latest attempt that left any.
    ``sinks`` says of each sink of its driver what it knows a batch by.
    """

    name: str
    uid: str
    state: JobState
    reason: str
    cell: tuple[Owned, Wanted] | None = None
    rule: Do | None = None
    action: str | None = None
    why: str = ""
    waits_for: Awaited | None = None
    wait_s: float | None = None
    then: str | None = None
    held_by: Hold | None = None
    attempt: int = 0
    host: str = ""
    failures: int = 0
    lease: LeaseReading | None = None
    record: Lease | None = None
    hosts: tuple[Host, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    alarm: Alarm | None = None
    last_exit: HistoryEntry | None = None
    diagnostics: DriverDiagnostics | None = None
    step: Action | WaitingAssignment | None = None
    later: Action | WaitingAssignment | None = None
    error: str = ""
    after_earlier: bool = False
    standby: str = ""
    failed_update: str = ""
    move: str = ""
    absent: str = ""
    goes_on: str = ""
    sinks: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        """Says whether the job simply runs, and so has no place in a list of jobs that do not."""
        quiet = self.alarm is None and self.action is None and self.waits_for is None
        risks = self.is_half or self.is_unproven or bool(self.at_risk)
        return self.state is JobState.RUNNING and quiet and not risks

    @property
    def is_refused_next(self) -> bool:
        """Says whether the job runs, and its next start is refused whatever ends this one."""
        return self.state is JobState.RUNNING and self.record is not None and bool(unnamed_of(self.record))

    @property
    def at_risk(self) -> str:
        """Returns what the next start of a running job will lack, or that it is refused; empty if nothing is known."""
        if self.is_refused_next:
            return "it runs on; whatever ends this attempt, its next start is refused"
        if self.state is JobState.RUNNING and self.record is not None and has_written_here(self.record):
            return "it runs on; a start on another host begins without what lies in its working directory"
        return ""

    @property
    def is_half(self) -> bool:
        """Says whether a query of the job has failed while its application lives on."""
        return self.record is not None and has_failed_query(self.record)

    @property
    def is_unproven(self) -> bool:
        """Says whether the job failed before and this attempt has no batch to show."""
        return self.failures > 0 and (self.record is None or self.record.progress is None)


class Explainer:
    """Explains the jobs of one View. ``leader`` is the id of the supervisor that leads, or None if nobody
    does."""

    def __init__(self, view: View, policy: Policy, now_s: float, leader: str | None) -> None:
        self._view = view
        self._policy = policy
        self._now_s = now_s
        self._leader = leader
        self._free_view = replace(view, paused=False, distrust=None, recorded=True)
        free = make_plan(self._free_view, policy, now_s)
        self._prepared = Preparations(self._free_view, now_s, policy.site)
        self._actions = {a.name: a for a in free.actions if not isinstance(a, Prepare | Withdraw)}
        self._notes = {note.name: note for note in free.notes}
        real = make_plan(view, policy, now_s)
        self._real = {action.name for action in real.actions}
        self.absent = absent_of(view.rows.values(), view.members)
        self.alarms = tuple(dict.fromkeys((*real.alarms, *free.alarms)))

    def job(self, name: str) -> Explanation:
        """Explains a name that has a row in the View and is registered, or whose records are unreadable."""
        row = self._view.rows[name]
        action, note = self._actions.get(name), self._notes.get(name)
        cell = None if _is_left_alone(row) else cell_of(row)
        own = row.own.record if isinstance(row.own, Found) else None
        shown = shown_by(row, note, self._free_view)
        mine = own is not None and isinstance(row.ref, Found) and own.uid == row.ref.record.uid
        lease = _lease_reading(row)
        waits_for = self._awaited(row, shown, note, lease)
        wait_s = note.wait_s if note is not None and waits_for is not None else None
        if note is not None and note.examines:
            row, wait_s = self._as_if_something_was_left(row)
        renewed = lease is not None and not lease.is_silent  # each renewal begins the full wait anew
        later = self._later(row, wait_s) if shown.state is not JobState.STARTING or not renewed else None
        ended = last_exit_of(own.history) if own is not None and mine else None
        return Explanation(
            name=name,
            uid=row.ref.record.uid if isinstance(row.ref, Found) else own.uid if own else "",
            state=shown.state,
            reason=shown.reason,
            cell=cell,
            rule=TABLE[cell] if cell else None,
            action=action.phrase if action is not None else None,
            why=action.why if action is not None else note.why if note is not None else "",
            waits_for=waits_for,
            wait_s=None if renewed else wait_s,
            then=later.phrase if later is not None else None,
            held_by=self._held_by(name, action),
            attempt=own.attempt if own is not None and mine else 0,
            host=own.host if own is not None and mine and own.state not in DEAD else "",
            failures=_failures(row, own) if own is not None and mine else 0,
            lease=lease,
            record=row.lease_of_owner,
            hosts=self._hosts(row) if self._waits_for_a_slot(action, note) else (),
            remedies=(*_undoing(row, action), *self._remedies(name, shown, row, own, note)),
            alarm=self._alarm(name),
            last_exit=ended,
            diagnostics=own.diagnostics if own is not None and mine else None,
            step=action,
            later=later,
            error=_error(own, ended) if own is not None and mine else "",
            after_earlier=own is not None and not mine and own.state not in DEAD,
            standby=self._prepared.standby(row),
            failed_update=_failed_update(row),
            move=note.why if note is not None and note.moves else "",
            goes_on=note.why if note is not None and note.holds_stop else "",
            sinks=_sinks(row),
            absent=own.supervisor if own and mine and has_absent_supervisor(own, self._view.members) else "",
        )

    def _awaited(
        self, row: Row, shown: Shown, note: Note | None, lease: LeaseReading | None
    ) -> Awaited | None:
        """Returns what somebody waits for about the job, or None."""
        own = row.own.record if isinstance(row.own, Found) else None
        timeout_s = row.ref.record.terms.start_timeout_s if isinstance(row.ref, Found) else 0.0
        waits_for = _waits_for(own, shown, note, lease, timeout_s) or _waits_for_cluster(row, shown)
        if waits_for is not None and waits_for.kind is Await.FIRST_BATCH:
            waits_for = _waits_for_cluster(row, shown) or waits_for
        if note is not None and note.unplaceable and isinstance(row.ref, Found):
            lacked = lacked_by_all(self._view.members.values(), row.ref.record.terms)
            waits_for = Awaited(Await.LABELS, f"a host with {', '.join(lacked)}")
        if note is not None and note.pending and waits_for is not None and not may_start(self._view):
            waits_for = Awaited(Await.RESTORE)
        return waits_for

    def everything(self) -> list[Explanation]:
        """Returns every registered or unreadable name, most urgent first."""
        names = [name for name, row in self._view.rows.items() if row.is_listed]
        return sorted((self._judged(name) for name in names), key=urgency)

    def _judged(self, name: str) -> Explanation:
        """Explains one name. What can't be explained of it, for whatever reason, hides no other (I9)."""
        try:
            return self.job(name)
        except Exception as error:  # noqa: BLE001 - the edge of one name
            why = not_judged(name, error).why
            return Explanation(name, "", JobState.QUARANTINED, why, why=why)

    # -- what keeps it ---------------------------------------------------------------------------------------------

    def _held_by(self, name: str, action: Action | None) -> Hold | None:
        if self._view.distrust is not None:
            return Hold(f"the registry is not trusted: {self._view.distrust}")
        if self._view.paused:
            return Hold(
                self._view.pause.sentence if self._view.pause is not None else "the cluster is paused"
            )
        if self._leader is None:
            return Hold("no supervisor leads at the moment" if self._view.members else "no supervisor is up")
        if not may_start(self._view) and self._view.accepted is not None and name in self._notes:
            return Hold(why_held(self._view.accepted.seen)) if self._notes[name].pending else None
        if action is not None and name not in self._real:
            return Hold(NOT_RECORDED, is_unrecorded=True)
        return None

    def _as_if_something_was_left(self, row: Row) -> tuple[Row, float]:
        """Returns the row of a job whose update is rolled back unless something is found in its checkpoint, as it is if
        something is, and in how many seconds its next attempt is due then: at the instant that ``list`` has for it."""
        row = replace(row, left_behind=row.left_behind or MAY_HAVE_LEFT)
        note = self._decision(row, self._now_s).note
        return row, note.wait_s if note is not None and note.wait_s is not None else 0.0

    def _later(self, row: Row, wait_s: float | None) -> Action | WaitingAssignment | None:
        """Returns what the plan says of the same records when the wait is over."""
        if wait_s is None:
            return None
        later_at_s = self._now_s + wait_s + 0.001
        if row.lease is not None:
            row = replace(row, lease=replace(row.lease, read_sent_at_s=later_at_s))
        decision = self._decision(row, later_at_s)
        return decision.action or decision.candidate

    def _decision(self, row: Row, now_s: float) -> Decision:
        return decide(
            row,
            self._view.members,
            now_s,
            self._policy.claim_timeout_s,
            self._view.accepted_zxid,
            self._prepared.at(now_s),
        )

    # -- where it could run ----------------------------------------------------------------------------------------

    def _waits_for_a_slot(self, action: Action | None, note: Note | None) -> bool:
        return isinstance(action, Assign) or (note is not None and note.pending)

    def _hosts(self, row: Row) -> tuple[Host, ...]:
        assert isinstance(row.ref, Found) and isinstance(row.own, Found)
        job, own = row.ref.record, row.own.record
        memory, loads = next_memory(job, own).whole, self._prepared.running
        hosts = []
        for member in sorted(self._view.members.values(), key=lambda member: member.id):
            load = loads.get(member.id, Load())
            hosts.append(
                Host(
                    member.id,
                    load.drivers,
                    member.drivers,
                    max(0, member.memory - load.memory),
                    load.starting,
                    starts_at_once(member),
                    self._prepared.cordoned.get(member.id)
                    or why_barred(member, job, own)
                    or lacking(member, job, own, load, memory),
                )
            )
        return tuple(hosts)

    def _remedies(
        self,
        name: str,
        shown: Shown,
        row: Row,
        own: Ownership | None,
        note: Note | None,
    ) -> tuple[Remedy, ...]:
        lease = row.lease_of_owner
        if (
            _waits_for_cluster(row, shown) is not None
            and lease is not None
            and lease.cluster_wait is not None
        ):
            return remedies_of_waiting_for_cluster(name, lease.cluster_wait.cluster)
        if note is not None and note.quarantined:
            job = row.ref.record if isinstance(row.ref, Found) else None
            is_refused = own is not None and job is not None and bool(refused_policies(job, own))
            damaged = own is None or not (own.permanent or is_refused)
            return (
                *remedies_of_quarantined(name, own, job),
                *runbook_of(own.cause if own is not None else None, damaged=damaged),
            )
        if isinstance(row.ref, Found) and row.ref.record.fork is not None and row.ref.record.fork.copying:
            return remedies_of_copied(name, row.ref.record.fork.of)
        if note is not None and note.moves == ROOM_ELSEWHERE:
            return remedies_of_held(name)
        failed = own is not None and own.failures > 0 and shown.state is not JobState.RUNNING
        full = note is not None and note.pending and bool(self._view.members) and may_start(self._view)
        half = lease is not None and has_failed_query(lease)
        conflict = own is not None and own.cause is Cause.CHECKPOINT_CONFLICT
        of_state = remedies_of_state(
            name,
            shown.state,
            paused=self._view.paused,
            alone=not self._view.members,
            full=full,
            half=half,
            held=name in self._actions,
            conflict=conflict,
            unplaceable=self._missing(row) if note is not None and note.unplaceable else None,
            cordoned=self._cordoned(row) if full else (),
            delayed=own is not None and bool(delay_of(own, self._view.members.get(own.supervisor))),
        )
        of_risk = remedies_of_risk(lease) if lease is not None and shown.state is JobState.RUNNING else ()
        return (*of_state, *of_risk, *runbook_of(own.cause if own is not None and failed else None))

    def _missing(self, row: Row) -> MissingHost:
        """Returns what to give a host so that it may have the job."""
        if not isinstance(row.ref, Found):
            return MissingHost()
        terms, members = row.ref.record.terms, self._view.members.values()
        uncordoned = [member for member in members if member.id not in self._prepared.cordoned]
        has_it = any(has_spark(member, terms) for member in uncordoned or members)
        labels = terms.placement is not None and bool(terms.placement.require)
        return MissingHost(labels, "" if has_it else terms.spark, self._cordoned(row))

    def _cordoned(self, row: Row) -> tuple[str, ...]:
        """Returns the hosts that may have the job in all but that they are cordoned."""
        if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
            return ()
        job, own, cordoned = row.ref.record, row.own.record, self._prepared.cordoned
        return tuple(
            member.id
            for member in sorted(self._view.members.values(), key=lambda member: member.id)
            if member.id in cordoned and member.distrust is None and why_barred(member, job, own) is None
        )

    def _alarm(self, name: str) -> Alarm | None:
        return next((alarm for alarm in self.alarms if alarm.job == name), None)


def _error(own: Ownership, ended: HistoryEntry | None) -> str:
    """Returns the error in full where the ownership still has it, else as far as the history goes."""
    if own.state is OwnState.EXITED:
        return own.reason if own.cause not in PLANNED_CAUSES else ""
    return ended.detail if ended is not None and own.failures else ""


def explain_ended(name: str, uid: str, result: Seen[Result], row: Row | None) -> Explanation:
    """Explains a name without a reference: what became of its newest uid, and what it takes to run again."""
    cell = cell_of(row) if row is not None else None
    own = row.own.record if row is not None and isinstance(row.own, Found) else None
    rule = TABLE[cell] if cell is not None else None
    if not isinstance(result, Found):
        why = result.reason if result is not None else "its result is gone"
        shown = Shown(JobState.QUARANTINED, f"its result is unreadable: {why}")
        return Explanation(
            name, uid, shown.state, shown.reason, cell, rule, remedies=remedies_of_quarantined(name, None)
        )
    shown = state_of_ended(result.record)
    dead = own is None or own.state in DEAD or own.uid != uid
    terms = result.record.terms
    return Explanation(
        name,
        uid,
        shown.state,
        shown.reason,
        cell,
        rule,
        attempt=result.record.attempt,
        waits_for=None if dead or own is None else Awaited(Await.EXIT, f"the exit of attempt {own.attempt}"),
        remedies=remedies_of_ended(
            name, shown.state, terms.checkpoint if terms else None, observed_update(result.record)
        ),
    )


def urgency(explained: Explanation) -> tuple[int, str]:
    """Returns the key by which what a person should attend to first comes first."""
    rank = {
        JobState.QUARANTINED: 0,
        JobState.FAILED: 1,
        JobState.BACKOFF: 4,
        JobState.PENDING: 5,
        JobState.STOPPING: 6,
        JobState.STARTING: 7,
        JobState.SUSPENDED: 8,
        JobState.RUNNING: 9,
    }.get(explained.state, 10)
    if explained.alarm is not None:
        rank = min(rank, 2)
    if explained.lease is not None and explained.lease.is_silent and explained.state is JobState.RUNNING:
        rank = min(rank, 3)
    return rank, explained.name


UNTIL_THE_NEXT: Final = "this is said until the next update (apply --again: to the same spec)"
"""What is said after a failed update, which only another one replaces in the reference."""


HAS_COMMITTED: Final = frozenset({Phase.RUNNING, Phase.STOPPING})


def _sinks(row: Row) -> tuple[str, ...]:
    """Returns what there is to say of the sinks of a driver that has committed a batch, of each once. While one starts, only
    those of the driver before it are known."""
    lease = row.lease_of_owner
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found) or lease is None:
        return ()
    if row.own.record.state not in LEASED or lease.phase not in HAS_COMMITTED:
        return ()
    return tuple(dict.fromkeys(each["says"] for each in sink_documents(row.ref.record, lease)))


def _failed_update(row: Row) -> str:
    """Returns what became of the newest update of a job, if it has failed; else it is empty."""
    if not isinstance(row.ref, Found) or row.ref.record.update is None:
        return ""
    job, update = row.ref.record, row.ref.record.update
    if update.given_up:
        return (
            f"revision {update.target} was given up, and {update.before.revision} goes on: {update.given_up}; "
            f"{UNTIL_THE_NEXT}"
        )
    if update.rolled_back:
        back = f"revision {job.revision} is {update.before.revision} again"
        return f"{back}: {update.rolled_back}; {UNTIL_THE_NEXT}"
    own = row.own.record if isinstance(row.own, Found) else None
    failed = why_update_failed(job, own) if own is not None else ""
    left = (row.left_behind or left_by_update(job, own)) if own is not None else ""
    return f"{failed} ({left})" if failed and left else failed


def _undoing(row: Row, action: Action | None) -> tuple[Remedy, ...]:
    """Returns what undoes an update whose target has failed while it was observed, unless the leader does so now."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return ()
    failed = why_update_failed(row.ref.record, row.own.record)
    if isinstance(action, RollBack | RollBackToSavepoint) or not failed:
        return ()
    return remedies_of_broken_update(row.name, row.ref.record.update)


def _waits_for(
    own: Ownership | None,
    shown: Shown,
    note: Note | None,
    lease: LeaseReading | None,
    start_timeout_s: float,
) -> Awaited | None:
    if note is None:
        return None
    if note.quarantined or shown.state is JobState.SUSPENDED:
        return Awaited(Await.PERSON)
    awaited = _waits_for_a_host(note)
    if awaited is not None or own is None:
        return awaited
    if note.examines:
        return Awaited(Await.CHECKPOINT)
    if note.restores:
        return Awaited(Await.COPY)
    if own.state is OwnState.EXITED and note.wait_s is not None:
        return Awaited(Await.BACKOFF)
    if own.state is OwnState.ASSIGNED:
        return Awaited(Await.CLAIM, f"its shim on {own.host or own.supervisor} to claim it")
    if own.state in (OwnState.DRAINING, OwnState.REVOKED):
        return Awaited(Await.EXIT, f"the exit of attempt {own.attempt}, or the full wait")
    if own.state is OwnState.CLAIMED and lease is not None and lease.is_silent:
        return Awaited(Await.RENEWAL)
    if own.state is OwnState.CLAIMED and shown.state is JobState.STARTING:
        return Awaited(Await.FIRST_BATCH, f"its first batch (start_timeout: {start_timeout_s:g}s)")
    return None


def _waits_for_cluster(row: Row, shown: Shown) -> Awaited | None:
    """Returns that a driver which starts or runs has no executor, or None."""
    lease = row.lease_of_owner
    if (
        lease is None
        or lease.cluster_wait is None
        or shown.state not in (JobState.STARTING, JobState.RUNNING)
    ):
        return None
    return Awaited(Await.CLUSTER, executors_wanted(lease.cluster_wait))


def _waits_for_a_host(note: Note) -> Awaited | None:
    if note.pending:
        return Awaited(Await.SLOT)
    if note.prepares is not None:
        return Awaited(
            Await.PREPARED, "a prepared driver" + (f" on {note.prepares}" if note.prepares else "")
        )
    if note.holds_stop:
        return Awaited(Await.START_PLACE)
    return Awaited(Await.MOVE, note.moves) if note.moves else None


def _is_left_alone(row: Row) -> bool:
    """Says whether no cell of the table applies: ``decide`` leaves such a name alone before it looks one
    up."""
    return bool(row.flaws) or isinstance(row.ref, Unreadable) or row.is_torn


def _lease_reading(row: Row) -> LeaseReading | None:
    """Returns the lease of an attempt that may be alive."""
    if row.lease is None or not isinstance(row.own, Found):
        return None
    if row.own.record.state not in LEASED:
        return None
    record = row.lease_of_owner
    return LeaseReading(
        record.lease_s if record else None,
        max(0.0, row.lease.silent_s),
        wait_of_s(row),
        record.executors_outlive_s if record else 0.0,
    )


def _failures(row: Row, own: Ownership) -> int:
    if own.state is OwnState.EXITED and isinstance(row.ref, Found) and own.cause is not Cause.STOPPED:
        return account_of(row.ref.record, own).failures
    return own.failures
