"""Warms the JVM of a driver up that is being prepared (protocol §9.1).

It makes a SparkContext and runs a throwaway stateful query, which loads and compiles the engine, and stops them again.
What is kept is the warm JVM. The application then makes a SparkContext of its own as ever, with its own options: there
is none that it could find, and none with which its options would have to be compared. Making one costs some tenths of a
second in a warm JVM.

``barrier`` loads it when the bootstrap watches the import of pyspark, under whatever Python that runs (3.9 and later).
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

CHECKPOINT = "SPARK_SUPERVISOR_CHECKPOINT"

WARM_UP_CONF = {
    "spark.ui.port": "0",
    "spark.eventLog.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
}
"""What the warm-up does is seen by nobody outside, and leaves nothing."""
WARM_UP_MASTER = "local[1]"
NOT_FOR_WARM_UP = (
    "spark.extraListeners",
    "spark.plugins",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.streaming.checkpointLocation",
    "spark.files",
    "spark.archives",
    "spark.jars",
    "spark.submit.pyFiles",
    "spark.metrics.conf",
)
"""The application's own code (listeners, plugins), and files that are fetched for its own SparkContext."""
BUCKET = "spark-supervisor-warm-up"
RUNS, RUNS_MIN, RUNS_WITHIN_S = 8, 2, 15.0
"""After 6 runs the first batch of an application took half of what it took after 2 (docs/spark.md S35)."""
STRAIGHT = {
    "proxy.host": "",
    "proxy.port": "-1",
    "encryption.algorithm": "",
    "delegation.token.binding": "",
    "attempts.maximum": "1",
    "retry.limit": "1",
}
"""What the job's own options of S3A would put between this process and its own store."""


def warm_up(beside: Callable[[str], Any], begin: Callable[[Any], None] | None = None) -> tuple[Any, str]:
    """Returns the gateway to a warm JVM, in which nothing runs, and why it was not warmed if it was not. ``begin`` is called
    with the gateway before anything runs there. Raises whatever keeps a SparkContext from being made."""
    SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    if begin is not None:
        begin(gateway)
    conf = SparkConf(_jvm=gateway.jvm)
    for key in NOT_FOR_WARM_UP:
        conf._jconf.remove(key)  # type: ignore[union-attr]
    for key, value in WARM_UP_CONF.items():
        conf.set(key, value)
    if conf.get("spark.master", WARM_UP_MASTER).partition("[")[0] != "local":
        conf.set("spark.master", WARM_UP_MASTER)  # the executors of a cluster are for those who run
    not_warmed = ""
    with temporary_directory() as directory:
        conf.set("spark.sql.warehouse.dir", f"{directory}/warehouse")
        session = SparkSession(SparkContext(conf=conf))
        try:
            run_throwaway_query(session, f"file://{directory}/checkpoint")
            warm_file_system(gateway.jvm, session, beside)
        except Exception as error:  # noqa: BLE001 - a driver that is not warm is still sooner there than a cold one
            not_warmed = f"the throwaway query has failed: {type(error).__name__}: {error}"[:1000]
        session.stop()
    clear(gateway.jvm)
    hide(gateway)
    return gateway, not_warmed


def run_throwaway_query(session: Any, checkpoint: str) -> None:
    """Runs a stateful query from its start and then again and again from its checkpoint, with a batch each, so that the JVM
    compiles what the start of a query goes through. It takes ``RUNS``, or fewer on a slow host."""

    def sink(frame: Any, _batch_id: int) -> None:
        frame.collect()

    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.groupBy((col("value") % 3).alias("key")).count()
    begun_at_s = time.monotonic()
    for run in range(RUNS):
        if run >= RUNS_MIN and time.monotonic() - begun_at_s > RUNS_WITHIN_S:
            break
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
        writer.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()


def warm_file_system(jvm: Any, session: Any, beside: Callable[[str], Any]) -> None:
    """Uses the file system that the job's checkpoint is on. The job's own store is not asked for anything: the query's
    checkpoint is on a store in this process (``object_server``). Of another file system than S3A the classes are loaded."""
    checkpoint = os.environ.get(CHECKPOINT) or ""
    hadoop = session._jsc.hadoopConfiguration()
    if checkpoint.startswith("s3a:"):
        with beside("object_server").object_server() as properties:
            for name, value in {**properties, **STRAIGHT}.items():
                hadoop.set(f"fs.s3a.bucket.{BUCKET}.{name}", value)
            run_throwaway_query(session, f"s3a://{BUCKET}/checkpoint")
            close_file_systems(jvm)
    elif checkpoint:
        with suppress(Exception):
            jvm.org.apache.hadoop.fs.Path(checkpoint).getFileSystem(hadoop)


def close_file_systems(jvm: Any) -> None:
    with suppress(Exception):
        jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def clear(jvm: Any) -> None:
    """Removes what a stopped SparkContext leaves in its JVM: file systems with its settings, state stores, garbage."""
    close_file_systems(jvm)
    with suppress(Exception):
        getattr(jvm, "org.apache.spark.sql.execution.streaming.state.StateStore").stop()
    gc.collect()
    with suppress(Exception):
        jvm.java.lang.System.gc()


def hide(gateway: Any) -> None:
    """Lets the application find no gateway, as in a cold start, and get this one when it makes its SparkContext."""
    SparkContext._gateway = SparkContext._jvm = None
    files: Any = SparkFiles
    files._sc = files._root_directory = None
    module: Any = sys.modules[SparkContext.__module__]
    launch = module.launch_gateway

    def launch_gateway(*_args: Any, **_kwargs: Any) -> Any:
        module.launch_gateway = launch
        return gateway

    module.launch_gateway = launch_gateway


@contextmanager
def temporary_directory() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="spark-supervisor-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
