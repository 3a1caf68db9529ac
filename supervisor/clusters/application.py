"""Defines what a cluster holds for one driver, and what is asked of every kind of cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from supervisor.errors import Unreachable


class ClusterSilent(Unreachable):
    """Is raised if a cluster does not answer in time, or refuses to answer; its text says which and why."""


class ApplicationStage(StrEnum):
    """Says how far an application is, by its cluster."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Application:
    """Is what a cluster holds for the driver of one attempt.

    ``id`` is the cluster's own name for it. ``uid`` (in lower case) and ``attempt`` are those of the job, from the tag that
    the driver was started with; empty and 0 if it has none. ``says`` is why it waits, in the words of the cluster; empty if
    it says nothing. ``left`` are the names of what it holds (executors, pods), as far as the cluster tells them.
    """

    id: str
    uid: str
    attempt: int
    stage: ApplicationStage
    says: str = ""
    left: tuple[str, ...] = ()


class ClusterClient(Protocol):
    """Asks one cluster. Each call ends within ``timeout_s`` seconds and raises ``ClusterSilent`` if there is no answer."""

    def applications(self, uid: str, timeout_s: float) -> Sequence[Application]:
        """Returns what the cluster holds for drivers of the job ``uid``, ended ones too as far as it remembers them."""

    def living(self, timeout_s: float) -> Sequence[Application]:
        """Returns what the cluster holds for drivers of all jobs of this registry; not what has ended and holds
        nothing."""

    def end(self, application: Application, timeout_s: float) -> None:
        """Asks the cluster to end this application, and to remove what it holds. That it was accepted proves nothing."""
