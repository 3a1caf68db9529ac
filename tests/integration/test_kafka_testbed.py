"""The testbed's Kafka and its second Spark: what the e2e tests of Kafka rest on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from supervisor.spark.toolchain import spark_version
from tests.testbed import maven
from tests.testbed.maven import artifact_of, cached
from tests.testbed.other_spark import VERSION, kafka_connector, other_spark

if TYPE_CHECKING:
    from tests.testbed.kafka import KafkaBroker


@pytest.mark.slow
def test_records_stand_in_the_partition_and_order_in_which_they_were_produced(kafka: KafkaBroker) -> None:
    topic = kafka.new_topic(3)
    assert (kafka.records(topic), kafka.ends(topic)) == ([], {0: 0, 1: 0, 2: 0})
    kafka.produce(topic, 0, ["a", "b"])
    kafka.produce(topic, 2, ["c"])
    kafka.produce(topic, 0, ["d"])
    assert kafka.records(topic) == [(0, 0, "a"), (0, 1, "b"), (0, 2, "d"), (2, 0, "c")]
    assert kafka.ends(topic) == {0: 3, 1: 0, 2: 1}


@pytest.mark.slow
def test_dropped_records_are_gone_and_their_offsets_are_not_used_again(kafka: KafkaBroker) -> None:
    topic = kafka.new_topic(1)
    kafka.produce(topic, 0, ["a", "b", "c"])
    kafka.drop_before(topic, {0: 2})
    kafka.produce(topic, 0, ["d"])
    assert kafka.records(topic) == [(0, 2, "c"), (0, 3, "d")]


@pytest.mark.slow
def test_a_topic_is_new_and_of_this_test_alone(kafka: KafkaBroker) -> None:
    assert kafka.new_topic(1) != kafka.new_topic(1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_other_spark_has_its_connector_once() -> None:
    spark = other_spark()
    assert spark_version(spark.home) == VERSION
    told = subprocess.run(
        [spark.python, "-c", "import pyspark; print(pyspark.__version__, pyspark.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert told == [VERSION, str(spark.home / "__init__.py")]
    own = {artifact_of(jar) for jar in (spark.home / "jars").glob("*.jar")}
    brought = {artifact_of(jar) for jar in kafka_connector()}
    assert {"spark-sql-kafka-0-10_2.13", "kafka-clients"} <= brought
    assert not brought & own


def test_what_was_not_fetched_to_the_end_is_fetched_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "CACHE", tmp_path)
    target = tmp_path / "jars"
    with pytest.raises(RuntimeError), cached(target) as missing:
        assert missing
        (target / "half.jar").touch()
        raise RuntimeError
    with cached(target) as missing:
        assert missing and not list(target.iterdir())
        (target / "whole-1.2.jar").touch()
    with cached(target) as missing:
        assert not missing
    assert [jar.name for jar in target.glob("*.jar")] == ["whole-1.2.jar"]


@pytest.mark.parametrize(
    ("jar", "artifact"),
    [
        ("kafka_2.13-3.9.1.jar", "kafka_2.13"),
        ("spark-sql-kafka-0-10_2.13-4.1.1.jar", "spark-sql-kafka-0-10_2.13"),
        ("netty-buffer-4.1.105.Final.jar", "netty-buffer"),
        ("commons-pool2-2.12.1.jar", "commons-pool2"),
        ("commons-pool-1.5.4.jar", "commons-pool"),
    ],
)
def test_an_artifact_is_named_without_its_version(jar: str, artifact: str) -> None:
    assert artifact_of(Path(jar)) == artifact
