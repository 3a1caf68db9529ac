"""Defines what a shim knows, what can happen to it and what it can do, as the types of ``machine.py``. It
holds values only, no decisions.

Instants named ``_at_s`` are CLOCK_BOOTTIME seconds; ``wall_s`` is for display and for noticing jumps of the
clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from supervisor.model.batch_time import TimedBatch
from supervisor.model.lag_window import EMPTY, LagWindow
from supervisor.model.launch import Launch
from supervisor.model.out_of_memory import Oom
from supervisor.model.records import Cause, ClusterWait, Ownership, Phase, Progress
from supervisor.model.seen import Seen
from supervisor.model.sinks import NamedSink
from supervisor.model.transaction import Transaction
from supervisor.model.usage import DirectoryUse, ResourceUse
from supervisor.records.layout import Layout
from supervisor.shim.stopping import Ladder


class Stage(StrEnum):
    """Says where the attempt stands; ``machine.py`` says what ends each stage."""

    PREPARED = "prepared"
    CONNECTING = "connecting"
    CLAIMING = "claiming"
    SETTLING = "settling"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    KILLING = "killing"
    BURYING = "burying"
    DONE = "done"


class Now(NamedTuple):
    """Holds the readings of both clocks, taken together just before the event is handled."""

    boottime_s: float
    wall_s: float


# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. This event comes at least twice a second."""


@dataclass(frozen=True, slots=True)
class StillWanted:
    """The agent says that it still wants this prepared driver."""


@dataclass(frozen=True, slots=True)
class DiscardAsked:
    """The agent does not want this prepared driver any more."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """An attempt was handed to this prepared driver: the file is there, whole. ``launch`` is the launch of the attempt."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class HandedUnfit:
    """What was handed over is no attempt for this prepared driver: ``why`` says why."""

    why: str


