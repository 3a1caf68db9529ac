"""Defines the records of protocol §4 as frozen dataclasses: what is in each znode, and nothing about how it
gets there.

The module is light on purpose (standard library only): a shim imports it, and its memory counts once per job.
``records.codec`` encodes and decodes the records; ``extra`` keeps fields written by a newer version, so that
rewriting a record loses nothing (F59). A reference that becomes a result, and comes back from it, takes its
``extra`` along: a new field must mean the same, and have the same type, in every record that has one of its
name. Times named ``*_at`` are ISO 8601 UTC strings for display; no decision uses them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from supervisor.model.bounds import (
    OMITTED,
    Bytes,
    Count,
    JobName,
    Seconds,
    SomeSeconds,
    SupervisorId,
    SupervisorIdOrNone,
    Uid,
    UidOrNone,
)
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.restart import RestartPolicy
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.sinks import SinkMemory
from supervisor.model.usage import AttemptUsage


class OpenEnum(StrEnum):
    """An enumeration to which newer versions add words. A word that this version does not know becomes a member that
    keeps it: people can read it, and no decision uses it.

    Only for enumerations in which an unknown word is harmless: a cause of an exit or a phase of a start that a newer shim
    wrote must not make its job's records unreadable for an older leader (F59). States and outcomes are a plain
    ``StrEnum``, which raises ``ValueError``.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        word = str.__new__(cls, value)
        word._name_ = word._value_ = value
        return word


class Desired(StrEnum):
    """Says what the user wants of a job that has a reference; a cancelled job has none: its reference is
    gone.
    """

    RUNNING = "running"
    SUSPENDED = "suspended"


class OwnState(StrEnum):
    """Says in which state /own/<name> is. Only ``claimed`` and ``draining`` may renew; ``exited`` is the
    tombstone.
    """

    VACANT = "vacant"
    ASSIGNED = "assigned"
    CLAIMED = "claimed"
    DRAINING = "draining"
    REVOKED = "revoked"
    EXITED = "exited"


DEAD = frozenset({OwnState.VACANT, OwnState.EXITED})
"""In these states no attempt can be alive."""

LEASED = frozenset({OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED})
"""In these states an attempt may be alive, until its tombstone or the full wait."""

DELAYABLE = frozenset({OwnState.ASSIGNED, OwnState.CLAIMED})
"""In these states a host may say why the start of an attempt does not come about (``Member.delays``)."""

OCCUPYING = LEASED | {OwnState.ASSIGNED}
"""In these states an attempt takes up its host, or is about to."""


class Phase(OpenEnum):
    """Says how far an attempt has come, as its shim knows it (in the lease record)."""

    CLAIMED = "claimed"  # the claim committed; the driver is being started
    WAITING = "waiting"  # the driver is up, and waits at its start barrier for the verdict
    BEGUN = "begun"  # the application's first line ran
    SESSION = "session"  # it has a SparkSession
    QUERY = "query"  # a streaming query was started
    RUNNING = "running"  # first batch committed, or a job without queries (shim.health)
    STOPPING = "stopping"  # an orderly stop is under way


class Cause(OpenEnum):
    """Says why an attempt ended, or why a host refused to start it."""

    FINISHED = "finished"  # exit 0 of a bounded job, nobody asked it to stop
    STOPPED = "stopped"  # a stop was requested before the exit
    USER_ERROR = "user_error"  # the application ended by itself with a failure
    # exit 0 of an unbounded job: a swallowed exception, most likely
    EXITED_ZERO = "exited_zero"
    OUT_OF_MEMORY = "out_of_memory"
    CHECKPOINT_CONFLICT = "checkpoint_conflict"  # Spark saw a second writer on the checkpoint
    START_TIMED_OUT = "start_timed_out"
    STALLED = "stalled"
    CLUSTER_TIMED_OUT = "cluster_timed_out"  # its cluster gave it no executor for ``cluster_timeout``
    KILLED = "killed"  # died of a signal that nobody of ours sent
    SHIM_DIED = "shim_died"  # its shim was killed; the guardian proved the tree empty
    LEASE_EXPIRED = "lease_expired"  # killed at its deadline: no renewal could commit
    LOST = "lost"  # silent for the full wait; or the shim found itself revoked, or /own another's
    NOT_STARTED = "not_started"  # exec failed
    BAD_ARTIFACT = "bad_artifact"  # refused: spec or application missing or altered
    NO_SPARK = "no_spark"  # refused: Spark or Java not found
    NO_ROOM = "no_room"  # refused: the host is full
    # refused: S3 refused the host's credentials, or never answered; or a secret of the host can't be had
    NO_ACCESS = "no_access"
    POLICY = "policy"  # refused: the policy of the host does not allow the spec
    # refused: it is not (any more) the checkpoint that the job left
    BAD_CHECKPOINT = "bad_checkpoint"
    # refused: this host runs no driver as the job's Unix user
    NO_USER = "no_user"
    # its prepared driver was gone before the application began; the next start is cold
    PREPARED_LOST = "prepared_lost"


class StopMode(OpenEnum):
    """Says how a driver that was asked to stop ended (in the tombstone)."""

    BATCH_BOUNDARY = "batch_boundary"  # by itself, after the batch of each query was committed
    SIGTERM = "sigterm"
    SIGKILL = "sigkill"


PERMANENT_CAUSES = frozenset({Cause.BAD_ARTIFACT, Cause.NO_SPARK, Cause.NOT_STARTED, Cause.BAD_CHECKPOINT})
"""After these causes trying again cannot help: the job shows ``quarantined`` until ``resume`` or ``restart``.
"""

