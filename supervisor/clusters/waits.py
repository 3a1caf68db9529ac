"""Says why a driver gets no executor, in the words of its cluster: what is asked of each kind of cluster, and of which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from supervisor.clusters.standalone import StandaloneMasters
from supervisor.model.master import ClusterKind
from supervisor.settings.clusters import ClusterSettings


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


READERS: Final[Mapping[ClusterKind, Callable[[ClusterSettings], WaitReader]]] = {
    ClusterKind.STANDALONE: _OfMasters,
}
"""Whom to ask, by the kind of the cluster. A kind that is not there is not asked."""


def reader_of(cluster: ClusterSettings) -> WaitReader | None:
    """Returns who asks ``cluster``, or None if nobody can."""
    make = READERS.get(cluster.kind)
    return make(cluster) if make is not None else None
