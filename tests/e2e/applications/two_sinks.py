"""Copies rows from files to a file sink and to a Delta table, one file a batch: ``two_sinks.py CHECKPOINT HOME [TRIGGER]``.

``HOME`` has ``in`` (JSON lines), and gets ``file`` and ``delta``. It keeps the witness of ``counts.py``, which lies beside it.
"""

from __future__ import annotations

import sys

from counts import begin, note  # type: ignore[import-not-found]
from pyspark.sql import SparkSession

FORMATS = {"file": "parquet", "delta": "delta"}


def main(checkpoint: str, home: str, trigger: str = "1 second") -> None:
    begin()
    spark = SparkSession.builder.getOrCreate()
    note("session", jvm=spark._jvm.java.lang.ProcessHandle.current().pid(), spark=spark.version)
    rows = spark.readStream.schema("a int").option("maxFilesPerTrigger", 1).json(f"file://{home}/in")
    for name, form in FORMATS.items():
        writer = rows.writeStream.queryName(name).format(form).trigger(processingTime=trigger)
        writer.option("checkpointLocation", f"{checkpoint}/{name}").start(f"file://{home}/{name}")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