HOST_CAUSES = frozenset({Cause.NO_ROOM, Cause.NO_ACCESS, Cause.POLICY, Cause.NO_USER})
"""For these causes this host refuses the attempt: another one may take it. It does so for now, and with ``policy`` for as
long as policy and spec stay what they are (``Ownership.refused_by``)."""

UNCHARGED_CAUSES = (
    frozenset({Cause.LOST, Cause.SHIM_DIED, Cause.LEASE_EXPIRED, Cause.CLUSTER_TIMED_OUT}) | HOST_CAUSES
)
"""These causes are not the job's fault: they count for the back-off, not for the restart budget (protocol
§8).
"""

PLANNED_CAUSES = frozenset({Cause.STOPPED, Cause.FINISHED, Cause.PREPARED_LOST})
"""These causes are no failures of the job at all: no back-off follows, and nothing is charged."""


class PrepareLevel(OpenEnum):
    """Says how far a prepared driver goes before it waits (``Preparation``)."""

    # JVM, Python and a SparkSession that has run a throwaway query; nothing of the application
    SESSION = "session"
    APPLICATION = "application"  # the application too, up to its first query


class StandbyWhere(OpenEnum):
    """Says on which host a standby is kept."""

    OTHER = "other"  # on another host than the one that runs the job
    ANY = "any"  # on another host if one has room, else on the same one


class UpdateMode(OpenEnum):
    """Says how the driver of an updated job is replaced."""

    HANDOVER = "handover"  # one of the new revision is prepared first, where one can be
    RESTART = "restart"  # it is stopped at once, and the next one starts cold
    MANUAL = "manual"  # it goes on until somebody gives restart, or it ends


class RollbackRule(OpenEnum):
    """Says whether a revision that has failed is rolled back by the leader."""

    CLEAN = "clean"  # only if it has left nothing in the checkpoint
    CONTINUE = "continue"  # whatever it has left: the revision before goes on from there
    # as clean; else the revision before goes on from a copy of the savepoint that was made before the hand-over
    SAVEPOINT = "savepoint"
    NEVER = "never"


class NotifiedEvent(OpenEnum):
    """Says what receivers are told of a job (``notify`` of the settings). The first two happen, and the others last."""

    FAILED = "failed"  # the state: it failed for good, and is not registered any more
    ROLLED_BACK = "rolled_back"  # the leader has rolled its newest update back
    QUARANTINED = "quarantined"  # the state: trying again cannot help
    FALLING_BEHIND = "falling_behind"  # a query has read less than its source grew, for a quarter of an hour


