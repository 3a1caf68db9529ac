"""The transactional sink of the example application on a real broker, without Spark: what a consumer of committed records sees."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kafka.errors import ProducerFencedError

from tests.testbed.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "conf" / "applications" / "kafka_to_kafka.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_to_kafka", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Target:
    """Opens sinks of one job, as its attempts would, and reads what they have written."""

    kafka: KafkaBroker
    example: ModuleType
    name: str
    marks: str

    def opened(self, place: str = "s3a://bucket/one") -> Any:
        return self.example.TransactionalSink(self.kafka.servers, self.name, self.marks, self.name, place)

    def committed(self) -> list[str]:
        return [each.text for each in self.kafka.records(self.name, "read_committed")]

    def all(self) -> list[str]:
        return [each.text for each in self.kafka.records(self.name)]


@pytest.fixture
def target(kafka: KafkaBroker, example: ModuleType) -> Target:
    return Target(kafka, example, kafka.new_topic(1), kafka.new_topic(1, cleanup_policy="compact"))


def rows(*texts: str) -> Sequence[tuple[bytes | None, bytes]]:
    return [(None, text.encode()) for text in texts]


def interrupted(*texts: str) -> Iterator[tuple[None, bytes]]:
    """The records of a batch in the middle of which the driver ends."""
    yield from ((None, text.encode()) for text in texts)
    raise KeyboardInterrupt


def test_a_batch_that_is_there_is_not_written_again(target: Target) -> None:
    first = target.opened()
    first.write(0, rows("a", "b"))
    first.write(1, rows("c"))
    again = target.opened()
    assert again.last == 1
    again.write(1, rows("c"))
    again.write(2, rows("d"))
    assert target.committed() == ["a", "b", "c", "d"]


def test_what_was_not_committed_is_seen_by_no_reader_of_committed_records(target: Target) -> None:
    first = target.opened()
    first.write(0, rows("a"))
    first._producer.begin_transaction()  # as a driver that is killed in the middle
    first._send(target.name, None, b"b")
    first._producer.flush()
    assert (target.committed(), target.all()) == (["a"], ["a", "b"])
    second = target.opened()
    assert second.last == 0
    second.write(1, rows("b", "c"))
    assert target.committed() == ["a", "b", "c"]
    assert target.all() == ["a", "b", "b", "c"]  # who reads everything sees the aborted record, too


def test_a_batch_that_fails_leaves_nothing_committed(target: Target) -> None:
    first = target.opened()
    with pytest.raises(KeyboardInterrupt):
        first.write(0, interrupted("a"))
    second = target.opened()
    assert second.last == -1
    second.write(0, rows("a"))
    assert target.committed() == ["a"]


def test_an_older_attempt_is_refused_once_a_newer_one_has_begun(target: Target) -> None:
    zombie = target.opened()
    zombie._producer.begin_transaction()
    zombie._send(target.name, None, b"of the zombie")
    zombie._producer.flush()
    target.opened().write(0, rows("a"))
    with pytest.raises(ProducerFencedError):
        zombie._producer.commit_transaction()
    assert target.committed() == ["a"]


def test_an_older_attempt_that_begins_a_batch_is_refused_too(target: Target) -> None:
    zombie = target.opened()
    target.opened().write(0, rows("a"))
    with pytest.raises(ProducerFencedError):
        zombie.write(0, rows("of the zombie"))
    target.opened().write(1, rows("b"))
    assert target.committed() == ["a", "b"]


def test_a_checkpoint_that_was_set_back_is_told_and_another_one_counts_anew(target: Target) -> None:
    first = target.opened()
    for batch in range(3):
        first.write(batch, rows(f"r{batch}"))
    with pytest.raises(RuntimeError, match="the checkpoint was set back"):
        target.opened().write(1, rows("r1"))
    target.opened("s3a://bucket/one.from-savepoint").write(1, rows("again"))
    assert target.committed() == ["r0", "r1", "r2", "again"]


def test_marks_that_would_be_lost_are_refused(target: Target) -> None:
    target.marks = target.kafka.new_topic(1)
    with pytest.raises(RuntimeError, match="must be compact"):
        target.opened()
