"""A cluster in memory: it holds applications until it is asked to end them, and may be silent."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.clusters.application import Application, ClusterSilent


class FakeCluster:
    """``asked`` are the ids that it was asked to end, in order; ``silent`` is why it does not answer, or empty."""

    def __init__(self, *applications: Application) -> None:
        self.held = list(applications)
        self.asked: list[str] = []
        self.silent = ""

    def applications(self, uid: str, timeout_s: float) -> Sequence[Application]:
        return [one for one in self.living(timeout_s) if one.uid == uid]

    def living(self, timeout_s: float) -> Sequence[Application]:
        assert timeout_s > 0
        if self.silent:
            raise ClusterSilent(self.silent)
        return list(self.held)

    def end(self, application: Application, timeout_s: float) -> None:
        if self.silent:
            raise ClusterSilent(self.silent)
        self.asked.append(application.id)
        self.held.remove(application)
