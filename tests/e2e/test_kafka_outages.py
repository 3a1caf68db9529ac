"""Kafka goes away, for a while and for long, and a topic is deleted and made anew: what the job does, and what is said of it.

Real Spark, a real broker of each test's own, real S3 calls, a real registry.
"""

from __future__ import annotations

import pytest

from tests.testbed.kafka_jobs import PATIENCE_S, Topic, lag
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB, ANEW = "records", "records-anew"


def begun(topic: Topic) -> None:
    """The job has read four records of partition 0."""
    topic.produce(p0=4)
    topic.submit(JOB)
    topic.wait_written(JOB, p0=range(4))
    wait_until(lambda: lag(topic.fleet, JOB) == 0, PATIENCE_S, "the job to have committed that")


def wait_explained(topic: Topic, words: str) -> None:
    """Until ``explain`` says these words of the job."""
    wait_until(
        lambda: words in topic.fleet.ok("explain", JOB).out,
        PATIENCE_S,
        f"explain to say {words!r}",
        period_s=1,
    )


def test_a_broker_that_is_away_is_waited_for_and_told_while_it_is_away(fragile_topic: Topic) -> None:
    topic, fleet = fragile_topic, fragile_topic.fleet
    begun(topic)

    topic.kafka.go_away()
    wait_explained(topic, "no batch, no idle event")
    shown = fleet.show(JOB)
    assert (shown["state"], shown["attempt"], shown["restarts"]) == ("running", 1, 0)
    topic.kafka.come_back()
    topic.produce(p0=2)
    topic.wait_written(JOB, p0=range(6))
    assert fleet.show(JOB)["restarts"] == 0

    # For longer than the connector waits: each attempt waits as long again, so the attempts are few.
    topic.kafka.go_away()
    wait_explained(topic, "no Kafka broker answered")
    wait_until(lambda: fleet.show(JOB)["state"] == "starting", PATIENCE_S, "the next attempt")
    assert fleet.show(JOB)["attempt"] == 2
    assert "no Kafka broker answered" in fleet.ok("history", JOB).out
    topic.kafka.come_back()
    topic.produce(p0=1)
    topic.wait_written(JOB, p0=range(7))
    wait_until(lambda: lag(fleet, JOB) == 0, PATIENCE_S, "the job to have committed that")
    assert topic.written(JOB) == topic.kafka.records(topic.name)
    fleet.ok("cancel", JOB, "--wait")


def test_a_topic_that_was_deleted_is_told_and_a_new_one_is_read_by_a_new_checkpoint(
    fragile_topic: Topic,
) -> None:
    topic, fleet = fragile_topic, fragile_topic.fleet
    begun(topic)
    topic.kafka.delete_topic(topic.name)
    wait_explained(topic, "Kafka has no such topic, or it was deleted")
    topic.kafka.create_topic(topic.name, 3)
    topic.produce(p0=2)
    wait_explained(topic, "the topic has lost records that were not read")
    fleet.ok("cancel", JOB, "--wait")
    topic.submit(ANEW)
    topic.wait_written(ANEW, p0=range(2))
    assert topic.written(JOB) == topic.records(p0=range(4))
    fleet.ok("cancel", ANEW, "--wait")
