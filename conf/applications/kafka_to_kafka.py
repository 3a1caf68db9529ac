"""Example: Kafka to Kafka; consumers with ``isolation.level=read_committed`` see each record exactly once.

Each batch is one Kafka transaction of the driver: the records, and a mark with the number of the batch. A batch that an
attempt before this one has committed is recognised by its mark, and one that it has not is aborted by the broker when
this attempt begins. Needs the Kafka connector of the same version as Spark (``packages`` of the spec), and kafka-python
(3.0 or newer) in the Python of the driver. The records of a batch pass through the driver one by one.

The topic of the marks must have one partition and ``cleanup.policy=compact``, and be of this job alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from pyspark.sql import SparkSession

MARKS_MAX_S = 120.0
TRANSACTION_MAX_MS = 600_000
"""After so long the broker aborts a transaction. It allows no more than its ``transaction.max.timeout.ms`` (15 minutes)."""


class TransactionalSink:
    """Writes batches to ``target``, each in one transaction with its mark in ``marks``.

    ``name`` is the transactional id: whoever opens a sink of the same name ends what an older one has not committed,
    and from then on the broker refuses the older one. So it must be the same in each attempt, and of no other job.
    ``place`` is the checkpoint: numbers of batches mean something only together with it.
    """

    def __init__(self, servers: str, target: str, marks: str, name: str, place: str) -> None:
        self._servers, self._target, self._marks, self._place = servers, target, marks, place
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_MAX_MS,
            linger_ms=5,
        )
        self._producer.init_transactions()  # first: the marks are final after it
        self._check_marks()
        self.last = self._last_mark()
        self._error: BaseException | None = None

    def write(self, batch_id: int, records: Iterable[tuple[Any, Any]]) -> None:
        """Writes one batch, unless it is there. ``records``: key and value of each, as bytes or None."""
        if batch_id == self.last:
            return
        if batch_id < self.last:
            raise RuntimeError(
                f"batch {batch_id} of {self._place}, but {self._target} has batch {self.last} of it: the checkpoint "
                f"was set back; give the job another checkpoint, or write to another topic"
            )
        try:
            self._producer.begin_transaction()  # what raises from here on ends the driver; the next attempt aborts it
            for key, value in records:
                self._send(self._target, key, value)
            self._send(self._marks, self._place.encode(), str(batch_id).encode())
            self._producer.flush()
            if self._error is not None:
                raise self._error
            self._producer.commit_transaction()
        except KafkaError as error:  # kafka-python has the cause among the arguments of a plain KafkaError
            raise next((each for each in error.args if isinstance(each, KafkaError)), error) from None
        self.last = batch_id

    def _send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        self._producer.send(topic, key=key, value=value).add_errback(self._failed)

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error

    def _check_marks(self) -> None:
        """Raises RuntimeError if the topic of the marks could lose them."""
        with closing(KafkaAdminClient(bootstrap_servers=self._servers)) as admin:
            wanted = ConfigResource(ConfigResourceType.TOPIC, self._marks)
            found = admin.describe_configs([wanted], config_filter="all")
        policy = next(iter(found.values()))[self._marks]["cleanup.policy"]["value"]
        if policy != "compact":
            raise RuntimeError(f"topic {self._marks} has cleanup.policy={policy}: it must be compact")

    def _last_mark(self) -> int:
        """Returns the newest batch that is committed for this checkpoint, -1 if there is none."""
        part, last = TopicPartition(self._marks, 0), -1
        with closing(
            KafkaConsumer(
                bootstrap_servers=self._servers, isolation_level="read_committed", enable_auto_commit=False
            )
        ) as consumer:
            consumer.assign([part])
            consumer.seek_to_beginning(part)
            end, until = self._end_of_marks(part), time.monotonic() + MARKS_MAX_S
            while consumer.position(part) < end:
                for polled in consumer.poll(timeout_ms=500).values():
                    mine = [int(each.value) for each in polled if each.key == self._place.encode()]
                    last = max([last, *mine])
                if time.monotonic() > until:
                    raise RuntimeError(f"topic {self._marks} has a transaction of another producer")
        return last

    def _end_of_marks(self, part: TopicPartition) -> int:
        """Returns where the marks end, including those of transactions that are not committed."""
        with closing(KafkaConsumer(bootstrap_servers=self._servers)) as consumer:
            end: int = consumer.end_offsets([part])[part]
            return end


def main(sink_type: type[TransactionalSink] = TransactionalSink) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--source", required=True, help="the topic to read")
    parser.add_argument("--target", required=True, help="the topic to write")
    parser.add_argument("--marks", required=True, help="the compacted topic for the numbers of batches")
    parser.add_argument("--name", required=True, help="the transactional id: {job}")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--max-offsets", type=int, default=10_000, help="most records of one batch")
    parser.add_argument("--trigger", default="10 seconds")
    options = parser.parse_args()

    spark = SparkSession.builder.appName(options.name).getOrCreate()
    sink = sink_type(options.servers, options.target, options.marks, options.name, options.checkpoint)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.max_offsets)
        .load()
        .select("key", "value")
    )

    def write(batch: Any, batch_id: int) -> None:
        rows = batch.toLocalIterator()
        sink.write(batch_id, ((as_bytes(row.key), as_bytes(row.value)) for row in rows))

    query = records.writeStream.queryName(options.name).foreachBatch(write)
    query.trigger(processingTime=options.trigger).option(
        "checkpointLocation", options.checkpoint
    ).start().awaitTermination()


def as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


if __name__ == "__main__":
    main()
