"""A job whose executors are on a real Spark standalone cluster: two masters on ZooKeeper, workers, and what happens to them.

The witness of the drivers is judged after each test: no two at once, no hole, no batch with another content.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.executors import outlive_s
from tests.testbed import cluster_jobs
from tests.testbed.cluster_jobs import (
    LIGHT_EXECUTOR,
    assert_bound_in_lease,
    assert_doctor_finds_all_well,
    restart_prepared,
    save_and_kill,
    unsupervised,
)
from tests.testbed.fleet import SHIM
from tests.testbed.moto import MotoServer
from tests.testbed.namespaces import Namespace
from tests.testbed.other_python import base_python, other_venv, packed_venv
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.testbed.standalone import StandaloneCluster, standalone_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("judged"),
]

CONF = {"spark.cores.max": "1", **LIGHT_EXECUTOR}
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def cluster(
    embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneCluster]:
    place = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(place, zookeeper=embedded_ensemble.hosts, workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    cluster: StandaloneCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    clusters = {"prod": cluster.settings(**CONF)}
    directory = tmp_path_factory.mktemp("on-cluster")
    python = {"pythons": [str(base_python())], "environments_dir": str(directory / "environments")}
    with SparkFleet.on_moto(
        embedded_ensemble, moto_server, directory, clusters=clusters, settings=python
    ) as made:
        yield made


def cancel(fleet: SparkFleet, cluster: StandaloneCluster, job: str) -> None:
    """Cancels the job; nothing of it is left on the cluster."""
    cluster_jobs.cancel(fleet, job, PATIENCE_S)
    wait_until(lambda: not cluster.executors(), PATIENCE_S, "all executors to end", period_s=0.5)
    wait_until(lambda: not cluster.applications(), PATIENCE_S, "the master to know it", period_s=0.5)


def test_its_life_from_submit_to_cancel(fleet: SparkFleet, cluster: StandaloneCluster) -> None:
    job = "life"
    fleet.submit(job, cluster="prod")
    fleet.wait_batches(job)
    assert len(cluster.applications()) == 1
    assert len(cluster.executors()) == 1
    restart_prepared(fleet, job)
    assert cluster.registered() == 2
    save_and_kill(fleet, job)
    assert len(cluster.applications()) == 1
    cancel(fleet, cluster, job)


def test_a_lost_executor_or_worker_or_master_is_not_the_drivers_end(
    fleet: SparkFleet, cluster: StandaloneCluster
) -> None:
    job = "losses"
    fleet.submit(job, cluster="prod")
    fleet.wait_batches(job)
    (before,) = cluster.executors()
    cluster.kill_executors()
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    leading = cluster.leading_master()
    assert leading is not None
    assert before not in cluster.executors()
    cluster.kill(leading)
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    wait_until(
        lambda: cluster.leading_master() not in (None, leading), PATIENCE_S, "the other master", period_s=0.5
    )
    cluster.wait_workers(2)
    cluster.kill("w0")
    fleet.wait_batches(job, more=3, timeout_s=PATIENCE_S)
    cluster.start_worker("w0")
    cluster.start_master(leading)
    cluster.wait_workers(2)
    assert fleet.show(job)["attempt"] == 1
    cancel(fleet, cluster, job)


def test_a_driver_that_dies_with_its_shim_leaves_no_executor_and_the_lease_says_the_bound(
    fleet: SparkFleet, cluster: StandaloneCluster
) -> None:
    job = "alone"
    fleet.submit(job, cluster="prod")
    fleet.wait_batches(job)
    first = cluster.executors()
    fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    fleet.wait_batch_of(job, 2)
    assert not set(first) & set(cluster.executors())
    assert_bound_in_lease(fleet, job)
    cancel(fleet, cluster, job)


def test_a_host_without_the_cluster_refuses_and_says_so(fleet: SparkFleet) -> None:
    job = "elsewhere"
    fleet.submit(job, cluster="test")
    row = fleet.wait_state(job, "quarantined", timeout_s=PATIENCE_S)
    assert "cluster: test is no cluster of this host's supervisor.yaml (it has prod)" in str(row)
    fleet.cancel(job)


def test_executors_run_the_python_of_the_archive(
    fleet: SparkFleet, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    job, archive = "archived", packed_venv(tmp_path / "env.tar.gz")
    (library,) = other_venv().glob("lib/python3.*")
    fleet.submit(
        job,
        cluster="prod",
        application=APPLICATIONS / "executor_python.py",
        py_files=[str(APPLICATIONS / "counts.py")],
        python={"archive": str(archive)},
    )
    wait_until(lambda: len(fleet.lines(job, "python")) >= 2, PATIENCE_S, "two batches", period_s=0.5)
    (found,) = fleet.lines(job, "python")[-1]["found"]
    version, prefix = found.split(" ", 1)
    assert version == library.name.removeprefix("python")
    assert Path(prefix).name == "environment", "unpacked by the executor, not the driver's own"
    assert prefix != fleet.lines(job, "session")[-1]["prefix"]
    cancel(fleet, cluster, job)


def test_doctor_runs_a_tiny_application_there_and_leaves_nothing(
    fleet: SparkFleet, cluster: StandaloneCluster
) -> None:
    assert_doctor_finds_all_well(fleet)
    wait_until(lambda: not cluster.applications(), PATIENCE_S, "the master to know it", period_s=0.5)


@pytest.mark.netns
def test_tasks_of_a_driver_whose_host_is_cut_off_end_within_the_bound(tmp_path: Path) -> None:
    """The master is not told either: it starts executors anew, which reach no driver, so they are given no task."""
    with (
        Namespace() as lost,
        standalone_cluster(tmp_path / "cluster", address=lost.host_address, cores=1) as cluster,
    ):
        with unsupervised(tmp_path, cluster.master, CONF, lost=lost, timeout_s=PATIENCE_S) as beats:
            lost.cut()
            cut_at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            first = set(cluster.executors())
        assert first and first <= set(cluster.executors()), "nobody told the executor"
        wait_until(lambda: not first & set(cluster.executors()), 600.0, "the executor to end", period_s=0.5)
        ended_at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        wait_until(lambda: bool(cluster.executors()), PATIENCE_S, "another one to be started", period_s=0.1)
        wait_until(lambda: not cluster.executors(), PATIENCE_S, "that one to give up", period_s=0.1)
    last_at_s = float(beats.read_text().split()[-1])
    print(
        f"last write {last_at_s - cut_at_s:.1f} s, executor gone {ended_at_s - cut_at_s:.1f} s after the cut"
    )
    assert last_at_s - cut_at_s <= outlive_s({})
    assert ended_at_s - cut_at_s <= outlive_s({})
