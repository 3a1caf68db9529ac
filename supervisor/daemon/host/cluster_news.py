"""Asks the clusters of this host why drivers wait for executors, and tells their shims, which put it into the lease: so
every command shows it, on every host, and nobody else has to reach the cluster.

At most one asks at a time, in a thread of its own: a cluster that does not answer delays nothing but its own words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog

from supervisor.clients.threads import run_in_thread
from supervisor.clusters.application import ClusterClient, ClusterSilent
from supervisor.clusters.waits import WaitingDriver, reader_of
from supervisor.model.master import ClusterKind, kind_of
from supervisor.settings.clusters import ClusterSettings

log = structlog.get_logger(__name__)

ASK_EVERY_S: Final = 10.0
TIMEOUT_S: Final = 6.0


@dataclass(frozen=True, slots=True)
class HostedWait:
    """Is one driver of this host that waits. ``cluster`` is the name of its cluster, or its master; ``channel`` is the
    directory of its shim's socket."""

    cluster: str
    driver: WaitingDriver
    channel: str


NO_CLIENTS: Final[Mapping[str, ClusterClient]] = MappingProxyType({})


class ClusterNews:
    """Asks about every driver of this host that waits. ``tell`` sends an event to the shim with a channel. ``clients`` are
    those of the clusters, by name."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterSettings],
        tell: Callable[[Path | str, dict[str, object]], None],
        clients: Mapping[str, ClusterClient] = NO_CLIENTS,
    ) -> None:
        self._clusters = clusters
        self._clients = clients
        self._tell = tell
        self._asking: Future[None] | None = None
        self._asked_at_s = float("-inf")

    def ask(self, waits: Sequence[HostedWait]) -> None:
        """Begins to ask, unless nobody waits, or it was asked a moment ago, or that is still going on."""
        busy = self._asking is not None and not self._asking.done()
        if not waits or busy or time.monotonic() - self._asked_at_s < ASK_EVERY_S:
            return
        self._asked_at_s = time.monotonic()
        self._asking = run_in_thread("cluster-news", lambda: self.tell_all(waits))

    def tell_all(self, waits: Sequence[HostedWait]) -> None:
        """Asks each cluster once, and tells each shim. What raises for one cluster is that one's trouble."""
        for name in dict.fromkeys(wait.cluster for wait in waits):
            of_cluster = [wait for wait in waits if wait.cluster == name]
            try:
                said = self._said(name, [wait.driver for wait in of_cluster])
            except Exception as error:  # noqa: BLE001 - the edge of one cluster, whatever it answers
                log.error("cluster_not_asked", cluster=name, why=f"{type(error).__name__}: {error}")
                continue
            for wait, says in zip(of_cluster, said, strict=True):
                self._tell(wait.channel, {"event": "cluster", "why": says})

    def _said(self, name: str, drivers: Sequence[WaitingDriver]) -> Sequence[str]:
        cluster = self._clusters.get(name)
        if cluster is None and kind_of(name) is ClusterKind.STANDALONE:  # the spec names the master itself
            cluster = ClusterSettings(master=name)
        reader = reader_of(cluster, self._clients.get(name)) if cluster is not None else None
        if reader is None:
            return [""] * len(drivers)
        try:
            return reader.says(drivers, TIMEOUT_S)
        except ClusterSilent as error:
            return [str(error)] * len(drivers)


def waited_s(since: str, now_s: float) -> float:
    """Returns the seconds from ``since`` (ISO 8601) to ``now_s`` of the wall clock; 0.0 if it is no time."""
    try:
        return max(0.0, now_s - datetime.fromisoformat(since).timestamp())
    except ValueError:
        return 0.0
