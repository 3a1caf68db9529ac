"""Defines the types of the documents of the API, which are those of ``-o json``. The description of the API is made of them
(``api.openapi``), and a test compares each of them with real answers.

Instants are ISO 8601 in UTC; durations are in seconds (``..._s``) or milliseconds (``..._ms``), sizes in bytes. Null
means that a value is unknown, or that there is none. A later version may add keys.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ProgressDocument(TypedDict):
    """The newest batch of the query that reported last. ``lag`` is in records. ``trigger_interval_s`` is the interval of its
    trigger, if that is by processing time."""

    query: str | None
    batch_id: int | None
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    batch_ms: float | None
    at: str | None
    lag: float | None
    state_rows: float | None
    trigger_interval_s: float | None


class PlaceDocument(TypedDict):
    """The job whose place another has by a promotion."""

    name: str
    uid: str


class PreparedDriverDocument(TypedDict):
    """A driver that is prepared before its attempt, or is being prepared; ``why`` says why there is none."""

    host: str
    level: str
    ready: bool
    ready_at: str | None
    why: str | None


class JobDocument(TypedDict):
    """A job in a list. ``trouble`` is the reason in its shortest form, and empty if all is well; null means the
    reason itself."""

    name: str | None
    uid: str | None
    revision: int | None
    desired: str | None
    state: str
    reason: str
    attempt: int | None
    supervisor: str | None
    host: str | None
    driver_pid: int | None
    shim_pid: int | None
    started_at: str | None
    since: str | None
    restarts: int | None
    failures: int | None
    next_attempt_at: str | None
    checkpoint: str | None
    progress: ProgressDocument | None
    prepared: list[PreparedDriverDocument]
    labels: dict[str, str]
    in_place_of: PlaceDocument | None
    sinks: list[SinkDocument]
    trouble: str | None


class SinkDocument(TypedDict):
    """A sink to which a query of the running driver writes. ``kind`` is file, delta, iceberg, kafka, foreachBatch or another
    word; ``memory`` is what it knows a batch by: repeats, transactional, remembers or unknown. ``says`` is for people."""

    query: str
    kind: str
    where: str | None
    memory: str
    says: str


class QueryDocument(TypedDict):
    """A query of an application. ``at`` is its last sign of life, ``age_s`` how long ago that was; ``elsewhere`` is the
    location of its checkpoint if that is not inside the job's. ``behind`` says whether it falls behind its source; null
    is: not known."""

    query: str | None
    id: str | None
    state: str
    batch_id: int | None
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    batch_ms: float | None
    lag: float | None
    at: str | None
    error: str | None
    elsewhere: str | None
    state_rows: float | None
    trigger_interval_s: float | None
    behind: bool | None
    age_s: float | None


class ExitDocument(TypedDict):
    """How an attempt ended."""

    cause: str
    attempt: int
    at: str
    why: str


class ClusterWaitDocument(TypedDict):
    """A driver waits for executors of a cluster."""

    cluster: str | None
    since: str
    application: str | None
    says: str | None


class UpdateDocument(TypedDict):
    """The newest update of a job, from the revision ``stable`` to the revision ``target``."""

    state: str
    target: int
    stable: int
    why: str | None
    savepoint: str | None
    at: str
    by: str


class ForkDocument(TypedDict):
    """Of which job, and from which savepoint of it, this one is a fork."""

    of: str
    uid: str
    savepoint: str
    copying: bool


class PromotionDocument(TypedDict):
    """Whose place the job has (``done``) or is to take (``waiting``)."""

    state: str
    over: str
    uid: str
    at: str
    by: str


class SavepointsDocument(TypedDict):
    """The savepoints by schedule. Without ``next_due_at`` one is due now; ``problem`` says why the store could not be
    asked."""

    every: str
    keep: int
    max_age: str | None
    newest: str | None
    next_due_at: str | None
    problem: str | None


class HistoryEntryDocument(TypedDict):
    """What happened to a job. ``memory_max`` is what an attempt took at most, in bytes, if it is known. A series of failures
    that are alike also has ``count`` and what follows it."""

    at: str
    event: str
    attempt: int | None
    detail: str
    by: str | None
    memory_max: NotRequired[int]
    count: NotRequired[int]
    last_at: NotRequired[str]
    last_attempt: NotRequired[int]
    omitted: NotRequired[int]


class DiagnosticsDocument(TypedDict):
    """What is known of the end of an attempt: ``path`` is the file with the diagnostics of its driver, on ``host``, and
    ``memory`` describes its memory before an out-of-memory. Either may be null."""

    attempt: int
    host: str
    path: str | None
    memory: str | None


class MemoryUseDocument(TypedDict):
    """The memory of a driver's processes in bytes. ``share`` is the peak beside what is reserved; ``source`` is how it was
    measured: cgroup, pss or rss. ``is_early`` says that it was observed for too short a time to go by ``could_run_with``.
    ``heap_fitting`` is to what spark.driver.memory has to be lowered with it."""

    reserved: int
    now: int
    p50: int
    p95: int
    p99: int
    peak: int
    share: float | None
    could_run_with: int
    heap: int | None
    heap_fitting: int | None
    is_early: bool
    source: str
    observed_s: float
    arithmetic: str


class QueryUseDocument(TypedDict):
    """What the latest batches of a query took, and at which multiple of its input it misses its trigger and falls behind;
    ``at_least`` says that these are lower bounds."""

    query: str
    batches: int
    batch_ms_p50: float
    batch_ms_p95: float
    batch_ms_max: float
    trigger_s: float | None
    share_of_trigger: float | None
    input_rows_per_s: float | None
    misses_trigger_at: float | None
    falls_behind_at: float | None
    at_least: bool
    batch_s_at_twice: float | None
    arithmetic: list[str]


class DirectoryUseDocument(TypedDict):
    """What a job has written to its working directory, ``path`` on the host of the attempt: no other host has it."""

    path: str
    bytes: int
    files: int
    names: list[str]
    says: str


class UsageDocument(TypedDict):
    """What the driver of an attempt takes, or if it is not ``alive``, took. ``cores`` are processors that it keeps busy."""

    attempt: int
    alive: bool
    cpu_s: float | None
    samples: int | None
    state_bytes: float | None
    directory: DirectoryUseDocument | None
    memory: MemoryUseDocument | None
    cores: float | None
    cores_p95: float | None
    queries: list[QueryUseDocument]


class TopJobDocument(TypedDict):
    """What the driver of a job takes. ``query`` is the one that is loaded most: ``batch_ms`` and the trigger are its."""

    name: str
    state: str
    attempt: int
    supervisor: str
    cores: float | None
    cpu_s: float | None
    memory: int | None
    memory_max: int | None
    memory_reserved: int
    query: str | None
    batch_ms: float | None
    trigger_s: float | None
    share_of_trigger: float | None
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    state_rows: float | None
    state_bytes: float | None
    lag: float | None


class TopHostDocument(TypedDict):
    """What a host offers and what its drivers take, memory in bytes. ``mark`` is over-committed, idle or null."""

    id: str
    offered: int
    reserved: int
    used: int
    peaks: int
    cores: float
    drivers: int
    drivers_max: int
    unmeasured: int
    mark: str | None


class TopDocument(TypedDict):
    """What drivers take, and what hosts offer."""

    jobs: list[TopJobDocument]
    hosts: list[TopHostDocument]


class JobDetailDocument(JobDocument):
    """A job with its history and its spec, in which what looks like a secret is covered. ``start`` has the seconds of each
    phase of the start; ``spec_error`` says why the spec can't be shown."""

    driver_memory: str | None
    queries: list[QueryDocument]
    more_queries: int
    stop_mode: str | None
    last_exit: ExitDocument | None
    diagnostics: DiagnosticsDocument | None
    start: dict[str, float] | None
    cluster_wait: ClusterWaitDocument | None
    update: UpdateDocument | None
    fork: ForkDocument | None
    promotion: PromotionDocument | None
    usage: UsageDocument | None
    starts_cold: str | None
    prepare_lowered: str | None
    env_ignored: str | None
    checkpoint_fence: str | None
    class_archive: str | None
    spark_ui: str | None
    user: str | None
    limits: str | None
    savepoints: SavepointsDocument | None
    history: list[HistoryEntryDocument]
    spec: dict[str, Any] | None
    spec_error: str | None


