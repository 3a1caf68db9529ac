"""What the suites of all kinds of clusters do with a job, and a driver that nobody supervises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


def wait_waiting(fleet: SparkFleet, job: str, cluster: str, words: str, timeout_s: float) -> None:
    """Returns when the job waits for ``cluster``, and its first attempt is told as waiting, not as failed, with what the cluster
    says: ``words`` are among that."""
    told = ""

    def reported() -> bool:
        nonlocal told
        wait = fleet.show(job)["cluster_wait"]
        told = (wait["says"] or "") if wait is not None and wait["cluster"] == cluster else ""
        return words.lower() in told.lower()

    try:
        wait_until(reported, timeout_s, f"the wait of {job} to be told with {words!r}", period_s=0.5)
    except AssertionError as error:
        raise AssertionError(
            f"{error}, last told {told!r}\n{fleet.cli('explain', job).out}{fleet.log_tail(job)}"
        ) from None
    print(f"{job} waits for cluster {cluster}: {told}")
    assert_waits(fleet, job)
    explained = fleet.ok("explain", job).out
    assert f"it waits for executors of cluster {cluster} (" in explained, explained
    assert "and goes on by itself as soon as it has one" in explained, explained
    for said in (explained, fleet.ok("show", job).out):
        assert words.lower() in said.lower(), said
    (row,) = (row for row in fleet.rows() if row["name"] == job)
    assert f"waiting for executors of cluster {cluster}" in row["reason"], row


def assert_waits(fleet: SparkFleet, job: str) -> None:
    """It starts in its first attempt, nothing has failed, and its cluster is what it waits for."""
    document = fleet.show(job)
    found = {key: document[key] for key in ("state", "attempt", "failures", "restarts")}
    assert found == {"state": "starting", "attempt": 1, "failures": 0, "restarts": 0}
    assert document["cluster_wait"] is not None
    assert not fleet.batches(job)


def outlast(fleet: SparkFleet, job: str, timeout_s: float) -> None:
    """Returns when the wait for the first executor has lasted longer than a time-out of the job, in the same attempt."""
    until_at_s = time.monotonic() + timeout_s
    while time.monotonic() < until_at_s:
        assert_waits(fleet, job)
        time.sleep(2.0)


def assert_went_on(fleet: SparkFleet, job: str) -> None:
    """The first attempt, which has waited, makes batches, and the wait is told no more."""
    fleet.wait_batches(job)
    document = fleet.show(job)
    assert (document["state"], document["attempt"], document["cluster_wait"]) == ("running", 1, None)
    assert document["failures"] == 0


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
