"""A job whose executors are on a real YARN: a ResourceManager and a NodeManager, and what happens to them.

The witness of the drivers is judged after each test: no two at once, no hole, no batch with another content.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from supervisor.clusters.application import ApplicationStage
from supervisor.clusters.waits import WAITS_THERE
from supervisor.clusters.yarn import YarnClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.application_tag import tags_of
from supervisor.model.executors import outlive_s
from tests.testbed import cluster_jobs
from tests.testbed.cluster_jobs import (
    LIGHT_EXECUTOR,
    assert_bound_in_lease,
    assert_doctor_finds_all_well,
    assert_went_on,
    end_as_of_nobody,
    outlast,
    restart_prepared,
    save_and_kill,
    unsupervised,
    wait_waiting,
)
from tests.testbed.fleet import SHIM
from tests.testbed.moto import MotoServer
from tests.testbed.namespaces import Namespace
from tests.testbed.spark_fleet import SparkFleet
from tests.testbed.yarn import RESOURCE_MANAGER, YarnCluster, application_properties, yarn_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("judged"),
]

CONF = {**LIGHT_EXECUTOR, "spark.yarn.tags": "ours"}
PATIENCE_S = 600.0
WATCHED_S = 300.0
SOON_S = 240.0
PATIENT = {"start_timeout": "1200s"}
START_TIMEOUT_S = 90.0
"""Of a job that waits for longer."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    with yarn_cluster(tmp_path_factory.mktemp("yarn")) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    cluster: YarnCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    clusters = {"prod": cluster.settings(**CONF)}
    directory = tmp_path_factory.mktemp("on-yarn")
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory, clusters=clusters) as made:
        yield made


def tags(cluster: YarnCluster) -> list[set[str]]:
    return [set(app["applicationTags"].split(",")) for app in cluster.applications()]


def cancel(fleet: SparkFleet, cluster: YarnCluster, job: str) -> None:
    """Cancels the job; nothing of it is left on the cluster."""
    cluster_jobs.cancel(fleet, job, PATIENCE_S)
    wait_nothing_left(cluster)


def wait_nothing_left(cluster: YarnCluster) -> None:
    wait_until(lambda: not cluster.applications(), PATIENCE_S, "all applications to end", period_s=0.5)
    wait_until(lambda: not cluster.containers(), PATIENCE_S, "all containers to end", period_s=0.5)


def test_its_life_from_submit_to_cancel(fleet: SparkFleet, cluster: YarnCluster) -> None:
    job = "life"
    fleet.submit(job, cluster="prod", health=PATIENT)
    fleet.wait_batches(job)
    uid = fleet.show(job)["uid"]
    (found,) = tags(cluster)
    assert "ours" in found
    assert any(tag == f"spark-supervisor-attempt-{uid}-1" for tag in found)
    assert len(cluster.executors()) == 1
    restart_prepared(fleet, job)
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the first application to end", period_s=0.5)
    (found,) = tags(cluster)
    registry = next(tag for tag in found if "-registry-" in tag).removeprefix("spark-supervisor-registry-")
    assert found == {"ours", *tags_of(registry, uid, 2)}, "told at the barrier"
    assert len(cluster.applications(living=False)) == 2
    save_and_kill(fleet, job)
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the second application to end", period_s=0.5)
    cancel(fleet, cluster, job)


def test_a_lost_executor_is_not_the_drivers_end_and_a_resource_manager_that_restarts_is_not_either(
    fleet: SparkFleet, cluster: YarnCluster
) -> None:
    job = "losses"
    fleet.submit(job, cluster="prod", health=PATIENT)
    fleet.wait_batches(job)
    (before,) = cluster.executors()
    cluster.kill_executors()
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    assert before not in cluster.executors()
    cluster.kill(RESOURCE_MANAGER)
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    cluster.start(RESOURCE_MANAGER)
    wait_until(lambda: cluster.nodes() == 1, PATIENCE_S, "the node to come back", period_s=0.5)
    fleet.wait_batches(job, more=5, timeout_s=PATIENCE_S)
    assert fleet.show(job)["attempt"] == 1
    cancel(fleet, cluster, job)


def test_a_driver_that_dies_with_its_shim_leaves_no_application(
    fleet: SparkFleet, cluster: YarnCluster
) -> None:
    job = "alone"
    fleet.submit(job, cluster="prod", health=PATIENT)
    fleet.wait_batches(job)
    first = cluster.executors()
    fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    fleet.wait_batch_of(job, 2)
    assert not set(first) & set(cluster.executors())
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the first application to end", period_s=0.5)
    assert_bound_in_lease(fleet, job)
    cancel(fleet, cluster, job)


