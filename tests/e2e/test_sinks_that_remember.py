"""No row is lost at a sink that remembers batches: real Spark, a real file sink, Delta, Iceberg, and a ``foreachBatch`` by the book.

A job reads files, one a batch. It has a savepoint after batch 2, and goes on to batch 5. Then it goes back, in each way in which it
can, with two more files, which are read three at a time: so the new batches have other rows. Rows are counted as a reader finds
them. Each case also has its seeded defect: without the decision, rows are lost here.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkpoint.delta_log import newest_in_delta_log
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.clients.store.area import open_area
from supervisor.errors import Conflict
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.going_back import GOES_ON, NOTHING_SAID, GoingBack, ReturnStep, ReturnWay, Said
from supervisor.model.sinks import SeenSink, SinkMemory, named_sink
from supervisor.operations.going_back import before_copy, before_fresh_start
from supervisor.operations.sink_grounds import Grounds
from supervisor.savepoints.create import Creation
from supervisor.savepoints.manifest import Begun, Manifest, seen_queries
from supervisor.savepoints.restore import restore
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import S3Access
from tests.testbed import requirements
from tests.testbed.spark_of_sinks import SparkOfSinks, delta_jars, iceberg_jars, spark_of_sinks

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]

AT = "2026-11-28T00:00:00Z"
ALL = Counter(range(8))
KINDS = ("file", "delta", "iceberg", "foreachBatch")
STEPS = {
    "file": ReturnStep.REFUSE,
    "foreachBatch": ReturnStep.REFUSE,
    "delta": ReturnStep.NEW_IDS,
    "iceberg": ReturnStep.NEW_IDS,
}
ROLLED_BACK = Said(rolled_back=True)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkOfSinks]:
    requirements.need("maven")
    with spark_of_sinks(tmp_path_factory.mktemp("sinks"), [*delta_jars(), *iceberg_jars()]) as made:
        yield made


@dataclass
class ReturningJob:
    spark: SparkOfSinks
    kind: str
    home: Path
    ran: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = self.home.name.replace("-", "_")
        self.place = f"ice.db.{name}" if self.kind == "iceberg" else str(self.home / "out")
        self.checkpoint = self.home / "ck"
        shutil.rmtree(self.spark.home / "in", ignore_errors=True)
        (self.spark.home / "in").mkdir()

    def put(self, *rows: int) -> None:
        for row in rows:
            path = self.spark.home / "in" / f"{row}.json"
            path.write_text(json.dumps({"a": row}) + "\n")
            stamp = time.time() - 100 + row
            os.utime(path, (stamp, stamp))

    def run(self, checkpoint: Path, files: int = 1, place: str | None = None) -> list[int]:
        ran = self.spark.ask(
            "run", kind=self.kind, place=place or self.place, checkpoint=str(checkpoint), files=files
        )
        assert ran["error"] is None, ran
        self.ran.append(ran)
        return list(ran["batches"])

    def rows(self, place: str | None = None) -> Counter[int]:
        found = self.spark.ask("rows", kind=self.kind, place=place or self.place)
        assert isinstance(found, list), found
        return Counter(found)

    def saved(self) -> Manifest:
        begun = Begun(
            id="one",
            name="j",
            uid="u",
            attempt=1,
            source=f"file://{self.checkpoint}",
            location=f"file://{self.home}/saved",
            access=S3Access(),
            at=AT,
            software="test",
        )
        source, target = (open_area(each, S3Access()) for each in (begun.source, begun.location))
        return Creation(source, target, begun, lambda: AT).run()

    def grounds(self) -> Grounds:
        """What the registry knows of it, by what its driver has reported."""
        ran = self.ran[-1]
        sink = named_sink(*ran["sink"])
        assert sink is not None and (sink.kind, bool(sink.where)) == (self.kind, self.kind != "foreachBatch")
        batch = max(ran["batches"])
        return Grounds(
            (SeenSink(ran["id"], batch, sink),), (SeenQuery(ran["id"], batch),), str(self.checkpoint)
        )

    def spec(self) -> JobSpec:
        return JobSpec(name="j", application="a.py", args=(self.place,), checkpoint=str(self.checkpoint))

    def decided(self, manifest: Manifest, said: Said = NOTHING_SAID) -> GoingBack:
        return before_copy(
            ReturnWay.RESUME,
            seen_queries(manifest),
            self.grounds(),
            manifest.source,
            self.spec(),
            said,
            opened,
        )

    def copied(self, manifest: Manifest, back: GoingBack, name: str) -> Path:
        target = self.home / name
        areas = (open_area(each, S3Access()) for each in (manifest.location, f"file://{target}"))
        restore(*areas, AT, back)
        return target


def opened(location: str) -> Any:
    return open_checkpoint(location, {}, S3Access())


def ahead(spark: SparkOfSinks, kind: str, tmp_path: Path) -> tuple[ReturningJob, Manifest]:
    """A job at batch 5, and its savepoint after batch 2. Two more files wait for it."""
    job = ReturningJob(spark, kind, tmp_path)
    job.put(0, 1, 2)
    assert job.run(job.checkpoint) == [0, 1, 2]
    manifest = job.saved()
    job.put(3, 4, 5)
    assert job.run(job.checkpoint) == [3, 4, 5] and job.rows() == Counter(range(6))
    if kind == "delta":
        assert newest_in_delta_log(opened(job.place), job.ran[-1]["id"]) == 5
    job.put(6, 7)
    return job, manifest


@pytest.mark.parametrize("kind", KINDS)
def test_from_a_copy_of_a_savepoint_no_row_is_lost(spark: SparkOfSinks, kind: str, tmp_path: Path) -> None:
    job, manifest = ahead(spark, kind, tmp_path)
    back = job.decided(manifest, Said(SinkMemory.REMEMBERS) if kind == "foreachBatch" else NOTHING_SAID)
    assert back.step is STEPS[kind], back
    if back.step is ReturnStep.REFUSE:
        with pytest.raises(Conflict, match="the rows of batches 3 to 5 would be lost"):
            job.copied(manifest, back, "never")
        assert not (job.home / "never").exists()
        return
    assert job.run(job.copied(manifest, back, "copy"), files=3) == [3, 4]
    assert job.rows() == ALL + Counter([3, 4, 5]), "those after the savepoint twice, all others once"


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_decision_rows_are_lost_and_nothing_says_so(
    spark: SparkOfSinks, kind: str, tmp_path: Path
) -> None:
    job, manifest = ahead(spark, kind, tmp_path)
    assert job.run(job.copied(manifest, GOES_ON, "copy"), files=3) == [3, 4], "two batches that succeeded"
    assert job.rows() == Counter(range(6)), "and 6 and 7 are nowhere"


def test_a_file_sink_goes_back_at_another_path_or_when_its_log_was_rolled_back(
    spark: SparkOfSinks, tmp_path: Path
) -> None:
    job, manifest = ahead(spark, "file", tmp_path)
    assert "was not rolled back" in job.decided(manifest, ROLLED_BACK).why, "it says otherwise itself"
    moved = JobSpec(name="j", application="a.py", args=(f"{tmp_path}/new",), checkpoint=str(job.checkpoint))
    back = before_copy(
        ReturnWay.RESUME, seen_queries(manifest), job.grounds(), manifest.source, moved, ROLLED_BACK, opened
    )
    log, new = Path(job.place) / "_spark_metadata", tmp_path / "new"
    (new / "_spark_metadata").mkdir(parents=True)
    for batch in (0, 1, 2):  # Spark reads no log, and compacts none, that does not begin with batch 0
        shutil.copy(log / str(batch), new / "_spark_metadata")
    assert job.run(job.copied(manifest, back.require(), "other"), files=3, place=str(new)) == [3, 4]
    assert job.rows(str(new)) == Counter([3, 4, 5, 6, 7]), "those up to the savepoint are at the old path"
    job.ran.pop()
    for batch in (3, 4, 5):
        entry = log / str(batch)
        for line in entry.read_text().splitlines()[1:]:
            Path(json.loads(line)["path"].removeprefix("file://")).unlink()
        entry.unlink()
        entry.with_name(f".{batch}.crc").unlink(missing_ok=True)
    assert job.decided(manifest).step is ReturnStep.REFUSE, (
        "a directory of this host may be another one there"
    )
    back = job.decided(manifest, ROLLED_BACK)
    assert job.run(job.copied(manifest, back.require(), "copy"), files=3) == [3, 4] and job.rows() == ALL


def test_a_table_that_was_restored_remembers_its_batches_still(spark: SparkOfSinks, tmp_path: Path) -> None:
    """So the new id is right there, too: with it each row is there once."""
    job, manifest = ahead(spark, "delta", tmp_path)
    restored = f"RESTORE TABLE delta.`{job.place}` TO VERSION AS OF 2"
    assert isinstance(spark.ask("sql", text=restored), list) and job.rows() == Counter(range(3))
    assert job.run(job.copied(manifest, GOES_ON, "same"), files=3) == [3, 4]
    assert job.rows() == Counter(range(3)), "with the same id all of it is skipped"
    job.ran.pop()
    back = job.decided(manifest, ROLLED_BACK)
    assert back.step is ReturnStep.NEW_IDS
    assert job.run(job.copied(manifest, back, "copy"), files=3) == [3, 4] and job.rows() == ALL


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_start_loses_no_row(spark: SparkOfSinks, kind: str, tmp_path: Path) -> None:
    job, _ = ahead(spark, kind, tmp_path)
    fresh = tmp_path / "fresh"
    said = Said(SinkMemory.REMEMBERS) if kind == "foreachBatch" else NOTHING_SAID
    back = before_fresh_start(job.grounds(), str(fresh), job.spec(), said, opened)
    refused = STEPS[kind] is ReturnStep.REFUSE
    assert (back.step is ReturnStep.REFUSE) == refused
    assert job.run(fresh, files=3) == [0, 1, 2]
    found = job.rows()
    assert (found == Counter(range(6))) if refused else (found == ALL + Counter(range(6))), found
