"""A job on a Kafka topic is killed, handed over, and loses its host, each time in the middle of a batch.

What its sink holds afterwards is judged: a sink that overwrites a batch, Spark's own Kafka sink, and the example of a
transactional one. Real Spark, a real broker, real S3 calls, a real registry.
"""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import ProducerFencedError

from supervisor.clients import processes
from tests.testbed.fleet import SHIM, TWIN
from tests.testbed.kafka_jobs import PATIENCE_S, Topic, lag
from tests.testbed.other_spark import kafka_python
from tests.testbed.spark_fleet import APPLICATIONS
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB = "records"
EXAMPLES = Path(__file__).parents[2] / "conf" / "applications"


def kill(topic: Topic) -> None:
    """kill -9 of the whole driver."""
    root = topic.fleet.root_of(JOB)
    topic.fleet.signal(root, signal.SIGKILL)
    topic.fleet.wait_gone(root)


def hand_over(topic: Topic) -> None:
    """``restart``, which brings the next driver up before it stops the old one."""
    root = topic.fleet.root_of(JOB)
    topic.fleet.ok("restart", JOB)
    topic.fleet.wait_gone(root, timeout_s=PATIENCE_S)


def lose_host(topic: Topic) -> None:
    """The host that runs the job is gone, with all that ran there. It stays away."""
    fleet = topic.fleet
    host, ours = fleet.host_of(JOB), [fleet.process(JOB, SHIM), fleet.process(JOB, TWIN), *fleet.tree(JOB)]
    fleet.kill(host)
    for process in ours:
        processes.kill(process)
    fleet.wait_gone(*ours)


@pytest.mark.parametrize("interrupt", [kill, hand_over, lose_host])
def test_a_sink_that_overwrites_holds_each_record_once(topic: Topic, interrupt: Any) -> None:
    fleet = topic.fleet
    topic.produce(p0=4, p1=4, p2=4)
    topic.submit(JOB)
    topic.wait_written(JOB, p0=range(4), p1=range(4), p2=range(4))
    wait_until(lambda: lag(fleet, JOB) == 0, PATIENCE_S, "the job to have committed that")
    committed = topic.committed(JOB)
    topic.hold(JOB, committed + 1)
    topic.produce(p0=3)
    topic.wait_written(JOB, p0=range(7), p1=range(4), p2=range(4))
    assert topic.committed(JOB) == committed  # it is in the middle of a batch
    topic.produce(p1=2)
    interrupt(topic)
    topic.release(JOB)
    topic.wait_written(JOB, p0=range(7), p1=range(6), p2=range(4))
    topic.produce(p2=1)
    topic.wait_written(JOB, p0=range(7), p1=range(6), p2=range(5))
    assert topic.written(JOB) == topic.kafka.records(topic.name)
    fleet.ok("cancel", JOB, "--wait")


def test_the_kafka_sink_of_spark_writes_a_batch_again_in_the_middle_of_which_it_was_killed(
    topic: Topic,
) -> None:
    target, hold = topic.kafka.new_topic(1), topic.holds / JOB
    args = ["{checkpoint}", topic.kafka.servers, topic.name, target, str(hold)]
    topic.produce(p0=2, p1=1)
    topic.submit(JOB, application=APPLICATIONS / "kafka_copy.py", args=args)

    def copied() -> list[str]:
        return [record.text for record in topic.kafka.records(target)]

    first = ["0 0 r0", "0 1 r1", "1 0 r0"]
    wait_until(lambda: sorted(copied()) == first, PATIENCE_S, "the first batch", period_s=1)
    wait_until(lambda: topic.committed(JOB) == 0, PATIENCE_S, "the first batch to be committed")
    topic.hold(JOB, 0)
    topic.produce(p0=2, p1=1)
    wait_until(lambda: len(copied()) == 5, PATIENCE_S, "a part of the second batch", period_s=1)
    kill(topic)
    topic.release(JOB)
    wait_until(lambda: "1 1 r1" in copied(), PATIENCE_S, "the second batch", period_s=1)
    topic.produce(p1=1)
    wait_until(lambda: "1 2 r2" in copied(), PATIENCE_S, "the third batch", period_s=1)
    twice = {text for text, times in Counter(copied()).items() if times == 2}
    assert Counter(copied()) == Counter([*first, "0 2 r2", "0 3 r3", "1 1 r1", "1 2 r2", *twice])
    assert twice == {"0 2 r2", "0 3 r3"}
    topic.fleet.ok("cancel", JOB, "--wait")