class SubmissionDocument(TypedDict):
    """What happened to one submission, oldest first. ``headline`` is the reason in its shortest form."""

    uid: str | None
    state: str
    reason: str
    headline: str
    history: list[HistoryEntryDocument]


class HistoryDocument(TypedDict):
    """What happened to the submissions of a name, the oldest first."""

    name: str
    uids: list[SubmissionDocument]


class LeaseDocument(TypedDict):
    """The lease of an attempt. When it has been silent for ``full_wait_s``, the attempt is dead."""

    lease_s: float | None
    renewed_at: str
    silent: bool
    full_wait_s: float
    executors_outlive_s: NotRequired[float]


class RoomDocument(TypedDict):
    """What a host has free, and what it lacks for the job."""

    id: str
    drivers: int
    drivers_max: int
    free_memory: int
    starting: int
    starting_max: int
    lacking: str | None


class RemedyDocument(TypedDict):
    """What a person can do. ``command`` is to be typed as it stands."""

    command: str | None
    note: str


class AbsentDocument(TypedDict):
    """A supervisor that is not connected, although so many drivers are its own: they run on under their shims."""

    id: str
    host: str
    drivers: int


class ExplanationDocument(TypedDict):
    """What becomes of a job, and why. ``action`` is what the leader does now, ``then`` what it does at ``until``."""

    name: str
    uid: str | None
    state: str
    reason: str
    fine: bool
    attempt: int | None
    host: str | None
    failures: int
    last_batch_at: str | None
    lease: LeaseDocument | None
    owned: str | None
    wanted: str | None
    rule: str | None
    action: str | None
    why: str | None
    held_by: str | None
    waits_for: str | None
    until: str | None
    then: str | None
    standby: str | None
    failed_update: str | None
    absent_supervisor: str | None
    sinks: list[str]
    move: str | None
    hosts: list[RoomDocument]
    alarm: str | None
    last_exit: ExitDocument | None
    diagnostics: DiagnosticsDocument | None
    remedies: list[RemedyDocument]


