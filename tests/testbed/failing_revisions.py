"""A program for spark-submit: queries of which a later revision fails, and which the revision of before then runs again.

Argument: a directory. Of each case it prints a line of JSON: what ``left_behind`` says after the failure, how the
failure looked, and which rows are in the sink after the revision of before has gone on, with those that should be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from supervisor.checkpoint.preflight import left_behind
from supervisor.clients.store.tree import open_tree
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.spec.s3a import S3Access

Revision = Callable[[DataFrame, "FailingQuery"], Any]


class FailingQuery:
    """One query: ``input`` has files of numbers, ``sink`` what came out, by file sink or by ``foreachBatch``."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.input, self.sink, self.checkpoint = home / "in", home / "out", home / "ck"
        self.input.mkdir(parents=True)
        self._written = 0

    def write(self, files: int = 2) -> None:
        for _ in range(files):
            rows = [{"n": self._written * 10 + number} for number in range(10)]
            (self.input / f"{self._written}.json").write_text("\n".join(map(json.dumps, rows)))
            self._written += 1

    @property
    def expected(self) -> list[int]:
        return list(range(self._written * 10))

    def run(self, revision: Revision, source: Path | None = None) -> str:
        """Runs until all input is read, a file a batch. Returns how it failed; empty if it did not."""
        try:
            read = self.spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
            query = revision(read.json(str(source or self.input)), self)
            query.awaitTermination()
        except Exception as error:  # whatever a revision raises
            return f"{type(error).__name__}: {error}"[:300]
        return ""

    def start(self, frame: DataFrame, **options: str) -> Any:
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(
            availableNow=True
        )
        return writer.options(**options)

    def to_files(self, frame: DataFrame) -> Any:
        return self.start(frame).format("json").start(str(self.sink))

    def to_batches(self, frame: DataFrame, mode: str = "append", raises: str = "") -> Any:
        def handle(batch: DataFrame, number: int) -> None:
            rows = [row.asDict() for row in batch.collect()]
            if raises:
                raise ValueError(raises)
            self.sink.mkdir(exist_ok=True)
            (self.sink / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))

        return self.start(frame).outputMode(mode).foreachBatch(handle).start()

    def rows(self) -> list[dict[str, int]]:
        if (self.sink / "_spark_metadata").exists():
            return [row.asDict() for row in self.spark.read.schema("n long").json(str(self.sink)).collect()]
        files = sorted(self.sink.glob("*.json"), key=lambda path: int(path.stem))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def left(self) -> str:
        tree = open_tree(str(self.checkpoint), S3Access())
        assert tree is not None
        return left_behind(tree, self.known)

    def remember(self) -> None:
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        numbers = [int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit()]
        self.known = (SeenQuery(query, max(numbers)),)


def raising(_: int) -> int:
    raise ValueError("broken in a UDF")


def broken_function(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_files(frame.select(f.udf(raising, "long")("n").alias("n")))


def counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy((f.col("n") % 5).alias("k")).agg(f.count("*").alias("c"))


def to_files(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_files(frame.select("n"))


def to_batches(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_batches(frame.select("n"))


def to_counts(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_batches(counted(frame), "update")


def raising_in_batches(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_batches(frame.select("n"), raises="in the batch")


def raising_with_state(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_batches(counted(frame), "update", raises="with state")


def of_another_directory(_: DataFrame, case: FailingQuery) -> Any:
    elsewhere = case.home / "elsewhere"
    elsewhere.mkdir()
    for number in range(4):
        (elsewhere / f"{number}.json").write_text(json.dumps({"n": -number}))
    read = case.spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(elsewhere))
    return case.to_batches(read, raises="of another source")


def to_unwritable(frame: DataFrame, case: FailingQuery) -> Any:
    (case.home / "a-file").write_text("no directory")
    return case.start(frame.select("n")).format("json").start(str(case.home / "a-file" / "out"))


def other_columns(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_files(frame.select("no_such_column"))


def distinct_first(frame: DataFrame, case: FailingQuery) -> Any:
    return case.to_batches(counted(frame.dropDuplicates(["n"])), "update", raises="after two operators")


def other_key(frame: DataFrame, case: FailingQuery) -> Any:
    by_text = frame.groupBy(f.col("n").cast("string").alias("k")).agg(f.sum("n").alias("c"))
    return case.to_batches(by_text, "update", raises="with another key")


CASES: dict[str, tuple[Revision, Revision]] = {
    "foreach_batch": (to_batches, raising_in_batches),
    "udf": (to_files, broken_function),
    "missing_column": (to_files, other_columns),
    "bad_sink": (to_files, to_unwritable),
    "state": (to_counts, raising_with_state),
    "another_operator": (to_counts, distinct_first),
    "another_key": (to_counts, other_key),
    "state_added": (to_batches, raising_with_state),
    "another_source": (to_batches, of_another_directory),
}


def outcome(case: FailingQuery, before: Revision, bad: Revision) -> dict[str, Any]:
    case.write()
    assert case.run(before) == ""
    case.remember()
    case.write()
    failed = case.run(bad)
    left = case.left()
    goes_on = case.run(before) if not left else ""
    return {
        "failed": failed,
        "left": left,
        "goes_on": goes_on,
        "rows": case.rows(),
        "expected": case.expected,
    }


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    for name, (before, bad) in CASES.items():
        print(
            json.dumps({"case": name, **outcome(FailingQuery(spark, Path(sys.argv[1]) / name), before, bad)}),
            flush=True,
        )
    spark.stop()


if __name__ == "__main__":
    main()
