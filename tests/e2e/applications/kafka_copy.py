"""Copies the records of a Kafka topic to another one through Spark's own sink: ``<partition> <offset> <text>``.

ARGS: checkpoint, servers, topic, target, a file (or nothing): while it is there, records of partition 1 are not written. The
task of partition 0 has ended then, so a batch is in the middle.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

POLL_S = 0.2


def main(checkpoint: str, servers: str, topic: str, target: str, hold: str) -> None:
    spark = SparkSession.builder.getOrCreate()

    @udf("string")
    def waited_for(partition: int, value: str) -> str:
        while partition == 1 and Path(hold).exists():
            time.sleep(POLL_S)
        return value

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    lines = records.selectExpr(
        "partition", "concat_ws(' ', partition, offset, cast(value AS string)) AS value"
    )
    query = lines.select(waited_for("partition", "value").alias("value")).writeStream.queryName("copy")
    query = query.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target)
    query = query.trigger(processingTime="1 second").option("checkpointLocation", checkpoint)
    query.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
