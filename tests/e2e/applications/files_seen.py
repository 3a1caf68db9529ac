"""Copies the lines of text files from ARGS[2] to ARGS[3], both on S3; the checkpoint is at ARGS[1]."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(checkpoint: str, source: str, sink: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(source)
    query = (
        lines.writeStream.format("text")
        .option("path", sink)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
