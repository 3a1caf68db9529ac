"""Defines every metric family of REFERENCE.md, announced from the start, and the few calls that change them.

There is one ``Metrics`` per supervisor process; its HTTP server serves it at ``/metrics``. There are three
kinds of series:

* of the process: ``leader``, ``epoch``, ``distrust``, ``zookeeper_*``, ``store_*``, ``kill_seconds``, ``starts_refused``,
  ``starts_delayed``, ``notifications``, ``log_uploads_waiting``, ``class_archive*``, ``job_start_seconds`` but for
  ``queued``, ``build_info``, ``process_*``;
* of the fleet, shown by the leader only: ``jobs``, ``jobs_ended``, ``job_failed``, ``paused``, ``supervisors``,
  ``capacity_*``, ``prepared_drivers``, ``takeover_seconds``, ``reconcile_*``, ``notifications_pending``,
  ``job_savepoint*`` of the jobs that shall run and have a period, and ``job_state`` of those that no supervisor hosts at
  the moment;
* of a job, shown by the supervisor that hosts its driver: all other ``job_*`` and ``lease_*``. They vanish
  when the job ends or moves (``forget_job``), so that nothing alerts on a number that nobody updates.

Labels are bounded: job names (those registered, and a hundred that failed), eight queries of each,
supervisors (those that are up), and closed lists of words.

Ages and remaining times are computed when they are read, on the clock that the caller passes in. Nothing here
decides anything, and no call raises or blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

NAMESPACE: Final = "spark_supervisor"
CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

JOB_STATES: Final = (
    "pending",
    "starting",
    "running",
    "stopping",
    "backoff",
    "suspended",
    "failed",
    "quarantined",
    "cancelled",
    "finished",
)
START_PHASES: Final = ("queued", "spawn", "session", "cluster", "first_batch")
KILLERS: Final = ("shim", "twin", "guardian")
OUTCOMES: Final = ("failed", "finished", "cancelled")
ARCHIVE_OUTCOMES: Final = ("made", "failed", "given_up")
SAVEPOINT_OUTCOMES: Final = ("done", "failed")
NOTIFICATION_OUTCOMES: Final = ("sent", "failed")

_UNKNOWN: Final = float("nan")
_START_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10, 15, 20, 30, 60, 120, 300)
_TAKEOVER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 20, 30, 60)
_RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_KILL_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
"""The bound 2 is K, the time that every wait for a dead driver reckons with (protocol §7): a kill that takes
longer is an alarm."""


class Capacity(NamedTuple):
    """Says what a supervisor offers, and what is taken of it (memory in bytes, as the specs declare it)."""

    memory: int
    memory_used: int
    drivers: int
    drivers_used: int


FAILED_SHOWN_S = 3600.0
FAILED_SHOWN = 100
"""At most so many jobs that failed are named; ``jobs_ended`` counts all."""


class SavepointAge(NamedTuple):
    """Says how old the newest scheduled savepoint is: ``at_s`` is when it was made or, if there is none yet,
    since when the leader knows the job."""

    at_s: float
    period_s: float


class QueryNumbers(NamedTuple):
    """Holds the numbers of one query, in the order of the families: batch, rows a second, seconds of the
    newest batch, records of lag, seconds of the trigger's interval."""

    batch_id: int | None = None
    input_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    batch_s: float | None = None
    lag: float | None = None
    trigger_interval_s: float | None = None


class UsageNumbers(NamedTuple):
    """Holds what the driver of a job takes, in the order of the families: bytes now, at most, and as its host reserves
    them; seconds of processor time of the attempt."""

    memory: float
    memory_max: float
    memory_reserved: float
    cpu_s: float


