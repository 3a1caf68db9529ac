"""Fleets for the fault tests: one that tests share, where no server is harmed, and ones of a test's own."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KINDS
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import Fleet

MakeFleet = Callable[..., Fleet]


@pytest.fixture(scope="module", params=KINDS)
def shared_fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two supervisors for a whole module, on either kind of ensemble; take ``fleet``."""
    ensemble: Ensemble = request.getfixturevalue(f"{request.param}_ensemble")
    with Fleet(ensemble, f"/fleet-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Iterator[Fleet]:
    """The shared fleet: all members up, no job registered. Supervisors, shims and drivers may be harmed, servers not."""
    shared_fleet.restore()
    yield shared_fleet


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
