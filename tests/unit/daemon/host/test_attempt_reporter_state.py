"""The state that a host shows of a job whose driver it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.host.attempt_reporter import AttemptReporter
from supervisor.daemon.host.launcher import HostedAttempts
from supervisor.metrics import Metrics
from supervisor.model.launch import Launch
from supervisor.model.records import ClusterWait, OwnState, Progress, QueryProgress, QueryState, StartTimes
from tests.fakes.registry_bench import Bench
from tests.golden.sample_records import USAGE
from tests.unit.shim.world import LAUNCH


class Home(HostedAttempts):
    """The first attempt of one job is hosted."""

    def __init__(self, directory: Path, uid: str) -> None:
        super().__init__(directory, directory)
        self._entry = replace(LAUNCH.assignment, name="job", uid=uid, attempt=1)

    def launches(self) -> dict[str, Launch]:
        return {f"{self._entry.uid}.1": replace(LAUNCH, assignment=self._entry)}


def states(metrics: Metrics) -> set[str]:
    lines = metrics.exposition().decode().splitlines()
    shown = [
        line for line in lines if line.startswith("spark_supervisor_job_state{") and line.endswith(" 1.0")
    ]
    return {line.split('state="')[1].split('"')[0] for line in shown}


@pytest.mark.parametrize(("own", "state"), [(OwnState.DRAINING, {"stopping"}), (OwnState.EXITED, set())])
def test_a_job_that_was_cancelled_stops_and_then_is_gone(
    tmp_path: Path, own: OwnState, state: set[str]
) -> None:
    """Its reference went with the cancel: that is no record that is missing, and nobody is to be woken."""
    bench = Bench()
    uid = bench.submit("job").uid
    bench.run("job")
    metrics = Metrics(boottime_s)
    reporter = AttemptReporter(
        "host-a",
        Home(tmp_path, uid),
        bench.layout,
        lambda: cast(ZooClient, bench.zoo.client()),
        metrics,
        lambda _launch: None,
    )
    reporter.round(lambda: None)
    assert states(metrics) & {"running", "starting"}
    bench.commands().cancel("job")
    bench.set_own("job", own)
    reporter.round(lambda: None)
    assert states(metrics) == state


def test_a_wait_for_executors_is_over_with_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run directory and its lease stay for a while: there is nobody to be asked for, and no alert."""
    bench = Bench()
    uid = bench.submit("job").uid
    bench.run("job", cluster_wait=ClusterWait(cluster="prod", since="2026-01-01T00:00:00.000Z"))
    metrics = Metrics(boottime_s)
    home = Home(tmp_path, uid)
    launch = replace(home.launches()[f"{uid}.1"], executors_outlive_s=90.0, on_cluster="prod")
    monkeypatch.setattr(home, "launches", lambda: {f"{uid}.1": launch})
    reporter = AttemptReporter(
        "host-a",
        home,
        bench.layout,
        lambda: cast(ZooClient, bench.zoo.client()),
        metrics,
        lambda _launch: None,
    )
    asked: list[int] = []
    monkeypatch.setattr(reporter._news, "ask", lambda waits: asked.append(len(waits)))

    def waited_s() -> float | None:
        reporter.round(lambda: None)
        return metrics.registry.get_sample_value("spark_supervisor_job_cluster_wait_seconds", {"job": "job"})

    assert (waited_s() or 0.0) > 0 and asked == [1]
    bench.set_own("job", OwnState.EXITED)
    assert (waited_s(), asked) == (0.0, [1, 0])


def test_queries_whose_checkpoint_is_elsewhere_and_those_that_failed_are_counted(tmp_path: Path) -> None:
    bench = Bench()
    uid = bench.submit("job").uid
    bench.run(
        "job",
        queries=(
            QueryProgress(query="a", id="1"),
            QueryProgress(query="b", id="2", elsewhere="file:/tmp/temporary-1"),
        ),
        failed_queries=3,
    )
    metrics = Metrics(boottime_s)
    reporter = AttemptReporter(
        "host-a",
        Home(tmp_path, uid),
        bench.layout,
        lambda: cast(ZooClient, bench.zoo.client()),
        metrics,
        lambda _launch: None,
    )
    reporter.round(lambda: None)
    assert metrics.registry.get_sample_value("spark_supervisor_job_queries_elsewhere", {"job": "job"}) == 1
    assert metrics.registry.get_sample_value("spark_supervisor_job_queries_failed", {"job": "job"}) == 3


