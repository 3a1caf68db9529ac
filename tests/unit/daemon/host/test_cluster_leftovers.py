"""A host has clusters end what attempts before a number hold, beside all else, and never later ones."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clusters.application import Application, ApplicationStage
from supervisor.daemon.host.cluster_leftovers import PATIENCE_S, SETTLED_AFTER_S, ClusterLeftovers
from supervisor.metrics import Metrics
from tests.fakes.cluster import FakeCluster
from tests.unit.shim.world import LAUNCH
from tests.waiting import wait_until


def app(attempt: int, uid: str = "u1") -> Application:
    return Application(f"a{attempt}", uid, attempt, ApplicationStage.RUNNING)


class HostRig:
    def __init__(self, *applications: Application) -> None:
        self.now_s = 1000.0
        self.cluster = FakeCluster(*applications)
        self.metrics = Metrics(lambda: self.now_s)
        self.leftovers = ClusterLeftovers({"prod": self.cluster}, self.metrics, lambda: self.now_s)

    def end_before(self, below: int, uid: str = "u1", cluster: str = "prod") -> None:
        self.leftovers.end_before(cluster, "j", uid, below)

    def play(self, seconds: float) -> list[Any]:
        with capture_logs() as logged:
            until_at_s = self.now_s + seconds
            while (wait_s := self.leftovers.turn()) is not None and self.now_s < until_at_s:
                self.now_s = min(until_at_s, self.now_s + max(wait_s, 0.1))
        return [line["event"] for line in logged]

    def ok(self) -> float | None:
        return self.metrics.registry.get_sample_value("spark_supervisor_cluster_ok", {"cluster": "prod"})


def test_only_attempts_before_the_number_are_ended_and_only_of_this_job() -> None:
    rig = HostRig(app(1), app(2), app(3), app(4), app(1, "u2"))
    rig.end_before(3)
    assert rig.play(1.0) == ["application_ended"] * 2
    assert rig.cluster.asked == ["a1", "a2"]
    assert rig.ok() == 1


def test_it_looks_again_for_one_that_comes_late_and_then_no_more() -> None:
    rig = HostRig()
    rig.end_before(3)
    rig.play(1.0)
    rig.cluster.held.append(app(2))
    rig.play(SETTLED_AFTER_S + 20)
    assert rig.cluster.asked == ["a2"]
    assert rig.leftovers.turn() is None


def test_a_silent_cluster_is_said_once_and_asked_again_until_it_answers() -> None:
    rig = HostRig(app(2))
    rig.cluster.silent = "down"
    rig.end_before(3)
    assert rig.play(20.0) == ["cluster_silent"]
    assert rig.ok() == 0
    rig.cluster.silent = ""
    assert rig.play(30.0) == ["application_ended", "cluster_answers_again"]
    assert rig.ok() == 1


def test_a_request_is_forgotten_when_it_is_old() -> None:
    rig = HostRig(app(2))
    rig.cluster.silent = "down"
    rig.end_before(3)
    rig.play(2 * PATIENCE_S)
    rig.cluster.silent = ""
    assert rig.leftovers.turn() is None
    assert rig.cluster.asked == []


def test_requests_for_a_job_are_one_and_the_higher_number_counts() -> None:
    rig = HostRig(app(4))
    rig.end_before(5)
    rig.end_before(3)
    rig.play(1.0)
    assert rig.cluster.asked == ["a4"]


def test_a_cluster_that_needs_no_client_is_not_asked() -> None:
    rig = HostRig(app(1))
    rig.end_before(3, cluster="standalone")
    rig.end_before(3, cluster="")
    assert rig.leftovers.turn() is None


def test_a_defect_of_one_job_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = HostRig(app(1), app(1, "u2"))
    real = rig.cluster.applications

    def odd(uid: str, timeout_s: float) -> Any:
        if uid == "u1":
            raise ZeroDivisionError
        return real(uid, timeout_s)

    monkeypatch.setattr(rig.cluster, "applications", odd)
    rig.end_before(3)
    rig.end_before(3, "u2")
    rig.play(1.0)
    assert [one.uid for one in rig.cluster.held] == ["u1"]


def test_who_asks_is_never_held_up_by_a_cluster_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = HostRig(app(1))
    hangs, asked = threading.Event(), threading.Event()

    def hang(_uid: str, _timeout_s: float) -> Any:
        asked.set()
        hangs.wait(60)
        return []

    monkeypatch.setattr(rig.cluster, "applications", hang)
    rig.leftovers.start()
    rig.end_before(2)
    assert asked.wait(30)
    rig.end_before(3)
    rig.leftovers.stop()
    hangs.set()
    wait_until(lambda: not any(t.name == "clusters" for t in threading.enumerate()), what="the thread to end")


def test_what_has_ended_here_is_ended_there() -> None:
    rig = HostRig(app(1), app(2))
    given = replace(LAUNCH.assignment, uid="u1", attempt=1)
    rig.leftovers.end_of(replace(LAUNCH, assignment=given, executors_on="prod"))
    rig.play(1.0)
    assert rig.cluster.asked == ["a1"]
