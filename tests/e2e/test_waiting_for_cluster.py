"""A job whose cluster has no worker: it waits, is told as waiting, and goes on when there is one; nothing restarts it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.cluster_jobs import LIGHT_EXECUTOR, cancel
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import SparkFleet
from tests.testbed.standalone import StandaloneCluster, standalone_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(5400),
    pytest.mark.usefixtures("judged"),
]

CONF = {"spark.cores.max": "1", **LIGHT_EXECUTOR}
PATIENCE_S = 900.0
START_TIMEOUT_S = 120.0
STALL_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), workers=0, cores=1) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    cluster: StandaloneCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    clusters = {"prod": cluster.settings(**CONF)}
    directory = tmp_path_factory.mktemp("waits")
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory, clusters=clusters, size=1) as made:
        yield made


def wait_reported(fleet: SparkFleet, job: str, says: str) -> None:
    def reported() -> bool:
        wait = fleet.show(job)["cluster_wait"]
        return wait is not None and (wait["cluster"], wait["says"]) == ("prod", says)

    wait_until(reported, PATIENCE_S, f"the wait of {job} to be told: {says}", period_s=0.5)


def outlast(fleet: SparkFleet, job: str, timeout_s: float) -> None:
    """Returns when the wait has lasted longer than a time-out of the job, in the same attempt."""
    until_at_s = time.monotonic() + timeout_s + 20.0
    while time.monotonic() < until_at_s:
        document = fleet.show(job)
        assert document["attempt"] == 1
        assert document["cluster_wait"] is not None
        time.sleep(2.0)


def test_cluster_timeout_ends_it(fleet: SparkFleet) -> None:
    job = "limited"
    fleet.submit(
        job, cluster="prod", health={"cluster_timeout": "15s"}, restart={"initial": "5m", "max": "5m"}
    )
    document = fleet.wait_state(job, "backoff", timeout_s=PATIENCE_S)
    assert document["attempt"] == 1
    ended = fleet.show(job)["last_exit"]
    assert ended["cause"] == "cluster_timed_out"
    assert "cluster prod gave it no executor for 15 s" in ended["why"]
    cancel(fleet, job, PATIENCE_S)


def test_it_waits_without_a_restart_and_goes_on_by_itself(
    fleet: SparkFleet, cluster: StandaloneCluster
) -> None:
    job = "waits"
    health = {"start_timeout": f"{START_TIMEOUT_S:g}s", "stall_timeout": f"{STALL_TIMEOUT_S:g}s"}
    fleet.submit(job, cluster="prod", health=health)
    wait_reported(fleet, job, "no worker is alive")
    assert fleet.show(job)["state"] == "starting"
    explained = fleet.ok("explain", job).out
    assert "waiting for executors of cluster prod since" in explained
    assert "it waits for executors of cluster prod (no worker is alive), and goes on by itself" in explained
    assert "docs runbooks/cluster" in explained
    assert "waiting for executors of cluster prod" in fleet.ok("list").out
    outlast(fleet, job, START_TIMEOUT_S)
    cluster.start_worker("w0")
    fleet.wait_batches(job, timeout_s=PATIENCE_S)
    document = fleet.show(job)
    assert (document["state"], document["attempt"], document["cluster_wait"]) == ("running", 1, None)
    assert document["start"]["cluster_s"] > START_TIMEOUT_S

    cluster.kill("w0")
    wait_until(
        lambda: fleet.show(job)["cluster_wait"] is not None, PATIENCE_S, "the loss to be told", period_s=0.5
    )
    assert fleet.show(job)["state"] == "running"
    outlast(fleet, job, STALL_TIMEOUT_S)
    cluster.start_worker("w1")
    fleet.wait_batches(job, timeout_s=PATIENCE_S)
    assert fleet.show(job)["attempt"] == 1

    second = "second"
    fleet.submit(second, cluster="prod")
    wait_reported(fleet, second, "0 of 1 core free")
    fleet.cancel(job)
    fleet.wait_batches(second, timeout_s=PATIENCE_S)
    assert fleet.show(second)["attempt"] == 1
    fleet.cancel(second)
    fleet.wait_state(second, "cancelled", timeout_s=PATIENCE_S)
    cluster.kill("w1")
