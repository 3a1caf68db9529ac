"""Ends applications on clusters whose driver is over and whose host could not end them: it was lost, or cut off
(protocol §7.8).

The leader's sweeper calls it. It asks the clusters in the settings of its own host. What a cluster says is listed before the
registry is read, and ``clusters.leftovers`` decides; before each request it is asked again whether this term may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from supervisor.clusters.application import Application, ClusterClient, ClusterSilent
from supervisor.clusters.leftovers import KnownJobs, of_nobody
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.metrics import Metrics

log = structlog.get_logger(__name__)

CALL_S = 10.0
ENDS_MAX = 200
"""This is the maximum for one cluster in a sweep."""


class ApplicationSweeper:
    """Sweeps for one term. ``clients`` are those of the clusters of the leader's host, by name."""

    def __init__(self, clients: Mapping[str, ClusterClient], metrics: Metrics) -> None:
        self._clients = clients
        self._metrics = metrics
        self._boundary = ErrorBoundary("clusters")

    def sweep(self, take_known: Callable[[], KnownJobs | None], may_go_on: Callable[[], bool]) -> int:
        """Asks each cluster once, and returns how many applications it was asked to end. ``take_known`` reads the registry
        now, and returns None if nothing may be ended by it. A silent cluster, or a defect, prevents no other one;
        what ``take_known`` raises comes through."""
        listed: dict[str, tuple[Application, ...]] = {}
        for name, client in self._clients.items():
            if may_go_on():
                ask = partial(self._living, name, client)
                listed[name] = self._boundary.attempt(name, ask, ())
        if not any(listed.values()):
            return 0
        known = take_known()
        if known is None:
            return 0
        ended = 0
        for name, applications in listed.items():
            for application in of_nobody(applications, known)[:ENDS_MAX]:
                if may_go_on():
                    end = partial(self._end, name, application)
                    ended += self._boundary.attempt(application.id, end, 0)
        return ended

    def _living(self, name: str, client: ClusterClient) -> tuple[Application, ...]:
        try:
            found = tuple(client.living(CALL_S))
        except ClusterSilent as error:
            self._log_silent(name, error)
            return ()
        self._metrics.cluster_asked(name, True)
        return found

    def _end(self, name: str, application: Application) -> int:
        try:
            self._clients[name].end(application, CALL_S)
        except ClusterSilent as error:
            self._log_silent(name, error)
            return 0
        log.info(
            "application_ended",
            uid=application.uid,
            attempt=application.attempt,
            cluster=name,
            application=application.id,
            why="the registry knows no driver that could have it",
        )
        return 1

    def _log_silent(self, name: str, error: ClusterSilent) -> None:
        self._metrics.cluster_asked(name, False)
        log.warning(
            "cluster_silent",
            cluster=name,
            why=str(error),
            next="what is left there is ended by a later sweep",
        )
