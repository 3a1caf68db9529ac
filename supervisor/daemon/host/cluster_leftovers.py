"""Ends what a cluster still holds for attempts of this host that are over (protocol §7.8).

It is asked twice: before an attempt starts here, for all attempts of the job before it; and when the run directory of an
attempt is removed, for that attempt and all before it. It has a thread of its own. Nobody waits for it: whether a start may
begin is decided by the wait for executors, and what it misses is ended by the leader's sweep.

A request is forgotten after ``PATIENCE_S``, so that none is carried out when it no longer means what it meant.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.clusters.application import ClusterClient, ClusterSilent
from supervisor.clusters.leftovers import of_attempts_before
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.metrics import Metrics
from supervisor.model.launch import Launch

log = structlog.get_logger(__name__)

PATIENCE_S = 60.0
SETTLED_AFTER_S = 5.0
"""A driver that was killed while it asked for its application may get it a moment later."""
FIRST_PAUSE_S, PAUSE_MAX_S = 1.0, 10.0
CALL_S = 10.0
REQUESTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Asks for the end of applications of the attempts of ``uid`` before ``below``. Instants are BOOTTIME."""

    cluster: str
    uid: str
    below: int
    job: str
    asked_at_s: float
    due_at_s: float
    pause_s: float = FIRST_PAUSE_S


class ClusterLeftovers:
    """Runs the thread. ``clients`` are those of the clusters of this host, by name."""

    def __init__(
        self,
        clients: Mapping[str, ClusterClient],
        metrics: Metrics,
        clock: Callable[[], float] = boottime_s,
    ) -> None:
        self._clients = clients
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str], EndRequest] = {}
        self._silent: dict[str, str] = {}
        self._wake = threading.Event()
        self._stopping = False
        self._boundary = ErrorBoundary("clusters")
        self._thread = BackgroundThread("clusters", self._run, ask=self._ask_to_stop)

    def start(self) -> None:
        """Starts the thread, if this host has a cluster to ask."""
        if self._clients:
            self._thread.start()

    def stop(self) -> None:
        """Stops the thread without waiting for a cluster that hangs."""
        self._thread.stop()

    def end_before(self, cluster: str, job: str, uid: str, below: int) -> None:
        """Asks for the end of what the attempts of ``uid`` before ``below`` hold. It never blocks or raises. A
        cluster without a client is not asked."""
        if cluster not in self._clients:
            return
        now_s = self._clock()
        with self._lock:
            before = self._requests.get((cluster, uid))
            if before is None and len(self._requests) >= REQUESTS_MAX:
                return
            below = max(below, before.below if before is not None else 0)
            self._requests[cluster, uid] = EndRequest(cluster, uid, below, job, now_s, now_s)
        self._wake.set()

    def end_of(self, launch: Launch) -> None:
        """Asks for the end of what the attempt of ``launch``, which is over, holds."""
        given = launch.assignment
        self.end_before(launch.executors_on, given.name, given.uid, given.attempt + 1)

    def _ask_to_stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self.turn())
            self._wake.clear()

    def turn(self) -> float | None:
        """Carries out what is due. Returns the seconds until the next request is due, or None if there is none."""
        now_s = self._clock()
        with self._lock:
            due = [one for one in self._requests.values() if one.due_at_s <= now_s]
        for request in due:
            if self._stopping:
                break
            is_done = self._boundary.attempt(request.uid, lambda one=request: self._end(one), False)  # type: ignore[misc]
            self._put_back(request, is_done)
        with self._lock:
            waits = [one.due_at_s for one in self._requests.values()]
        return max(0.0, min(waits) - self._clock()) if waits else None

    def _put_back(self, request: EndRequest, is_done: bool) -> None:
        """Forgets a request that is done or too old, unless it was asked anew meanwhile; else it is due again
        after a pause."""
        now_s, key = self._clock(), (request.cluster, request.uid)
        with self._lock:
            if self._requests.get(key) != request:
                return
            if is_done or now_s + request.pause_s > request.asked_at_s + PATIENCE_S:
                del self._requests[key]
                return
            pause_s = min(PAUSE_MAX_S, 2 * request.pause_s)
            self._requests[key] = replace(request, due_at_s=now_s + request.pause_s, pause_s=pause_s)

    def _end(self, request: EndRequest) -> bool:
        """Asks the cluster once. Returns whether nothing is left, and nothing can come any more."""
        client = self._clients[request.cluster]
        try:
            found = of_attempts_before(client.applications(request.uid, CALL_S), request.uid, request.below)
            for application in found:
                if self._clock() > request.asked_at_s + PATIENCE_S:
                    return True
                client.end(application, CALL_S)
                log.info(
                    "application_ended",
                    job=request.job,
                    uid=request.uid,
                    attempt=application.attempt,
                    cluster=request.cluster,
                    application=application.id,
                    why="its driver is over",
                )
        except ClusterSilent as error:
            self._note(request, str(error))
            return False
        self._note(request, "")
        return not found and self._clock() >= request.asked_at_s + SETTLED_AFTER_S

    def _note(self, request: EndRequest, why: str) -> None:
        """Says once that a cluster does not answer, and that it does again."""
        was = self._silent.pop(request.cluster, "")
        self._metrics.cluster_asked(request.cluster, not why)
        if why:
            self._silent[request.cluster] = why
            if not was:
                log.warning(
                    "cluster_silent",
                    cluster=request.cluster,
                    job=request.job,
                    uid=request.uid,
                    why=why,
                    next="drivers start and go on all the same; what is left there is ended later",
                )
        elif was:
            log.info("cluster_answers_again", cluster=request.cluster, was=was)
