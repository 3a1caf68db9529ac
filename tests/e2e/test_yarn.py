"""A job whose executors are on a real YARN: a ResourceManager and a NodeManager, and what happens to them.

The witness of the drivers is judged after each test: no two at once, no hole, no batch with another content.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.application_tag import tags_of
from supervisor.model.executors import outlive_s, properties_for
from supervisor.spark.toolchain import installed_spark_home
from tests.e2e.test_standalone import ZOMBIE
from tests.testbed.fleet import DRIVER, SHIM
from tests.testbed.moto import MotoServer
from tests.testbed.namespaces import Namespace
from tests.testbed.spark_fleet import LIGHT_JVM, SparkFleet
from tests.testbed.yarn import RESOURCE_MANAGER, YarnCluster, yarn_cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

CONF = {
    "spark.yarn.jars": f"local:{installed_spark_home()}/jars/*",
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": LIGHT_JVM,
    "spark.yarn.am.memory": "384m",
    "spark.yarn.am.extraJavaOptions": LIGHT_JVM,
    "spark.yarn.tags": "ours",
}
PATIENCE_S = 240.0


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
    yarn = {"master": "yarn", "conf_dir": str(cluster.conf_dir), "queue": "default"}
    clusters = {"prod": {**yarn, "conf": CONF, "driver_host": "127.0.0.1"}}
    directory = tmp_path_factory.mktemp("on-yarn")
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory, clusters=clusters) as made:
        yield made


@pytest.fixture(autouse=True)
def judged(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "fleet" in request.fixturenames:
        request.getfixturevalue("fleet").judge()


def tags(cluster: YarnCluster) -> list[set[str]]:
    return [set(app["applicationTags"].split(",")) for app in cluster.applications()]


def cancel(fleet: SparkFleet, cluster: YarnCluster, job: str) -> None:
    """Cancels the job; nothing of it is left on the cluster."""
    fleet.cancel(job)
    fleet.wait_state(job, "cancelled", timeout_s=PATIENCE_S)
    wait_nothing_left(cluster)


def wait_nothing_left(cluster: YarnCluster) -> None:
    wait_until(lambda: not cluster.applications(), PATIENCE_S, "all applications to end", period_s=0.5)
    wait_until(lambda: not cluster.containers(), PATIENCE_S, "all containers to end", period_s=0.5)


def test_its_life_from_submit_to_cancel(fleet: SparkFleet, cluster: YarnCluster) -> None:
    job = "life"
    fleet.submit(job, cluster="prod")
    fleet.wait_batches(job)
    uid = fleet.show(job)["uid"]
    (found,) = tags(cluster)
    assert "ours" in found
    assert any(tag == f"spark-supervisor-attempt-{uid}-1" for tag in found)
    assert len(cluster.executors()) == 1
    fleet.ok("restart", job, "--wait")  # by a prepared driver, which holds no executor while it waits
    fleet.wait_batch_of(job, 2)
    assert "prepared" in fleet.ok("history", job).out
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the first application to end", period_s=0.5)
    (found,) = tags(cluster)
    registry = next(tag for tag in found if "-registry-" in tag).removeprefix("spark-supervisor-registry-")
    assert found == {"ours", *tags_of(registry, uid, 2)}, "told at the barrier"
    assert len(cluster.applications(living=False)) == 2
    fleet.ok("savepoint", "create", job)
    fleet.signal(fleet.process(job, DRIVER), signal.SIGKILL)
    fleet.wait_batch_of(job, 3)
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the second application to end", period_s=0.5)
    cancel(fleet, cluster, job)


def test_a_lost_executor_is_not_the_drivers_end_and_a_resource_manager_that_restarts_is_not_either(
    fleet: SparkFleet, cluster: YarnCluster
) -> None:
    job = "losses"
    fleet.submit(job, cluster="prod")
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
    fleet.submit(job, cluster="prod")
    fleet.wait_batches(job)
    first = cluster.executors()
    fleet.signal(fleet.process(job, SHIM), signal.SIGKILL)
    fleet.wait_batch_of(job, 2)
    assert not set(first) & set(cluster.executors())
    wait_until(lambda: len(tags(cluster)) == 1, PATIENCE_S, "the first application to end", period_s=0.5)
    explained = fleet.ok("explain", job, "-o", "json").document
    assert explained["lease"]["executors_outlive_s"] == outlive_s({})
    cancel(fleet, cluster, job)
