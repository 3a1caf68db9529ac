"""The streaming application of ``tests.change_proof``: a stateful aggregate over files, whose result is one multiset of rows.

Rows that come twice are dropped and the rest is counted in windows, both with a watermark. Runs as a script beside ``counts.py``,
whose witness it keeps; what a batch gave is written down before the batch is committed. Its arguments: the checkpoint, the
directory with the input, how many files make a batch, and the time between two batches (``now``: until the input ends).
Where the file ``EXHAUST`` is, one batch takes more memory than the JVM has, once.
"""

from __future__ import annotations

import os
import sys
from typing import Any

DELAY_S, WINDOW_S, KEYS = 10, 10, 7


def counted(spark: Any, source: str, files_a_batch: int) -> Any:
    """Columns: start of the window (seconds since 1970), key, number of rows and sum of values."""
    from pyspark.sql import functions as F

    rows = (
        spark.readStream.schema("id long, ts long, v long")
        .option("maxFilesPerTrigger", files_a_batch)
        .json(source)
        .withColumn("at", F.timestamp_seconds("ts"))
        .withColumn("key", F.pmod(F.col("id"), F.lit(KEYS)))
        .withWatermark("at", f"{DELAY_S} seconds")
        .dropDuplicates(["id", "at"])
    )
    return (
        rows.groupBy(F.window("at", f"{WINDOW_S} seconds"), "key")
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .select(F.unix_timestamp("window.start").alias("start"), "key", "n", "total")
    )


def exhaust(spark: Any) -> None:
    """Takes eight times 2**30 bytes of the JVM, which has not so much."""
    try:
        os.unlink(os.environ.get("EXHAUST", ""))
    except FileNotFoundError:
        return
    spark.sparkContext._gateway.new_array(spark._jvm.long, 2**30)


def main() -> None:
    from counts import begin, note
    from pyspark.sql import SparkSession

    begin()
    spark = SparkSession.builder.getOrCreate()
    note("session", jvm=spark._jvm.java.lang.ProcessHandle.current().pid())
    checkpoint, source, files_a_batch, trigger = sys.argv[1:]

    def write(batch: Any, batch_id: int) -> None:
        exhaust(spark)
        found = {f"{row.start} {row.key}": [row.n, row.total] for row in batch.collect()}
        note("batch", batch_id=batch_id, counts=dict(sorted(found.items())))

    query = counted(spark, source, int(files_a_batch)).writeStream.outputMode("append").foreachBatch(write)
    query = query.trigger(availableNow=True) if trigger == "now" else query.trigger(processingTime=trigger)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