class Metrics:
    """Holds all series. It is thread-safe. ``now_s`` is the clock (boottime) that instants given to the
    methods come from; ``version`` is the supervisor's."""

    def __init__(self, now_s: Callable[[], float], version: str = "") -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._now_s = now_s
        self._make_process_families()
        self._make_host_families()
        self._make_fleet_families()
        self._make_job_families()
        self._build.labels(version).set(1)
        ProcessCollector(namespace=NAMESPACE, registry=self.registry)
        self._lock = threading.RLock()
        self._states: dict[str, str] = {}
        self._progress_at_s: dict[str, float] = {}
        self._deadline_at_s: dict[str, float] = {}
        self._silent_since_at_s: dict[str, float] = {}
        self._queries: dict[str, frozenset[str]] = {}
        self._failed_at_s: dict[tuple[str, str], float] = {}
        self._supervisor_ids: set[str] = set()
        self._cordoned_ids: set[str] = set()
        self._hosted: set[str] = set()
        self._restarted: set[str] = set()
        self._saved: dict[str, SavepointAge] = {}

    def exposition(self) -> bytes:
        """Returns the text for Prometheus; its type is ``CONTENT_TYPE``."""
        with self._lock:
            self._forget_failures(
                {key for key, at_s in self._failed_at_s.items() if self._now_s() - at_s >= FAILED_SHOWN_S}
            )
        return prometheus_client.generate_latest(self.registry)

    # -- of the process

    def leading(self, epoch: int) -> None:
        """Notes that this process leads, in ``epoch``."""
        self._leader.set(1)
        self._epoch.set(epoch)

    def following(self, epoch: int | None = None) -> None:
        """Notes that this process does not lead (any more): all fleet series go. ``epoch`` is the newest one
        known."""
        self._leader.set(0)
        if epoch is not None:
            self._epoch.set(epoch)
        with self._lock:
            self._jobs.clear()
            self._paused.set(0)
            self._supervisors.set(_UNKNOWN)
            self._show_capacity({})
            self.set_cordoned(())
            self.set_prepared({})
            self._forget_unhosted(keep=())
            self._forget_failures(set(self._failed_at_s))
            self.set_savepoints({})
            self.set_notifications_pending({})

    def follow_leadership(
        self, leads: Callable[[], bool], epoch: Callable[[], int], distrust: Callable[[], bool]
    ) -> None:
        """Sets what is asked at every scrape, so that a supervisor that was deposed while a loop hangs does
        not go on reporting "leader"."""
        self._leader.set_function(lambda: float(leads()))
        self._epoch.set_function(epoch)
        self._distrust.set_function(lambda: float(distrust()))

    def follow_zookeeper(self, connected: Callable[[], bool], last_success_at_s: Callable[[], float]) -> None:
        """Sets what is asked at every scrape. ``last_success_at_s`` returns when the last request that was
        answered was sent; 0 if none was."""
        self._connected.set_function(lambda: float(connected()))
        self._last_success_age.set_function(lambda: self._age_s(last_success_at_s()))

    def store_checked(self, ok: bool) -> None:
        """Notes whether the store could be used when it was probed."""
        self._store_ok.set(float(ok))
        if ok:
            at_s = self._now_s()
            self._store_age.set_function(lambda: self._age_s(at_s))

    def cluster_asked(self, cluster: str, ok: bool) -> None:
        """Notes whether the cluster of that name answered when this supervisor asked it."""
        self._cluster_ok.labels(cluster).set(float(ok))

    def set_log_uploads_waiting(self, count: int) -> None:
        """Sets of how many attempts of this host the store lacks output that it should have."""
        self._log_uploads_waiting.set(count)

    def observe_kill(self, killer: str, seconds: float) -> None:
        """Notes that a driver tree was killed by one of ``KILLERS``, in ``seconds``."""
        self._kill.labels(killer if killer in KILLERS else "unknown").observe(seconds)

    def follow_starts(self, delayed: Callable[[], int]) -> None:
        """Sets what is asked at every scrape: ``delayed`` returns how many assignments this host could not
        start when it tried last."""
        self._delayed.set_function(delayed)

    def count_refusal(self, cause: str) -> None:
        """Counts that this host could not start what the leader had assigned to it."""
        self._refused.labels(cause).inc()

    def class_archive_ready(self, ready: bool) -> None:
        """Notes whether drivers of this host's Java and Spark start with a class-data archive."""
        self._archive_ready.set(float(ready))

    def class_archive_made(self, outcome: str) -> None:
        """Counts a training run, by one of ``ARCHIVE_OUTCOMES``."""
        self._archives.labels(outcome).inc()

    # -- of the fleet (leader)

    def set_fleet(
        self, counts: Mapping[str, int], epoch: int, unhosted: Mapping[str, str] | None = None
    ) -> None:
        """Sets what the leader sees in a pass. ``counts`` maps a state to the number of jobs.

        ``unhosted`` maps each job that has no driver on any host to its state; None leaves their series as
        they are.
        """
        with self._lock:
            self.leading(epoch)
            for state in JOB_STATES:
                self._jobs.labels(state).set(counts.get(state, 0))
            if unhosted is None:
                return
            self._forget_unhosted(keep=unhosted)
            for job, state in unhosted.items():
                if job not in self._hosted:
                    self._show_state(job, state)

    def set_capacity(self, supervisors: Mapping[str, Capacity]) -> None:
        """Sets the capacity of every supervisor that is up, by id."""
        with self._lock:
            self._supervisors.set(len(supervisors))
            self._show_capacity(supervisors)

    def set_cordoned(self, hosts: Collection[str]) -> None:
        """Sets which hosts take no new driver because an operator cordoned or drains them, up or not, by id."""
        with self._lock:
            for gone in self._cordoned_ids - set(hosts):
                self._cordoned.remove(gone)
            self._cordoned_ids = set(hosts)
            for host in hosts:
                self._cordoned.labels(host).set(1)

    def set_prepared(self, counts: Mapping[tuple[str, bool], int]) -> None:
        """Sets how many prepared drivers there are on all hosts, by level and whether they are ready."""
        with self._lock:
            self._prepared.clear()
            for (level, ready), count in counts.items():
                self._prepared.labels(level, str(ready).lower()).set(count)

    def set_savepoints(self, statuses: Mapping[str, SavepointAge]) -> None:
        """Sets the savepoints of every job that shall run and has a period for savepoints, by name."""
        with self._lock:
            for gone in self._saved.keys() - statuses.keys():
                self._savepoint_age.remove(gone)
                self._savepoint_period.remove(gone)
                self._savepoints.remove_by_labels({"job": gone})
            for job in statuses.keys() - self._saved.keys():
                self._savepoint_age.labels(job).set_function(partial(self._savepoint_age_s, job))
                for outcome in SAVEPOINT_OUTCOMES:
                    self._savepoints.labels(job, outcome)
            self._saved = dict(statuses)
            for job, savepoint_status in statuses.items():
                self._savepoint_period.labels(job).set(savepoint_status.period_s)

    def count_savepoint(self, job: str, outcome: str) -> None:
        """Counts that the leader made a scheduled savepoint, or could not (``SAVEPOINT_OUTCOMES``)."""
        with self._lock:
            if job in self._saved:
                self._savepoints.labels(job, outcome).inc()

    def job_ended(self, outcome: str) -> None:
        """Counts a job that reached one of ``OUTCOMES``: it is not registered any more."""
        self._ended.labels(outcome).inc()

    def job_failed(self, job: str, cause: str) -> None:
        """Notes that ``job`` ended as failed, its last attempt by ``cause``. It is shown for an hour, or
        until it is registered again."""
        with self._lock:
            while len(self._failed_at_s) >= FAILED_SHOWN:
                self._forget_failures({min(self._failed_at_s, key=lambda key: self._failed_at_s[key])})
            self._failed_at_s[(job, cause)] = self._now_s()
            self._failed.labels(job, cause).set(1)

    def jobs_registered(self, jobs: Collection[str]) -> None:
        """Notes what the leader saw registered: an earlier failure of these jobs is shown no longer."""
        with self._lock:
            self._forget_failures({key for key in self._failed_at_s if key[0] in jobs})

    def _forget_failures(self, keys: Collection[tuple[str, str]]) -> None:
        for key in keys:
            del self._failed_at_s[key]
            self._failed.remove(*key)

    def count_notification(self, receiver: str, outcome: str) -> None:
        """Counts a message that ``receiver`` has accepted, or one that could not be sent (``NOTIFICATION_OUTCOMES``)."""
        self._notifications.labels(receiver, outcome).inc()

    def set_notifications_pending(self, pending: Mapping[str, int]) -> None:
        """Sets how many messages each receiver is still to be sent."""
        with self._lock:
            self._notifications_pending.clear()
            for receiver, count in pending.items():
                self._notifications_pending.labels(receiver).set(count)
                for outcome in NOTIFICATION_OUTCOMES:
                    self._notifications.labels(receiver, outcome)

    def set_paused(self, paused: bool) -> None:
        """Sets whether the leader acts on nothing, because an operator paused the cluster."""
        self._paused.set(float(paused))

    def set_takeover(self, seconds: float) -> None:
        """Sets the time from the end of the last leader, as far as it is known, to the first plan of this
        one."""
        self._takeover.observe(seconds)

    def observe_pass(self, seconds: float) -> None:
        """Observes one pass of the loop."""
        self._reconcile.observe(seconds)

    def count_action(self, action: str, outcome: str) -> None:
        """Counts one action of a plan. ``outcome`` is ``done``, or the kind of error."""
        self._actions.labels(action, outcome).inc()

    # -- of a job (the supervisor that hosts its driver)

    def job_attempt(self, job: str, attempt: int, state: str) -> None:
        """Notes that ``attempt`` of ``job`` is on this host, in ``state``."""
        with self._lock:
            self._hosted.add(job)
            self._attempt.labels(job).set(attempt)
            self._show_state(job, state)

    def job_restarted(self, job: str, cause: str) -> None:
        """Counts that a further attempt of ``job`` was claimed here, after one that ended with ``cause``."""
        self._restarted.add(job)
        self._restarts.labels(job, cause).inc()

    def job_started(self, phase: str, seconds: float) -> None:
        """Observes how long one of the ``START_PHASES`` of a start took."""
        self._start.labels(phase).observe(seconds)

    def job_first_batch(self, seconds: float, *, prepared: bool, class_archive: bool) -> None:
        """Observes how long a start took on its host, up to the first committed batch. ``prepared`` says that the attempt
        was handed to a prepared driver, ``class_archive`` that its JVM began with a class-data archive."""
        how = ("prepared" if prepared else "cold", str(class_archive).lower())
        self._first_batch.labels(*how).observe(seconds)

    def job_progress(self, job: str, at_s: float) -> None:
        """Notes that a progress event of any query arrived at ``at_s``."""
        self._progress_at_s[job] = at_s
        self._progress_age.labels(job).set_function(lambda: self._age_s(self._progress_at_s.get(job, 0.0)))

    def job_queries(self, job: str, queries: Mapping[str, QueryNumbers]) -> None:
        """Sets what the live queries of ``job`` have reported last, by label; series of all other queries of
        it vanish.

        What is None keeps its last value. The label is empty for a query without a name or id; Prometheus
        takes that for no label at all.
        """
        with self._lock:
            for gone in self._queries.get(job, frozenset()) - queries.keys():
                for gauge in self._per_query:
                    gauge.remove_by_labels({"job": job, "query": gone})
            self._queries[job] = frozenset(queries)
            for query, numbers in queries.items():
                for gauge, value in zip(self._per_query, numbers, strict=True):
                    if value is not None:
                        gauge.labels(job, query).set(value)

    def job_usage(self, job: str, numbers: UsageNumbers) -> None:
        """Sets what the driver of ``job`` takes, as it was sampled last."""
        for gauge, value in zip(self._per_usage, numbers, strict=True):
            gauge.labels(job).set(value)

    def job_silence(self, job: str, since_at_s: float) -> None:
        """Sets the instant of the last sign of life of a query of ``job``: a batch, or the report that it
        waits for data."""
        self._silent_since_at_s[job] = since_at_s
        self._silence.labels(job).set_function(lambda: self._age_s(self._silent_since_at_s.get(job, 0.0)))

    def job_cluster_wait(self, job: str, waited_s: float) -> None:
        """Sets for how many seconds the driver of ``job`` has had no executor of its cluster."""
        self._cluster_wait.labels(job).set(waited_s)

    def job_strays(self, job: str, count: int) -> None:
        """Sets how many queries of ``job`` keep their checkpoint elsewhere than the job says."""
        self._strays.labels(job).set(count)

    def job_failed_queries(self, job: str, count: int) -> None:
        """Sets how many queries of ``job`` have failed while its driver goes on."""
        self._failed_queries.labels(job).set(count)

    def lease_deadline(self, job: str, deadline_at_s: float, lease_s: float) -> None:
        """Sets the instant at which the driver is killed unless a renewal commits before. ``lease_s`` is the
        length of the job's lease."""
        self._lease.labels(job).set(lease_s)
        self._deadline_at_s[job] = deadline_at_s
        self._lease_remaining.labels(job).set_function(
            lambda: self._deadline_at_s.get(job, _UNKNOWN) - self._now_s()
        )

    def forget_job(self, job: str) -> None:
        """Removes the series of a job that ended, or that is not of this host any more. It is idempotent."""
        self._forget_driver(job)
        self._forget_restarts(job)

    def _forget_restarts(self, job: str) -> None:
        with self._lock:
            self._restarted.discard(job)
            self._restarts.remove_by_labels({"job": job})

    def _forget_driver(self, job: str) -> None:
        with self._lock:
            self._hosted.discard(job)
            state = self._states.pop(job, None)
            if state is not None:
                self._state.remove(job, state)
            for gauge in self._per_job:
                gauge.remove(job)
            for gauge in self._per_query:
                gauge.remove_by_labels({"job": job})
            self._queries.pop(job, None)
            self._progress_at_s.pop(job, None)
            self._deadline_at_s.pop(job, None)
            self._silent_since_at_s.pop(job, None)

    def hosts_only(self, jobs: Collection[str], restarting: Collection[str] = ()) -> None:
        """Removes the series of every job that was hosted here and is not in ``jobs``.

        ``restarting`` holds jobs between two attempts; their count of restarts stays, or a crash loop could
        not be seen.
        """
        with self._lock:
            for job in self._hosted - set(jobs):
                self._forget_driver(job)
            for job in self._restarted - set(jobs) - set(restarting):
                self._forget_restarts(job)

    # -- inside

    def _savepoint_age_s(self, job: str) -> float:
        savepoint_status = self._saved.get(job)
        return _UNKNOWN if savepoint_status is None else max(0.0, self._now_s() - savepoint_status.at_s)

    def _forget_unhosted(self, keep: Collection[str]) -> None:
        for job in [job for job in self._states if job not in keep and job not in self._hosted]:
            self.forget_job(job)

    def _show_capacity(self, supervisors: Mapping[str, Capacity]) -> None:
        for gone in self._supervisor_ids - supervisors.keys():
            for gauge in self._capacity:
                gauge.remove(gone)
        self._supervisor_ids = set(supervisors)
        for supervisor, values in supervisors.items():
            for gauge, value in zip(self._capacity, values, strict=True):
                gauge.labels(supervisor).set(value)

    def _show_state(self, job: str, state: str) -> None:
        before = self._states.get(job)
        self._states[job] = state
        self._state.labels(job, state).set(1)
        if before is not None and before != state:
            self._state.remove(job, before)

    def _age_s(self, at_s: float) -> float:
        return max(0.0, self._now_s() - at_s) if at_s else _UNKNOWN

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace=NAMESPACE, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, namespace=NAMESPACE, registry=self.registry, buckets=buckets)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace=NAMESPACE, registry=self.registry)

    def _make_process_families(self) -> None:
        self._build = self._gauge("build_info", "1; the version of the software is in the label", "version")
        self._leader = self._gauge("leader", "1 on the supervisor that leads, else 0")
        self._epoch = self._gauge("epoch", "Newest leadership epoch (term number) this supervisor knows")
        self._distrust = self._gauge(
            "distrust", "1 while this supervisor does not trust the registry, and starts nothing"
        )
        self._connected = self._gauge("zookeeper_connected", "1 while the ZooKeeper session is connected")
        self._last_success_age = self._gauge(
            "zookeeper_last_success_age_seconds",
            "Seconds since the last answered ZooKeeper request was sent",
        )
        self._last_success_age.set(_UNKNOWN)
        self._cluster_ok = self._gauge(
            "cluster_ok",
            "1 if a cluster of clusters.* answered when this supervisor asked it last, else 0.",
            "cluster",
        )
        self._store_ok = self._gauge(
            "store_ok", "1 if the store could be used when last asked (every 30 s), 0 if not"
        )
        self._store_ok.set(_UNKNOWN)
        self._store_age = self._gauge(
            "store_last_success_age_seconds", "Seconds since the store last answered its check"
        )
        self._store_age.set(_UNKNOWN)
        self._kill = self._histogram(
            "kill_seconds",
            "Seconds from SIGKILL to the empty driver tree, by who killed (2 s is what waits reckon with)",
            _KILL_BUCKETS,
            "killer",
        )
        for killer in KILLERS:
            self._kill.labels(killer)
        self._refused = self._counter(
            "starts_refused", "Assignments that this host could not start, by cause", "cause"
        )
        self._delayed = self._gauge(
            "starts_delayed",
            "Assignments that this host can't start at the moment (store unreachable, ...); it tries again",
        )

    def _make_host_families(self) -> None:
        self._log_uploads_waiting = self._gauge(
            "log_uploads_waiting",
            "Outputs of drivers of this host that should be in the store and are not, or not up to date",
        )
        self._archive_ready = self._gauge(
            "class_archive_ready", "Whether the class-data archives for this host's Java and Sparks are there"
        )
        self._archives = self._counter(
            "class_archives", "Training runs for class-data archives, by what came of them", "outcome"
        )
        for outcome in ARCHIVE_OUTCOMES:
            self._archives.labels(outcome)

    def _make_fleet_families(self) -> None:
        self._jobs = self._gauge(
            "jobs",
            "Registered jobs by state (leader only); one that failed for good is registered no more, though list "
            "shows it: it counts in jobs_ended",
            "state",
        )
        self._ended = self._counter(
            "jobs_ended", "Jobs that ended for good, by outcome (leader only)", "outcome"
        )
        for outcome in OUTCOMES:
            self._ended.labels(outcome)
        self._failed = self._gauge(
            "job_failed",
            "1 for an hour after a job failed for good, by the cause of its last exit; until it is registered "
            "again, or another supervisor leads (leader only)",
            "job",
            "cause",
        )
        self._prepared = self._gauge(
            "prepared_drivers",
            "Drivers that were brought up before they are needed, of all hosts, by level and whether they are ready "
            "(leader only)",
            "level",
            "ready",
        )
        self._paused = self._gauge(
            "paused", "1 while the cluster is paused by an operator, as the leader sees it"
        )
        self._supervisors = self._gauge("supervisors", "Supervisors that are up, as the leader sees it")
        self._supervisors.set(_UNKNOWN)
        self._capacity = (
            self._gauge(
                "capacity_memory_bytes", "Memory that a supervisor offers to drivers, in bytes", "supervisor"
            ),
            self._gauge(
                "capacity_memory_used_bytes", "Memory declared by the drivers on it, in bytes", "supervisor"
            ),
            self._gauge("capacity_drivers", "Drivers that a supervisor may host", "supervisor"),
            self._gauge("capacity_drivers_used", "Drivers that it hosts, or is about to", "supervisor"),
        )
        self._cordoned = self._gauge(
            "host_cordoned",
            "1 for each host on which nothing new is placed, because it is cordoned or drained (leader only)",
            "supervisor",
        )
        self._make_pass_families()
        self._make_savepoint_families()
        self._make_notification_families()

    def _make_pass_families(self) -> None:
        self._takeover = self._histogram(
            "takeover_seconds",
            "Seconds from the last leader's end, as seen here, to the first plan of this one",
            _TAKEOVER_BUCKETS,
        )
        self._reconcile = self._histogram(
            "reconcile_seconds", "Seconds that a reconcile pass took", _RECONCILE_BUCKETS
        )
        self._actions = self._counter(
            "reconcile_actions", "Actions carried out by the leader", "action", "outcome"
        )

    def _make_savepoint_families(self) -> None:
        self._savepoint_age = self._gauge(
            "job_savepoint_age_seconds",
            "Seconds since the period began in which the newest savepoint was made by itself; while there is none, since "
            "the leader has known the job (leader only)",
            "job",
        )
        self._savepoint_period = self._gauge(
            "job_savepoint_period_seconds",
            "Period of savepoints made by themselves, in seconds (leader only)",
            "job",
        )
        self._savepoints = self._counter(
            "job_savepoints",
            "Savepoints that the leader made by itself, by outcome: done, failed (leader only)",
            "job",
            "outcome",
        )

    def _make_notification_families(self) -> None:
        self._notifications = self._counter(
            "notifications",
            "Messages to receivers (notify of the settings), by outcome: sent, failed; one that has failed is sent again",
            "receiver",
            "outcome",
        )
        self._notifications_pending = self._gauge(
            "notifications_pending",
            "Messages that a receiver has not yet accepted (leader only)",
            "receiver",
        )

    def _make_job_families(self) -> None:
        self._state = self._gauge("job_state", "1 for the state a job is in", "job", "state")
        self._restarts = self._counter(
            "job_restarts", "Restarts of a job by the cause of the exit before", "job", "cause"
        )
        self._start = self._histogram(
            "job_start_seconds",
            "Seconds of each phase of a start: queued (startable to assigned), spawn (to exec of the driver), session (to "
            "its SparkSession), cluster (to its first executor, if it waits for one), first_batch (to its first committed "
            "batch)",
            _START_BUCKETS,
            "phase",
        )
        for phase in START_PHASES:
            self._start.labels(phase)
        self._first_batch = self._histogram(
            "job_first_batch_seconds",
            "Seconds from an assignment's arrival at its host to the first committed batch, by how the driver was started: "
            "cold, or prepared (handed to one that was brought up before); and whether its JVM had a class-data archive",
            _START_BUCKETS,
            "start",
            "class_archive",
        )
        for start in ("cold", "prepared"):
            for archive in ("false", "true"):
                self._first_batch.labels(start, archive)
        self._attempt = self._gauge("job_attempt", "Number of the attempt that runs", "job")
        self._make_query_families()
        self._make_life_families()
        self._make_usage_families()
        self._per_job = (
            self._attempt,
            self._progress_age,
            self._silence,
            self._cluster_wait,
            self._strays,
            self._failed_queries,
            self._lease_remaining,
            self._lease,
            *self._per_usage,
        )

    def _make_query_families(self) -> None:
        self._batch_id = self._gauge("job_batch_id", "Newest batch that was reported", "job", "query")
        self._input_rows = self._gauge(
            "job_input_rows_per_second", "Rows arriving per second", "job", "query"
        )
        self._processed_rows = self._gauge(
            "job_processed_rows_per_second", "Rows processed per second", "job", "query"
        )
        self._batch_seconds = self._gauge(
            "job_batch_seconds", "Seconds that the newest batch took", "job", "query"
        )
        self._lag = self._gauge(
            "job_lag_records",
            "Records that the sources of a query have and it has not read, where they report it (Kafka)",
            "job",
            "query",
        )
        self._trigger_interval = self._gauge(
            "job_trigger_interval_seconds",
            "Seconds between batches that a trigger by processing time asks for: a batch that takes longer delays the next",
            "job",
            "query",
        )
        self._per_query = (
            self._batch_id,
            self._input_rows,
            self._processed_rows,
            self._batch_seconds,
            self._lag,
            self._trigger_interval,
        )

    def _make_usage_families(self) -> None:
        self._per_usage = (
            self._gauge(
                "job_memory_bytes", "Memory that the processes of the driver take, as sampled last", "job"
            ),
            self._gauge("job_memory_max_bytes", "Largest sample of that in this attempt", "job"),
            self._gauge("job_memory_reserved_bytes", "Memory that the driver occupies on its host", "job"),
            self._gauge(
                "job_cpu_seconds",
                "Seconds of processor time that the driver's processes took in this attempt",
                "job",
            ),
        )

    def _make_life_families(self) -> None:
        self._progress_age = self._gauge(
            "job_progress_age_seconds", "Seconds since the last progress event", "job"
        )
        self._silence = self._gauge(
            "job_silence_seconds",
            "Seconds since the last sign of life of a query: a batch, or that it waits for data",
            "job",
        )
        self._cluster_wait = self._gauge(
            "job_cluster_wait_seconds",
            "Seconds for which the driver has had no executor of its cluster; 0 while it has one",
            "job",
        )
        self._strays = self._gauge(
            "job_queries_elsewhere",
            "Queries whose checkpoint is not in the job's: they can't be recovered",
            "job",
        )
        self._failed_queries = self._gauge(
            "job_queries_failed",
            "Queries that have ended with an error and were not started again, while the driver goes on",
            "job",
        )
        self._lease_remaining = self._gauge(
            "lease_remaining_seconds",
            "Seconds until the driver is killed unless its lease is renewed",
            "job",
        )
        self._lease = self._gauge(
            "lease_seconds", "Length of the job's lease in seconds, as its spec has it", "job"
        )
