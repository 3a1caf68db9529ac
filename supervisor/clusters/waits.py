"""Says why a driver gets no executor, in the words of its cluster: what is asked of each kind of cluster, and of which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from supervisor.clusters.application import Application, ApplicationStage, ClusterClient
from supervisor.clusters.standalone import StandaloneMasters
from supervisor.model.executors import NO_EXECUTOR, NOTHING_THERE
from supervisor.model.master import ClusterKind
from supervisor.settings.clusters import ClusterSettings

WAITS_THERE: Final = "its application waits there"


@dataclass(frozen=True, slots=True)
class WaitingDriver:
    """Is a driver that has no executor. ``application`` is what its cluster calls it; empty while nobody knows that."""

    uid: str
    attempt: int
    application: str = ""


class WaitReader(Protocol):
    """Asks one cluster."""

    def says(self, drivers: Sequence[WaitingDriver], timeout_s: float) -> Sequence[str]:
        """Returns for each driver why it has none, as half a sentence; empty if the cluster does not say. It ends within
        ``timeout_s`` seconds. Raises ``ClusterSilent``."""


class _OfMasters:
    def __init__(self, cluster: ClusterSettings) -> None:
        self._masters = StandaloneMasters(cluster.web_of_masters)

    def says(self, drivers: Sequence[WaitingDriver], timeout_s: float) -> Sequence[str]:
        state = self._masters.state(timeout_s)
        return [state.why_waiting(driver.application) for driver in drivers]


class _OfApplications:
    """Reads what YARN or Kubernetes says of an application that waits, found by the attempt that it names."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def says(self, drivers: Sequence[WaitingDriver], timeout_s: float) -> Sequence[str]:
        found = {(one.uid, one.attempt): one for one in self._client.living(timeout_s)}
        return [_why(found.get((driver.uid.lower(), driver.attempt))) for driver in drivers]


def _why(application: Application | None) -> str:
    if application is None or application.stage is ApplicationStage.ENDED:
        return NOTHING_THERE
    return (application.says or WAITS_THERE) if application.stage is ApplicationStage.WAITING else NO_EXECUTOR


def reader_of(cluster: ClusterSettings, client: ClusterClient | None) -> WaitReader | None:
    """Returns who asks ``cluster``, or None if nobody can. ``client`` is that of the cluster, if its kind has one."""
    if cluster.kind is ClusterKind.STANDALONE:
        return _OfMasters(cluster)
    return None if client is None else _OfApplications(client)
