"""Is the training run: a throwaway application that makes the driver's JVM load what a streaming query needs.

``build`` runs it by the host's own spark-submit, as ``training.py DIRECTORY [--s3a]``; nothing of a job is
executed. It runs a stateful query with ``foreachBatch`` in Python, whose checkpoint, input and output are files
below ``DIRECTORY``, and with ``--s3a`` the same with the checkpoint on ``s3a://``, on a server of its own
(``object_server``): no request leaves the host, and no credentials are read. A part that fails is said and left
out: the classes that it would have loaded are then not in the archive.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import StreamingQueryListener

BATCHES = 2
QUERY_MAX_S = 240.0


class Silent(StreamingQueryListener):
    """Hears what every driver of the supervisor hears, and does nothing."""

    def onQueryStarted(self, event: object) -> None:
        pass

    def onQueryProgress(self, event: object) -> None:
        pass

    def onQueryIdle(self, event: object) -> None:
        pass

    def onQueryTerminated(self, event: object) -> None:
        pass


def run_query(spark: SparkSession, directory: Path, checkpoint: str) -> None:
    """Runs a stateful query for some batches."""
    seen: list[int] = []
    output = str(directory / "output")

    def keep(rows: DataFrame, batch_id: int) -> None:
        rows.collect()
        rows.write.mode("append").parquet(output)
        seen.append(batch_id)

    events = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    per_key = (
        events.withWatermark("timestamp", "10 seconds")
        .groupBy(sql.window("timestamp", "5 seconds"), (sql.col("value") % 3).alias("key"))
        .agg(sql.count("*").alias("rows"), sql.sum("value").alias("total"))
    )
    query = (
        per_key.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    until_at_s = time.monotonic() + QUERY_MAX_S
    while len(seen) < BATCHES and query.isActive and time.monotonic() < until_at_s:
        time.sleep(0.05)
    query.stop()


def run_files(spark: SparkSession, directory: Path) -> None:
    """Reads files as a stream, and writes files."""
    spark.range(20).selectExpr("id", "cast(id as string) as text").write.json(str(directory / "input"))
    rows = spark.readStream.schema("id long, text string").json(str(directory / "input"))
    query = (
        rows.dropDuplicates(["id"])
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "files"))
        .trigger(availableNow=True)
        .start(str(directory / "written"))
    )
    query.awaitTermination(int(QUERY_MAX_S))


def part(name: str, work: Callable[[], object]) -> None:
    """Does one part, and says what became of it."""
    try:
        work()
    except Exception:  # noqa: BLE001 - the rest is worth having without it
        traceback.print_exc()
        sys.stderr.write(f"class archive: {name} failed\n")


def object_server() -> Any:
    """Returns the function of that name of the module ``spark/object_server``, which is loaded by its path: this runs as a
    script, under Spark's own Python."""
    path = Path(__file__).parent.with_name("object_server.py")
    spec = importlib.util.spec_from_file_location("object_server", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.object_server()


def main() -> None:
    directory, with_s3a = Path(sys.argv[1]), "--s3a" in sys.argv[2:]
    with object_server() as properties:
        builder = SparkSession.builder.appName("class-archive")
        for key, value in properties.items():
            builder = builder.config(f"spark.hadoop.fs.s3a.{key}", value)
        spark = builder.getOrCreate()
        spark.streams.addListener(Silent())
        part("a query on files", lambda: run_query(spark, directory, str(directory / "checkpoint")))
        part("a stream of files", lambda: run_files(spark, directory))
        if with_s3a:
            part("a query on S3", lambda: run_query(spark, directory, "s3a://training/checkpoint"))
        spark.stop()


if __name__ == "__main__":
    main()
