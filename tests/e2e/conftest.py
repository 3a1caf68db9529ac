"""Programs that a test starts are ended with it; jobs on a Kafka topic."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.e2e.program import Running, Start
from tests.testbed.moto import MotoServer

if TYPE_CHECKING:
    from tests.testbed.kafka import KafkaBroker
    from tests.testbed.kafka_jobs import Topic


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Running] = []

    def start(*arguments: str) -> Running:
        begun.append(Running(tmp_path, arguments))
        return begun[-1]

    yield start
    for running in begun:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(60)


@pytest.fixture
def topic(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    kafka: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Topic]:
    """A topic of the shared broker, with a fleet of this test alone."""
    from tests.testbed.kafka_jobs import Topic

    with Topic.with_fleet(
        embedded_ensemble, moto_server, kafka, tmp_path_factory.mktemp("kafka-jobs")
    ) as made:
        yield made


@pytest.fixture
def fragile_topic(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    fresh_kafka: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Topic]:
    """A topic of a broker of this test alone, which may go away, with a fleet of this test alone."""
    from tests.testbed.kafka_jobs import Topic

    with Topic.with_fleet(
        embedded_ensemble, moto_server, fresh_kafka, tmp_path_factory.mktemp("kafka-jobs")
    ) as made:
        yield made
