"""Blue/green on a real Kafka topic, with the connector and the Spark that it is released for: real S3 calls, a real registry.

A job and its fork read the same three partitions and write to places of their own. What each has written must be every
record once, though one of them is stopped in the middle of a batch. The test makes them wait where it wants them, so that
every offset that the product says is known beforehand.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.testbed.kafka_jobs import PATIENCE_S, Topic, lag, metric
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

OLD, NEW = "records", "records-2"


def test_forked_compared_by_partition_promoted_and_undone(topic: Topic, tmp_path: Path) -> None:
    fleet = topic.fleet
    topic.produce(p0=4, p1=4, p2=4)
    topic.submit(OLD)
    topic.wait_written(OLD, p0=range(4), p1=range(4), p2=range(4))
    wait_until(lambda: lag(fleet, OLD) == 0, PATIENCE_S, "the job to have read all")
    fleet.ok("savepoint", "create", OLD, "start")

    # The job reads on in partition 0, and is then held in the middle of a batch.
    topic.produce(p0=4)
    topic.wait_written(OLD, p0=range(8), p1=range(4), p2=range(4))
    wait_until(lambda: lag(fleet, OLD) == 0, PATIENCE_S, "the job to have committed that")
    topic.hold(OLD, topic.committed(OLD) + 1)
    topic.produce(p1=40)

    # The fork commits one batch, of which most is of partition 1, and is held in the next one.
    saved = fleet.ok("savepoint", "show", OLD, "start", "-o", "json").document
    topic.hold(NEW, saved["queries"][0]["batch"] + 2)
    fleet.ok("fork", OLD, NEW, "--from-savepoint", "start")
    wait_until(lambda: lag(fleet, NEW) == 33, PATIENCE_S, "the fork's first batch")
    compared = topic.compared(OLD, NEW)
    assert topic.parts(compared) == [("0", 8, 5, "behind"), ("1", 4, 14, "ahead"), ("2", 4, 4, "equal")]
    assert compared["order"] == "behind"
    assert [compared["jobs"][name]["queries"][0]["lag"] for name in (OLD, NEW)] == [0, 33]
    assert f"{NEW} is behind {OLD}" in fleet.ok("compare", OLD, NEW).out
    wait_until(
        lambda: metric(fleet, "spark_supervisor_job_lag_records", NEW) == [33.0],
        PATIENCE_S,
        "the metric of what is left to read",
    )

    # What is missing in one partition is waited for, whatever is ahead in another.
    hooked = tmp_path / "hooked"
    hook = ("--hook", f'echo "$SPARK_SUPERVISOR_HOOK $SPARK_SUPERVISOR_HOOK_NEW" >> {hooked}')
    waited = fleet.cli("promote", NEW, "--over", OLD, "--timeout", "5s", *hook)
    assert waited.code != 0 and "behind by offsets of 1 part, 3 in all" in waited.err
    assert fleet.show(OLD)["state"] == "running" and not hooked.exists()
    topic.release(NEW)
    fleet.ok("promote", NEW, "--over", OLD, "--timeout", "15m", *hook)
    wait_until(lambda: fleet.show(OLD)["state"] == "suspended", PATIENCE_S, "the other is suspended")
    topic.produce(p2=3)
    topic.wait_written(NEW, p0=range(4, 8), p1=range(4, 44), p2=range(4, 7))
    wait_until(lambda: lag(fleet, NEW) == 0, PATIENCE_S, "the fork to have read all")
    compared = topic.compared(OLD, NEW)
    assert topic.parts(compared) == [("0", 8, 8, "equal"), ("1", 4, 44, "ahead"), ("2", 4, 7, "ahead")]
    assert compared["order"] == "ahead"

    # The other job goes on with the batch in the middle of which it was stopped.
    topic.release(OLD)
    fleet.ok("promote", "--undo", OLD, NEW, *hook)
    wait_until(lambda: fleet.show(NEW)["state"] == "suspended", PATIENCE_S, "the fork is suspended")
    topic.produce(p0=1)
    topic.wait_written(OLD, p0=range(9), p1=range(44), p2=range(7))
    assert topic.written(OLD) == topic.kafka.records(topic.name)
    assert topic.written(NEW) == topic.records(p0=range(4, 8), p1=range(4, 44), p2=range(4, 7))
    assert hooked.read_text().splitlines() == [f"promote {NEW}", f"undo {NEW}"]
    assert topic.parts(topic.compared(OLD, NEW))[0][1:] == (9, 8, "behind")
    for name in (OLD, NEW):
        fleet.ok("cancel", name, "--wait")


def test_records_that_retention_has_removed_end_the_job_until_it_accepts_the_gap(topic: Topic) -> None:
    fleet = topic.fleet
    topic.produce(p0=4, p1=1)
    topic.submit(OLD)
    topic.wait_written(OLD, p0=range(4), p1=range(1))
    fleet.ok("suspend", OLD, "--wait")
    topic.produce(p0=4, p1=1)
    topic.kafka.drop_before(topic.name, {0: 6})
    fleet.ok("resume", OLD)
    shown = wait_until(
        lambda: next((s for s in (fleet.show(OLD),) if s["failures"]), None), PATIENCE_S, "the job to fail"
    )
    assert "OffsetOutOfRangeException" in json.dumps(shown)  # the cause, not the call that failed
    assert topic.written(OLD) == topic.records(p0=range(4), p1=range(1))
    fleet.ok("apply", str(fleet.spec_file(OLD, **topic.spec(strict="false"))))
    topic.wait_written(OLD, p0=[*range(4), 6, 7], p1=range(2))
    fleet.wait_state(OLD, "running", timeout_s=PATIENCE_S)
    fleet.ok("cancel", OLD, "--wait")