@dataclass(frozen=True, slots=True)
class Connected:
    session: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is lost; the session may live on."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session is lost. The client will not connect again; a new one is needed."""


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The old sessions are certainly gone: nothing that was sent in them can be applied any more."""


@dataclass(frozen=True, slots=True)
class CloseFailed:
    """``CloseSession`` could not be confirmed."""


@dataclass(frozen=True, slots=True)
class OwnChanged:
    """The watch on /own has fired. This is a hint only."""


@dataclass(frozen=True, slots=True)
class OwnRead:
    """This answers ``Read``, and was made after a ``sync``. ``lease_version`` is None if there is no /lease;
    ``live`` is the session that owns /live."""

    token: int
    own: Seen[Ownership]
    lease_version: int | None = None
    live: int | None = None


@dataclass(frozen=True, slots=True)
class ReadFailed:
    token: int


@dataclass(frozen=True, slots=True)
class WriteCommitted:
    """A write has committed. ``sent_at_s`` was read just before sending; ``own_version`` is the new version
    of /own if the transaction set it."""

    op: str
    sent_at_s: float
    own_version: int | None = None


@dataclass(frozen=True, slots=True)
class WriteRejected:
    """A guard failed, and nothing of the write was applied. ``kind`` is as in ``errors.GuardFailed``."""

    op: str
    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class WriteNotSent:
    """A write was not sent, so it is certainly without effect."""

    op: str


@dataclass(frozen=True, slots=True)
class WriteOutcomeUnknown:
    """The outcome of a write is unknown: it may have been applied, or may still be."""

    op: str


@dataclass(frozen=True, slots=True)
class Executed:
    """The starter has become the driver."""


@dataclass(frozen=True, slots=True)
class ExecFailed:
    """There is no driver. If ``permanent`` is set, trying again cannot help."""

    error: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class ExecLate:
    """The starter found that its time was over, and ended without exec."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The driver's root process has ended. ``status`` is its exit code, or −signal; ``tail`` is the end of
    its output.

    ``oom`` says whom the kernel has killed for lack of memory since exec; it is None if that is not known.
    ``refused`` says why the host's supervisor did not let the application begin; it is None if the
    application was let begin, or did not have to wait. ``memory`` says what its memory was before the end. ``left`` is the
    number of processes of the tree that were alive when its root had ended with 0.
    """

    status: int
    tail: str = ""
    oom: Oom | None = None
    refused: tuple[Cause, str] | None = None
    memory: str = ""
    left: int = 0


@dataclass(frozen=True, slots=True)
class TreeSeen:
    """This answers ``Kill``. ``empty`` says whether the tree is proven empty."""

    empty: bool
    tail: str = ""


class InPlace(NamedTuple):
    """Names a committed batch of a query, and the location of the query's checkpoint as Spark spells it. ``unnamed`` says
    that this is a directory of a random name, which no start finds again. ``sink`` is None if that is not said."""

    id: str
    batch_id: int
    checkpoint: str
    unnamed: bool = False
    sink: NamedSink | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """A report has come from the driver or, about a JVM application, from the host's supervisor. ``event`` is
    one of: waiting begun session query progress idle working unknown looked terminated error heard stopping
    stopped ended executors cluster unnamed trigger.

    ``executors`` is how many the driver has, with ``id`` as what the cluster calls it. ``cluster`` comes from the host's
    supervisor, with ``error`` as the words of the cluster on why it gives none. Otherwise
    ``query`` and ``id`` name the query that it is about. ``queries`` is how many queries are waited for.
    ``at`` is wall time, for display. ``committed`` holds the batches that are committed, with the checkpoint
    that they are in. ``batch`` is what a batch with rows took, ``state_bytes`` the memory of the state. ``spark_ui`` is the
    address of Spark's UI and ``master`` Spark's master, with a session. ``unknown`` says that the driver was asked for a
    query in vain, with ``error`` as why. ``unnamed`` says that a query was not let begin, because it would begin anew.
    ``trigger`` says what begins the batches of a query, with ``interval_s`` as its seconds, if it has any.
    """

    event: str
    progress: Progress | None = None
    error: str = ""
    query: str = ""
    id: str = ""
    queries: int | None = None
    at: str = ""
    committed: tuple[InPlace, ...] = ()
    executors: int | None = None
    batch: TimedBatch | None = None
    state_bytes: int | None = None
    spark_ui: str = ""
    master: str = ""
    trigger: str = ""
    interval_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """The usage of the driver's tree was sampled, or its working directory was measured. It is published with the next
    renewal, and asks for none."""

    use: ResourceUse | None
    directory: DirectoryUse | None = None


@dataclass(frozen=True, slots=True)
class Unheard:
    """Nobody takes orders in the driver: it has no bootstrap, or no SparkSession yet."""

    order: Order


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The collection that ``Diagnose`` has asked for is over. ``path`` is the file with the diagnostics, or empty if there
    is none. ``stopped_pids`` are the processes of the driver that a signal has stopped (SIGSTOP): they do nothing."""

    path: str = ""
    stopped_pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The shim got SIGTERM: the host is going down."""


@dataclass(frozen=True, slots=True)
class DeadlineUnwritable:
    """The deadline file could not be written, so the second killers do not know of the driver."""


Event: TypeAlias = (
    Tick
    | StillWanted
    | DiscardAsked
    | HandedOver
    | HandedUnfit
    | Connected
    | Disconnected
    | SessionLost
    | SessionClosed
    | CloseFailed
    | OwnChanged
    | OwnRead
    | ReadFailed
    | WriteCommitted
    | WriteRejected
    | WriteNotSent
    | WriteOutcomeUnknown
    | Executed
    | ExecFailed
    | ExecLate
    | Exited
    | TreeSeen
    | Reported
    | Sampled
    | StopAsked
    | DeadlineUnwritable
    | Unheard
    | Diagnosed
)


# -- effects -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Asks for a ``sync``, then a reading of /own (with a watch), /lease and /live."""

    token: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Asks for a commit. If ``first`` is set, it is sent on the first connection of this shim, or not at all."""

    transaction: Transaction
    first: bool = False


@dataclass(frozen=True, slots=True)
class FirstConnect:
    """Asks for the first client, by the launch that was handed over. Only a prepared driver's shim asks for it: every
    other one connects from the start."""


@dataclass(frozen=True, slots=True)
class NewClient:
    """Asks that the client be thrown away and another one be made."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Asks that this session be closed by its id and password."""

    session: int


