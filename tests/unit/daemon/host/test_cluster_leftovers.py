"""A host has clusters end what is left of attempts that are over by the registry, beside all else, and nothing else."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clusters.application import Application, ApplicationStage, ClusterSilent
from supervisor.daemon.host.cluster_leftovers import PATIENCE_S, SETTLED_AFTER_S, ClusterLeftovers
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.model.records import Ownership, OwnState
from tests.fakes.cluster import FakeCluster
from tests.unit.plan import rows
from tests.unit.shim.world import LAUNCH
from tests.waiting import wait_until


def app(attempt: int, uid: str = "u1") -> Application:
    return Application(f"a{attempt}", uid, attempt, ApplicationStage.RUNNING)


def own(state: OwnState, attempt: int, uid: str = "u1") -> Ownership:
    return replace(rows.own(state).record, uid=uid, attempt=attempt)


class HostRig:
    """``own`` is what the registry says of the job, or why it says nothing."""

    def __init__(self, *applications: Application, is_own: Ownership | Exception | None = None) -> None:
        self.now_s = 1000.0
        self.own: Ownership | Exception | None = is_own or own(OwnState.CLAIMED, 3)
        self.cluster = FakeCluster(*applications)
        self.metrics = Metrics(lambda: self.now_s)
        self.leftovers = ClusterLeftovers(
            {"prod": self.cluster}, self.ownership, self.metrics, lambda: self.now_s
        )

    def ownership(self, job: str) -> Ownership | None:
        assert job == "j"
        if isinstance(self.own, Exception):
            raise self.own
        return self.own

    def request_end(self, why: str = "attempt 3 starts", uid: str = "u1", cluster: str = "prod") -> None:
        self.leftovers.request_end(cluster, "j", uid, why)

    def play(self, seconds: float) -> list[Any]:
        with capture_logs() as logged:
            until_at_s = self.now_s + seconds
            while (wait_s := self.leftovers.turn()) is not None and self.now_s < until_at_s:
                self.now_s = min(until_at_s, self.now_s + max(wait_s, 0.1))
        return [line["event"] for line in logged]

    def ok(self) -> float | None:
        return self.metrics.registry.get_sample_value("spark_supervisor_cluster_ok", {"cluster": "prod"})


def test_only_attempts_that_are_over_are_ended_and_only_of_this_job() -> None:
    rig = HostRig(app(1), app(2), app(3), app(4), app(1, "u2"))
    rig.request_end()
    assert rig.play(1.0) == ["cluster_application_ended"] * 2
    assert rig.cluster.asked == ["a1", "a2"]
    assert rig.ok() == 1


def test_it_looks_again_for_one_that_comes_late_and_then_no_more() -> None:
    rig = HostRig()
    rig.request_end()
    rig.play(1.0)
    rig.cluster.held.append(app(2))
    rig.play(SETTLED_AFTER_S + 20)
    assert rig.cluster.asked == ["a2"]
    assert rig.leftovers.turn() is None


def test_an_application_that_has_a_driver_is_not_what_is_left_and_nobody_asks_for_it_again() -> None:
    rig = HostRig(app(2), app(3))
    rig.request_end()
    rig.play(2 * SETTLED_AFTER_S)
    assert rig.leftovers.turn() is None
    assert [one.id for one in rig.cluster.held] == ["a3"]


def test_a_silent_cluster_is_said_once_and_asked_again_until_it_answers() -> None:
    rig = HostRig(app(2))
    rig.cluster.silent = "down"
    rig.request_end()
    assert rig.play(20.0) == ["cluster_silent"]
    assert rig.ok() == 0
    rig.cluster.silent = ""
    assert rig.play(30.0) == ["cluster_answers_again", "cluster_application_ended"]
    assert rig.ok() == 1


def test_a_request_is_forgotten_when_it_is_old() -> None:
    rig = HostRig(app(2))
    rig.cluster.silent = "down"
    rig.request_end()
    rig.play(2 * PATIENCE_S)
    rig.cluster.silent = ""
    assert rig.leftovers.turn() is None
    assert rig.cluster.asked == []


@pytest.mark.parametrize(
    ("is_own", "ended"),
    [
        (own(OwnState.ASSIGNED, 3), ["a1", "a2"]),
        (own(OwnState.CLAIMED, 3), ["a1", "a2"]),
        (own(OwnState.DRAINING, 3), ["a1", "a2"]),
        (own(OwnState.EXITED, 3), ["a1", "a2", "a3"]),
        (own(OwnState.EXITED, 9, "u2"), []),
    ],
)
def test_what_is_over_is_said_by_the_registry(is_own: Ownership, ended: list[str]) -> None:
    rig = HostRig(app(1), app(2), app(3), app(4), is_own=is_own)
    rig.request_end()
    rig.play(1.0)
    assert rig.cluster.asked == ended


def test_a_shim_that_never_claimed_goes_and_the_same_attempt_starts_again() -> None:
    """The directory of a first try goes, the second try claims and has its application: it is let be."""
    rig = HostRig(is_own=own(OwnState.ASSIGNED, 5))
    given = replace(LAUNCH.assignment, name="j", uid="u1", attempt=5)
    rig.leftovers.ended(replace(LAUNCH, assignment=given, on_cluster="prod"))
    rig.leftovers.starts("prod", given)
    rig.own = own(OwnState.CLAIMED, 5)
    rig.cluster.held.append(app(5))
    rig.play(2 * PATIENCE_S)
    assert rig.cluster.asked == []


def test_a_directory_that_goes_late_ends_nothing_of_a_history_in_which_numbers_recur() -> None:
    """Attempt 8 was of a state of the registry that was lost; 6 runs elsewhere by the present one."""
    rig = HostRig(app(6), is_own=own(OwnState.CLAIMED, 6))
    given = replace(LAUNCH.assignment, name="j", uid="u1", attempt=8)
    rig.leftovers.ended(replace(LAUNCH, assignment=given, on_cluster="prod"))
    rig.play(2 * PATIENCE_S)
    assert rig.cluster.asked == []


@pytest.mark.parametrize("said", [None, Unreachable("no session")])
def test_nothing_is_ended_by_a_registry_that_says_nothing_and_it_is_asked_again(
    said: Exception | None,
) -> None:
    rig = HostRig(app(1))
    rig.own = said
    rig.request_end()
    rig.play(5.0)
    assert rig.cluster.asked == []
    rig.own = own(OwnState.CLAIMED, 3)
    rig.play(20.0)
    assert rig.cluster.asked == ["a1"]


def test_a_start_that_is_tried_again_asks_once() -> None:
    rig = HostRig(app(2))
    rig.cluster.silent = "down"
    for _ in range(40):
        rig.request_end()
        rig.play(2.0)
    assert rig.leftovers.turn() is None, "its patience ran out"
    rig.cluster.silent = ""
    rig.request_end("attempt 4 starts")
    rig.play(1.0)
    assert rig.cluster.asked == ["a2"]


def test_a_cluster_that_is_silent_is_asked_once_in_a_turn_and_keeps_no_other_waiting() -> None:
    rig = HostRig(app(1), app(1, "u2"))
    asked: list[str] = []

    def silent(uid: str, _timeout_s: float) -> Any:
        asked.append(uid)
        raise ClusterSilent("down")

    rig.cluster.applications = silent  # type: ignore[method-assign]
    rig.request_end()
    rig.request_end(uid="u2")
    rig.leftovers.turn()
    assert asked == ["u1"]


def test_an_application_whose_end_is_refused_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = HostRig(app(1), app(2))
    real = rig.cluster.end

    def end(application: Application, timeout_s: float) -> None:
        if application.id == "a1":
            raise ClusterSilent("403")
        real(application, timeout_s)

    monkeypatch.setattr(rig.cluster, "end", end)
    rig.request_end()
    rig.play(1.0)
    assert rig.cluster.asked == ["a2"]


def test_a_cluster_that_needs_no_client_is_not_asked() -> None:
    rig = HostRig(app(1))
    rig.request_end(cluster="standalone")
    rig.request_end(cluster="")
    assert rig.leftovers.turn() is None


def test_a_defect_of_one_job_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = HostRig(app(1), app(1, "u2"), is_own=own(OwnState.EXITED, 1, "u2"))
    real = rig.cluster.applications

    def odd(uid: str, timeout_s: float) -> Any:
        if uid == "u1":
            raise ZeroDivisionError
        return real(uid, timeout_s)

    monkeypatch.setattr(rig.cluster, "applications", odd)
    rig.request_end()
    rig.request_end(uid="u2")
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
    rig.request_end("attempt 2 starts")
    assert asked.wait(30)
    rig.request_end()
    rig.leftovers.stop()
    hangs.set()
    wait_until(lambda: not any(t.name == "clusters" for t in threading.enumerate()), what="the thread to end")


def test_what_has_ended_here_is_ended_there() -> None:
    rig = HostRig(app(1), app(2), is_own=own(OwnState.EXITED, 1))
    given = replace(LAUNCH.assignment, name="j", uid="u1", attempt=1)
    rig.leftovers.ended(replace(LAUNCH, assignment=given, on_cluster="prod"))
    rig.play(1.0)
    assert rig.cluster.asked == ["a1"]
