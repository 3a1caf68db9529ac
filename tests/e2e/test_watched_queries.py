"""What the bootstrap tells of real queries that no listener tells of: one in a batch without end, a continuous one, one without a
name, and after a first session that was stopped."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.spark import bootstrap
from supervisor.spark.toolchain import installed_spark_home
from tests.fakes.report_socket import ReportSocket
from tests.testbed.driver_tree import driver_tree
from tests.testbed.spark_fleet import LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPLICATION = """
import os, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

old = SparkSession.builder.appName("load").getOrCreate()
assert old.range(10).count() == 10
old.stop()
spark = SparkSession.builder.master("local[4]").appName("stream").getOrCreate()
spark.conf.set("spark.sql.streaming.checkpointLocation", os.environ["SPARK_SUPERVISOR_CHECKPOINT"])

@udf("long")
def slow(value):
    time.sleep(3600)
    return value

batches = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 1).load()
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).option("numPartitions", 1).load()
batches.select(slow("value")).writeStream.queryName("long").format("noop").start()
rows.selectExpr("value + 1 as v").writeStream.queryName("cont").format("noop").trigger(continuous="1 second").start()
batches.writeStream.format("noop").trigger(processingTime="1 second").start()
while not os.path.exists("more"):
    time.sleep(0.1)
os.environ["SPARK_SUPERVISOR_UNNAMED"] = "0a1b2c3d"          # as at the next start
batches.writeStream.format("noop").start()
"""


@pytest.fixture
def reports(tmp_path: Path) -> Iterator[ReportSocket]:
    with ReportSocket(tmp_path) as sock:
        yield sock


def order(directory: Path) -> None:
    """Orders a probe, as the shim does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(json.dumps({"order": "look"}).encode(), str(directory / "orders"))


def test_what_no_listener_tells_is_told_by_a_probe(tmp_path: Path, reports: ReportSocket) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "conf").write_text(LIGHT_PROPERTIES)
    home = installed_spark_home()
    assert home is not None
    submit = str(home / "bin" / "spark-submit")
    env = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUPERVISOR_REPORT": str(reports.path),
        "SPARK_SUPERVISOR_CHECKPOINT": f"file://{tmp_path}/ck",
    }

    def of(event: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            body
            for body in reports.taken
            if body["event"] == event and all(body.get(key) == value for key, value in fields.items())
        ]

    def is_complete() -> bool:
        reports.take()
        if (tmp_path / "orders").exists():
            order(tmp_path)
        if (
            of("working", query="long")
            and len(of("progress", query="cont")) >= 2
            and of("progress", unnamed=True)
        ):
            (tmp_path / "more").touch()
        return bool(of("unnamed")) or process.poll() is not None

    properties, app = str(tmp_path / "conf"), str(tmp_path / "app.py")
    argv = [submit, "--properties-file", properties, bootstrap.__file__, app]
    with driver_tree(argv, env=env, cwd=tmp_path, log=tmp_path / "log") as process:
        wait_until(is_complete, 400, "all to be told", period_s=1.0)
    assert process.returncode == -9, (tmp_path / "log").read_text()[-3000:]
    assert of("session", master="local[4]")
    assert not of("unknown"), "a first session that was stopped breaks no probe"
    assert not of("progress", query="long"), "its batch has no end"
    epochs = [body["batch_id"] for body in of("progress", query="cont")]
    assert epochs == sorted(set(epochs)) and of("progress", query="cont")[0]["checkpoint"].endswith(
        "/ck/cont"
    )
    assert of("trigger", query="cont", kind="continuous", interval_s=1.0)
    assert not of("unnamed")[1:] and not of("progress", query="long", unnamed=True)
