"""Fleets for the fault tests: one that tests share, where no server is harmed, and ones of a test's own."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KINDS
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import Fleet
from tests.testbed.proxy import Action, Match, Proxies, Trap
from tests.testbed.secured_ensemble import ask_node, chosen_kind, running
from tests.waiting import wait_until

FIRST = 1 if os.environ.get("SPARK_SUPERVISOR_REQUIRE_DOCKER") == "1" and chosen_kind() == "plain" else 0
"""Of what may run on either kind: where containers must be there (CI) they are enough, for the servers in them are the same."""

MakeFleet = Callable[..., Fleet]

on_embedded = pytest.mark.parametrize("shared_fleet", ["embedded"], indirect=True)
"""For tests of the shared fleet in which the ensemble's side plays no part: once is enough. README.md's table
says which line of the catalogue is tested where."""

with_cuts = pytest.mark.parametrize(
    "ensemble",
    ["embedded", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.netns])][FIRST:],
    indirect=True,
)
"""For tests that cut processes from their ensemble (``tests.testbed.cuts``): containers are cut in the network itself."""


@pytest.fixture(scope="module", params=KINDS[FIRST:])
def shared_fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two supervisors for a whole module, on either kind of ensemble; take ``fleet``."""
    ensemble: Ensemble = request.getfixturevalue(f"{request.param}_ensemble")
    with Fleet(ensemble, f"/fleet-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


def set_traps(proxies: Proxies, match: Match, action: Action) -> list[Trap]:
    """One before each server, for nobody knows which one the client is connected to."""
    return proxies.each(lambda proxy: proxy.on_request(match, action))


def wait_sprung(traps: list[Trap], what: str) -> None:
    wait_until(lambda: any(trap.sprung for trap in traps), 60, what)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that shares a fleet shows its logs when it fails, not when the fleet ends."""
    report = yield
    item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def fleet(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The shared fleet: all members up, no job registered. Supervisors, shims and drivers may be harmed, servers not."""
    shared_fleet.restore()
    yield shared_fleet
    if request.node.stash.get(FAILED, False):
        shared_fleet.tell_logs()


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    """A job name of the test's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").partition("[")[0].lower())
    return f"{words[:40].strip('-')}-{uuid.uuid4().hex[:4]}"


@pytest.fixture
def make_fleet(tmp_path: Path, zk_root: str) -> Iterator[MakeFleet]:
    """``make_fleet(ensemble, **options of Fleet)``: started, judged and ended with the test."""
    with ExitStack() as stack:
        made: list[Fleet] = []

        def make(ensemble: Ensemble, **options: Any) -> Fleet:
            number = len(made)
            fleet = Fleet(ensemble, f"{zk_root}-{number}", tmp_path / f"fleet{number}", **options)
            fleet.directory.mkdir()
            made.append(stack.enter_context(fleet))
            return fleet

        yield make


@dataclass
class Fragile:
    """An ensemble that tests harm one after the other, and a fleet on it; ``repair`` brings every server back."""

    ensemble: Ensemble
    fleet: Fleet
    killed: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            self.killed.add(node)
            self.ensemble.kill(node)

    def pause(self, *nodes: int) -> None:
        for node in nodes:
            self.paused.add(node)
            self.ensemble.pause(node)

    def repair(self) -> None:
        for node in self.paused:
            self.ensemble.resume(node)
        for node in self.killed:
            self.ensemble.restart(node)
        self.paused.clear()
        self.killed.clear()
        self.ensemble.wait_serving(60)

    def node_of(self, session: int) -> int:
        """To which server the client of this session is connected."""

        def found() -> int | None:
            for node in set(range(3)) - self.killed - self.paused:
                with suppress(OSError):
                    if f"sid=0x{session:x}," in ask_node(self.ensemble, node, "cons"):
                        return node + 1
            return None

        return wait_until(found, 20, f"the server of session {session:x}") - 1


@pytest.fixture(scope="module", params=KINDS[FIRST:])
def shared_fragile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fragile]:
    with ExitStack() as stack:
        ensemble: Ensemble
        if request.param == "docker":
            from tests.testbed.docker_ensemble import DockerEnsemble

            ensemble = stack.enter_context(DockerEnsemble())
        else:
            ensemble = stack.enter_context(running(tmp_path_factory.mktemp("zookeeper")))
        fleet = Fleet(ensemble, "/fragile", tmp_path_factory.mktemp("fleet"), lease_s=15.0, session_s=8.0)
        yield Fragile(ensemble, stack.enter_context(fleet))


@pytest.fixture
def fragile(shared_fragile: Fragile, request: pytest.FixtureRequest) -> Iterator[Fragile]:
    """Servers may be killed and paused; leases of 15 s survive an outage of 9 s, sessions one of 8 s."""
    shared_fragile.repair()
    shared_fragile.fleet.restore()
    yield shared_fragile
    if request.node.stash.get(FAILED, False):
        shared_fragile.fleet.tell_logs()
    shared_fragile.repair()
