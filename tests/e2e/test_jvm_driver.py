"""A JVM application: compiled here, prepared as an agent prepares it, its life read from the commit log."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from supervisor.checkpoint.commit_log import open_commit_log
from supervisor.model.exit_evidence import ExitEvidence
from supervisor.model.exits import classify
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef, Cause
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.toolchain import installed_spark_home
from supervisor.spec.job import parse_spec
from supervisor.spec.s3a import S3Access
from tests.testbed import requirements
from tests.testbed.driver_tree import driver_tree
from tests.testbed.spark_fleet import LIGHT_JVM
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

APPLICATION = r"""
package example;
import java.nio.file.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.Trigger;

public class Counts {
  public static void main(String[] args) throws Exception {
    Files.writeString(Path.of(args[1]), String.join("\0", args));
    SparkSession spark = SparkSession.builder().getOrCreate();
    spark.readStream().format("rate-micro-batch").option("rowsPerBatch", 5).load()
        .writeStream().format("noop").option("checkpointLocation", args[0])
        .trigger(Trigger.ProcessingTime(200)).start().awaitTermination();
  }
}
"""

ARGS = ("ü€😀", "two\nlines", "", "$HOME `id` 'q' \"q\"", "--conf", " x ")


def compiled(directory: Path) -> Path:
    """Skips the test where there is only a JRE."""
    requirements.need("jdk")
    (directory / "Counts.java").write_text(APPLICATION)
    jars = f"{installed_spark_home()}/jars/*"
    subprocess.run(
        ["javac", "-cp", jars, "-d", directory / "classes", directory / "Counts.java"],
        check=True,
        timeout=120,
    )
    subprocess.run(
        ["jar", "cf", directory / "app.jar", "-C", directory / "classes", "."], check=True, timeout=60
    )
    return directory / "app.jar"


def launch_for(directory: Path, jar: Path) -> Launch:
    spec = parse_spec(
        f"""
name: counts
application: local:{jar}
class: example.Counts
checkpoint: file://{directory}/ck
master: local[1]
conf: {{spark.ui.enabled: false, spark.log.level: ERROR, spark.driver.extraJavaOptions: {LIGHT_JVM}}}
""",
        "spec.yaml",
    )
    spec = spec.model_copy(update={"args": ("{checkpoint}", f"{directory}/seen", *ARGS)})
    body = {"cluster": "t", "zookeeper": {"hosts": "zk1:2181"}, "store": {"url": f"file://{directory}/store"}}
    settings = validated(Settings, {**body, "supervisor": {"id": "s1"}}, "supervisor.yaml")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    place = AttemptPlace(
        "here",
        directory / "run",
        directory / "work",
        directory / "log",
        environ=bare,
        state_dir=directory / "state",
    )
    return make_launch(
        DriverStart(
            spec,
            Assignment(
                name="counts",
                uid="u1",
                attempt=1,
                revision=1,
                job_version=0,
                own_version=0,
                spec=BlobRef(key="k", sha256="", bytes=0),
                memory=0,
            ),
            settings,
            place,
        ),
        Path,
    )


def test_a_jvm_application(tmp_path: Path) -> None:
    """Without a locale in the environment, as under a service manager: arguments arrive all the same."""
    launch = launch_for(tmp_path, compiled(tmp_path))
    assert not launch.reports
    log = open_commit_log(f"file://{tmp_path}/ck", S3Access())
    assert log is not None
    with driver_tree(launch.argv, env=launch.env, cwd=launch.cwd, log=launch.log_path) as driver:

        def committed(at_least: int) -> bool:
            assert driver.poll() is None, Path(launch.log_path).read_text()[-3000:]
            newest = log.newest()
            return newest is not None and newest.batch_id >= at_least

        wait_until(lambda: committed(2), 120, "batch 2")
        driver.terminate()
        status = driver.wait(30)
    assert (tmp_path / "seen").read_text().split("\0")[2:] == list(ARGS)
    tail = Path(launch.log_path).read_text()[-4000:]
    assert (
        classify(ExitEvidence(status, unbounded=True, stop_requested=True, tail=tail)).cause is Cause.STOPPED
    )
    assert classify(ExitEvidence(status, unbounded=True, tail=tail)).cause is Cause.KILLED
