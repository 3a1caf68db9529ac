"""Writes files to a sink until all are read, and says what a reader finds there: one order a line on stdin, one answer a line.

It is no job (``tests.testbed.spark_of_sinks`` starts it): a test goes back with its checkpoints in between, or reads what jobs
have written. All sinks share one Spark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}


class Sinks:
    def __init__(self, home: Path) -> None:
        builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[2])
        for key, value in {**CONF, "spark.sql.catalog.ice.warehouse": f"file://{home}/ice"}.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.home = home
        self.do: dict[str, Any] = {"run": self.run, "rows": self.rows, "sql": self.sql}

    def run(self, kind: str, place: str, checkpoint: str, files: int) -> dict[str, Any]:
        read = self.spark.readStream.schema("a int").option("maxFilesPerTrigger", files)
        writer = read.json(f"{self.home}/in").writeStream.option("checkpointLocation", checkpoint)
        writer = writer.trigger(availableNow=True)
        if kind == "foreachBatch":
            query = writer.foreachBatch(lambda frame, batch: self.keep(frame, batch, Path(place))).start()
        elif kind == "iceberg":
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {place} (a int) USING iceberg")
            query = writer.format("iceberg").toTable(place)
        else:
            query = writer.format({"file": "parquet"}.get(kind, kind)).start(place)
        sink = query._jsq.streamingQuery().sink()
        query.awaitTermination(600)
        error = query.exception()
        return {
            "id": str(query.id),
            "batches": [each["batchId"] for each in query.recentProgress],
            "sink": [str(sink.getClass().getName()), str(sink.toString())],
            "error": str(error) if error is not None else None,
        }

    def keep(self, frame: DataFrame, batch: int, place: Path) -> None:
        """A function by the book: it keeps the numbers of its batches, and writes none twice."""
        place.mkdir(parents=True, exist_ok=True)
        if not (place / f"{batch}.json").exists():
            (place / f"{batch}.json").write_text(json.dumps([row.a for row in frame.collect()]))

    def rows(self, kind: str, place: str) -> list[int]:
        if kind == "foreachBatch":
            return sorted(row for path in Path(place).glob("*.json") for row in json.loads(path.read_text()))
        if kind == "iceberg":
            self.spark.sql(f"REFRESH TABLE {place}")
            frame = self.spark.table(place)
        else:
            frame = self.spark.read.format({"file": "parquet"}.get(kind, kind)).load(place)
        return sorted(row.a for row in frame.collect())

    def sql(self, text: str) -> list[str]:
        return [str(row) for row in self.spark.sql(text).collect()]


sinks = Sinks(Path(sys.argv[1]))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = sinks.do[order.pop("do")](**order)
    except Exception as error:  # the test says what it means
        answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
    print(json.dumps(answer), flush=True)