@dataclass
class Transactions:
    """The example of a transactional sink, which reads ``topic`` and writes to a topic of its own."""

    topic: Topic

    def __post_init__(self) -> None:
        kafka = self.topic.kafka
        self.target, self.marks = kafka.new_topic(1), kafka.new_topic(1, cleanup_policy="compact")
        self.name = f"{JOB}-{self.target}"

    def submit(self) -> None:
        self.topic.submit(
            JOB,
            application=APPLICATIONS / "kafka_transactions.py",
            py_files=[str(EXAMPLES / "kafka_to_kafka.py"), str(kafka_python())],
            args=[
                f"--servers={self.topic.kafka.servers}",
                f"--source={self.topic.name}",
                f"--target={self.target}",
                f"--marks={self.marks}",
                f"--name={self.name}",
                "--checkpoint={checkpoint}",
                "--trigger=1 second",
            ],
            env={"HOLD": str(self.topic.holds / JOB)},
        )

    def hold(self, where: str) -> None:
        draft = self.topic.holds / "draft"
        draft.write_text(where)
        draft.replace(self.topic.holds / JOB)

    def texts(self, isolation: str) -> list[str]:
        return [record.text for record in self.topic.kafka.records(self.target, isolation)]

    def wait_committed(self, *texts: str) -> None:
        wait_until(
            lambda: self.texts("read_committed") == list(texts),
            PATIENCE_S,
            f"a reader of committed records to see {texts}",
            period_s=1,
        )

    def wait_committed_by_spark(self, batch: int) -> None:
        wait_until(lambda: self.topic.committed(JOB) == batch, PATIENCE_S, f"batch {batch}", period_s=1)


def test_a_reader_of_committed_records_sees_each_once_over_deaths_and_a_hand_over(topic: Topic) -> None:
    there = Transactions(topic)
    topic.produce(p0=2)
    there.submit()
    there.wait_committed("r0", "r1")
    there.wait_committed_by_spark(0)

    there.hold("during 1")
    topic.produce(p0=2)
    wait_until(
        lambda: len(there.texts("read_uncommitted")) == 4, PATIENCE_S, "an open transaction", period_s=1
    )
    kill(topic)
    assert there.texts("read_committed") == ["r0", "r1"]
    topic.release(JOB)
    there.wait_committed("r0", "r1", "r2", "r3")
    assert there.texts("read_uncommitted") == ["r0", "r1", "r2", "r3", "r2", "r3"]
    there.wait_committed_by_spark(1)

    there.hold("after 2")
    topic.produce(p0=1)
    there.wait_committed("r0", "r1", "r2", "r3", "r4")
    assert topic.committed(JOB) == 1  # Spark does not know yet
    kill(topic)
    topic.release(JOB)
    there.wait_committed_by_spark(2)
    topic.produce(p0=1)
    there.wait_committed("r0", "r1", "r2", "r3", "r4", "r5")

    hand_over(topic)
    topic.produce(p0=1)
    there.wait_committed("r0", "r1", "r2", "r3", "r4", "r5", "r6")
    topic.fleet.ok("cancel", JOB, "--wait")


def test_who_takes_the_transactional_id_is_named_and_loses_it_to_the_next_attempt(topic: Topic) -> None:
    there = Transactions(topic)
    topic.produce(p0=1)
    there.submit()
    there.wait_committed("r0")
    there.wait_committed_by_spark(0)
    config = {"bootstrap_servers": topic.kafka.servers, "transactional_id": there.name}
    with closing(KafkaProducer(**config)) as other:  # as an older attempt that lives on
        other.init_transactions()
        other.begin_transaction()
        other.send(there.target, value=b"of another")
        other.flush()
        topic.produce(p0=1)
        there.wait_committed("r0", "r1")
        with pytest.raises(ProducerFencedError):
            other.commit_transaction()
    assert "another producer has taken the transactional id" in topic.fleet.ok("history", JOB).out
    assert there.texts("read_committed") == ["r0", "r1"]
    topic.fleet.ok("cancel", JOB, "--wait")
