"""A few points on real processes, one of each kind; ``python -m tests.crash_points`` does them all."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients.emptying import remove
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.crash_points.crash_fleet import CrashFleet
from tests.crash_points.points import Point
from tests.crash_points.record import record
from tests.crash_points.run import OneRun, Task, run_batch
from tests.testbed import requirements
from tests.waiting import wait_until

SIDE_BY_SIDE = (
    ("shim", "zookeeper.commit claim", "after"),
    ("shim", "zookeeper.commit exit", "before"),
    ("starter", "os.execve", "before"),
    ("cli", "zookeeper.commit submit", "after"),
    ("cli", "zookeeper.commit cancel", "before"),
)
ALONE = (("leader", "zookeeper.commit assign", "after"), ("agent", "subprocess.fork_exec", "before"))
OF_A_HAND_OVER = (("prepared_shim", "zookeeper.commit claim", "after"), ("agent", "os.symlink", "after"))


@pytest.fixture(scope="module")
def name() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"crash-{os.getpid()}-{next(numbers)}"


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashFleet]:
    directory = tmp_path_factory.mktemp("crash")
    with CrashFleet(embedded_ensemble.hosts, f"/crash-{os.getpid()}", directory) as fleet:
        yield fleet
        wait_until(lambda: not fleet.strangers(), 60, "shims, twins and drivers to be gone")


@pytest.fixture(scope="module")
def points(fleet: CrashFleet, name: Callable[[], str]) -> set[Point]:
    return set(record(fleet, ["launch"], name)["launch"])


def task(points: set[Point], role: str, op: str, moment: str) -> Task:
    (point,) = [point for point in points if (point.role, point.op) == (role, op)]
    return Task("launch", "kill", ((str(point), moment, 1),))


def test_killed_at_its_points(fleet: CrashFleet, points: set[Point], name: Callable[[], str]) -> None:
    outcomes = run_batch(fleet, [task(points, *each) for each in SIDE_BY_SIDE], name)
    outcomes += [OneRun(fleet, name(), task(points, *each)).run() for each in ALONE]
    assert not [f"{each.task.title}: {each.wrong}\n{each.story}" for each in outcomes if each.wrong]
    assert all(each.hit for each in outcomes), [each.task.title for each in outcomes if not each.hit]


def test_killed_at_points_of_a_hand_over(fleet: CrashFleet, name: Callable[[], str]) -> None:
    """The shim of a prepared driver once its claim is sent; the agent once the attempt's name leads to the driver."""
    passed = set(record(fleet, ["prepared"], name)["prepared"])
    tasks = [replace(task(passed, *each), scenario="prepared") for each in OF_A_HAND_OVER]
    outcomes = [OneRun(fleet, name(), each).run() for each in tasks]
    assert not [f"{each.task.title}: {each.wrong}\n{each.story}" for each in outcomes if each.wrong]
    assert all(each.hit for each in outcomes), [each.task.title for each in outcomes if not each.hit]


OF_ANOTHER_USER = (
    ("agent", "os.setxattr", "attempt_place:_open_to_user", "before"),
    ("agent", "os.setxattr", "launcher:Launcher._fetch", "after"),
    ("starter", "os.setgroups", "", "before"),
    ("starter", "os.setresuid", "", "after"),
    ("starter", "os.chdir", "", "after"),
    ("shim", "os.chmod", "shim.reports:ReportSocket", "before"),
    ("agent", "os.rename", "leftovers:Leftovers.put_aside", "before"),
    ("agent", "os.rename", "leftovers:Leftovers.put_aside", "after"),
    ("housekeeper", "os.rmdir", "leftovers:Leftovers._remove", "after"),
)


@pytest.fixture(scope="module")
def fleet_of_another_user(embedded_ensemble: EmbeddedEnsemble) -> Iterator[CrashFleet]:
    requirements.need("users")
    directory = Path(tempfile.mkdtemp(prefix="crash-"))  # other users get there, unlike to pytest's own
    try:
        with CrashFleet(embedded_ensemble.hosts, f"/crash-u-{os.getpid()}", directory, user="20001") as fleet:
            yield fleet
            wait_until(lambda: not fleet.strangers(), 60, "shims, twins and drivers to be gone")
    finally:
        assert remove(str(directory), 60.0)


def test_killed_at_points_of_a_driver_of_another_user(
    fleet_of_another_user: CrashFleet, name: Callable[[], str]
) -> None:
    """Half granted, half become, half put aside: the next start and the next round go on from there."""
    fleet = fleet_of_another_user
    passed = record(fleet, ["launch"], name)["launch"]
    tasks = []
    for role, op, text, moment in OF_ANOTHER_USER:
        points = [point for point in passed if (point.role, point.op) == (role, op) and text in str(point)]
        assert points, f"no point is {role} {op} {text} of {sorted(map(str, passed))}"
        tasks.append(Task("launch", "kill", ((str(points[0]), moment, 1),)))
    outcomes = [OneRun(fleet, name(), each).run() for each in tasks]
    assert not [f"{each.task.title}: {each.wrong}\n{each.story}" for each in outcomes if each.wrong]
    assert all(each.hit for each in outcomes), [each.task.title for each in outcomes if not each.hit]


def test_what_a_run_leaves_is_found(fleet: CrashFleet, name: Callable[[], str]) -> None:
    """The judge of leftovers: a job that nobody cancels, and a directory that nobody removes."""
    run = OneRun(fleet, name(), Task("launch", "kill", ()))
    run.submit()
    uid = fleet.uid(run.name)
    assert f"{fleet.layout.job(run.name)} is there" in fleet.leftovers(run.name)
    run.cancel()
    wait_until(lambda: not fleet.leftovers(run.name), 60, "nothing to be left")
    stray = fleet.members[0].directory / "run" / "work" / uid
    stray.mkdir(parents=True)
    assert fleet.leftovers(run.name) == [f"s0/run/work/{uid}"]
