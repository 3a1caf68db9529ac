"""Each row is in the sink exactly once, whatever befalls driver, hosts and leader: real Spark, a file sink and a Delta table.

One job copies rows with known numbers to both sinks while more of them come. Its driver is killed in the very moment in which
a sink has a batch that its checkpoint has not, once together with the leader; it moves to another host, is suspended and
resumed, and updated. Then Spark reads both sinks, as any reader does (``_spark_metadata``; the Delta log).
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed import requirements
from tests.testbed.moto import MotoServer
from tests.testbed.other_spark import other_spark
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.testbed.spark_of_sinks import delta_jars, spark_of_sinks
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB = "rows"
ROWS_PER_FILE = 7
EACH_S, AHEAD = 1.5, 12
PATIENCE_S = 900.0
"""For a cold start of Spark, and batches that were left, on a busy machine; nothing is asserted about time."""
HEALTH = {"start_timeout": "15m", "stall_timeout": "15m"}
LOGS = {"file": ("_spark_metadata", ""), "delta": ("_delta_log", ".json")}
"""Of each sink, where its own log of batches is, and how the names there end that are one commit each."""
CONF = {
    "spark.driver.memory": "900m",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass
class FilesOfRows:
    """The source: files with the rows 0, 1, 2 … come while it is open, no more than ``AHEAD`` before those ``taken``."""

    home: Path
    taken: Callable[[], int]
    files: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def rows(self) -> int:
        return self.files * ROWS_PER_FILE

    @contextmanager
    def coming(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(EACH_S):
            if self.files - self.taken() > AHEAD:
                continue
            draft = self.home / f".{self.files}"
            lines = (json.dumps({"a": self.rows + each}) + "\n" for each in range(ROWS_PER_FILE))
            draft.write_text("".join(lines))
            draft.replace(self.home / f"{self.files:06}.json")
            self.files += 1


@dataclass
class CopiedRows:
    """The job, and what befalls it."""

    fleet: SparkFleet
    home: Path
    s3: Any
    attempt: int = 0

    def spec(self, *more: str) -> dict[str, Any]:
        return {
            "application": APPLICATIONS / "two_sinks.py",
            "py_files": [str(APPLICATIONS / "counts.py")],
            "args": ["{checkpoint}", str(self.home), *more],
            "jars": [str(jar) for jar in delta_jars()],
            "conf": CONF,
            "health": HEALTH,
            "resources": {"memory": "1500m"},
        }

    def goes_on(self) -> None:
        """The next attempt has committed a batch to each sink."""
        self.attempt += 1
        self._wait(lambda queries: True, f"attempt {self.attempt}")

    def wait_for(self, files: int) -> None:
        """Each of so many files, one a batch, has been committed."""
        self._wait(
            lambda queries: all(query["batch_id"] >= files - 1 for query in queries), f"{files} batches"
        )

    def _wait(self, enough: Any, what: str) -> None:
        def reached() -> bool:
            ran = self.fleet.cli("show", JOB, "-o", "json")
            if ran.code != 0:  # of a busy machine ZooKeeper may lose sight for a moment
                return False
            shown = ran.document
            known = [query for query in shown["queries"] if query["batch_id"] is not None]
            return shown["attempt"] == self.attempt and len(known) == len(LOGS) and bool(enough(known))

        try:
            wait_until(reached, PATIENCE_S, what, period_s=0.3)
        except AssertionError as error:
            shown = self.fleet.cli("show", JOB).out
            raise AssertionError(f"{error}\n{shown}\n{self.fleet.log_tail(JOB)}") from None

    def in_sink(self, sink: str) -> int:
        """The number of the newest commit in the sink's own log; -1: none."""
        log, ending = LOGS[sink]
        place = self.home / sink / log
        names = [name.removesuffix(ending) for name in (os.listdir(place) if place.exists() else ())]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def taken(self) -> int:
        """How many files are surely in both sinks. The Delta log begins with the making of the table, or its first batch."""
        return min(map(self.in_sink, LOGS))

    def committed(self, sink: str, batch: int) -> bool:
        """Whether the checkpoint has the batch."""
        prefix = f"checkpoints/{JOB}/{sink}/commits/{batch}"
        found = self.s3.list_objects_v2(Bucket=self.fleet.bucket, Prefix=prefix).get("Contents", ())
        return any(each["Key"] == prefix for each in found)

    def kill_at_commit(self, sink: str, *, leader: bool = False) -> None:
        """kill -9 of all of the driver when the sink has one batch more, which its checkpoint has a moment later."""
        tree, before = self.fleet.tree(JOB), self.in_sink(sink)
        epoch, leads = self.fleet.epoch(), self.fleet.leader()
        wait_until(lambda: self.in_sink(sink) > before, PATIENCE_S, f"a commit at {sink}", period_s=0.001)
        for process in tree:
            processes.kill(process)
        if leader:
            self.fleet.kill(leads)
            self.fleet.wait_new_leader(epoch)
            self.fleet.start_member(self.fleet.number(leads))
            self.fleet.wait_complete()
        batch = self.in_sink(sink)
        print(
            f"measured: killed with batch {batch} in {sink}, in the checkpoint: {self.committed(sink, batch)}"
        )
        self.goes_on()


@pytest.fixture
def fleet(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkFleet]:
    requirements.need("maven")
    directory = tmp_path_factory.mktemp("once")
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory, spark=other_spark()) as made:
        yield made


def faults(found: Counter[int], rows: int) -> dict[str, list[int]]:
    """What a sink lacks, has more than once, and has that nobody wrote."""
    return {
        "missing": [row for row in range(rows) if row not in found],
        "twice": sorted(row for row, times in found.items() if times > 1),
        "strange": sorted(row for row in found if not 0 <= row < rows),
    }


def test_each_row_is_there_once(fleet: SparkFleet, moto_server: MotoServer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    job = CopiedRows(fleet, tmp_path, moto_server.client())
    source = FilesOfRows(tmp_path / "in", job.taken)
    with source.coming():
        fleet.submit(JOB, **job.spec())
        job.goes_on()
        job.kill_at_commit("file")
        job.kill_at_commit("delta", leader=True)
        other = next(member for member in fleet.members if member is not fleet.host_of(JOB))
        fleet.ok("move", JOB, "--to", other.id)
        job.goes_on()
        fleet.ok("suspend", JOB, "--wait")
        fleet.ok("resume", JOB)
        job.goes_on()
        fleet.ok("apply", str(fleet.spec_file(JOB, **job.spec("2 seconds"))))
        job.goes_on()
    job.wait_for(source.files)
    fleet.ok("cancel", JOB, "--wait")
    fleet.judge()
    with spark_of_sinks(tmp_path, delta_jars()) as spark:
        found = {
            sink: Counter[int](spark.ask("rows", kind=sink, place=str(tmp_path / sink))) for sink in LOGS
        }
    wrong = {sink: faults(rows, source.rows) for sink, rows in found.items()}
    assert not any(any(each.values()) for each in wrong.values()), f"of {source.rows} rows: {wrong}"
    print(f"measured: {source.rows} rows in each of {', '.join(LOGS)}, each once")
