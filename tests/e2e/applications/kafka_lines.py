"""Copies the records of a Kafka topic to S3, one directory for each batch: ``<partition> <offset> <text>``.

ARGS: checkpoint, servers, topic, place of the sink, most records of a batch, a file (or nothing) with the number of the batch
that waits, before it is committed, for as long as the file is there, ``true`` or ``false`` for ``failOnDataLoss``, and how
often, a minute each time, it asks for the newest offsets.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

POLL_S = 0.2


def held(hold: Path, batch_id: int) -> bool:
    try:
        return batch_id >= int(hold.read_text())
    except FileNotFoundError:
        return False


def main(
    checkpoint: str, servers: str, topic: str, sink: str, most: str, hold: str, strict: str, tries: str
) -> None:
    spark = SparkSession.builder.getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("failOnDataLoss", strict)
        .option("fetchOffset.numRetries", tries)
        .load()
    )
    lines = records.selectExpr("concat_ws(' ', partition, offset, cast(value AS string)) AS value")

    def write(batch: Any, batch_id: int) -> None:
        batch.coalesce(1).write.mode("overwrite").text(f"{sink}/batch={batch_id}")
        while held(Path(hold), batch_id):
            time.sleep(POLL_S)

    query = lines.writeStream.queryName("lines").foreachBatch(write).trigger(processingTime="1 second")
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
