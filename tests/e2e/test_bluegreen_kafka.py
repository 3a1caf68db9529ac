"""Blue/green on a real Kafka topic, with the connector and the Spark that it is released for: real S3 calls, a real registry.

A job and its fork read the same three partitions and write to places of their own. What each has written must be every
record once, though one of them is stopped in the middle of a batch. The test makes them wait where it wants them, so that
every offset that the product says is known beforehand.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.e2e.test_savepoint_resume import HEALTH, PATIENCE_S
from tests.testbed.kafka import KafkaBroker, Record
from tests.testbed.moto import MotoServer
from tests.testbed.other_spark import kafka_connector, other_spark
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

OLD, NEW = "records", "records-2"
MOST = 11
"""Records of a batch. Spark shares them among the partitions by what each has, and gives each at least one."""


@dataclass
class Topic:
    """A topic of three partitions, and the jobs of ``fleet`` that copy it to S3."""

    fleet: SparkFleet
    kafka: KafkaBroker
    s3: Any
    holds: Path
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.kafka.new_topic(3)

    def produce(self, **counts: int) -> None:
        """So many records for each partition: ``p0=4``."""
        ends = self.kafka.ends(self.name)
        for part, count in counts.items():
            number = int(part.removeprefix("p"))
            self.kafka.produce(self.name, number, (f"r{ends[number] + more}" for more in range(count)))

    def submit(self, name: str, **spec: Any) -> None:
        self.fleet.submit(name, **self.spec(**spec))

    def spec(self, strict: str = "true", **spec: Any) -> dict[str, Any]:
        return {
            "application": APPLICATIONS / "kafka_lines.py",
            "args": [
                "{checkpoint}",
                self.kafka.servers,
                self.name,
                f"s3a://{self.fleet.bucket}/out/{{job}}",
                str(MOST),
                f"{self.holds}/{{job}}",
                strict,
            ],
            "jars": [str(jar) for jar in kafka_connector()],
            "health": HEALTH,
            **spec,
        }

    def hold(self, name: str, batch: int) -> None:
        """From this batch on the job commits nothing, until ``release``."""
        draft = self.holds / f"{name}.new"
        draft.write_text(str(batch))
        draft.replace(self.holds / name)

    def release(self, name: str) -> None:
        (self.holds / name).unlink()

    def written(self, name: str) -> list[Record]:
        """What the sink of a job holds; a record that is there twice is in it twice."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.fleet.bucket, Prefix=f"out/{name}/"
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        bodies = [
            self.s3.get_object(Bucket=self.fleet.bucket, Key=key)["Body"].read().decode()
            for key in keys
            if key.endswith(".txt") and "/_temporary/" not in key
        ]
        words = [line.split(" ") for body in bodies for line in body.splitlines()]
        return sorted(Record(int(part), int(offset), text) for part, offset, text in words)

    def records(self, **ranges: Iterable[int]) -> list[Record]:
        """Those of these offsets: ``p0=range(4)``."""
        return sorted(
            Record(int(part.removeprefix("p")), offset, f"r{offset}")
            for part, offsets in ranges.items()
            for offset in offsets
        )

    def wait_written(self, name: str, **ranges: Iterable[int]) -> None:
        expected = self.records(**ranges)
        wait_until(
            lambda: self.written(name) == expected, PATIENCE_S, f"{name} to write {ranges}", period_s=1
        )

    def compared(self, old: str, new: str) -> dict[str, Any]:
        document: dict[str, Any] = self.fleet.ok("compare", old, new, "-o", "json").document
        return document

    def parts(self, compared: dict[str, Any]) -> list[tuple[str, int, int, str]]:
        """Partition, offset of the old job and of the new one, order."""
        ((source,),) = (query["sources"] for query in compared["offsets"])
        assert source["kind"] == "kafka"
        return [
            (part["part"].removeprefix(f"{self.name}-"), part["offset"], part["new_offset"], part["order"])
            for part in source["parts"]
        ]

    def committed(self, name: str) -> int:
        """The newest batch that the job has committed."""
        (query,) = self.compared(name, name)["offsets"]
        return int(query["batch"])


@pytest.fixture
def topic(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    kafka: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> Iterator[Topic]:
    with SparkFleet.on_moto(
        embedded_ensemble,
        moto_server,
        tmp_path_factory.mktemp("kafka-jobs"),
        lease_s=60.0,
        spark=other_spark(),
    ) as fleet:
        yield Topic(fleet, kafka, moto_server.client(), tmp_path)


def metric(fleet: SparkFleet, name: str, job: str) -> list[float]:
    """The series of a job, as the members publish them."""
    found = []
    for member in fleet.status()["supervisors"]:
        with urllib.request.urlopen(f"http://{member['address']}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found += re.findall(rf'^{name}{{[^}}]*job="{job}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return [float(value) for value in found]


def lag(fleet: SparkFleet, name: str) -> float | None:
    (query,) = fleet.show(name)["queries"] or ({"lag": None},)
    value: float | None = query["lag"]
    return value


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
