"""The leader has clusters end applications whose driver is over, by a registry that was read after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from supervisor.clusters.application import Application, ApplicationStage
from supervisor.clusters.leftovers import KnownJobs
from supervisor.daemon.leader.application_sweeper import ApplicationSweeper
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.model.records import Acceptance, Pause
from tests.fakes.cluster import FakeCluster
from tests.fakes.registry_bench import AT
from tests.unit.daemon.leader.test_sweeper import Rig, swept

GONE = Application("gone", "u-gone", 3, ApplicationStage.RUNNING)
NOBODY = KnownJobs({}, frozenset())


def sweeper_of(**clusters: FakeCluster) -> ApplicationSweeper:
    return ApplicationSweeper(clusters, Metrics(lambda: 0.0))


def test_each_cluster_is_asked_and_a_silent_one_prevents_no_other() -> None:
    one, other, silent = FakeCluster(GONE), FakeCluster(GONE), FakeCluster()
    silent.silent = "down"
    with capture_logs() as logged:
        assert sweeper_of(a=silent, b=one, c=other).sweep(lambda: NOBODY, lambda: True) == 2
    assert (one.asked, other.asked) == (["gone"], ["gone"])
    assert [line["event"] for line in logged] == ["cluster_silent", *["cluster_application_ended"] * 2]


def test_the_registry_is_read_after_the_clusters_and_not_without_need() -> None:
    order: list[str] = []
    cluster = FakeCluster()

    def known() -> KnownJobs:
        order.append("registry")
        return NOBODY

    sweeper_of(a=cluster).sweep(known, lambda: True)
    assert order == []
    cluster.held = [GONE]
    real = cluster.living
    cluster.living = lambda timeout_s: (order.append("cluster"), real(timeout_s))[1]  # type: ignore[method-assign]
    sweeper_of(a=cluster).sweep(known, lambda: True)
    assert order == ["cluster", "registry"]


def test_each_request_asks_whether_it_may_and_nothing_is_ended_by_a_registry_that_says_nothing() -> None:
    cluster = FakeCluster(GONE, Application("gone too", "u-gone", 4, ApplicationStage.RUNNING))
    assert sweeper_of(a=cluster).sweep(lambda: None, lambda: True) == 0
    answers = iter([True, True, False])
    assert sweeper_of(a=cluster).sweep(lambda: NOBODY, lambda: next(answers)) == 1
    assert cluster.asked == ["gone"]
    with pytest.raises(Unreachable):
        sweeper_of(a=cluster).sweep(lambda: (_ for _ in ()).throw(Unreachable("down")), lambda: True)


@pytest.fixture
def swept_rig(tmp_path: Path) -> Rig:
    return swept(tmp_path)


def with_cluster(rig: Rig, cluster: FakeCluster) -> Sweeper:
    rig.sweeper._applications = sweeper_of(a=cluster)
    return rig.sweeper


def test_a_sweep_ends_what_the_registry_does_not_know_and_leaves_what_it_does(
    swept_rig: Rig,
) -> None:
    rig = swept_rig
    uid = rig.bench.submit("a").uid
    living = Application("living", uid, 1, ApplicationStage.WAITING)
    cluster = FakeCluster(living, GONE)
    with_cluster(rig, cluster).sweep_once()
    assert cluster.held == [living], "never given out, as far as is known: left alone"


@pytest.mark.parametrize(
    "hinder",
    [
        lambda rig: rig.term.end("over"),
        lambda rig: rig.bench.put(rig.bench.layout.pause, Pause(by="me", at=AT, reason="", op="op")),
        lambda rig: rig.term.set_distrust("restored meanwhile"),
        lambda rig: rig.bench.put(
            rig.bench.layout.accepted, Acceptance(id="a", epoch=1, by="me", at=AT, wait_s=30.0)
        ),
    ],
    ids=["term-over", "paused", "distrusted", "accepted-not-waited"],
)
def test_nothing_is_ended_after_the_term_nor_while_paused_distrusted_or_waiting(
    swept_rig: Rig, hinder: Callable[[Rig], None]
) -> None:
    rig, cluster = swept_rig, FakeCluster(GONE)
    hinder(rig)
    with_cluster(rig, cluster).sweep_once()
    assert cluster.held == [GONE]


def test_nothing_is_ended_after_a_pause_that_came_while_the_cluster_answered(
    swept_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(GONE)
    answer = cluster.living

    def living(timeout_s: float) -> Sequence[Application]:
        swept_rig.bench.put(swept_rig.bench.layout.pause, Pause(by="me", at=AT, reason="", op="op"))
        return answer(timeout_s)

    monkeypatch.setattr(cluster, "living", living)
    with_cluster(swept_rig, cluster).sweep_once()
    assert cluster.held == [GONE]
