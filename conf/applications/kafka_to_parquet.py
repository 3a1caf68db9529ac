"""Example: Kafka to Parquet, one directory per day; exactly once through Spark's file sink.

Needs the Kafka connector of the same version as Spark (``packages`` of the spec). Where KAFKA_PASSWORD is set, SASL is
used; the spec gives it as a reference, ``${env:…}`` or ``${file:…}``.
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def security() -> dict[str, str]:
    password = os.environ.get("KAFKA_PASSWORD")
    if not password:
        return {}
    user = os.environ.get("KAFKA_USER", "clicks")
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="{quoted}";'
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--max-offsets", type=int, default=100_000, help="most records of one batch")
    parser.add_argument("--trigger", default="10 seconds")
    options = parser.parse_args()

    spark = SparkSession.builder.appName(f"{options.topic}-to-parquet").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.max_offsets)
        .options(**security())
        .load()
    )
    table = records.select(
        F.col("key").cast("string"),
        F.col("value").cast("string"),
        "partition",
        "offset",
        "timestamp",
        F.to_date("timestamp").alias("day"),
    )
    query = (
        table.writeStream.queryName(f"{options.topic}-to-parquet")
        .format("parquet")
        .partitionBy("day")
        .trigger(processingTime=options.trigger)
        .option("checkpointLocation", options.checkpoint)
        .start(options.output)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