class Outcome(StrEnum):
    """Says with which terminal outcome a uid ended."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    FINISHED = "finished"


class Cleanliness(StrEnum):
    """Says whether a result is cleaned up: it is ``dirty`` until the leader has removed the uid's leftovers,
    then ``clean``.
    """

    DIRTY = "dirty"
    CLEAN = "clean"


class CheckpointState(OpenEnum):
    """Says what became of the checkpoint of an ended uid whose spec asks for its deletion. It is for humans;
    no decision uses it.
    """

    DELETING = "deleting"
    DELETED = "deleted"
    KEPT = "kept"  # it was not certain that it was still this uid's, and nobody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Holds one line of a job's history: when, what, and a short detail. ``by`` is who asked for it, or the supervisor
    that did it by itself; it is empty where an attempt just went its way. ``memory_max`` is of the end of an attempt: the
    most that it was measured to take, in bytes; 0: it was not, or there was no room for it.
    """

    at: str
    event: str
    attempt: Count = 0
    detail: str = ""
    by: str = field(default="", metadata=OMITTED)
    memory_max: Bytes = field(default=0, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


HISTORY_KEPT = 8
"""A leader's write leaves this many entries in ``history``. With the next assignment they still hold the last
three failures, by which a wait judges (``operations.waiting``). The older ones go to ``earlier``.
"""

HISTORY_MAX = 16
"""The history may grow to this many entries by what others append before a leader writes again; then the
oldest go.
"""

DETAIL_MAX_BYTES = 120
"""The detail of a history entry is cut to this length."""

BY_MAX_BYTES = 80
"""Who did something is cut to this length in a record; the audit has more of it."""

AUDIT_BY_MAX_BYTES = 1000
"""Who did something is cut to this length in the audit: a line that is too long would be none."""

REASON_MAX_BYTES = 400
"""The reason in /own, and that of a pause, is cut to this length."""

DISTRUST_MAX_BYTES = 600
"""``distrust`` in the records of a leader and of a host is cut to this length."""


GIVEN_UP_MAX_BYTES = 200
"""Why an update was given up or rolled back is cut to this length."""

SUSPENDED_WHY_MAX_BYTES = 120
"""Why a job was suspended is cut to this length in its reference."""

ROLLED_BACK_KEPT = 4
"""So many revisions that were rolled back are named in a reference, the newest ones."""

QUARANTINED_KEPT = 4
"""So many attempts whose quarantine is over are named in a reference, the newest ones."""

POLICIES_MAX = 16
"""So many policies that refuse a job are remembered; of more, the newest."""

POLICY_DIGITS = 16
"""So many digits of the SHA-256 of a policy are kept with a job that it refuses."""

MOVED_DIGITS = 16
"""So many digits of a sha256 tell one spec of a job from another, where a record has little room."""

PREPARED_MAX = 4
"""The record of a host has room for this many prepared drivers, so no host is asked for more."""

PREPARED_WHY_MAX_BYTES = 100
"""Why a driver can't be prepared is cut to this length, in the record of its host and in a request."""


def clip(text: str, max_bytes: int) -> str:
    """Returns ``text`` on one line, cut to at most ``max_bytes`` of UTF-8.

    The text may come from a driver's output: terminal escapes and halves of surrogate pairs (undecodable
    bytes) become spaces.
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line.encode()) <= max_bytes:
        return line
    return line.encode()[: max_bytes - 3].decode(errors="ignore") + "…"


def with_entry(
    history: tuple[HistoryEntry, ...], at: str, event: str, attempt: int = 0, detail: str = "", by: str = ""
) -> tuple[HistoryEntry, ...]:
    """Returns ``history`` with one more entry, at most ``HISTORY_MAX`` (a record stays under 4 KiB)."""
    return (
        *history,
        HistoryEntry(at=at, event=event, attempt=attempt, detail=clip(detail, DETAIL_MAX_BYTES), by=by),
    )[-HISTORY_MAX:]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRef:
    """Says where a spec lies in the store; ``sha256`` is verified at every read. ``signature`` is what a signer has said of
    it (``spec.signed``), or empty.
    """

    key: str
    sha256: str
    bytes: Count
    signature: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPolicy:
    """Holds what the spec key ``standby`` asks for: one prepared driver of ``level`` is kept while the job runs, and
    prepared anew every ``refresh_s`` seconds.
    """

    level: PrepareLevel
    where: StandbyWhere
    refresh_s: SomeSeconds
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """Holds what the spec key ``placement`` asks for. ``require`` are labels that a host must have. Jobs of one ``group``
    are kept apart by the label ``spread`` of their hosts, or with ``host`` by the host; if it is empty, they are not.
    """

    require: tuple[str, ...] = ()
    spread: str = ""
    group: str = ""
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSpec:
    """Holds what the leader must know of a spec. It is copied into the reference so that a takeover reads no
    blob at all. ``labels`` are as ``model.labels`` has them; commands select by them.
    """

    memory: Bytes  # bytes
    priority: int
    unbounded: bool
    lease_s: Seconds
    stop_grace_s: Seconds
    start_timeout_s: Seconds
    checkpoint: str | None
    restart: RestartPolicy
    # bytes of spark.driver.memory to begin with, where restart.memory_step may raise it
    driver_memory: Bytes = 0
    delete_checkpoint: bool = False  # checkpoint_on_cancel: delete
    savepoints: SavepointPolicy | None = None
    # how far a prepared driver may go; None: its drivers start cold (a JVM application, or the spec says so)
    prepare: PrepareLevel | None = field(default=None, metadata=OMITTED)
    standby: StandbyPolicy | None = field(default=None, metadata=OMITTED)
    labels: tuple[str, ...] = field(default=(), metadata=OMITTED)
    placement: PlacementPolicy | None = field(default=None, metadata=OMITTED)
    spark: str = field(default="", metadata=OMITTED)  # a name of spark.versions; empty: the host's default
    back_to_savepoint: bool = field(default=False, metadata=OMITTED)  # update.rollback: savepoint
    sink: str = field(default="", metadata=OMITTED)  # a word of savepoints.sink; empty: it says nothing
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def sink_memory(self) -> SinkMemory | None:
        """Returns what ``sink`` says; None if it says nothing, or a word of a newer version."""
        return next((each for each in SinkMemory if each.value == self.sink), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRevision:
    """Holds one revision of a job: its number, its stored spec, and what the leader must know of that."""

    revision: Count
    spec: BlobRef
    terms: SchedulingSpec
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePolicy:
    """Says how an update is carried out and judged (protocol §9.2). The new revision is observed for ``observe_s`` seconds
    after its first batch; the failure number ``failures`` until then makes the leader act by ``rollback``.
    """

    mode: UpdateMode = field(default=UpdateMode.HANDOVER, metadata=OMITTED)
    observe_s: Seconds = field(default=600.0, metadata=OMITTED)
    failures: Count = field(default=1, metadata=OMITTED)
    rollback: RollbackRule = field(default=RollbackRule.CLEAN, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Describes the newest update of a job: the change from ``before``, which ran when it was asked for, to the
    revision ``target``, whose stored spec has ``sha256`` (protocol §9.2).

    ``given_up`` is why the leader has put ``before`` in its place again, although nobody asked for that; it is empty
    while ``target`` is what the job shall run. ``rolls_back`` says that it is a roll back, which given again changes
    nothing. ``by`` is who asked for it, for people. An update keeps the checkpoint, so
    the terms of ``before`` do not repeat it: ``model.state.revision_before`` puts it back.

    ``policy`` says how it is carried out and judged; it is None for one that is not judged after its begin: a roll back, or
    an update by the version before. ``done`` says that the target was observed for long enough; ``rolled_back`` is why the
    leader has made ``before`` the newest revision again after the target had begun.

    ``savepoint`` is the id of the savepoint that the leader has made before the hand-over (``update.rollback: savepoint``).
    ``moved_sha256`` is set if the job was rolled back to it: the first ``MOVED_DIGITS`` of the sha256 that the spec of the
    target would have with the checkpoint at which the job is since, so that the spec that has failed is known there, too.

    ``untried`` says that no attempt of ``before`` was ever claimed: the leader does not go back to it by itself.
    """

    target: Count
    sha256: str
    before: SpecRevision
    by: str
    at: str
    given_up: str = ""
    rolls_back: bool = field(default=False, metadata=OMITTED)
    policy: UpdatePolicy | None = field(default=None, metadata=OMITTED)
    done: bool = field(default=False, metadata=OMITTED)
    rolled_back: str = field(default="", metadata=OMITTED)
    savepoint: str = field(default="", metadata=OMITTED)
    moved_sha256: str = field(default="", metadata=OMITTED)
    untried: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """Asks that the next attempt of a job is placed on the host ``to``. It is a restart with a place: in force only while
    the reference has the restart nonce ``nonce``; ``before`` is the one that a withdrawal puts back.
    """

    to: SupervisorId
    nonce: str
    before: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Says of which job a job is a fork: of ``of`` with the uid ``uid``, made from the savepoint ``savepoint`` of it. While
    ``copying`` is set, its checkpoint is being copied, and the job must not start. The mark stays for as long as the uid.
    """

    of: JobName
    uid: Uid
    savepoint: str
    copying: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


def with_complete_copy(fork: Fork | None) -> Fork | None:
    """Returns the mark of a job whose checkpoint is complete: whatever its checkpoint becomes, a fork stays one."""
    return None if fork is None else replace(fork, copying=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Says that a job is to take the place of ``over`` with the uid ``uid`` (protocol §9.4), or if ``done``, that it has.
    ``offsets`` is the key of the stored offsets that ``over`` had committed when this was asked for; it is empty if they do
    not matter. ``by`` is who asked for it, and ``at`` since when it is so, for people.
    """

    over: JobName
    uid: Uid
    by: str
    at: str
    offsets: str = field(default="", metadata=OMITTED)
    done: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """Is the record /jobs/<name>: it exists if and only if the job must be recovered by the next leader
    (FLINK-2354).

    ``fresh_start`` is the id of the write by which a user accepted that the next start finds another
    checkpoint than the job left, or none; it is used once (``model.checkpoint_expectation``). ``begins_with``
    is what that start has to find (a restored savepoint), in the form of ``CheckpointExpectation.queries``;
    if it is empty, any content is accepted. ``left_by`` is another job that committed batches in this
    checkpoint before, and gave it up; a first start there is refused unless it is accepted. ``cold_restart`` is the
    restart nonce of a restart that is to use no prepared driver (``restart --cold``). ``last_revision`` is the highest
    number that a revision of this uid has had, if that is not ``revision``; a number is given once. ``move`` is the
    newest request to move the job to another host; ``move_in_force`` says whether it still counts. ``submitted_by`` is who
    submitted this uid; who asked for the last change stands in ``changed``. ``declared`` is the checkpoint that the spec
    file of the job names, if the leader has moved the job from there to a copy of a savepoint; commands that are given a
    spec with it take the checkpoint of ``terms`` in its place. ``rolled_back`` are the newest ``ROLLED_BACK_KEPT`` revisions
    that a leader has rolled back, oldest first: receivers are told of them after another update, too (protocol §12).
    ``quarantined`` are, for the same reason, the newest ``QUARANTINED_KEPT`` attempts by whose end the job was quarantined
    until a write of the reference ended that.
    """

    name: JobName
    uid: Uid
    revision: Count
    spec: BlobRef
    desired: Desired
    restart_nonce: str
    terms: SchedulingSpec
    submitted_at: str
    changed: HistoryEntry
    op: str
    fresh_start: str = ""
    begins_with: tuple[str, ...] = ()
    left_by: str = ""
    cold_restart: str = field(default="", metadata=OMITTED)
    update: Update | None = field(default=None, metadata=OMITTED)
    last_revision: Count = field(default=0, metadata=OMITTED)
    move: MoveRequest | None = field(default=None, metadata=OMITTED)
    fork: Fork | None = field(default=None, metadata=OMITTED)
    promotion: Promotion | None = field(default=None, metadata=OMITTED)
    submitted_by: str = field(default="", metadata=OMITTED)
    declared: str = field(default="", metadata=OMITTED)
    rolled_back: tuple[Count, ...] = field(default=(), metadata=OMITTED)
    quarantined: tuple[Count, ...] = field(default=(), metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def next_revision(self) -> int:
        """Returns the number of the next revision of this uid."""
        return max(self.revision, self.last_revision) + 1

    @property
    def move_in_force(self) -> MoveRequest | None:
        """Returns the request to move the job, unless a later restart, resume or suspend has replaced it."""
        return self.move if self.move is not None and self.move.nonce == self.restart_nonce else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedUpdate:
    """Holds what is kept beside the attempts of an update's target while it is observed; it is void beside an attempt of
    another revision than ``target``.

    ``failures`` are those of attempts before this one that count against the update. ``driver_memory`` (bytes) and
    ``raised`` are those of the last attempt of the revision before, as in ``Ownership``. ``queries`` are the pairs of
    ``CheckpointExpectation`` that were known when the revision ``before`` had run last: what is beyond was left by this
    target, or by one of the updates that it has replaced. With ``before`` 0 that is not known. ``left`` is why a target
    that has failed was not rolled back, for people: what it has left in the checkpoint.
    """

    target: Count
    failures: Count = field(default=0, metadata=OMITTED)
    driver_memory: Bytes = field(default=0, metadata=OMITTED)
    raised: Count = field(default=0, metadata=OMITTED)
    queries: tuple[str, ...] = field(default=(), metadata=OMITTED)
    left: str = field(default="", metadata=OMITTED)
    before: Count = field(default=0, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


LEFT_MAX_BYTES: Final = 160
"""What a failed target has left is cut to this length in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverDiagnostics:
    """Says what is known of the end of an attempt beside its reason. ``path`` is the file with the diagnostics of a driver
    that was killed for being silent, on ``host``, or empty. ``memory`` describes the memory before an out-of-memory in one
    line: the largest process, the limits, the curve.
    """

    attempt: Count
    host: str
    path: str = field(default="", metadata=OMITTED)
    memory: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


DIAGNOSTICS_PATH_MAX_BYTES = 255
"""A path of diagnostics that is longer is left out of the record; the log of the shim has it."""

DIAGNOSTICS_MEMORY_MAX_BYTES = 360
"""The line about the memory before an end is cut to this length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Is the record /own/<name>: it says which attempt may run. Its znode version is the fence of the name;
    it is never deleted.
    """

    state: OwnState
    op: str
    # of the newest submission of the name; set by submit, for look-ups
    newest_uid: UidOrNone = ""
    uid: UidOrNone = ""  # whom the rest of the record is about
    attempt: Count = 0
    claim: str = ""
    revision: Count = 0
    supervisor: SupervisorIdOrNone = ""
    host: str = ""
    memory: Bytes = 0  # bytes that the attempt occupies on its supervisor
    driver_memory: Bytes = 0  # bytes that spark.driver.memory is set to; 0: as the spec says
    # how often it was raised after out_of_memory (restart.memory_step)
    raised: Count = 0
    claims: Count = 0  # claimed attempts of this uid so far
    cause: Cause | None = None
    reason: str = ""  # one sentence for humans
    permanent: bool = False  # of an exit: do not try again until resume or restart
    exit_code: int | None = None
    stop_mode: StopMode | None = None  # of an exit: how a requested stop was carried out
    ran_s: Seconds = 0.0  # how long the exited attempt had a driver (boottime)
    failures: Count = 0  # consecutive failures before this attempt, for the back-off
    charged: Count = 0  # of these, those that count against the budget
    recent_s: tuple[float, ...] = ()  # ages of recent charged failures, oldest first (failure-rate)
    restart_nonce: str = ""
    job_version: int = -1  # version of /jobs/<name> that the assignment was made from
    remembered: CheckpointExpectation | None = None  # of the checkpoint, from the last lease that was removed
    history: tuple[HistoryEntry, ...] = ()
    # what was before it (model.history); may still be about the uid before
    earlier: str = ""
    # the drain of a host (``Cordon.drain``) by which it left that host, until it runs elsewhere
    moved_by: str = field(default="", metadata=OMITTED)
    judged: JudgedUpdate | None = field(default=None, metadata=OMITTED)
    # of an exit: the newest batches that its shim has heard of, as pairs of CheckpointExpectation
    committed: tuple[str, ...] = field(default=(), metadata=OMITTED)
    # the policies that refuse the version ``refused_of`` of the job (``version_of``), by the first POLICY_DIGITS of
    # ``Member.policy_sha256``, oldest first. It is named here, for a leader that does not know these fields carries them on
    refused_by: tuple[str, ...] = field(default=(), metadata=OMITTED)
    refused_of: str = field(default="", metadata=OMITTED)
    # of the latest attempt of this uid that left any, if there was room for it; for display
    diagnostics: DriverDiagnostics | None = field(default=None, metadata=OMITTED)
    # of an exit: what the attempt took, if there was room for it; for display
    usage: AttemptUsage | None = field(default=None, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


def version_of(record: JobRef | Ownership) -> str:
    """Returns what tells the version of a job that is, or was, to run from any other: uid, revision and restart nonce."""
    return f"{record.uid} {record.revision} {record.restart_nonce}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Names the processes of an attempt, for humans and for ``list``; it is never used to signal anything."""

    host: str
    shim_pid: int
    pid: int | None = None
    started_at: str | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Holds the latest StreamingQueryProgress, condensed. ``batch_ms`` is in milliseconds; ``lag`` is a
    number of records or null. ``state_rows`` is how many rows the state has, or null if it has none.
    ``trigger_interval_s`` is the interval of the query's trigger by processing time, in seconds; null if it has none, or if
    nobody could say.
    """

    query: str | None = None
    batch_id: int | None = None
    input_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    batch_ms: float | None = None
    at: str | None = None
    lag: float | None = None
    state_rows: float | None = field(default=None, metadata=OMITTED)
    trigger_interval_s: float | None = field(default=None, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


class QueryState(OpenEnum):
    """Says what a query of a running application does, by its last report. The most urgent state comes
    first.
    """

    STALLED = "stalled"  # silent for ``stall_timeout``: the attempt is being ended for it
    FAILED = "failed"  # ended with an error, and the application lives on
    UNKNOWN = "unknown"  # silent, and Spark was asked in vain what it does: ``error`` says why
    ACTIVE = "active"
    IDLE = "idle"  # it has caught up and waits for data, or for its next trigger
    TERMINATED = "terminated"  # ended without an error


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """Describes one query of an application that may have several. ``at`` is its last sign of life. Units are
    as in ``Progress``.

    ``elsewhere`` is the location of its checkpoint, if that is not inside the job's: nothing protects a
    checkpoint there, and a temporary directory is lost with the host. ``behind`` says whether it falls behind its source
    (``model.lag_window``); it is None of a query that reports no lag now, and of a shim of the version before. Of a query
    for whose figures there was no room only the first four fields are there.
    """

    query: str | None = field(default=None, metadata=OMITTED)
    id: str | None = field(default=None, metadata=OMITTED)
    state: QueryState = field(default=QueryState.ACTIVE, metadata=OMITTED)
    batch_id: int | None = field(default=None, metadata=OMITTED)
    input_rows_per_s: float | None = field(default=None, metadata=OMITTED)
    processed_rows_per_s: float | None = field(default=None, metadata=OMITTED)
    batch_ms: float | None = field(default=None, metadata=OMITTED)
    lag: float | None = field(default=None, metadata=OMITTED)
    at: str | None = field(default=None, metadata=OMITTED)
    error: str | None = field(default=None, metadata=OMITTED)
    elsewhere: str | None = field(default=None, metadata=OMITTED)
    state_rows: float | None = field(default=None, metadata=OMITTED)
    trigger_interval_s: float | None = field(default=None, metadata=OMITTED)
    behind: bool | None = field(default=None, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """Holds how long the phases of a start took, in seconds of the host's BOOTTIME; None means not (yet)
    known. Each begins where the one before ended: taken up by the host → exec of the driver → its
    SparkSession → the first executor that its cluster gives it, if it had to wait for one → its first committed batch.
    """

    spawn_s: float | None = None
    session_s: float | None = None
    cluster_s: float | None = field(default=None, metadata=OMITTED)
    first_batch_s: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWait:
    """Says that a driver has no executor, though it wants some. ``cluster`` is the name of the cluster, or the master
    where the spec names that; ``since`` is wall time. ``application`` is what the cluster calls the driver, and ``says``
    why it gives none, in the words of the cluster; both are empty if they are not known. It is for display, and frees a
    starting slot (``model.load``); no write is guarded by it.
    """

    cluster: str
    since: str
    application: str = field(default="", metadata=OMITTED)
    says: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Is the record /lease/<name>, set by the claim and each renewal; version and mzxid of the znode tell one
    from the next.

    ``since`` says when the attempt was claimed; once its phase is ``running`` or ``stopping``, it says when
    that phase began.
    """

    name: JobName
    uid: Uid
    attempt: Count
    claim: str
    lease_s: Seconds
    stop_grace_s: Seconds
    phase: Phase
    driver: Driver
    since: str
    progress: Progress | None = None
    renewals: Count = 0
    queries: tuple[QueryProgress, ...] = ()
    more_queries: Count = 0  # that found no room in ``queries``
    # for how long there was a driver, by the shim's BOOTTIME, when this was sent
    ran_s: Seconds = 0.0
    start: StartTimes | None = None
    # since the last sign of life of a query, when this was sent; None: no query yet
    silence_s: Seconds | None = None
    remembered: CheckpointExpectation | None = (
        None  # of the checkpoint: what the next start has to find there
    )
    # why its checkpoint on S3 has no storage fence; empty: it has it, or needs none
    not_fenced: str = ""
    # the class-data archive that the driver was started with, or "off: " and why it has none
    class_archive: str = field(default="", metadata=OMITTED)
    # the Unix user of the driver; empty: the supervisor's own
    user: str = field(default="", metadata=OMITTED)
    # why the limits of the spec are not enforced in full; empty: they are, or there are none
    not_limited: str = field(default="", metadata=OMITTED)
    # for how long executors may go on after the driver's end (``model.executors``); 0: it holds none elsewhere
    executors_outlive_s: Seconds = field(default=0.0, metadata=OMITTED)
    # None: it has executors, or needs none, or nobody can say
    cluster_wait: ClusterWait | None = field(default=None, metadata=OMITTED)
    # the address of Spark's UI as the driver says it; empty: it has none, or did not say
    spark_ui: str = field(default="", metadata=OMITTED)
    # Spark's master, where the application's code has set another one than its spec; empty: it has not, or did not say
    own_master: str = field(default="", metadata=OMITTED)
    # how many queries have ended with an error and were not started again, those without room in ``queries`` included
    failed_queries: Count = field(default=0, metadata=OMITTED)
    usage: AttemptUsage | None = field(default=None, metadata=OMITTED)  # for display
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Is the record /assigned/<supervisor>/<uid>.<attempt>: it says what this supervisor must start, and
    which versions the claim must meet. If ``prepared`` is set, the supervisor hands it to a prepared driver of the
    same uid, revision and spec, if there is one; else, and where there is none, the driver starts cold.
    """

    name: JobName
    uid: Uid
    attempt: Count
    revision: Count
    job_version: int
    own_version: int
    spec: BlobRef
    memory: Bytes
    driver_memory: Bytes = 0  # bytes for spark.driver.memory; 0: as the spec says
    prepared: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Is the record /prepare/<supervisor>/<uid>.<revision>: the leader asks this supervisor to keep a prepared driver of
    this revision. It is a wish: no write is guarded by it, and nothing runs because of it alone.
    """

    name: JobName
    uid: Uid
    revision: Count
    spec: BlobRef
    level: PrepareLevel
    memory: Bytes  # bytes that the driver occupies
    driver_memory: Bytes = 0  # bytes for spark.driver.memory; 0: as the spec says
    priority: int = 0
    why: str = ""
    at: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Is the record /results/<uid>: the terminal result of a uid. It carries what ``show`` prints of an ended
    job. ``earlier`` is as in /own.

    ``wrote`` is the place (``model.checkpoint_expectation``) of its checkpoint, where an attempt of this uid
    was claimed and batches of the name were seen committed; it is empty if none was seen. Without it nothing
    there is deleted.
    """

    name: JobName
    uid: Uid
    outcome: Outcome
    state: Cleanliness
    revision: Count
    spec: BlobRef | None
    terms: SchedulingSpec | None
    attempt: Count
    claims: Count
    reason: str
    at: str
    submitted_at: str
    op: str
    restart_nonce: str = ""
    failures: Count = 0
    checkpoint_state: CheckpointState | None = None
    history: tuple[HistoryEntry, ...] = ()
    earlier: str = ""
    wrote: str = ""
    last_revision: Count = field(default=0, metadata=OMITTED)  # as in the reference
    update: Update | None = field(
        default=None, metadata=OMITTED
    )  # as in the reference, if there is room for it
    fork: Fork | None = field(default=None, metadata=OMITTED)  # as in the reference
    promotion: Promotion | None = field(default=None, metadata=OMITTED)  # as in the reference
    submitted_by: str = field(default="", metadata=OMITTED)  # as in the reference
    declared: str = field(default="", metadata=OMITTED)  # as in the reference
    rolled_back: tuple[Count, ...] = field(default=(), metadata=OMITTED)  # as in the reference
    quarantined: tuple[Count, ...] = field(default=(), metadata=OMITTED)  # as in the reference
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def next_revision(self) -> int:
        """Returns the number of the next revision of this uid, if it is registered again."""
        return max(self.revision, self.last_revision) + 1

    @property
    def deletes_checkpoint(self) -> bool:
        """Returns whether the spec asks for the deletion of its checkpoint at such an end: the user's cancel,
        or its own finish. It does not at a failure (a ``resume`` goes on from the checkpoint) nor at a
        suspend, which is no end.
        """
        asked = self.terms is not None and self.terms.delete_checkpoint
        return asked and self.outcome in (Outcome.CANCELLED, Outcome.FINISHED)


class RevisionFate(OpenEnum):
    """Says what became of a revision that is not the present one."""

    SUPERSEDED = "superseded"  # another one was asked for
    FAILED = "failed"  # no driver of it could be prepared
    ROLLED_BACK = "rolled_back"  # its driver failed while it was observed


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRevision:
    """Describes one revision of a uid. ``sha256`` and ``bytes`` are those of its spec; ``bytes`` is 0 if they are not known.
    ``stored_as`` is the number under which its spec was stored, if that is another one: a roll back stores nothing. ``fate``
    counts for one that is not the present one. ``by`` and ``why`` are for people. ``signature`` is as in ``BlobRef``.
    """

    revision: Count
    sha256: str
    at: str
    bytes: Count = field(default=0, metadata=OMITTED)
    stored_as: Count = field(default=0, metadata=OMITTED)
    by: str = field(default="", metadata=OMITTED)
    fate: RevisionFate = field(default=RevisionFate.SUPERSEDED, metadata=OMITTED)
    why: str = field(default="", metadata=OMITTED)
    signature: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """Is the record /revisions/<uid>: the newest revisions of a uid, oldest first, up to the last one that a command has
    made (``registry.revisions``).
    """

    name: JobName
    uid: Uid
    revisions: tuple[KeptRevision, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """Is what receivers are told once of a job (``model.notifications``): the event, and which one of its kind it is.

    ``occurrence`` is the attempt that has failed, the revision that was rolled back, or, of what lasts, a count; together
    with the uid it makes the id of what is sent. The texts are those of the moment at which the leader has seen it.
    ``pending`` are the receivers that have not yet accepted it; ``over`` says of what lasts that it has ended since.
    """

    event: NotifiedEvent
    occurrence: Count
    at: str
    attempt: Count
    revision: Count
    state: str
    reason: str
    cause: str = field(default="", metadata=OMITTED)
    command: str = field(default="", metadata=OMITTED)
    pending: tuple[str, ...] = field(default=(), metadata=OMITTED)
    over: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """Is the record /notifications/<uid>: what receivers are to be told of a job, or were, oldest first."""

    name: JobName
    uid: Uid
    entries: tuple[Notification, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyingSince:
    """Is the record /notifications: whether leaders write down what receivers are to be told. ``since`` is when that began
    or ended, for people. What happened before it is told to nobody. ``from_history`` says that this has also been settled
    for what only the history of a job shows; the version before did not look there."""

    on: bool
    since: str
    from_history: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """States that the checkpoint of an ended uid is to be deleted (``registry.pending_deletions``). ``spec``
    may say where its S3 is.

    ``epoch`` is that of the first term that began to delete; 0 means that none has begun. It is never
    overwritten: it shows a later term that requests of an earlier one may be on their way.
    """

    name: JobName
    uid: Uid
    at: str
    spec: BlobRef | None = None
    epoch: Count = 0
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointClaim:
    """Is the record /checkpoints/<hash>: this location belongs to this job. ``location`` is normalised.

    If ``doom`` is set, the location belongs to no job until its objects are deleted; ``name`` is then one
    that no job can have.
    """

    location: str
    name: str
    uid: Uid
    doom: PendingDeletion | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def deletion_is_pending(self) -> bool:
        """Returns whether the checkpoint is to be deleted: ``doom`` is set and is about the uid of the claim.
        If it is about another uid, somebody has altered the record, and the claim counts as that of a living
        job.
        """
        return self.doom is not None and self.doom.uid == self.uid


class LedTerm(NamedTuple):
    """Names a term of leadership and who led it; ``op`` is the id of the election, which no other election
    has.

    In JSON it is the list ``[epoch, supervisor, op]``. One that cannot be read is left out: a term that is
    not known makes a registry distrusted at worst, and an /epoch that cannot be read lets nobody lead.
    """

    epoch: int
    supervisor: str
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """Is the record /epoch: the number of the leadership term. The znode's version is the fence of the
    leader's writes. /recorded, and the mark of a term in the store, have the same form.

    ``recent`` are the latest terms, oldest first. ``recorded`` is the term whose mark is, or may be, the
    newest in the store, and ``before`` are those that may be it instead. ``coord.election`` says how they
    come about and ``coord.trust`` what rests on them.
    """

    epoch: int
    supervisor: str
    op: str
    recent: tuple[LedTerm, ...] = field(default=(), metadata=OMITTED)
    recorded: LedTerm | None = field(default=None, metadata=OMITTED)
    before: tuple[LedTerm, ...] = field(default=(), metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderHint:
    """Is the record /leader (ephemeral): it says who leads, for humans and clients. It is never a fence.

    ``distrust`` says why this leader does nothing to this registry (I10), or is None; agents start nothing
    while it is set.
    """

    supervisor: str
    epoch: int
    address: str
    distrust: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Names an attempt that a supervisor cannot start at the moment, and says why; it tries again while the
    attempt is assigned.
    """

    uid: str
    attempt: Count
    why: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDriver:
    """Describes one prepared driver of a host. If ``ready`` is not set, it is being brought up, unless ``why`` says why it
    cannot be prepared. ``waits`` says that ``why`` is no fault of the job and may pass: no room, a store that does not
    answer, a driver that was killed. ``refused`` says that the policy of the host does not allow the spec: one with another
    policy may. ``sha256`` is that of the spec. ``ready_at`` is since when it is ready, and ``lacks`` what one that is ready
    has not (its application could not be held at its first query), both for display.
    """

    uid: str
    revision: Count
    level: PrepareLevel
    sha256: str
    driver_memory: Bytes = 0
    ready: bool = False
    ready_at: str = field(default="", metadata=OMITTED)
    why: str = field(default="", metadata=OMITTED)
    waits: bool = field(default=False, metadata=OMITTED)
    refused: bool = field(default=False, metadata=OMITTED)
    lacks: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Is the record /supervisors/<id> (ephemeral): a supervisor that can host drivers.

    ``distrust`` says why it starts nothing from this registry (I10), by what it remembers itself, or is None.
    ``log_dir`` is the directory on its host with the output of its drivers. ``delays`` are some of the starts
    that it cannot make, for display. ``prepares`` is 1 if it can keep prepared drivers; ``prepared`` are those it keeps
    (the first few, if there are many), for the leader's choice of a host. ``labels`` are as ``model.labels`` has them.
    ``policy_sha256`` tells its policy from another (``spec.policy_judge``); a version that judges none leaves it empty.
    ``sparks`` are the names of its ``spark.versions``; a version that knows of none gets no job that asks for one.
    ``api`` is the address by which others reach its API, or empty.
    """

    id: SupervisorId
    host: str
    boot_id: str
    address: str
    memory: Bytes  # bytes
    drivers: Count
    starting: Count
    software: str
    since: str
    distrust: str | None = None
    log_dir: str = ""
    delays: tuple[Delay, ...] = ()
    prepares: Count = field(default=0, metadata=OMITTED)
    prepared: tuple[PreparedDriver, ...] = field(default=(), metadata=OMITTED)
    labels: tuple[str, ...] = field(default=(), metadata=OMITTED)
    policy_sha256: str = field(default="", metadata=OMITTED)
    sparks: tuple[str, ...] = field(default=(), metadata=OMITTED)
    api: str = field(default="", metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Is the record /accepted: an operator has accepted a registry that was restored to an older state
    (``coord.trust``).

    ``epoch`` is its number, above all terms that the registry or the store knew of; the store has it under
    this number. ``wait_s`` says for how long nothing is started after a leader first saw it, since drivers of
    the lost state may live. ``waited`` says that a leader has waited for so long, or that the operator has
    stated that no driver runs.
    """

    id: str
    epoch: int
    by: str
    at: str
    wait_s: Seconds
    waited: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Is the record /pause: while it exists, whatever is in it, the leader acts on nothing and no host starts
    anything.
    """

    by: str  # as operations.author has it
    at: str
    reason: str
    op: str
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"paused by {self.by} since {self.at}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Is the record /hosts/<supervisor>: what an operator wants of this host, whether it is up or not.

    ``cordoned`` says that nothing new is placed there. ``drain`` is the id of a drain, or empty: the leader moves the
    jobs of this host to others then, at most ``max_parallel`` at a time. An uncordon sets the record and does not
    delete it, so that its version never begins again: a write that arrives late can't undo a newer one.
    """

    supervisor: SupervisorId
    cordoned: bool
    by: str  # as operations.author has it
    at: str
    why: str
    op: str
    drain: str = field(default="", metadata=OMITTED)
    max_parallel: Count = field(default=0, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def draining(self) -> bool:
        return self.cordoned and bool(self.drain)

    @property
    def sentence(self) -> str:
        """Returns who cordoned or drains it, and why."""
        how = "is drained" if self.draining else "is cordoned"
        return f"{self.supervisor} {how} by {self.by}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Is the record /switchover: a planned hand-over that somebody asked for. It is in force only while
    /epoch is ``epoch``.

    It stays until the next leader has acted, which removes it: by its removal the command knows that all is
    done.
    """

    epoch: int  # of the term that is to end
    leader: str  # who leads it
    to: str | None  # who shall lead next; None: anybody else
    by: str
    at: str
    op: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """Is one line of the audit in the store (``registry.audit``): somebody asked for a write.

    ``by`` is who, and ``origin`` the user on the host where the command ran, by the kernel. ``what`` is the kind of write,
    ``op`` the id by which the registry knows it, ``name``, ``uid`` and ``revision`` what it is about, as far as it is about
    a job. ``late`` says that the line was written after the write. ``before`` is the SHA-256 of the line before, as it is
    stored; it is empty in the first one.
    """

    number: Count
    at: str
    by: str
    origin: str
    what: str
    op: str
    before: str
    name: str = field(default="", metadata=OMITTED)
    uid: str = field(default="", metadata=OMITTED)
    revision: Count = field(default=0, metadata=OMITTED)
    detail: str = field(default="", metadata=OMITTED)
    late: bool = field(default=False, metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEnd:
    """Is the record /audit: the newest line of the audit that is known to be in the store, by its number and its SHA-256.
    There may be newer ones; older ones than that may not be missing.
    """

    number: Count
    sha256: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Is the record /cluster: the identity of the cluster. A process configured with another store refuses to
    work on it.
    """

    id: str
    name: str
    store: str
    extra: dict[str, Any] = field(default_factory=dict)
