"""A Spark driver that runs a stateful query again and again from its checkpoint, in one JVM: ``restarted_queries.py CHECKPOINT ROUNDS``.

Prints a line of JSON for each batch: its number, and what it counted. After half of the rounds it deletes the checkpoint by
Hadoop, past Spark's checkpoint manager, and begins anew.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

FORGOTTEN_AFTER_S = 1.5


def main() -> None:
    checkpoint, rounds = sys.argv[1], int(sys.argv[2])
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.groupBy((col("value") % 3).alias("key")).count()

    def sink(frame: Any, batch_id: int) -> None:
        print(json.dumps([batch_id, sorted(row["count"] for row in frame.collect())]), flush=True)

    for number in range(2 * rounds):
        if number == rounds:
            time.sleep(FORGOTTEN_AFTER_S)
            path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
            path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
        writer = counts.writeStream.outputMode("complete").option("checkpointLocation", checkpoint)
        writer.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
