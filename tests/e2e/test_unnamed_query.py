"""A query without a name below ``spark.sql.streaming.checkpointLocation``: its first start says that it can't go on, its second
one is refused before it reads, by the prepared driver of a restart too. Real Spark, a real registry."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.e2e.test_time_outs import Kinds
from tests.testbed.spark_fleet import CONF, START_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

APPLICATION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
def write(frame, batch):
    print("BATCH", batch, frame.count(), flush=True)
rows.writeStream.foreachBatch(write).trigger(processingTime="1 second").start().awaitTermination()
"""


@pytest.fixture
def fleet(embedded_ensemble: EmbeddedEnsemble, tmp_path: Path) -> Iterator[Kinds]:
    root = f"/unnamed-{uuid.uuid4().hex[:12]}"
    with Kinds(
        embedded_ensemble, root, tmp_path, supervisors=1, lease_s=30.0, grace_s=15.0, judged=False
    ) as made:
        yield made


@pytest.mark.parametrize("cold", [False, True], ids=["handed over", "cold"])
def test_its_second_start_is_refused_before_it_reads(fleet: Kinds, cold: bool, tmp_path: Path) -> None:
    (tmp_path / "unnamed.py").write_text(APPLICATION)
    place = f"file://{tmp_path}/checkpoints/unnamed"
    conf = {**CONF, "spark.sql.streaming.checkpointLocation": place}
    fleet.submit_kind(
        "unnamed", "none", "5m", "10m", application=str(tmp_path / "unnamed.py"), conf=conf, checkpoint=place
    )
    wait_until(lambda: fleet.batch_of("unnamed") >= 2, START_S, "batches", period_s=1.0)
    wait_until(
        lambda: "its next start is refused; give it a queryName" in fleet.show("unnamed")["reason"],
        START_S,
        "that to be said",
        period_s=1.0,
    )
    fleet.ok("restart", "unnamed", *(["--cold"] if cold else []))
    wait_until(lambda: fleet.show("unnamed")["state"] == "quarantined", START_S, "the refusal", period_s=1.0)
    reason = fleet.show("unnamed")["reason"]
    assert "a query without a name would begin from nothing" in reason and "queryName" in reason
    begun = [path for path in (tmp_path / "checkpoints" / "unnamed").iterdir() if path.is_dir()]
    assert len(begun) == 1, "no second directory was made"
    fleet.ok("resume", "unnamed", "--accept-fresh-start")
    wait_until(lambda: fleet.show("unnamed")["state"] == "running", START_S, "a fresh start", period_s=1.0)
    fleet.ok("cancel", "unnamed", "--wait")
