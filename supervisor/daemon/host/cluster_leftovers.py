"""Has a cluster end what it still holds for attempts of jobs of this host that are over (protocol §7.8).

It asks the cluster before an attempt of a job starts here, and when the run directory of one is removed. Which attempts are
over is what the registry says at that moment, and nothing else (``clusters.leftovers``): a directory goes in many ways,
and numbers recur after a restore. It has a thread of its own. Nobody waits for it: whether a start may begin is decided
by the wait for executors, and what it misses is ended by the leader's sweep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from supervisor.clients.threads import TurnLoop
from supervisor.clock import boottime_s
from supervisor.clusters.application import Application, ClusterClient, ClusterSilent
from supervisor.clusters.leftovers import holds_something, of_job
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import SupervisorError
from supervisor.growing_pause import GrowingPause
from supervisor.metrics import Metrics
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, Ownership

log = structlog.get_logger(__name__)

PATIENCE_S = 60.0
SETTLED_AFTER_S = 5.0
"""A driver that was killed while it asked for its application may get it a moment later."""
PAUSE = GrowingPause(first_s=1.0, longest_s=10.0)
CALL_S = 10.0
REQUESTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Asks for the end of what is left of the job ``job`` of ``uid`` on a cluster. ``why`` is what happened to which
    attempt. Instants are BOOTTIME."""

    cluster: str
    uid: str
    job: str
    why: str
    asked_at_s: float
    due_at_s: float
    failures: int = 0


class ClusterLeftovers:
    """Runs the thread. ``clients`` are those of the clusters of this host, by name. ``ownership`` reads that of a job from
    the registry now, and returns None if there is none, or none that may be believed; it raises ``SupervisorError``."""

    def __init__(
        self,
        clients: Mapping[str, ClusterClient],
        ownership: Callable[[str], Ownership | None],
        metrics: Metrics,
        clock: Callable[[], float] = boottime_s,
    ) -> None:
        self._clients = clients
        self._ownership = ownership
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str], EndRequest] = {}
        self._asked: dict[tuple[str, str], str] = {}
        self._silent: dict[str, str] = {}
        self._boundary = ErrorBoundary("clusters")
        self._loop = TurnLoop("clusters", self.turn)

    def start(self) -> None:
        """Starts the thread, if this host has a cluster to ask."""
        if self._clients:
            self._loop.start()

    def stop(self) -> None:
        """Stops the thread without waiting for a cluster that hangs."""
        self._loop.stop()

    def request_end(self, cluster: str, job: str, uid: str, why: str) -> None:
        """Asks for the end of what is left of attempts of ``uid``. It never blocks or raises. A cluster without a client
        is not asked, and for one ``why`` (a start that is tried again) it is asked once."""
        if cluster not in self._clients:
            return
        now_s, key = self._clock(), (cluster, uid)
        with self._lock:
            is_full = key not in self._requests and len(self._requests) >= REQUESTS_MAX
            if is_full or self._asked.get(key) == why:
                return
            if len(self._asked) >= REQUESTS_MAX:
                self._asked.clear()
            self._asked[key] = why
            self._requests[key] = EndRequest(cluster, uid, job, why, now_s, now_s)
        self._loop.wake()

    def starts(self, cluster: str, given: Assignment) -> None:
        """Is called before the attempt of ``given`` starts."""
        self.request_end(cluster, given.name, given.uid, f"attempt {given.attempt} starts")

    def ended(self, launch: Launch) -> None:
        """Is called when the run directory of ``launch`` goes."""
        given = launch.assignment
        self.request_end(launch.on_cluster, given.name, given.uid, f"attempt {given.attempt} has gone")

    def turn(self) -> float | None:
        """Carries out what is due. Returns the seconds until the next request is due, or None if there is none. A cluster
        that was silent in this turn is not asked again in it."""
        now_s = self._clock()
        with self._lock:
            due = [one for one in self._requests.values() if one.due_at_s <= now_s]
        silent: set[str] = set()
        for request in due:
            if self._loop.is_stopping:
                break
            is_done = request.cluster not in silent and self._boundary.attempt(
                request.uid,
                partial(self._carry_out, request, silent),
                False,
            )
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
            failures = request.failures + 1
            due_at_s = now_s + PAUSE.after(failures)
            if is_done or due_at_s > request.asked_at_s + PATIENCE_S:
                del self._requests[key]
                return
            self._requests[key] = replace(request, due_at_s=due_at_s, failures=failures)

    def _carry_out(self, request: EndRequest, silent: set[str]) -> bool:
        """Lists, reads the registry, and ends what is over. Returns whether nothing is left, and nothing can come any
        more."""
        client = self._clients[request.cluster]
        try:
            listed = client.applications(request.uid, CALL_S)
        except ClusterSilent as error:
            silent.add(request.cluster)
            self._note(request, str(error))
            return False
        self._note(request, "")
        is_settled = self._clock() >= request.asked_at_s + SETTLED_AFTER_S
        left = [one for one in listed if holds_something(one)]
        if not left:
            return is_settled
        try:
            own = self._ownership(request.job)
        except SupervisorError as error:
            log.info(
                "leftovers_wait", job=request.job, uid=request.uid, cluster=request.cluster, why=str(error)
            )
            return False
        if own is None:
            return False
        over = of_job(left, request.uid, own)
        for application in over:
            self._end(request, client, application)
        return (
            is_settled and not over
        )  # what else is there has a driver, or is a matter of the leader's sweep

    def _end(self, request: EndRequest, client: ClusterClient, application: Application) -> None:
        """Asks for the end of one application; that it is refused keeps no other from it."""
        try:
            client.end(application, CALL_S)
        except ClusterSilent as error:
            self._note(request, str(error))
            return
        log.info(
            "cluster_application_ended",
            job=request.job,
            uid=request.uid,
            attempt=application.attempt,
            cluster=request.cluster,
            application=application.id,
            why=f"its driver is over, and {request.why}",
        )

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
