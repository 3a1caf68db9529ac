"""Programs that a test starts are ended with it; fleets that are judged; jobs on a Kafka topic."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
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
def judged(request: pytest.FixtureRequest) -> Iterator[None]:
    """After the test its fleet, if it has one, is judged by what the drivers wrote. For ``usefixtures`` of a module."""
    yield
    if "fleet" in request.fixturenames:
        request.getfixturevalue("fleet").judge()


@pytest.fixture
def topic_on(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[KafkaBroker], AbstractContextManager[Topic]]:
    """Makes a topic of a broker, with a fleet of this test alone."""
    from tests.testbed.kafka_jobs import Topic

    def topic_on(broker: KafkaBroker) -> AbstractContextManager[Topic]:
        directory = tmp_path_factory.mktemp("kafka-jobs")
        return Topic.with_fleet(embedded_ensemble, moto_server, broker, directory)

    return topic_on


@pytest.fixture
def topic(
    topic_on: Callable[[KafkaBroker], AbstractContextManager[Topic]], kafka: KafkaBroker
) -> Iterator[Topic]:
    """A topic of the shared broker."""
    with topic_on(kafka) as made:
        yield made


@pytest.fixture
def fragile_topic(
    topic_on: Callable[[KafkaBroker], AbstractContextManager[Topic]], fresh_kafka: KafkaBroker
) -> Iterator[Topic]:
    """A topic of a broker of this test alone, which may go away."""
    with topic_on(fresh_kafka) as made:
        yield made