def submitted(
    cluster: YarnCluster, tags: Sequence[str], directory: Path, lost: Namespace | None = None
) -> AbstractContextManager[Path]:
    """A driver with these tags, that nobody supervises."""
    conf = {
        **application_properties(),
        **CONF,
        "spark.yarn.tags": ",".join(tags),
        "spark.yarn.maxAppAttempts": "1",
    }
    env = {"HADOOP_CONF_DIR": str(cluster.conf_dir)}
    return unsupervised(directory, "yarn", conf, lost=lost, env=env, timeout_s=PATIENCE_S)


def test_an_application_of_a_uid_that_nobody_knows_is_found_by_its_tags_and_ended(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    """As of a job that was cancelled while its host was lost, in a registry that has forgotten it."""
    uid = "0000000000ab-0000cdef"
    with submitted(cluster, tags_of("r1", uid, 3), tmp_path):
        client = YarnClient("prod", cluster.conf_dir, "r1")
        (found,) = client.living(30.0)
        assert found.stage is ApplicationStage.RUNNING
        assert not YarnClient("prod", cluster.conf_dir, "r2").living(30.0), "another registry's"
        end_as_of_nobody(client, uid, 3, lambda: wait_nothing_left(cluster))


def test_doctor_runs_a_tiny_application_there_and_leaves_nothing(
    fleet: SparkFleet, cluster: YarnCluster
) -> None:
    assert_doctor_finds_all_well(fleet)
    wait_nothing_left(cluster)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        pytest.param({"memory_mb": 2048}, "waiting for resources to be assigned for AM", id="memory"),
        pytest.param({"running_max": 1}, WAITS_THERE, id="parallel-apps"),
    ],
)
def test_a_full_queue_is_waited_for(
    bounds: dict[str, int],
    words: str,
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The driver has no SparkContext before its application is taken on; it waits for longer than its ``start_timeout``. What
    YARN says is told; of applications above the number that may run at once it says nothing (Hadoop 3.5)."""
    first, second = "first", "second"
    directory = tmp_path_factory.mktemp("full-queue")
    with (
        yarn_cluster(directory / "cluster", **bounds) as cluster,
        SparkFleet.on_moto(
            embedded_ensemble,
            moto_server,
            directory / "fleet",
            clusters={"prod": cluster.settings(**CONF)},
            size=1,
        ) as fleet,
    ):
        fleet.submit(first, cluster="prod", health=PATIENT)
        fleet.wait_batches(first)
        fleet.submit(second, cluster="prod", health={"start_timeout": f"{START_TIMEOUT_S:g}s"})
        wait_waiting(fleet, second, "prod", words, SOON_S)
        assert [app["state"] for app in cluster.applications()] == ["RUNNING", "ACCEPTED"]
        outlast(fleet, second, START_TIMEOUT_S)
        cluster_jobs.cancel(fleet, first, PATIENCE_S)
        assert_went_on(fleet, second)
        cancel(fleet, cluster, second)


@pytest.mark.netns
def test_tasks_of_a_driver_whose_host_is_cut_off_end_within_the_bound_and_its_application_later(
    tmp_path: Path,
) -> None:
    tagged = tags_of("r1", "0000000000ab-0000cdef", 1)
    with (
        Namespace() as lost,
        yarn_cluster(tmp_path / "cluster", address=lost.host_address) as cluster,
    ):
        with submitted(cluster, tagged, tmp_path, lost) as beats:
            first = set(cluster.executors())
            lost.cut()
            cut_at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert first and first <= set(cluster.executors()), "nobody told the executor"
        later, gone_at_s, ended_at_s = set[int](), 0.0, 0.0
        while (now_s := time.clock_gettime(time.CLOCK_BOOTTIME)) < cut_at_s + WATCHED_S and not ended_at_s:
            living = set(cluster.executors())
            later |= living - first
            gone_at_s = gone_at_s or (0.0 if living & first else now_s)
            ended_at_s = 0.0 if cluster.applications() else now_s
            time.sleep(0.5)
        last_at_s = float(beats.read_text().split()[-1])
        told = [app["diagnostics"] for app in cluster.applications(living=False)]
        print(
            f"last write {last_at_s - cut_at_s:.1f} s, executor gone {gone_at_s - cut_at_s:.1f} s after the cut; "
            f"{len(later)} executors started later; application ended {ended_at_s - cut_at_s:.1f} s after it {told}"
        )
        client = YarnClient("prod", cluster.conf_dir, "r1")
        for found in client.living(30.0):
            client.end(found, 30.0)
        wait_nothing_left(cluster)
    assert last_at_s - cut_at_s <= outlive_s({})
    assert 0.0 < gone_at_s - cut_at_s <= outlive_s({})
    assert not ended_at_s or ended_at_s >= gone_at_s
