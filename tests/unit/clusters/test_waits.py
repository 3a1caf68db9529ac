"""Why a driver gets no executor, by what YARN or Kubernetes says of its attempt."""

from __future__ import annotations

from pathlib import Path

from supervisor.clusters.application import Application, ApplicationStage
from supervisor.clusters.waits import WAITS_THERE, WaitingDriver, reader_of
from supervisor.model.executors import NO_EXECUTOR, NOTHING_THERE
from supervisor.settings.clusters import ClusterSettings
from tests.fakes.cluster import FakeCluster

YARN = ClusterSettings(master="yarn", conf_dir=Path("/etc/hadoop"))


def test_each_driver_is_told_what_its_own_attempt_waits_for() -> None:
    cluster = FakeCluster(
        Application("a1", "u1", 1, ApplicationStage.WAITING, "the queue is full"),
        Application("a2", "u1", 2, ApplicationStage.WAITING, "no node has 4 cores"),
        Application("a3", "u2", 1, ApplicationStage.RUNNING, "the queue is full"),
        Application("a4", "u4", 1, ApplicationStage.WAITING, ""),
    )
    reader = reader_of(YARN, cluster)
    assert reader is not None
    drivers = [WaitingDriver("U1", 2), WaitingDriver("u2", 1), WaitingDriver("u3", 1), WaitingDriver("u4", 1)]
    assert reader.says(drivers, 5.0) == ["no node has 4 cores", NO_EXECUTOR, NOTHING_THERE, WAITS_THERE]


def test_a_cluster_without_a_client_is_asked_by_nobody() -> None:
    assert reader_of(YARN, None) is None
