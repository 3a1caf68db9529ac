"""What the suites of all kinds of clusters do with a job, and a driver that nobody supervises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from supervisor.clusters.application import ClusterClient
from supervisor.clusters.leftovers import known_jobs, of_nobody
from supervisor.model.executors import outlive_s, properties_for
from supervisor.spark.toolchain import installed_spark_home
from tests.testbed.fleet import DRIVER
from tests.testbed.namespaces import Namespace
from tests.testbed.spark_fleet import LIGHT_JVM, SparkFleet
from tests.waiting import wait_until

LIGHT_EXECUTOR = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": LIGHT_JVM}


def restart_prepared(fleet: SparkFleet, job: str) -> None:
    """Restarts attempt 1 by a prepared driver, which holds no executor while it waits."""
    fleet.ok("restart", job, "--wait")
    fleet.wait_batch_of(job, 2)
    assert "prepared" in fleet.ok("history", job).out


def save_and_kill(fleet: SparkFleet, job: str) -> None:
    """Makes a savepoint of attempt 2 and kills its driver; attempt 3 goes on."""
    fleet.ok("savepoint", "create", job)
    fleet.signal(fleet.process(job, DRIVER), signal.SIGKILL)
    fleet.wait_batch_of(job, 3)


def assert_bound_in_lease(fleet: SparkFleet, job: str) -> None:
    explained = fleet.ok("explain", job, "-o", "json").document
    assert explained["lease"]["executors_outlive_s"] == outlive_s({})


DOCTOR_S = 400.0
CLUSTER_CHECKS = ("cluster-reachable", "cluster-driver-host", "cluster-executor")
SAID_BY_SOME = ("cluster-version", "cluster-room")
"""Checks of what not each kind of cluster says."""


def assert_doctor_finds_all_well(fleet: SparkFleet) -> None:
    """``doctor --deep`` has nothing against the cluster, and a tiny application has got an executor."""
    words = ("doctor", "--deep", "--timeout", f"{DOCTOR_S:.0f}s", "-o", "json")
    checks = fleet.run_on(fleet.members[0], *words, timeout_s=DOCTOR_S + 60).document["checks"]
    found = {each["check"]: each for each in checks if each["check"].startswith("cluster-")}
    assert set(found) == {*CLUSTER_CHECKS, *SAID_BY_SOME}
    for check in CLUSTER_CHECKS:
        assert found[check]["verdict"] == "ok", found[check]
    for check in SAID_BY_SOME:
        assert found[check]["verdict"] in ("ok", "skipped"), found[check]


def cancel(fleet: SparkFleet, job: str, timeout_s: float) -> None:
    fleet.cancel(job)
    fleet.wait_state(job, "cancelled", timeout_s=timeout_s)


def end_as_of_nobody(client: ClusterClient, uid: str, attempt: int, wait_gone: Callable[[], None]) -> None:
    """The one application on the cluster is of this attempt, whose uid no registry knows: it is found by what Spark wrote there,
    and ended; again does no harm."""
    (found,) = client.living(30.0)
    assert (found.uid, found.attempt) == (uid, attempt)
    assert list(client.applications(uid, 30.0)) == [found]
    assert of_nobody([found], known_jobs({}, {})) == (found,)
    client.end(found, 30.0)
    wait_gone()
    client.end(found, 30.0)
    assert not client.living(30.0)


ZOMBIE = """
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("application", spark.sparkContext.applicationId, flush=True)


def beat(rows):
    with open({beats!r}, "a", buffering=1) as file:
        for _ in range(3000):
            file.write(f"{{time.clock_gettime(time.CLOCK_BOOTTIME)}}\\n")
            time.sleep(0.1)
    return []


spark.sparkContext.parallelize([1], 1).mapPartitions(beat).collect()
"""


@contextmanager
def unsupervised(
    directory: Path,
    master: str,
    conf: Mapping[str, str],
    *,
    lost: Namespace | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float,
) -> Iterator[Path]:
    """A driver that nobody supervises, with a task that goes on for minutes; it is killed at the end. Yields the file into which
    the task writes ten times a second. ``lost``: where the driver is, if not on this machine."""
    home, beats = installed_spark_home(), directory / "beats"
    application = directory / "zombie.py"
    application.write_text(ZOMBIE.format(beats=str(beats)))
    address = "127.0.0.1" if lost is None else lost.address
    whole = {
        **conf,
        **properties_for({}),
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
    }
    words = [word for key, value in whole.items() for word in ("--conf", f"{key}={value}")]
    argv = [f"{home}/bin/spark-submit", "--master", master, *words, str(application)]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, **(env or {})}
    with (directory / "driver.log").open("wb") as output:
        driver = subprocess.Popen(
            argv if lost is None else lost.wrap(argv),
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: beats.exists() and beats.stat().st_size > 500, timeout_s, "a task", period_s=0.5)
        yield beats
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(30)
