"""Applications of every kind that the time-outs must tell apart; the argument before the checkpoint says which."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

KIND, CHECKPOINT, INPUT = sys.argv[1:]
LONG_BATCH_S = 18.0
SLOW_START_S = 15.0


def forever() -> None:
    while True:
        time.sleep(3600)


def hangs_from(batch_id: int) -> Any:
    return lambda _frame, number: forever() if number >= batch_id else None


def long_task(value: int) -> int:
    time.sleep(LONG_BATCH_S)
    return value


if KIND == "no-query":
    forever()
if KIND == "slow-start":
    time.sleep(SLOW_START_S)

from pyspark.sql import SparkSession  # noqa: E402 - some of them never come so far
from pyspark.sql.functions import udf  # noqa: E402

spark = SparkSession.builder.getOrCreate()
if KIND == "no-batch":
    forever()
rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
if KIND == "idle":
    Path(INPUT).mkdir(parents=True, exist_ok=True)
    (Path(INPUT) / "only.txt").write_text("all there is\n")
    writer = (
        spark.readStream.format("text")
        .load(INPUT)
        .writeStream.format("noop")
        .trigger(processingTime="1 second")
    )
elif KIND == "long-batch":
    writer = rates.select(udf(long_task, "long")("value")).writeStream.format("noop")
elif KIND == "hour":
    writer = rates.writeStream.format("noop").trigger(processingTime="1 hour")
elif KIND == "first-batch":
    writer = rates.writeStream.foreachBatch(hangs_from(0))
elif KIND == "hung":
    writer = rates.writeStream.foreachBatch(hangs_from(2))
else:
    writer = rates.writeStream.format("noop").trigger(processingTime="500 milliseconds")
writer.option("checkpointLocation", CHECKPOINT).queryName(KIND).start().awaitTermination()
