"""The records of DESIGN §4 as frozen dataclasses: what is in each znode, and nothing about how it gets there.

Light on purpose (stdlib only): a shim imports this, and its memory counts once per job. Encoded and decoded by
``registry.codec``; ``extra`` keeps fields written by a newer version, so that rewriting a record loses nothing (F59).
Times named ``*_at`` are ISO 8601 UTC strings for display; no decision uses them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from supervisor.model.restart import RestartPolicy


class Desired(StrEnum):
    """What the user wants of a job that has a reference; a cancelled job has none: its reference is gone."""

    RUNNING = "running"
    SUSPENDED = "suspended"


class OwnState(StrEnum):
    """State of /own/<name>. Only ``claimed`` and ``draining`` may renew; ``exited`` is the tombstone."""

    VACANT = "vacant"
    ASSIGNED = "assigned"
    CLAIMED = "claimed"
    DRAINING = "draining"
    REVOKED = "revoked"
    EXITED = "exited"


DEAD = frozenset({OwnState.VACANT, OwnState.EXITED})
"""No attempt can be alive."""

LEASED = frozenset({OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED})
"""An attempt may be alive, until its tombstone or the full wait."""

OCCUPYING = LEASED | {OwnState.ASSIGNED}
"""It takes up its host, or is about to."""


class Phase(StrEnum):
    """How far an attempt has come, as its shim knows it (in the lease record)."""

    CLAIMED = "claimed"      # the claim committed; the driver is being started
    BEGUN = "begun"          # the application's first line ran
    SESSION = "session"      # it has a SparkSession
    QUERY = "query"          # a streaming query was started
    RUNNING = "running"      # first batch committed, or up for 10 s without a query
    STOPPING = "stopping"    # an orderly stop is under way


class Cause(StrEnum):
    """Why an attempt ended, or why a host refused to start it."""

    FINISHED = "finished"                        # exit 0 of a bounded job, nobody asked it to stop
    STOPPED = "stopped"                          # a stop was requested before the exit
    USER_ERROR = "user_error"                    # the application ended by itself with a failure
    EXITED_ZERO = "exited_zero"                  # exit 0 of an unbounded job: a swallowed exception, most likely
    OUT_OF_MEMORY = "out_of_memory"
    CHECKPOINT_CONFLICT = "checkpoint_conflict"  # Spark saw a second writer on the checkpoint
    START_TIMED_OUT = "start_timed_out"
    STALLED = "stalled"
    KILLED = "killed"                            # died of a signal that nobody of ours sent
    SHIM_DIED = "shim_died"                      # its shim was killed; the guardian proved the tree empty
    LEASE_EXPIRED = "lease_expired"              # killed at its deadline: no renewal could commit
    LOST = "lost"                                # no word for the full wait
    NOT_STARTED = "not_started"                  # exec failed
    BAD_ARTIFACT = "bad_artifact"                # refused: spec or application missing or altered
    NO_SPARK = "no_spark"                        # refused: Spark or Java not found
    NO_ROOM = "no_room"                          # refused: the host is full


PERMANENT_CAUSES = frozenset({Cause.BAD_ARTIFACT, Cause.NO_SPARK, Cause.NOT_STARTED})
"""Trying again cannot help: the job shows ``quarantined`` until ``resume`` or ``restart``."""

UNCHARGED_CAUSES = frozenset({Cause.LOST, Cause.SHIM_DIED, Cause.LEASE_EXPIRED, Cause.NO_ROOM})
"""Not the job's fault: counts for the back-off, not for the restart budget (DESIGN §8)."""

PLANNED_CAUSES = frozenset({Cause.STOPPED, Cause.FINISHED})
"""Not a failure at all."""


class Outcome(StrEnum):
    """Terminal outcome of a uid."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    FINISHED = "finished"


class Cleanliness(StrEnum):
    """``dirty`` until the leader has removed the uid's leftovers, then ``clean``."""

    DIRTY = "dirty"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a job's history: when, what, and a short detail."""

    at: str
    event: str
    attempt: int = 0
    detail: str = ""
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


HISTORY_KEPT = 10
DETAIL_MAX_BYTES = 120


