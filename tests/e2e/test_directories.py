"""What an application writes to relative paths is there for the next driver of its job, and what a killed one leaves in its
temporary directory is not (``model.host_directories``)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.fleet import Fleet
from tests.testbed.spark_fleet import APPLICATIONS, CONF, START_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
JOB = "relative"
BATCHES = 3


class SparkFleet(Fleet):
    """Real Spark; store and checkpoints are directories."""

    def _settings(self, hosts: str) -> dict[str, Any]:
        return {**super()._settings(hosts), "spark": {}}

    @property
    def reports(self) -> Path:
        return self.directory / "reports"

    def submit_relative(self) -> None:
        specs = self.directory / "specs"
        specs.mkdir()
        self.reports.mkdir()
        shutil.copy(APPLICATIONS / "relative.py", specs)
        (specs / "etl_config.json").write_text('{"rows": 10}')
        body = {
            "name": JOB,
            "application": "relative.py",
            "args": [str(self.reports)],
            "files": ["etl_config.json"],
            "master": "local[2]",
            "checkpoint": f"file://{self.directory}/checkpoints/{JOB}",
            "resources": {"memory": "1g"},
            "restart": {"strategy": "fixed", "initial": "1s"},
            # the catalog of a managed table is forgotten with the driver, unless it is Hive's
            "conf": {**CONF, "spark.sql.catalogImplementation": "hive"},
        }
        (specs / "job.yaml").write_text(yaml.safe_dump(body))
        self.ok("submit", str(specs / "job.yaml"))

    def report(self, attempt: int) -> dict[str, Any]:
        path = self.reports / f"{attempt}.json"
        wait_until(path.exists, START_S, f"the report of attempt {attempt}", period_s=0.5)
        said: dict[str, Any] = json.loads(path.read_text())
        return said

    def wait_batches(self, more: int) -> None:
        """Until each query has committed so many more batches."""
        begun: dict[str, int] = {}

        def committed() -> bool:
            queries = {
                each["query"]: each["batch_id"]
                for each in self.show(JOB)["queries"]
                if each["batch_id"] is not None
            }
            for name, batch in queries.items():
                begun.setdefault(name, batch)
            return len(queries) == 3 and all(batch >= begun[name] + more for name, batch in queries.items())

        wait_until(committed, START_S, "batches", period_s=0.5)


@pytest.fixture
def fleet(embedded_ensemble: EmbeddedEnsemble, tmp_path: Path) -> Iterator[SparkFleet]:
    root = f"/directories-{uuid.uuid4().hex[:12]}"
    with SparkFleet(
        embedded_ensemble, root, tmp_path / "f", supervisors=1, lease_s=60.0, grace_s=20.0, judged=False
    ) as made:
        yield made


def jvm_of(row: dict[str, Any]) -> int:
    """The process of the driver, which spark-submit has become."""
    return int(row["driver_pid"])


def test_relative_output_outlives_drivers_and_temporary_files_do_not(fleet: SparkFleet) -> None:
    fleet.submit_relative()
    first = fleet.report(1)
    assert first["found"] == dict.fromkeys(first["found"]) and first["files"] == [{"rows": 10}] * 3
    fleet.wait_batches(BATCHES)
    before = dict.fromkeys(first["found"], 0)
    wait_until(lambda: "only" in fleet.show(JOB)["reason"], START_S, "the warning that only this host has it")
    there = fleet.show(JOB)["usage"]["directory"]
    assert there["path"] == first["cwd"] and {"checkpoint", "out"} & set(there["names"])
    for attempt in (2, 3):
        tmp = Path(fleet.report(attempt - 1)["tmp"])
        assert any(tmp.iterdir()), "Spark has its block manager there"
        if attempt == 2:
            os.kill(jvm_of(fleet.show(JOB)), signal.SIGKILL)
        else:
            fleet.ok("restart", JOB)
        report = fleet.report(attempt)
        assert report["cwd"] == first["cwd"] and report["files"] == first["files"]
        for place, values in report["found"].items():
            assert values is not None, f"{place}: everything that was committed is gone"
            # at least once by foreachBatch, exactly once by the file sinks
            distinct = sorted(set(values)) if place == "out/appended" else values
            assert distinct == list(range(len(distinct))), f"{place}: rows are missing, or come twice"
            assert len(distinct) >= before[place] + 10 * BATCHES
            before[place] = len(distinct)
        wait_until(lambda gone=tmp: not gone.exists(), START_S, f"the end of {tmp}")
        fleet.wait_batches(BATCHES)