@dataclass(frozen=True, slots=True)
class WriteDeadline:
    """Writes the deadline for the second killers. If that fails in a step with an ``Exec``, what follows in
    the step is not done."""

    deadline_at_s: float | None


@dataclass(frozen=True, slots=True)
class Exec:
    """Asks that the starter become the driver, unless it is ``before_at_s`` by then.

    If the driver was prepared, it asks that the opening be written: the application begins, unless it is ``before_at_s``
    by then. The driver looks at the clock itself after it has read the opening."""

    before_at_s: float


@dataclass(frozen=True, slots=True)
class Order:
    """Asks that an order be sent to the driver's bootstrap: ``stop`` (at a batch boundary, within
    ``within_s``), ``look`` (a probe) or ``executors`` (how many there are)."""

    order: str
    within_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Diagnose:
    """Asks for the diagnostics of the driver tree, within ``within_s``, in a process of their own; ``Kill`` ends it. The
    answer is ``Diagnosed``. ``why`` and ``progress`` are for their first lines. ``heap`` says whether a JVM is held for the
    histogram of its heap."""

    within_s: float
    why: str
    progress: tuple[str, ...] = ()
    heap: bool = True


@dataclass(frozen=True, slots=True)
class Terminate:
    """Asks for SIGTERM to the driver's root process."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Asks for SIGKILL to the whole tree, for a short while; the answer is ``TreeSeen``."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Asks that the starter end without exec, the containment be removed and the process end."""

    why: str


@dataclass(frozen=True, slots=True)
class WriteLog:
    """Asks for one line in the shim's log. ``event`` is one of ``supervisor.logs.events``."""

    event: str
    why: str


Effect: TypeAlias = (
    FirstConnect
    | Read
    | Commit
    | NewClient
    | CloseSession
    | WriteDeadline
    | Exec
    | Order
    | Diagnose
    | Terminate
    | Kill
    | Finish
    | WriteLog
)


# -- state -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryLife:
    """Describes one query by its last report. ``id`` is Spark's, which is stable over restarts of one
    checkpoint; ``at`` is wall time, and shown. ``unknown_at_s`` is when the driver was last asked in vain what it does,
    since its last sign of life. ``trigger`` and ``interval_s`` are as it was started at ``begun_at_s`` (``Reported``)."""

    id: str
    name: str
    last_at_s: float
    idle: bool = False
    ended: bool = False
    begun_at_s: float = 0.0
    trigger: str = ""
    interval_s: float = 0.0  # 0: it has none, or did not say
    unknown_at_s: float | None = None
    error: str = ""  # with which it has ended, or why it could not be asked
    progress: Progress | None = None
    at: str = ""
    batches: tuple[TimedBatch, ...] = ()  # the latest that had rows
    warm_up: int = 0  # how many were left out before them
    state_bytes: int | None = None
    lags: LagWindow = EMPTY


@dataclass(frozen=True, slots=True)
class Life:
    """Holds the signs of life of the application, for ``health``. ``last_at_s`` is the time of the newest
    event of a query; idle events count.

    ``probed_at_s`` is the instant at which the commit log of a driver that does not report (a JVM application)
    was last read without a new sign of life.

    ``without_since_at_s`` is since when the driver has no executor, with ``without_since`` as the same for display, and
    ``without_at_s`` when it has last said so; that stays when it has one. ``starved_since_at_s`` is since when it has had
    none that stayed. ``said_at_s`` is when its cluster has last said why it has to wait. ``held_at_s`` is when it has last
    said so before there was a session, ``delayed_at_s`` before the first batch. ``executors`` is how many it has said;
    None: it has not.
    """

    waits: bool = False  # at its gate
    begun_at_s: float | None = None
    session_at_s: float | None = None
    query_at_s: float | None = None
    batch_at_s: float | None = None
    last_at_s: float | None = None
    probed_at_s: float | None = None
    progress: Progress | None = None
    error: str = ""  # with which the main code has ended
    returned: bool = False  # the main code has come to its end
    queries: tuple[QueryLife, ...] = ()
    more_queries: int = 0  # that are not tracked
    more_failed: int = 0  # of these: that have failed, and were forgotten
    unnamed: bool = False  # a query was not let begin
    uncaught_at_s: float | None = None  # when the main code was reported to have ended with an error
    committed: tuple[InPlace, ...] = ()  # the newest batch of each query, the latest query at the end
    executors: int | None = None
    without_since_at_s: float | None = None
    without_since: str = ""
    without_at_s: float | None = None
    starved_since_at_s: float | None = None
    said_at_s: float | None = None
    held_at_s: float | None = None
    delayed_at_s: float | None = None
    application: str = ""
    says: str = ""
    spark_ui: str = ""
    master: str = ""  # as the application's session has it; empty: it has not said