def test_the_numbers_of_each_query_that_lives_are_shown_under_its_name(tmp_path: Path) -> None:
    bench = Bench()
    uid = bench.submit("job").uid
    metrics = Metrics(boottime_s)
    reporter = AttemptReporter(
        "host-a",
        Home(tmp_path, uid),
        bench.layout,
        lambda: cast(ZooClient, bench.zoo.client()),
        metrics,
        lambda _launch: None,
    )

    def shown(name: str, query: str) -> float | None:
        return metrics.registry.get_sample_value(f"spark_supervisor_{name}", {"job": "job", "query": query})

    clicks = QueryProgress(
        query="clicks", id="1", batch_id=4, batch_ms=250.0, lag=70, trigger_interval_s=10.0, at="t"
    )
    bench.run(
        "job",
        queries=(clicks, QueryProgress(query=None, id="2", batch_id=9, at="t")),
        progress=Progress(query="clicks", batch_id=4),
    )
    reporter.round(lambda: None)
    assert (shown("job_batch_id", "clicks"), shown("job_batch_id", "2")) == (4, 9)
    assert (shown("job_batch_seconds", "clicks"), shown("job_lag_records", "clicks")) == (0.25, 70)
    assert (shown("job_trigger_interval_seconds", "clicks"), shown("job_trigger_interval_seconds", "2")) == (
        10,
        None,
    )
    bench.run("job", queries=(clicks,), usage=USAGE)
    reporter.round(lambda: None)
    assert (
        metrics.registry.get_sample_value("spark_supervisor_job_memory_bytes", {"job": "job"}) == 1400 << 20
    )
    bench.run(
        "job",
        queries=(
            replace(clicks, state=QueryState.FAILED),
            QueryProgress(query=None, id="2", batch_id=10, at="t"),
        ),
    )
    reporter.round(lambda: None)
    assert (shown("job_lag_records", "clicks"), shown("job_batch_id", "2")) == (None, 10), (
        "of one that has ended nothing is true"
    )
    bench.run("job", progress=Progress(query=None, batch_id=11))
    reporter.round(lambda: None)
    assert (shown("job_batch_id", "2"), shown("job_batch_id", "")) == (None, 11), (
        "a JVM application's has no name"
    )


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"class_archive": "spark-ab12.jsa"}, {"start": "cold", "class_archive": "true"}),
        ({"class_archive": "off: not yet made"}, {"start": "cold", "class_archive": "false"}),
        ({"prepared": "u.p1"}, {"start": "prepared", "class_archive": "false"}),
    ],
)
def test_a_start_is_counted_once_by_how_its_driver_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], labels: dict[str, str]
) -> None:
    bench = Bench()
    uid = bench.submit("job").uid
    bench.run("job", start=StartTimes(spawn_s=1.0, session_s=3.0, first_batch_s=2.5))
    metrics, home = Metrics(boottime_s), Home(tmp_path, uid)
    launch = replace(home.launches()[f"{uid}.1"], begun_s=boottime_s() + 1.0, **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(home, "launches", lambda: {f"{uid}.1": launch})
    reporter = AttemptReporter(
        "host-a",
        home,
        bench.layout,
        lambda: cast(ZooClient, bench.zoo.client()),
        metrics,
        lambda _launch: None,
    )
    for _ in range(2):
        reporter.round(lambda: None)
    value = metrics.registry.get_sample_value
    assert value("spark_supervisor_job_first_batch_seconds_count", labels) == 1
    assert value("spark_supervisor_job_first_batch_seconds_sum", labels) == 6.5
