"""The product under simulated time, from seeds: nothing is broken; a run replays exactly; a failing one shrinks.

The judge is tested as well: defects of the mutation gate that have to do with time are planted into production code, and
each must be noticed within a few seeds, else a green run would mean nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.explore.defects import DEFECTS
from tests.simulation.timed import runs
from tests.simulation.timed.scenario import plan_of

SEEDS = range(300)
BLOCK = 50


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """``runs.prepare`` changes settings of the interpreter."""
    import gc
    interval_s = sys.getswitchinterval()
    runs.prepare()
    yield
    gc.enable()
    sys.setswitchinterval(interval_s)


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_under_simulated_faults_nothing_is_broken_and_all_comes_to_rest(first: int) -> None:
    figures = runs.run_many(range(first, first + BLOCK), seconds=None)
    assert not figures.failed, figures.told()
    assert figures.counts["drivers"] > BLOCK and figures.counts["terms"] > BLOCK and sum(figures.faults.values()) > BLOCK


def test_a_seed_replays_exactly_whatever_ran_before_it() -> None:
    first = runs.run_one(plan_of(7)).loop
    runs.run_one(plan_of(8))
    again = runs.run_one(plan_of(7), story=[]).loop
    assert (first.hash, first.events, first.now_s) == (again.hash, again.events, again.now_s)


def test_a_seed_replays_exactly_in_another_process_with_other_hashes() -> None:
    code = "from tests.simulation.timed import runs; from tests.simulation.timed.scenario import plan_of; " \
           "print(runs.run_one(plan_of(11)).loop.hash)"
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout for seed in ("1", "2")
    ]
    assert told == [f"{runs.run_one(plan_of(11)).loop.hash}\n".encode()] * 2


TELLING: dict[str, tuple[int, ...]] = {}
"""By defect: seeds that show it. Others, when the code draws other lots: then a seed in the range does."""

RANGE = range(1000, 1150)


def broken_with(name: str) -> tuple[int, list[str]] | None:
    """The first seed whose run is broken while the defect is planted."""
    (defect,) = [each for each in DEFECTS if each.name == name]
    with defect.patch():
        for seed in (*TELLING[name], *RANGE):
            broken = runs.run_one(plan_of(seed)).judge.broken
            if broken:
                return seed, broken
    return None


@pytest.mark.parametrize("name", TELLING)
def test_the_judge_notices(name: str) -> None:
    assert broken_with(name) is not None, f"the defect {name} went unnoticed"


def test_a_failing_story_shrinks_and_still_tells_of_the_same_failure() -> None:
    (defect,) = [each for each in DEFECTS if each.name == SHRUNK]
    plan = plan_of(TELLING[SHRUNK][0])
    with defect.patch():
        kind = runs.kind_of(runs.run_one(plan).judge.broken)
        shorter = runs.shrink(plan)
        story = runs.story_of(shorter)
    assert kind and runs.kind_of([story.splitlines()[-1]]) == kind
    assert len(shorter.steps) + len(shorter.troubles) < len(plan.steps) + len(plan.troubles)
    assert runs.run_one(shorter).judge.broken == []


SHRUNK = "half-the-wait"