@dataclass(frozen=True, slots=True)
class ShimState:
    """Holds everything that a shim knows; ``machine.step`` makes the next one of it.

    ``driver_pid`` is the pid of the starter, which exec keeps.
    """

    launch: Launch
    layout: Layout
    claim_id: str
    shim_pid: int
    driver_pid: int
    born_at_s: float
    stage: Stage = Stage.CONNECTING
    wanted_at_s: float = 0.0  # when the agent wanted the prepared driver last

    # The connection, and the one request that is under way.
    session: int | None = None  # None while not connected
    last_session: int | None = None
    lost: bool = False  # a new client is needed
    broken: bool = False  # the first connection is gone: no claim is made any more
    token: int = 0
    reading: bool = False
    read_at_s: float | None = None  # a read is wanted from then on
    op: str = ""
    what: str = ""  # claim, renew, announce or exit
    ops: int = 0
    closing: bool = False
    clock_offset_s: float | None = None  # REALTIME − BOOTTIME when last looked

    # The claim.
    claim_sent_at_s: float = 0.0
    claim_session: int | None = None
    claim_tries: int = 0

    # The fence and the lease.
    fence: int | None = None  # version of /own that a renewal checks; None: not ours (yet, or any more)
    held: bool = False  # /own is absent, unreadable or older than seen: no renewal
    blind: bool = False  # new session, moved fence or clocks jumped: read /own before anything else
    live: int | None = None  # session that owns /live, as last read
    lease_exists: bool = False
    deadline_at_s: float | None = None
    renew_at_s: float = 0.0
    ring: bool = False  # the next renewal rings the doorbell
    rings: bool = False  # the one under way does
    renewals: int = 0
    since: str = ""

    # The driver.
    phase: Phase = Phase.CLAIMED
    life: Life = Life()
    use: ResourceUse | None = None  # as it was sampled last
    directory: DirectoryUse | None = None  # as it was measured last
    exec_at_s: float | None = None  # when it was let go
    executed: bool = False
    started_at: str = ""
    stop_asked: bool = False  # in any way, before its exit
    stop_until_at_s: float | None = None
    ladder: Ladder | None = None  # of the orderly stop that is under way
    next_probe_at_s: float = 0.0  # the next probe of a silent query, not before
    next_count_at_s: float = 0.0  # the next count of executors, not before
    next_news_at_s: float = 0.0  # the next news of a wait for executors, not before
    reported_wait: ClusterWait | None = None  # the wait for executors, as it was published last
    reported_since_at_s: float = 0.0  # since when that one lasted
    diagnosing_until_at_s: float | None = None  # its diagnostics are asked for, and waited for until then
    diagnosed: bool = False  # they are there, or not to be had
    diagnosing_stop: bool = False  # they are of its stop, and not of a silence
    diagnostics: str = ""  # the file with them, while they are of the end that may come
    stopped_pids: tuple[int, ...] = ()  # of its processes, as they were found with them
    status: int | None = None
    tail: str = ""
    oom: Oom | None = None
    memory: str = ""  # before the end
    left: int = 0
    refused: tuple[Cause, str] | None = None  # the application was not let begin
    kill_at_s: float = 0.0
    kill_began_at_s: float = 0.0
    cause: Cause | None = None  # why we killed it; None: it ended by itself
    reason: str = ""
    permanent: bool = False

    # The end.
    empty_at_s: float | None = None
    bury_tries: int = 0
    doubt_at_s: float | None = None  # since when /own shows nothing believable
