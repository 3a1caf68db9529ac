"""A real driver with its checkpoint on a real S3 API, prepared as an agent prepares it, killed and recovered."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.checkpoint.commit_log import open_commit_log
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spec.job import parse_spec
from supervisor.spec.s3a import S3Access, access_of
from tests.fakes.report_socket import ReportSocket
from tests.testbed.driver_tree import driver_tree
from tests.testbed.hostile_tools import make_hostile_tools
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import LIGHT_JVM, START_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APPLICATION = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
counts = rate.groupBy((rate.value % 3).alias("k")).count()

def sink(frame, batch_id):
    with open(sys.argv[2], "a") as file:
        print(batch_id, sorted((row.k, row["count"]) for row in frame.collect()), file=file)

query = counts.writeStream.outputMode("complete").foreachBatch(sink).option("checkpointLocation", sys.argv[1])
query.trigger(processingTime="200 milliseconds").start().awaitTermination()
"""

SPEC = """
name: counts
application: {app}
args: ["{{checkpoint}}", {sink}]
master: local[1]
conf: {{spark.ui.enabled: false, spark.sql.shuffle.partitions: 1, spark.log.level: WARN, spark.driver.extraJavaOptions: {jvm}}}
checkpoint: s3://{bucket}/deep/ck
"""


def launch_for(attempt: int, tmp_path: Path, settings: Settings, bucket: str) -> Launch:
    spec = parse_spec(
        SPEC.format(app=tmp_path / "app.py", sink=tmp_path / "sink", bucket=bucket, jvm=LIGHT_JVM),
        "spec.yaml",
    )
    # as an older version registered it
    env = {name: str(tmp_path / "hostile") for name in ("SPARK_HOME", "JAVA_HOME")}
    spec = spec.model_copy(update={"application": "store:app.py", "env": env})
    run_dir = tmp_path / f"run.{attempt}"
    run_dir.mkdir()
    place = AttemptPlace(
        "here",
        run_dir,
        tmp_path / f"work.{attempt}",
        tmp_path / f"log.{attempt}",
        state_dir=tmp_path / "state",
    )
    assignment = Assignment(
        name="counts",
        uid="u1",
        attempt=attempt,
        revision=1,
        job_version=0,
        own_version=0,
        spec=BlobRef(key="k", sha256="", bytes=0),
        memory=0,
    )
    return make_launch(DriverStart(spec, assignment, settings, place), lambda key: tmp_path / "app.py")


def batches_until(launch: Launch, wanted: int, already: list[int]) -> list[int]:
    """Run the driver until it reported ``wanted`` batches, then kill it without warning."""
    with ReportSocket(Path(launch.env["SPARK_SUPERVISOR_REPORT"]).parent) as reports:
        with driver_tree(launch.argv, env=launch.env, cwd=launch.cwd, log=launch.log_path) as driver:

            def enough() -> bool:
                assert driver.poll() is None, Path(launch.log_path).read_text()[-3000:]
                return sum(event["event"] == "progress" for event in reports.take()) >= wanted

            wait_until(enough, START_S, f"{wanted} batches")
        return already + [event["batch_id"] for event in reports.take() if event["event"] == "progress"]


def test_a_checkpoint_on_s3_survives_its_driver(
    tmp_path: Path, moto_server: MotoServer, s3_bucket: str
) -> None:
    """With the storage fence; endpoint from the store's settings, keys from the environment, nothing in the spec."""
    (tmp_path / "app.py").write_text(APPLICATION)
    hostile = make_hostile_tools(tmp_path / "hostile")
    body = {
        "cluster": "test",
        "zookeeper": {"hosts": "zk1:2181"},
        "store": {"url": f"s3://{s3_bucket}/store", "endpoint_url": moto_server.endpoint_url},
        "supervisor": {"id": "s1", "runtime_dir": str(tmp_path / "runtime")},
        "spark": {"s3a_jars": str(s3a_jars())},
    }
    settings = validated(Settings, body, "supervisor.yaml")
    first = launch_for(1, tmp_path, settings, s3_bucket)
    assert "testing" not in " ".join(first.argv)
    batches = batches_until(first, 3, [])
    client = moto_server.client()
    for entry in ("metadata", "offsets/0", "commits/0"):
        wrote = client.head_object(Bucket=s3_bucket, Key=f"deep/ck/{entry}")["Metadata"][
            "spark-supervisor-owner"
        ]
        assert wrote == "job=counts uid=u1 attempt=1 host=here", entry
    log = open_commit_log(
        f"s3a://{s3_bucket}/deep/ck", access_of({}, s3_bucket, S3Access(moto_server.endpoint_url))
    )
    assert log is not None
    committed = log.newest()
    assert committed is not None and committed.batch_id >= batches[-1]
    batches = batches_until(launch_for(2, tmp_path, settings, s3_bucket), 2, batches)
    newest = log.newest()
    assert newest is not None and newest.batch_id > committed.batch_id

    assert hostile.ran() == "", "the Spark and Java that the job names"
    lines = dict(line.split(" ", 1) for line in (tmp_path / "sink").read_text().splitlines())
    assert [int(batch) for batch in lines] == list(range(len(lines))), "a hole"
    for batch, counts in lines.items():
        rows = range(10 * (int(batch) + 1))
        assert counts == str([(k, sum(value % 3 == k for value in rows)) for k in range(3)])
    assert set(batches) <= set(map(int, lines))
