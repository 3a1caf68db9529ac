"""Kafka goes away, for a while and for long, and a topic is deleted and made anew: what the job does, and what is said of it.

Real Spark, a real broker of each test's own, real S3 calls, a real registry.
"""

from __future__ import annotations

import pytest

from tests.testbed.kafka_jobs import PATIENCE_S, Topic, lag
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB, ANEW = "records", "records-anew"


def begun(topic: Topic, tries: str = "3") -> None:
    """The job has read four records of partition 0."""
    topic.produce(p0=4)
    topic.submit(JOB, tries=tries)
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


def test_a_driver_that_may_wait_for_longer_waits_and_is_told_from_an_idle_one(fragile_topic: Topic) -> None:
    topic, fleet = fragile_topic, fragile_topic.fleet
    begun(topic, tries="30")
    topic.kafka.go_away()
    wait_explained(topic, "no batch, no idle event, no other sign of life")
    print(fleet.ok("explain", JOB).out)
    shown = fleet.show(JOB)
    assert (shown["state"], shown["attempt"], shown["restarts"]) == ("running", 1, 0)
    topic.kafka.come_back()
    topic.produce(p0=2)
    topic.wait_written(JOB, p0=range(6))
    assert fleet.show(JOB)["restarts"] == 0
    assert topic.written(JOB) == topic.kafka.records(topic.name)
    fleet.ok("cancel", JOB, "--wait")


def test_a_broker_that_stays_away_ends_few_attempts_and_is_named(fragile_topic: Topic) -> None:
    """Each attempt waits for the broker for minutes, so there is no storm of them."""
    topic, fleet = fragile_topic, fragile_topic.fleet
    begun(topic)
    topic.kafka.go_away()
    wait_explained(topic, "no Kafka broker answered")
    assert fleet.show(JOB)["attempt"] <= 2
    assert "no Kafka broker answered" in fleet.ok("history", JOB).out
    wait_until(lambda: fleet.show(JOB)["state"] == "starting", PATIENCE_S, "the next attempt")
    topic.kafka.come_back()
    topic.produce(p0=1)
    topic.wait_written(JOB, p0=range(5))
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

    # To accept the gap is no way out: the new records up to now are never read.
    committed = topic.committed(JOB)
    fleet.ok("apply", str(fleet.spec_file(JOB, **topic.spec(strict="false"))))
    wait_until(lambda: topic.committed(JOB) > committed, PATIENCE_S, "a batch of the new topic", period_s=1)
    topic.produce(p0=1)
    topic.wait_written(JOB, p0=[*range(4), 2])
    fleet.ok("cancel", JOB, "--wait")
    topic.submit(ANEW)
    topic.wait_written(ANEW, p0=range(3))
    fleet.ok("cancel", ANEW, "--wait")
