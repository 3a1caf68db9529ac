"""Jobs that copy a topic of a real Kafka to S3, on the Spark that has a connector: what the e2e tests of Kafka act on.

Used through the fixture ``topic``. The test makes the jobs wait in the middle of a batch where it wants them, so that every
offset that the product says is known beforehand.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.testbed.ensembles import Ensemble
from tests.testbed.kafka import KafkaBroker, Record
from tests.testbed.moto import MotoServer
from tests.testbed.other_spark import kafka_connector, other_spark
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

PATIENCE_S = 900.0
"""Some cold starts of Spark on a busy machine; nothing is asserted about time."""
HEALTH = {"start_timeout": "15m", "stall_timeout": "15m"}
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

    @classmethod
    @contextmanager
    def with_fleet(
        cls, ensemble: Ensemble, moto: MotoServer, kafka: KafkaBroker, directory: Path
    ) -> Iterator[Self]:
        """With a fleet of its own, whose hosts have the Spark that has a connector."""
        with SparkFleet.on_moto(
            ensemble, moto, directory / "fleet", lease_s=60.0, spark=other_spark()
        ) as fleet:
            (directory / "holds").mkdir()
            yield cls(fleet, kafka, moto.client(), directory / "holds")

    def produce(self, **counts: int) -> None:
        """So many records for each partition: ``p0=4``."""
        ends = self.kafka.ends(self.name)
        for part, count in counts.items():
            number = int(part.removeprefix("p"))
            self.kafka.produce(self.name, number, (f"r{ends[number] + more}" for more in range(count)))

    def submit(self, name: str, **spec: Any) -> None:
        self.fleet.submit(name, **self.spec(**spec))

    def spec(self, strict: str = "true", tries: str = "3", **spec: Any) -> dict[str, Any]:
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
                tries,
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
        while True:
            with suppress(
                self.s3.exceptions.NoSuchKey
            ):  # it was just replacing a batch: what was listed is not there
                return self._listed(name)

    def _listed(self, name: str) -> list[Record]:
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
