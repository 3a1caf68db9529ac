"""Example for ``launch: session``: a function that is given a SparkSession and leaves a query running.

The arguments of the spec are in ``sys.argv``, the checkpoint in the environment. ``run`` may return: the process lives as
long as a query does. Started by hand (``python session_counts.py --output …``) it builds a session of its own.
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def run(spark: SparkSession) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default=os.environ.get("SPARK_SUPERVISOR_CHECKPOINT"))
    parser.add_argument("--output", required=True)
    parser.add_argument("--rows-per-second", type=int, default=10)
    options = parser.parse_args()
    if not options.checkpoint:
        parser.error("--checkpoint or SPARK_SUPERVISOR_CHECKPOINT is needed")

    rows = spark.readStream.format("rate").option("rowsPerSecond", options.rows_per_second).load()
    per_second = (
        rows.withWatermark("timestamp", "5 seconds").groupBy(F.window("timestamp", "1 second")).count()
    )
    per_second.select("window.start", "count").writeStream.queryName("session-counts").outputMode(
        "append"
    ).trigger(
        processingTime="1 second",
    ).option("checkpointLocation", options.checkpoint).format("parquet").start(options.output)


if __name__ == "__main__":
    session = SparkSession.builder.appName("session-counts").getOrCreate()
    run(session)
    session.streams.awaitAnyTermination()
