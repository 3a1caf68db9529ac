"""Runs the streaming application of ``demo`` and ``dev``, an ordinary PySpark program in which nothing knows
of the supervisor.

It is never imported: ``spark-submit`` runs this file. Each batch reads the same number of generated rows and
adds them to counts per key, which live in Spark's state and checkpoint. What the counts are after a batch is
appended to a file, one line of JSON per batch: the record that shows whether anything was lost or counted
twice.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--record", required=True, help="file that gets one line per batch")
    parser.add_argument("--rows-per-batch", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--trigger", default="1 second", help="time between two batches")
    options = parser.parse_args()

    spark = SparkSession.builder.appName("clicks").getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", options.rows_per_batch).load()
    counts = rows.groupBy((F.col("value") % options.keys).alias("key")).agg(F.count("*").alias("rows"))

    def write(batch: DataFrame, batch_id: int) -> None:
        line = {
            "batch_id": batch_id,
            "total": sum(row["rows"] for row in batch.collect()),
            "attempt": int(os.environ.get("SPARK_SUPERVISOR_ATTEMPT", "0")),
            "pid": os.getpid(),
            "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
        }
        with open(options.record, "a") as file:  # noqa: PTH123 - as anybody would write it
            file.write(json.dumps(line) + "\n")

    query = (
        counts.writeStream.queryName("clicks")
        .outputMode("complete")
        .trigger(processingTime=options.trigger)
        .option("checkpointLocation", options.checkpoint)
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
