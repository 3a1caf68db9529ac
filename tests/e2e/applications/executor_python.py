"""A streaming application that finds out which Python runs its rows on executors. Runs as a script beside ``counts.py``, whose
witness it keeps; its argument: the checkpoint."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    from counts import begin, note
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    begin()
    spark = SparkSession.builder.getOrCreate()
    note("session", jvm=spark._jvm.java.lang.ProcessHandle.current().pid(), prefix=sys.prefix)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()

    @udf
    def python(_value: int) -> str:
        return f"{sys.version_info[0]}.{sys.version_info[1]} {sys.prefix}"

    def write(batch: Any, batch_id: int) -> None:
        note("python", batch_id=batch_id, found=sorted({row.python for row in batch.collect()}))

    query = rows.select(python("value").alias("python")).writeStream.foreachBatch(write)
    query.option("checkpointLocation", sys.argv[1]).trigger(
        processingTime="1 second"
    ).start().awaitTermination()


if __name__ == "__main__":
    main()
