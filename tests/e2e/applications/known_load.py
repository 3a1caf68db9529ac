"""Takes a known time for each batch, and holds memory when it is told to.

Arguments: home, then for each query ``name:rows_per_s:ramp_s``. A batch of r rows sleeps ``FIXED_S`` + r × ``ROW_S``.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

FIXED_S, ROW_S, TRIGGER_S = 0.6, 0.004, 3
HOME, *QUERIES = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
held: list[bytearray] = []


def sink(frame: Any, _batch_id: int) -> None:
    time.sleep(FIXED_S + frame.count() * ROW_S)


for query in QUERIES:
    name, rows_per_s, ramp_s = query.split(":")
    rates = spark.readStream.format("rate").option("rowsPerSecond", rows_per_s).option("numPartitions", 1)
    writer = rates.option("rampUpTime", f"{ramp_s}s").load().writeStream.queryName(name).foreachBatch(sink)
    writer = writer.option("checkpointLocation", f"{HOME}/checkpoints/{name}")
    writer.trigger(processingTime=f"{TRIGGER_S} seconds").start()

while True:
    if os.path.exists(f"{HOME}/hold") and not held:
        with open(f"{HOME}/hold", encoding="ascii") as file:
            held.append(bytearray(os.urandom(1) * (int(file.read()) << 20)))
        open(f"{HOME}/held", "w").close()
    time.sleep(0.2)
