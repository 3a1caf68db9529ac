"""Publishes what this host knows of the drivers it hosts: their metrics, and the life of JVM applications.

A job's series come from the supervisor that hosts its driver. Its shim puts progress into the lease record,
and the deadline into the run directory; both are only read here. A JVM application runs without this
project's bootstrap, so its life is judged from the checkpoint's commit log, which this thread reads and
reports to the shim. A failure here does no harm, because a shim keeps its lease by itself.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import structlog

from supervisor.checkpoint.commit_log import CommitLog, CommittedBatch
from supervisor.clients import run_dir
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s, wall_s
from supervisor.clusters.application import ClusterClient
from supervisor.clusters.waits import WaitingDriver
from supervisor.daemon.host.cluster_news import NO_CLIENTS, ClusterNews, HostedWait, waited_s
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics, QueryNumbers, UsageNumbers
from supervisor.model.launch import Launch
from supervisor.model.records import (
    LEASED,
    ClusterWait,
    JobRef,
    Lease,
    Ownership,
    Phase,
    Progress,
    QueryProgress,
    QueryState,
    StartTimes,
)
from supervisor.model.seen import Found, Seen
from supervisor.model.state import shown_state, strays_of
from supervisor.model.view import Row, SeenLease
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from supervisor.settings.clusters import ClusterSettings

log = structlog.get_logger(__name__)

PERIOD_S = 5.0
STARTING_PERIOD_S = 0.5
UNBORN_MAX_S = 60.0
COMMITS_EVERY_S = 10.0
NO_ARCHIVE = "off: "
"""A launch whose ``class_archive`` begins so has none (``ClassArchive.said``)."""


class AttemptReporter:
    """Reports in one thread. ``open_log`` opens the commit log for the launch of a JVM application."""

    def __init__(
        self,
        supervisor_id: str,
        hosted: HostedAttempts,
        layout: Layout,
        client: Callable[[], ZooClient | None],
        metrics: Metrics,
        open_log: Callable[[Launch], CommitLog | None],
        clusters: Mapping[str, ClusterSettings] | None = None,
        cluster_clients: Mapping[str, ClusterClient] = NO_CLIENTS,
    ) -> None:
        self._id = supervisor_id
        self._hosted = hosted
        self._layout = layout
        self._client = client
        self._metrics = metrics
        self._open_log = open_log
        self._stopping = threading.Event()
        self._logs: dict[str, tuple[CommitLog, CommittedBatch | None]] = {}
        self._commits_read_at_s = 0.0
        self._searched_for: set[str] = set()
        self._last_hosted: set[str] = set()
        self._progress: dict[str, Progress] = {}
        self._silence: dict[str, tuple[int, float]] = {}
        self._phases: dict[str, Phase] = {}
        self._observed_phases: dict[str, set[str]] = {}
        self._news = ClusterNews(clusters or {}, report, cluster_clients)
        self._waits: dict[str, HostedWait] = {}
        self._unborn = False
        self._began_at_s = boottime_s()
        self._logged = ""
        self._boundary = ErrorBoundary("hosting")

    def run(self, beat: Callable[[], None]) -> None:
        """Runs rounds until ``stop``."""
        while not self._stopping.is_set():
            beat()
            try:
                self._boundary.attempt("round", lambda: self.round(beat), None, (SupervisorError, OSError))
                self._logged = ""
            except (SupervisorError, OSError) as error:
                if str(error) != self._logged:
                    self._logged = str(error)
                    log.warning(
                        "hosting_not_told", why=str(error), next="drivers go on; their metrics stand still"
                    )
            self._hosted.fresh.wait(STARTING_PERIOD_S if self.is_starting() else PERIOD_S)
            self._hosted.fresh.clear()

    def stop(self) -> None:
        self._stopping.set()
        self._hosted.fresh.set()

    def round(self, beat: Callable[[], None]) -> None:
        """Reads and publishes once what is hosted here. Raises SupervisorError, OSError."""
        launches = self._hosted.launches()
        self._read_commit_logs({key: launch for key, launch in launches.items() if not launch.reports}, beat)
        self._publish_metrics(launches)

    # -- metrics --------------------------------------------------------------------------------------------------

    def _publish_metrics(self, launches: dict[str, Launch]) -> None:
        client = self._client()
        if client is None:
            return
        self._last_hosted |= {launch.assignment.name for launch in launches.values()}
        layout, names = self._layout, [launch.assignment.name for launch in launches.values()]
        paths = [path for n in names for path in (layout.job(n), layout.own(n), layout.lease(n))]
        reads = client.read_many(paths)
        nodes = reads.nodes
        shown = set()
        for number, (key, launch) in enumerate(launches.items()):
            ref: Seen[JobRef] = seen(JobRef, nodes[3 * number], paths[3 * number])
            own: Seen[Ownership] = seen(Ownership, nodes[3 * number + 1], paths[3 * number + 1])
            lease: Seen[Lease] = seen(Lease, nodes[3 * number + 2], paths[3 * number + 2])
            if not isinstance(own, Found) or (own.record.uid, own.record.attempt) != _which(launch):
                continue
            if ref is None and own.record.state not in LEASED:  # cancelled or concluded, and gone
                continue
            name = launch.assignment.name
            row = Row(name, ref, own, lease=SeenLease(lease, reads.received_at_s, reads.sent_at_s))
            state = shown_state(row).state
            shown.add(name)
            self._boundary.attempt(
                key, partial(self._publish_job, key, launch, state.value, own.record, lease), None
            )
        now_s = boottime_s()
        self._unborn = any(
            key not in self._phases and now_s - launch.begun_s < UNBORN_MAX_S
            for key, launch in launches.items()
        )
        self._last_hosted = self._between_attempts(client, shown)
        self._metrics.hosts_only(shown, self._last_hosted)
        self._phases = {key: phase for key, phase in self._phases.items() if key in launches}
        self._observed_phases = {
            key: observed for key, observed in self._observed_phases.items() if key in launches
        }
        self._progress = {key: progress for key, progress in self._progress.items() if key in launches}
        self._silence = {key: silence for key, silence in self._silence.items() if key in launches}
        self._waits = {key: wait for key, wait in self._waits.items() if key in launches}
        self._news.ask(list(self._waits.values()))

    def _between_attempts(self, client: ZooClient, shown: set[str]) -> set[str]:
        """Returns the names whose last driver was here, and which no other host has taken over."""
        names = sorted(self._last_hosted)
        paths = [path for name in names for path in (self._layout.job(name), self._layout.own(name))]
        nodes = client.read_many(paths).nodes
        kept = set(shown)
        for number, name in enumerate(names):
            own: Seen[Ownership] = seen(Ownership, nodes[2 * number + 1], paths[2 * number + 1])
            here = isinstance(own, Found) and own.record.supervisor == self._id
            if nodes[2 * number] is not None and here:
                kept.add(name)
        return kept

    def _publish_job(self, key: str, launch: Launch, state: str, own: Ownership, lease: Seen[Lease]) -> None:
        name, attempt = launch.assignment.name, launch.assignment.attempt
        self._metrics.job_attempt(name, attempt, state)
        try:
            deadline_at_s = run_dir.read_deadline(str(self._hosted.attempts_dir / key))
            if deadline_at_s is not None:
                self._metrics.lease_deadline(name, deadline_at_s, launch.lease_s)
        except (OSError, ValueError):
            pass
        if not isinstance(lease, Found) or (lease.record.uid, lease.record.attempt) != _which(launch):
            return
        self._log_start(key, launch, lease.record)
        self._metrics.job_strays(name, len(strays_of(lease.record)))
        self._metrics.job_failed_queries(name, lease.record.failed_queries)
        if launch.executors_outlive_s > 0:
            wait = lease.record.cluster_wait if own.state in LEASED else None
            self._log_wait(name, key, launch, wait)
        if lease.record.silence_s is not None:
            self._log_silence(name, key, lease.record)
        progress = lease.record.progress
        if progress is not None and self._progress.get(key) != progress:
            self._progress[key] = progress
            self._metrics.job_progress(name, boottime_s())
        self._metrics.job_queries(name, _numbers(lease.record))
        used = lease.record.usage.resources if lease.record.usage is not None else None
        if used is not None:
            reserved = launch.assignment.memory
            self._metrics.job_usage(name, UsageNumbers(used.memory, used.memory_max, reserved, used.cpu_s))

    def _log_start(self, key: str, launch: Launch, lease: Lease) -> None:
        """Counts each phase of a start once, as the shim measured it, but not again in a supervisor that came
        after the start."""
        self._phases[key] = lease.phase
        start = lease.start or StartTimes()
        phases = {
            "spawn": start.spawn_s,
            "session": start.session_s,
            "cluster": start.cluster_s,
            "first_batch": start.first_batch_s,
        }
        known = {phase for phase, seconds in phases.items() if seconds is not None}
        observed = self._observed_phases.setdefault(
            key, known if launch.begun_s < self._began_at_s else set()
        )
        for phase, seconds in phases.items():
            if seconds is not None and phase not in observed:
                self._metrics.job_started(phase, seconds)
        if start.first_batch_s is not None and "first_batch" not in observed:
            self._metrics.job_first_batch(
                sum(seconds for seconds in phases.values() if seconds is not None),
                prepared=bool(launch.prepared),
                class_archive=bool(launch.class_archive) and not launch.class_archive.startswith(NO_ARCHIVE),
            )
        self._observed_phases[key] = observed | known

    def _log_silence(self, name: str, key: str, lease: Lease) -> None:
        """Publishes since when there has been silence. ``silence_s`` was true when this renewal was sent; it
        is as old as the renewal, and each renewal counts once."""
        seen_renewals, since_at_s = self._silence.get(key, (-1, 0.0))
        if lease.renewals != seen_renewals:
            since_at_s = boottime_s() - (lease.silence_s or 0.0)
            self._silence[key] = (lease.renewals, since_at_s)
        self._metrics.job_silence(name, since_at_s)

    def _log_wait(self, name: str, key: str, launch: Launch, wait: ClusterWait | None) -> None:
        """Publishes for how long the driver has waited for executors, and keeps whom to ask why."""
        self._waits.pop(key, None)
        self._metrics.job_cluster_wait(name, waited_s(wait.since, wall_s()) if wait is not None else 0.0)
        if wait is not None:
            driver = WaitingDriver(*_which(launch), wait.application)
            channel = launch.channel_in(str(self._hosted.attempts_dir / key))
            self._waits[key] = HostedWait(launch.on_cluster, driver, channel)

    def is_starting(self) -> bool:
        """Says whether an attempt here is on its way to its first batch, and does not wait for its cluster: its phases
        are timed."""
        return self._unborn or any(
            phase not in (Phase.RUNNING, Phase.STOPPING) and key not in self._waits
            for key, phase in self._phases.items()
        )

    # -- JVM applications -----------------------------------------------------------------------------------------

    def _read_commit_logs(self, launches: dict[str, Launch], beat: Callable[[], None]) -> None:
        """Reads the commit logs one after the other. A store that hangs costs each of them its deadline: the
        loop is slow then, not stuck.

        The log of a fresh attempt is read at once, because what it commits before the first reading would not
        be seen as its own.
        """
        due = boottime_s() - self._commits_read_at_s >= COMMITS_EVERY_S
        if due:
            self._commits_read_at_s = boottime_s()
        self._logs = {key: known for key, known in self._logs.items() if key in launches}
        self._searched_for &= set(launches)
        for key, launch in launches.items():
            if not due and key in self._searched_for:
                continue
            self._searched_for.add(key)
            beat()
            try:
                commit_log, before = self._logs.get(key) or (self._open_log(launch), None)
                if commit_log is None or self._stopping.is_set():
                    continue
                newest = commit_log.newest()
                event = self._event(commit_log, before, newest, first=key not in self._logs) | _committed(
                    commit_log, launch
                )
            except (
                SupervisorError,
                OSError,
                ValueError,
            ) as error:  # of this job alone (I9): a place that is none …
                uid, attempt = _which(launch)
                log.info(
                    "commits_not_read", job=launch.assignment.name, uid=uid, attempt=attempt, why=str(error)
                )
                continue
            except Exception as error:  # noqa: BLE001 - the edge of one item
                self._boundary.log_error(key, error)
                continue
            self._logs[key] = (commit_log, newest)
            report(launch.channel_in(str(self._hosted.attempts_dir / key)), event)

    @staticmethod
    def _event(
        commit_log: CommitLog, before: CommittedBatch | None, newest: CommittedBatch | None, *, first: bool
    ) -> dict[str, object]:
        """Returns the event to report to the shim. ``looked`` is no sign of life, but says that there was
        somebody to see one."""
        batch_id = newest.batch_id if newest is not None else None
        if first:
            return {"event": "looked", "batch_id": batch_id}
        if newest != before:
            return {"event": "progress", "batch_id": batch_id}
        return {"event": "idle"} if commit_log.waits_for_data() else {"event": "looked", "batch_id": batch_id}


def report(channel: Path | str, event: dict[str, object]) -> None:
    """Sends one datagram to the shim whose channel this is, as the bootstrap does. Never blocks, never raises."""
    try:
        folder = os.open(channel, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(json.dumps(event).encode(), f"/proc/self/fd/{folder}/{run_dir.REPORT}")
    except OSError:
        pass
    finally:
        os.close(folder)


def _committed(commit_log: CommitLog, launch: Launch) -> dict[str, object]:
    """Returns what the next start has to find there. A host that may list but not read still reports signs of
    life."""
    try:
        committed = commit_log.committed()
    except (SupervisorError, OSError):
        return {}
    return {"committed": committed, "checkpoint": launch.checkpoint} if committed else {}


def _numbers(lease: Lease) -> dict[str, QueryNumbers]:
    """Returns the numbers of the queries that live, by name, else by id. The record has those of eight at most, which
    bounds the series of a job."""
    ended = (QueryState.FAILED, QueryState.TERMINATED)
    live = (one for one in lease.queries if one.state not in ended and one.at is not None)
    observed: dict[str, QueryProgress | Progress] = {one.query or one.id or "": one for one in live}
    if not lease.queries and lease.progress is not None:
        observed = {lease.progress.query or "": lease.progress}
    return {
        query: QueryNumbers(
            one.batch_id,
            one.input_rows_per_s,
            one.processed_rows_per_s,
            None if one.batch_ms is None else one.batch_ms / 1000,
            one.lag,
            one.trigger_interval_s,
        )
        for query, one in observed.items()
    }


def _which(launch: Launch) -> tuple[str, int]:
    return launch.assignment.uid, launch.assignment.attempt