class LeadershipDocument(TypedDict):
    """Who leads the cluster, and what keeps it from acting."""

    leader: str | None
    epoch: int | None
    paused: bool
    distrust: str | None
    alarms: list[str]
    absent: list[AbsentDocument]
    store_error: str | None


class ExplainJobDocument(ExplanationDocument, LeadershipDocument):
    """The explanation of one job, and who leads the cluster."""


class ExplainDocument(LeadershipDocument):
    """Who leads the cluster, how many jobs simply run, and the explanation of each that does not."""

    running: int
    jobs: list[ExplanationDocument]


class ExplainScreenDocument(TypedDict):
    """What ``explain`` prints: ``lines`` of a label and a text, ``rows`` of the table of jobs (name, state, what comes
    next, why), which is empty for one job, and ``notices``."""

    lines: list[list[str]]
    notices: list[str]
    rows: list[list[str | None]]


class CapacityDocument(TypedDict):
    """What a host offers."""

    memory: int
    drivers: int
    starting: int


class CordonDocument(TypedDict):
    """Who cordoned a host. ``max_parallel`` is set while it is drained."""

    by: str
    since: str
    reason: str
    draining: bool
    max_parallel: int | None


class HostDocument(TypedDict):
    """A supervisor that is up. ``leader`` says whether it leads. ``api`` is the address by which others reach its API."""

    id: str
    host: str
    address: str
    leader: bool
    capacity: CapacityDocument
    drivers: int
    prepared: int
    labels: dict[str, str]
    sparks: list[str]
    cordoned: bool
    cordon: CordonDocument | None
    since: str
    software: str
    policy_sha256: str | None
    api: str | None


class ZooKeeperDocument(TypedDict):
    """How ZooKeeper is reached; without ``session`` it does not answer."""

    state: str
    hosts: str
    session: str | None


class StoreDocument(TypedDict):
    """Where the store is, and whether it answers."""

    url: str
    ok: bool


class PauseDocument(TypedDict):
    """Who paused the cluster."""

    by: str
    since: str
    reason: str


class AcceptedDocument(TypedDict):
    """The latest acceptance of a restored registry; ``waiting`` says why nothing is started yet."""

    epoch: int | None
    by: str | None
    at: str | None
    waiting: str | None


class ClusterDocument(TypedDict):
    """The cluster. ``jobs`` counts jobs by state; ``distrust`` says why nothing is acted on."""

    cluster: str
    leader: str | None
    epoch: int | None
    supervisors: list[HostDocument]
    absent: list[AbsentDocument]
    zookeeper: ZooKeeperDocument
    store: StoreDocument
    jobs: dict[str, int]
    paused: bool | None
    pause: PauseDocument | None
    distrust: str | None
    accepted: AcceptedDocument | None


class DoneDocument(TypedDict):
    """What a command did to a job, durable by now. ``notices`` are what the command line prints besides."""

    name: str
    uid: str
    did: str
    notices: list[str]


class DifferenceDocument(TypedDict):
    """A key of a spec whose value would change; null stands for none. What looks like a secret is covered."""

    key: str
    before: Any
    after: Any


class AppliedDocument(TypedDict):
    """What became of a spec, or with a dry run, what would. ``complaints`` has all that is wrong with it, a sentence
    each. ``differences`` are there if they were asked for and no spec is refused."""

    file: str
    name: str | None
    action: str
    revision: int | None
    why: str
    exit_code: int
    complaints: list[str]
    differences: NotRequired[list[DifferenceDocument]]


class ApplyDocument(TypedDict):
    """What became of each spec. ``exit_code`` is the worst of theirs, and ``error`` the first sentence about it; ``notices``
    are what the command line prints besides."""

    applied: list[AppliedDocument]
    exit_code: int
    error: str | None
    remedy: str | None
    notices: list[str]


class JobEventDocument(TypedDict):
    """A job of the list has another state than ``before``, or is another submission. ``state`` is null for a job that is not
    in the list any more, ``before`` for one that was not. ``at`` is when the supervisor noticed."""

    name: str
    uid: str | None
    state: str | None
    before: str | None
    reason: str
    at: str


class ChangedEventDocument(TypedDict):
    """The documents at these paths have changed, or can't be read any more, or can be again. With ``every_job`` that of any
    job may have changed, too."""

    documents: list[str]
    every_job: bool


class ResetEventDocument(TypedDict):
    """The client is to read everything that it shows. ``why`` says at what: the ``begin`` of a stream, ``missed`` events
    that are not kept any more, or too ``many`` changes at once."""

    why: str


class ErrorDocument(TypedDict):
    """What is wrong, what helps, and the exit code that the command line has for it. Where another host has what was asked
    for, also which, and the address of the API of its supervisor."""

    error: str
    remedy: str | None
    exit_code: int
    host: NotRequired[str | None]
    server: NotRequired[str | None]
