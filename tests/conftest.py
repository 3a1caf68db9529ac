"""Fixtures that every test may ask for: ensembles, an S3 API, a ZooKeeper root of its own.

Shared (session) ensembles are for tests that leave all nodes up; a test that harms a node takes a ``fresh_`` one, or
one of its module that is repaired before each test (``testbed.ensembles.repair``).
Every test works below its own ``zk_root`` and in its own bucket, so shared servers need no cleaning in between.
"""

from __future__ import annotations

import gc
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed import requirements, secured_ensemble
from tests.testbed.ensembles import Ensemble
from tests.testbed.moto import MotoServer, use_only
from tests.testbed.radosgw import RadosGateway
from tests.testbed.radosgw import missing as missing_radosgw
from tests.testbed.s3_servers import GivenServer

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble
    from tests.testbed.kafka import KafkaBroker

KINDS = ["embedded", pytest.param("docker", marks=pytest.mark.docker)]

PLAIN_ONLY = ("test_testbed.py", "test_zookeeper_disk_full.py")
"""The test bed's own tests, and what is about the servers' disks."""

# No test may depend on how busy the machine is.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


# Explorations, simulations and thousands of collected tests hold millions of objects: with the usual thresholds a quarter of
# their time goes into looking through these again and again.
gc.set_threshold(100_000, 50, 1_000)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    requirements.check(item)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With another kind of ZooKeeper than plain, what runs on containers and ``PLAIN_ONLY`` are left out. Then:

    Whole files, in turns: one that computes (real Spark), one that waits (fleets, servers), … the many short ones last.

    Processes side by side (``-n``) take files in this order, so that they seldom all want the machine at the same moment.
    """
    if secured_ensemble.chosen_kind() != "plain":
        items[:] = [
            item
            for item in items
            if item.get_closest_marker("docker") is None and item.path.name not in PLAIN_ONLY
        ]
    turns: dict[str, list[list[pytest.Item]]] = {
        kind: [] for kind in ("e2e", "faults", "integration", "others", "unit")
    }
    for _, found in groupby(items, key=lambda item: item.path):
        file = list(found)
        kind = file[0].path.relative_to(Path(__file__).parent).parts[0]
        turns[kind if kind in turns else "others"].append(file)
    last = turns.pop("unit")
    taken = [file for turn in zip_longest(*turns.values(), fillvalue=[]) for file in turn]
    items[:] = [item for file in (*taken, *last) for item in file]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slowest-files", type=int, default=0, metavar="N", help="print the N files whose tests took longest"
    )


def slowest_files(reports: Iterable[Any], count: int) -> list[str]:
    """A line for each of the ``count`` files whose tests, with what was set up for them, took longest: seconds, tests, file."""
    took_s: Counter[str] = Counter()
    tests: dict[str, set[str]] = {}
    for report in reports:
        file = report.nodeid.partition("::")[0]
        took_s[file] += report.duration
        tests.setdefault(file, set()).add(report.nodeid)
    return [f"{seconds:8.1f} s  {len(tests[file]):5d}  {file}" for file, seconds in took_s.most_common(count)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = (
        each
        for found in terminalreporter.stats.values()
        for each in found
        if isinstance(each, pytest.TestReport)
    )
    if count := config.getoption("--slowest-files"):
        terminalreporter.write_sep("=", f"slowest {count} files: time, tests")
        for line in slowest_files(reports, count):
            terminalreporter.write_line(line)
    lines = requirements.summary(
        [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    )
    if lines:
        terminalreporter.write_sep("!", "tests skipped", red=True, bold=True)
        for line in lines:
            terminalreporter.write_line(line, red=True)


@pytest.fixture(scope="session")
def embedded_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Three real ZooKeeper processes, shared by the whole run: harm none of them. One that ends by itself is started again."""
    with secured_ensemble.running(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture
def fresh_embedded_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """Three real ZooKeeper processes of this test alone."""
    with secured_ensemble.running(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def docker_ensemble() -> Iterator[DockerEnsemble]:
    """Three ZooKeeper containers, shared by the whole run. Tests that use it carry ``@pytest.mark.docker``."""
    from tests.testbed.docker_ensemble import DockerEnsemble

    with DockerEnsemble() as ensemble:
        yield ensemble


@pytest.fixture
def fresh_docker_ensemble() -> Iterator[DockerEnsemble]:
    """Three ZooKeeper containers of this test alone. Tests that use it carry ``@pytest.mark.docker``."""
    from tests.testbed.docker_ensemble import DockerEnsemble

    with DockerEnsemble() as ensemble:
        yield ensemble


@pytest.fixture(params=KINDS)
def ensemble(request: pytest.FixtureRequest) -> Ensemble:
    """The test runs twice, on the shared embedded ensemble and on the shared containers: harm no node."""
    shared: Ensemble = request.getfixturevalue(f"{request.param}_ensemble")
    return shared


@pytest.fixture
def zk_root() -> str:
    """A root path of its own for a test on a shared ensemble. Not created."""
    return f"/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    """A real S3 API process, shared by the whole run; ``s3_bucket`` gives a test its own bucket on it."""
    server = MotoServer(tmp_path_factory.mktemp("moto"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def radosgw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RadosGateway]:
    """A second real S3, for slow tests. Skipped loudly where it is not installed; SPARK_SUPERVISOR_REQUIRE_DOCKER=1 fails."""
    if (why := missing_radosgw()) is not None:
        (pytest.fail if os.environ.get("SPARK_SUPERVISOR_REQUIRE_DOCKER") == "1" else pytest.skip)(why)
    server = RadosGateway(tmp_path_factory.mktemp("radosgw"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real Kafka broker, for slow tests, shared by the whole run; a test makes topics of its own on it."""
    from tests.testbed.kafka import KafkaBroker

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture
def fresh_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real Kafka broker of this test alone, which may go away and come back."""
    from tests.testbed.kafka import KafkaBroker

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def given_s3() -> GivenServer:
    """An S3 API that somebody else has started."""
    return GivenServer()


@pytest.fixture
def aws_env(moto_server: MotoServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The invented keys in this process's environment (and so in that of its children) instead of all others."""
    use_only(monkeypatch, moto_server.env)
    return moto_server.env


@pytest.fixture
def s3_bucket(moto_server: MotoServer, aws_env: dict[str, str]) -> str:
    """Name of a new bucket; the keys for it are in the environment, its endpoint is ``moto_server.endpoint_url``."""
    return moto_server.new_bucket()
