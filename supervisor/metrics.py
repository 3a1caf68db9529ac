"""Every metric family of CONTRACT, announced from the start, and the few calls that move them.

One ``Metrics`` per supervisor process; served by its HTTP server at ``/metrics``. Three kinds of series:

* of the process: ``leader``, ``epoch``, ``zookeeper_*``;
* of the fleet, shown by the leader only: ``jobs``, ``takeover_seconds``, ``reconcile_*``, and ``job_state`` of the jobs
  that no supervisor hosts at the moment;
* of a job, shown by the supervisor that hosts its driver: all other ``job_*`` and ``lease_*``. They vanish when the job
  ends or moves (``forget_job``), so that nothing alerts on a number that nobody updates.

Ages and remaining times are computed when they are read, on the clock that the caller passes in. Nothing here decides
anything, and no call raises or blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
START_PHASES: Final = ("queued", "spawn", "session", "first_batch")

_UNKNOWN: Final = float("nan")
_START_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10, 15, 20, 30, 60, 120, 300)
_TAKEOVER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 20, 30, 60)
_RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Thread-safe. ``now_s``: the clock (boottime) that instants given to the methods come from."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._now_s = now_s
        self._make_process_families()
        self._make_fleet_families()
        self._make_job_families()
        self._lock = threading.RLock()
        self._states: dict[str, str] = {}
        self._progress_at_s: dict[str, float] = {}
        self._deadline_s: dict[str, float] = {}
        self._hosted: set[str] = set()
        self._restarted: set[str] = set()

    def exposition(self) -> bytes:
        """The text for Prometheus; its type is ``CONTENT_TYPE``."""
        return prometheus_client.generate_latest(self.registry)

    # -- of the process

    def leading(self, epoch: int) -> None:
        """This process leads, in ``epoch``."""
        self._leader.set(1)
        self._epoch.set(epoch)

    def following(self, epoch: int | None = None) -> None:
        """This process does not lead (any more): all fleet series go. ``epoch``: the newest one known."""
        self._leader.set(0)
        if epoch is not None:
            self._epoch.set(epoch)
        with self._lock:
            self._jobs.clear()
            self._forget_unhosted(keep=())

    def follow_zookeeper(self, connected: Callable[[], bool], last_success_s: Callable[[], float]) -> None:
        """Asked at every scrape. ``last_success_s``: when the last request that was answered was sent; 0: never."""
        self._connected.set_function(lambda: float(connected()))
        self._last_success_age.set_function(lambda: self._age_s(last_success_s()))

    # -- of the fleet (leader)

    def set_fleet(self, counts: Mapping[str, int], epoch: int, unhosted: Mapping[str, str] | None = None) -> None:
        """What the leader sees in a pass. ``counts``: state → number of jobs.

        ``unhosted``: job → state, of the jobs that have no driver on any host; None leaves their series as they are.
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

    def set_takeover(self, seconds: float) -> None:
        """From the end of the last leader, as far as it is known, to the first plan of this one."""
        self._takeover.observe(seconds)

    def observe_pass(self, seconds: float) -> None:
        """One pass of the loop."""
        self._reconcile.observe(seconds)

    def count_action(self, action: str, outcome: str) -> None:
        """One action of a plan was carried out. ``outcome``: ``done``, or the kind of error."""
        self._actions.labels(action, outcome).inc()

    # -- of a job (the supervisor that hosts its driver)

    def job_attempt(self, job: str, attempt: int, state: str) -> None:
        """``attempt`` of ``job`` is on this host, in ``state``."""
        with self._lock:
            self._hosted.add(job)
            self._attempt.labels(job).set(attempt)
            self._show_state(job, state)

    def job_restarted(self, job: str, cause: str) -> None:
        """A further attempt of ``job`` was claimed here, after one that ended with ``cause``."""
        self._restarted.add(job)
        self._restarts.labels(job, cause).inc()

    def job_started(self, phase: str, seconds: float) -> None:
        """How long one ``START_PHASES`` of a start took."""
        self._start.labels(phase).observe(seconds)

    def job_progress(
        self,
        job: str,
        *,
        at_s: float,
        batch_id: int | None = None,
        input_rows_per_s: float | None = None,
        processed_rows_per_s: float | None = None,
        batch_ms: float | None = None,
    ) -> None:
        """A progress event that arrived at ``at_s``; what is None keeps its last value."""
        values = {
            self._batch_id: batch_id,
            self._input_rows: input_rows_per_s,
            self._processed_rows: processed_rows_per_s,
            self._batch_seconds: None if batch_ms is None else batch_ms / 1000,
        }
        for gauge, value in values.items():
            if value is not None:
                gauge.labels(job).set(value)
        self._progress_at_s[job] = at_s
        self._progress_age.labels(job).set_function(lambda: self._age_s(self._progress_at_s.get(job, 0.0)))

    def lease_deadline(self, job: str, deadline_s: float) -> None:
        """The instant at which the driver is killed unless a renewal commits before."""
        self._deadline_s[job] = deadline_s
        self._lease_remaining.labels(job).set_function(lambda: self._deadline_s.get(job, _UNKNOWN) - self._now_s())

    def forget_job(self, job: str) -> None:
        """The job ended, or it is not of this host any more. Idempotent."""
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
            self._progress_at_s.pop(job, None)
            self._deadline_s.pop(job, None)

    def hosts_only(self, jobs: Collection[str], restarting: Collection[str] = ()) -> None:
        """Forget every job that was hosted here and is not in ``jobs``.

        ``restarting``: jobs between two attempts; their count of restarts stays, or a crash loop could not be seen.
        """
        with self._lock:
            for job in self._hosted - set(jobs):
                self._forget_driver(job)
            for job in self._restarted - set(jobs) - set(restarting):
                self._forget_restarts(job)

    # -- inside

    def _forget_unhosted(self, keep: Collection[str]) -> None:
        for job in [job for job in self._states if job not in keep and job not in self._hosted]:
            self.forget_job(job)

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
        self._leader = self._gauge("leader", "1 on the supervisor that leads, else 0")
        self._epoch = self._gauge("epoch", "Newest leadership epoch this supervisor knows")
        self._connected = self._gauge("zookeeper_connected", "1 while the ZooKeeper session is connected")
        self._last_success_age = self._gauge(
            "zookeeper_last_success_age_seconds",
            "Time since the last answered ZooKeeper request was sent",
        )
        self._last_success_age.set(_UNKNOWN)

    def _make_fleet_families(self) -> None:
        self._jobs = self._gauge("jobs", "Jobs by state (leader only)", "state")
        self._takeover = self._histogram(
            "takeover_seconds",
            "Time without a leader until this one had its first plan",
            _TAKEOVER_BUCKETS,
        )
        self._reconcile = self._histogram("reconcile_seconds", "Duration of a reconcile pass", _RECONCILE_BUCKETS)
        self._actions = self._counter("reconcile_actions", "Actions carried out by the leader", "action", "outcome")

    def _make_job_families(self) -> None:
        self._state = self._gauge("job_state", "1 for the state a job is in", "job", "state")
        self._restarts = self._counter(
            "job_restarts", "Restarts of a job by the cause of the exit before", "job", "cause"
        )
        self._start = self._histogram("job_start_seconds", "Duration of the phases of a start", _START_BUCKETS, "phase")
        for phase in START_PHASES:
            self._start.labels(phase)
        self._attempt = self._gauge("job_attempt", "Number of the attempt that runs", "job")
        self._batch_id = self._gauge("job_batch_id", "Newest batch that was reported", "job")
        self._input_rows = self._gauge("job_input_rows_per_second", "Rows arriving per second", "job")
        self._processed_rows = self._gauge("job_processed_rows_per_second", "Rows processed per second", "job")
        self._batch_seconds = self._gauge("job_batch_seconds", "Duration of the newest batch", "job")
        self._progress_age = self._gauge("job_progress_age_seconds", "Time since the last progress event", "job")
        self._lease_remaining = self._gauge(
            "lease_remaining_seconds",
            "Time until the driver is killed unless its lease is renewed",
            "job",
        )
        self._per_job = (
            self._attempt,
            self._batch_id,
            self._input_rows,
            self._processed_rows,
            self._batch_seconds,
            self._progress_age,
            self._lease_remaining,
        )
