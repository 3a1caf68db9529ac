"""The streaming application of the recovery tests, and their witness; knows nothing of the supervisor but its environment.

Counts and sums generated rows per key: the same rows in every run, so what batch n must show is known beforehand. What a
batch showed goes into the file ``WITNESS`` before the batch is committed. Runs as a script (``launch: submit``) and as
``counts:entry`` (``launch: session``); its arguments: the checkpoint and, maybe, the time between two batches.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROWS_PER_BATCH, KEYS = 30, 3
BEAT_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
MARK = ("WITNESS", "SPARK_SUPERVISOR_JOB")
OWN = "SPARK_SUPERVISOR_CLAIM" if "SPARK_SUPERVISOR_CLAIM" in os.environ else "SPARK_SUPERVISOR_ATTEMPT"
"""By this the processes of our tree are told from those of other attempts; a prepared tree was born before its attempt."""


def note(event: str, **more: Any) -> None:
    line = {
        "event": event,
        "job": os.environ["SPARK_SUPERVISOR_JOB"],
        "uid": os.environ["SPARK_SUPERVISOR_UID"],
        "attempt": int(os.environ["SPARK_SUPERVISOR_ATTEMPT"]),
        "pid": os.getpid(),
        "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
        "t": time.time(),
        **more,
    }
    descriptor = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    os.close(descriptor)


def begin() -> None:
    """Who is there: since when our own tree is, and whether anything of another attempt of this job still lives."""
    born_at_s, strangers = time.clock_gettime(time.CLOCK_BOOTTIME), []
    for process in Path("/proc").iterdir():
        try:
            environment = (process / "environ").read_bytes().split(b"\0") if process.name.isdigit() else []
            if not all(f"{name}={os.environ[name]}".encode() in environment for name in MARK):
                continue
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if f"{OWN}={os.environ[OWN]}".encode() in environment:
            born_at_s = min(born_at_s, int(stat[19]) / TICKS)
        elif stat[0] not in "ZX":
            strangers.append(int(process.name))
    if b"SPARK_SUPERVISOR_PREPARED=" in Path("/proc/self/environ").read_bytes():
        born_at_s = time.clock_gettime(
            time.CLOCK_BOOTTIME
        )  # its attempt begins with the opening of its barrier
    note("start", role="tree", boottime=born_at_s)
    secrets = {
        name: hashlib.sha256(os.environ.get(name, "").encode()).hexdigest()
        for name in ("TOKEN", "FILE_TOKEN")
    }
    note("start", role="driver", strangers=strangers, secrets=secrets, args=sys.argv[1:])
    threading.Thread(target=beat, daemon=True).start()


def beat() -> None:
    while True:
        time.sleep(BEAT_S)
        note("beat", role="driver")


def entry(spark: Any) -> None:
    begin()
    run(spark)


def run(spark: Any) -> None:
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    note("session", jvm=jvm, spark=spark.version, python=list(sys.version_info[:2]), prefix=sys.prefix)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH).load()
    counts = rows.groupBy((rows.value % KEYS).alias("key")).agg({"*": "count", "value": "sum"})

    def write(batch: Any, batch_id: int) -> None:
        found = {str(row["key"]): [row["count(1)"], row["sum(value)"]] for row in batch.collect()}
        note("batch", batch_id=batch_id, counts=dict(sorted(found.items())))

    query = counts.writeStream.queryName("counts").outputMode("complete").foreachBatch(write)
    trigger = sys.argv[2] if len(sys.argv) > 2 else "2 seconds"
    query.option("checkpointLocation", sys.argv[1]).trigger(processingTime=trigger).start()


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    begin()
    session = SparkSession.builder.getOrCreate()
    run(session)
    session.streams.awaitAnyTermination()