def clip(text: str, max_bytes: int) -> str:
    """``text`` on one line, cut to at most ``max_bytes`` of UTF-8.

    It may come from a driver's output: terminal escapes and halves of surrogate pairs (undecodable bytes) become spaces.
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line.encode()) <= max_bytes:
        return line
    return line.encode()[: max_bytes - 3].decode(errors="ignore") + "…"


def noted(history: tuple[Entry, ...], at: str, event: str, attempt: int = 0, detail: str = "") -> tuple[Entry, ...]:
    """``history`` with one more entry; only the newest ``HISTORY_KEPT`` are kept (a record stays under 4 KiB)."""
    return (*history, Entry(at, event, attempt, clip(detail, DETAIL_MAX_BYTES)))[-HISTORY_KEPT:]


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Where a spec lies in the store; ``sha256`` is verified at every read."""

    key: str
    sha256: str
    bytes: int
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the leader must know of a spec, copied into the reference so that a takeover reads no blob at all."""

    memory: int                 # bytes
    priority: int
    unbounded: bool
    lease_s: float
    stop_grace_s: float
    start_timeout_s: float
    checkpoint: str | None
    restart: RestartPolicy
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class JobRef:
    """/jobs/<name>: exists if and only if the job must be recovered by the next leader (FLINK-2354)."""

    name: str
    uid: str
    revision: int
    spec: BlobRef
    desired: Desired
    restart_nonce: str
    terms: Terms
    submitted_at: str
    changed: Entry
    op: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ownership:
    """/own/<name>: says which attempt may run. Its znode version is the fence of the name; it is never deleted."""

    state: OwnState
    op: str
    newest_uid: str = ""                  # of the newest submission of the name; set by submit, for look-ups
    uid: str = ""                         # whom the rest of the record is about
    attempt: int = 0
    claim: str = ""
    revision: int = 0
    supervisor: str = ""
    host: str = ""
    memory: int = 0                       # bytes that the attempt occupies on its supervisor
    claims: int = 0                       # claimed attempts of this uid so far
    cause: Cause | None = None
    reason: str = ""                      # one sentence for humans
    permanent: bool = False               # of an exit: do not try again until resume or restart
    exit_code: int | None = None
    ran_s: float = 0.0                    # how long the exited attempt had a driver (boottime)
    failures: int = 0                     # consecutive failures before this attempt, for the back-off
    charged: int = 0                      # of these, those that count against the budget
    recent_s: tuple[float, ...] = ()      # ages of recent charged failures, oldest first (failure-rate)
    restart_nonce: str = ""
    job_version: int = -1                 # version of /jobs/<name> that the assignment was made from
    history: tuple[Entry, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Driver:
    """The processes of an attempt, for humans and for ``list``; never used to signal anything."""

    host: str
    shim_pid: int
    pid: int | None = None
    started_at: str | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """Latest StreamingQueryProgress, condensed. ``batch_ms`` milliseconds; ``lag`` records or null."""

    query: str | None = None
    batch_id: int | None = None
    input_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    batch_ms: float | None = None
    at: str | None = None
    lag: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Lease:
    """/lease/<name>: set by the claim and each renewal; version and mzxid of the znode tell one from the next."""

    name: str
    uid: str
    attempt: int
    claim: str
    lease_s: float
    stop_grace_s: float
    phase: Phase
    driver: Driver
    since: str
    progress: Progress | None = None
    renewals: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """/assigned/<supervisor>/<uid>.<attempt>: what this supervisor must start, and the versions the claim must meet."""

    name: str
    uid: str
    attempt: int
    revision: int
    job_version: int
    own_version: int
    spec: BlobRef
    memory: int
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """/results/<uid>: the terminal result of a uid. Carries what ``show`` tells of an ended job."""

    name: str
    uid: str
    outcome: Outcome
    state: Cleanliness
    revision: int
    spec: BlobRef | None
    terms: Terms | None
    attempt: int
    claims: int
    reason: str
    at: str
    submitted_at: str
    op: str
    restart_nonce: str = ""
    failures: int = 0
    history: tuple[Entry, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointClaim:
    """/checkpoints/<hash>: this location belongs to this job. ``location`` is normalised."""

    location: str
    name: str
    uid: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """/epoch: number of the leadership term. The znode's version is the fence of the leader's writes."""

    epoch: int
    supervisor: str
    op: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeaderHint:
    """/leader (ephemeral): who leads, for humans and clients. Never a fence."""

    supervisor: str
    epoch: int
    address: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """/supervisors/<id> (ephemeral): a supervisor that can host drivers."""

    id: str
    host: str
    boot_id: str
    address: str
    memory: int                 # bytes
    drivers: int
    starting: int
    software: str
    since: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """/cluster: identity of the cluster. A process configured with another store refuses to work on it."""

    id: str
    name: str
    store: str
    extra: dict[str, Any] = field(default_factory=dict)
