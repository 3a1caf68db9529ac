"""Writes to nothing but relative paths and a managed table, as in many examples: a file sink with a relative checkpoint, a table in
the warehouse, an appending ``foreachBatch``. At each start it notes in ARGS[1] what it finds of them, and where its files are.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

PLACES = ("out/rows", "spark-warehouse/clicks", "out/appended")


def found(spark: SparkSession, place: str) -> list[int] | None:
    """The values that are there, or None if there is nothing yet."""
    if not any(Path(place).glob("*.parquet")):
        return None
    return sorted(
        row.value for row in spark.read.schema("timestamp TIMESTAMP, value LONG").parquet(place).collect()
    )


def note(spark: SparkSession, report: str) -> None:
    config = "etl_config.json"
    beside = Path(__file__).resolve().parent / config
    said = {
        "cwd": os.getcwd(),
        "tmp": os.environ.get("TMPDIR"),
        "files": [json.loads(Path(each).read_text()) for each in (config, beside, SparkFiles.get(config))],
        "found": {place: found(spark, place) for place in PLACES},
    }
    attempt = os.environ["SPARK_SUPERVISOR_ATTEMPT"]
    draft = Path(report) / f".{attempt}"
    draft.write_text(json.dumps(said))
    draft.rename(Path(report) / f"{attempt}.json")


def append(frame: DataFrame, _batch: int) -> None:
    frame.write.mode("append").parquet("out/appended")


def main(report: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    note(spark, report)
    checkpoint = os.environ["SPARK_SUPERVISOR_CHECKPOINT"]

    def writer(name: str, at: str) -> Any:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        found = rows.writeStream.queryName(name).option("checkpointLocation", at)
        return found.trigger(processingTime="1 second")

    writer("rows", "checkpoint/rows").format("parquet").option("path", "out/rows").start()
    writer("appended", f"{checkpoint}/appended").foreachBatch(append).start()
    writer("clicks", f"{checkpoint}/clicks").toTable("clicks")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1])
