"""A stateful stream with RocksDB, which first tells what its process is refused: ``confined.py CHECKPOINT REPORT``."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def outcome(trial: Callable[[], object]) -> str:
    try:
        trial()
    except OSError as error:
        return error.strerror or str(error)
    return "done"


def write(path: str) -> Callable[[], object]:
    return lambda: Path(path).write_text("x")


def write_draft(directory: str) -> Callable[[], object]:
    return lambda: tempfile.TemporaryFile(dir=directory).close()


def main() -> None:
    checkpoint, report = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    trials: dict[str, Callable[[], object]] = {
        "write to /opt": write("/opt/spark-supervisor/x"),
        "write to /etc": write("/etc/x"),
        "write to its home": write(f"{Path.home()}/x"),
        "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "user namespace": unshared,
        "memory of the machine": lambda: Path("/dev/mem").read_bytes(),
        "read its home": lambda: list(Path.home().iterdir()),
        "write to /tmp": write_draft("/tmp"),
        "shared memory": write_draft("/dev/shm"),
        "write to the state directory": write("/var/lib/spark-supervisor/x"),
        "names of interfaces": socket.if_nameindex,
        "address of its own name": lambda: socket.getaddrinfo(socket.gethostname(), None),
        "address in Java": lambda: spark.sparkContext._jvm.java.net.NetworkInterface.getNetworkInterfaces(),
    }
    Path(report).write_text(json.dumps({name: outcome(trial) for name, trial in trials.items()}))

    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    counts = rows.groupBy((F.col("value") % 5).alias("key")).count()
    stream = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint)
    stream.trigger(processingTime="1 second").start().awaitTermination()


def unshared() -> None:
    import ctypes

    user = 0x10000000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(user) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
