"""The connector by ``packages``, as Spark fetches it at the start of a driver: real Spark, a real broker, a real repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.testbed.kafka_jobs import PATIENCE_S, Topic
from tests.testbed.other_spark import CONNECTOR
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOBS = ("records", "records-2")


def test_two_drivers_fetch_at_once_and_what_cannot_be_had_is_told(topic: Topic, tmp_path: Path) -> None:
    """One of two drivers that fill the same directory may fail; its next attempt has what the other has fetched."""
    fleet = topic.fleet

    def spec(connector: str, ivy: str) -> dict[str, Any]:
        return {"jars": [], "packages": [connector], "conf": {"spark.jars.ivy": str(tmp_path / ivy)}}

    topic.produce(p0=4)
    for name in JOBS:
        topic.submit(name, **spec(CONNECTOR, "shared"))
    for name in JOBS:
        topic.wait_written(name, p0=range(4))
        fleet.ok("cancel", name, "--wait")

    topic.submit("none", **spec(f"{CONNECTOR.rpartition(':')[0]}:0.0.0", "own"))
    said = "a package was not found: no repository answered, or its name or version is wrong"
    wait_until(lambda: said in fleet.ok("explain", "none").out, PATIENCE_S, "explain to say so", period_s=1)
    fleet.ok("apply", str(fleet.spec_file("none", **topic.spec(**spec(CONNECTOR, "shared")))))
    topic.wait_written("none", p0=range(4))
    fleet.ok("cancel", "none", "--wait")
