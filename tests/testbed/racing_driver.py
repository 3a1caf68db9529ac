"""A Spark driver that runs one query after another as it is told on stdin: one of the two of ``tests.fence_race``.

A line of JSON in, a line of JSON out. ``start``: a stateful query on a checkpoint, with a checkpoint manager; each batch that
is handed to its sink is a line in a file; with ``other`` it waits until that driver has been handed the same. ``state``: whether it lives, or what it died of. ``stop``: its batches' times.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

IN_STEP_MAX_S = 5.0
MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().split() if Path(path).exists() else []


def started(spark: SparkSession, order: dict[str, Any]) -> Any:
    if order["manager"] is None:
        spark.conf.unset(MANAGER_KEY)
    else:
        spark.conf.set(MANAGER_KEY, order["manager"])
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.groupBy((rows.value % 3).alias("k")).count()

    def sink(frame: DataFrame, batch_id: int) -> None:
        with open(order["sink"], "a") as file:
            file.write(f"{batch_id}\n")
        frame.collect()
        give_up_at_s = time.monotonic() + IN_STEP_MAX_S
        while (
            order["other"]
            and time.monotonic() < give_up_at_s
            and str(batch_id) not in lines_of(order["other"])
        ):
            time.sleep(0.005)

    stream = (
        counts.writeStream.outputMode("complete")
        .foreachBatch(sink)
        .option("checkpointLocation", order["checkpoint"])
    )
    return stream.trigger(processingTime=order["every"]).start()


def state_of(query: Any) -> dict[str, Any]:
    if isinstance(query, Exception):  # it did not even come to a query
        return {"alive": False, "error": str(query)}
    error = query.exception()
    return {"alive": query.isActive, "error": None if error is None else str(error)}


def stopped(query: Any) -> dict[str, Any]:
    if isinstance(query, Exception):
        return {"batches": []}
    query.stop()
    progress = [json.loads(each.json) for each in query.recentProgress]
    return {"batches": [each["durationMs"] for each in progress if "addBatch" in each["durationMs"]]}


def overlapped(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    """Two writers of one log entry look before either has written; how many are told that they wrote it?"""
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    path = jvm.org.apache.hadoop.fs.Path(f"{order['checkpoint']}/offsets/0")
    conf.unset(MANAGER_KEY)
    if order["manager"] is not None:
        conf.set(MANAGER_KEY, order["manager"])
    maker = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    managers = [maker.create(path.getParent(), conf) for _ in range(2)]
    managers[0].mkdirs(path.getParent())
    streams = [manager.createAtomic(path, False) for manager in managers]
    told = 0
    for stream in streams:
        stream.write(b"x")
        try:
            stream.close()
            told += 1
        except Exception:
            stream.cancel()
    return {"told": told}


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    query: Any = None
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "start":
            try:
                query = started(spark, order)
            except Exception as error:
                query = error
            answer = {"started": True}
        elif order["do"] == "overlap":
            answer = overlapped(spark, order)
        else:
            answer = state_of(query) if order["do"] == "state" else stopped(query)
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
