"""Example: a stateful stream of generated rows, counted per key, each batch written as Parquet.

Needs nothing but Spark. An ordinary PySpark program: nothing in it knows of the supervisor. The sink is idempotent, as
every foreachBatch sink should be: a batch that is replayed after a crash replaces what its first run left behind.
When the job is stopped in order (suspend, cancel, restart), the batch that runs is committed, ``awaitTermination`` returns
as if the query had been stopped here, and what stands after it runs; no batch has to be replayed then.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--output", required=True, help="directory for one Parquet directory per batch")
    parser.add_argument("--rows-per-second", type=int, default=10)
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--trigger", default="1 second", help="time between two batches")
    parser.add_argument(
        "--batches", type=int, default=0, help="stop after so many batches of this run; 0: never"
    )
    options = parser.parse_args()

    spark = SparkSession.builder.appName("rate-counts").getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", options.rows_per_second).load()
    counts = rows.groupBy((F.col("value") % options.keys).alias("key")).agg(
        F.count("*").alias("rows"),
        F.max("value").alias("newest"),
    )
    written = 0

    def write(batch: DataFrame, batch_id: int) -> None:
        nonlocal written
        batch.write.mode("overwrite").parquet(f"{options.output.rstrip('/')}/batch={batch_id:08d}")
        written += 1

    query = (
        counts.writeStream.queryName("rate-counts")
        .outputMode("update")
        .trigger(processingTime=options.trigger)
        .option("checkpointLocation", options.checkpoint)
        .foreachBatch(write)
        .start()
    )
    if not options.batches:
        query.awaitTermination()
    # The batch that is still to be committed counts too: wait until the one after it has begun.
    while not query.awaitTermination(0.2) and written <= options.batches:
        pass
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
