"""The product under simulated time, from seeds: nothing is broken; a run replays exactly; a failing one shrinks.

The judge is tested as well: defects of the mutation gate that have to do with time are planted into production code, and
each must be noticed within a few seeds, else a green run would mean nothing.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.explore.defects import DEFECTS
from tests.simulation.timed import runs
from tests.simulation.timed.judge import UNTOLD
from tests.simulation.timed.scenario import Fault, RunPlan, plan_of, with_lost_claim, without_prepared

SEEDS = range(100)
"""The same in every run, without the few large ones."""

BLOCK, NEW = 50, 4
"""Seeds of a test; so many tests take seeds that nobody has seen. Together 25 s of CPU."""

pytestmark = pytest.mark.usefixtures("collector")


def run_block(first: int) -> None:
    figures = runs.run_many(range(first, first + BLOCK), seconds=None, small=True)
    assert not figures.failed, figures.report()
    assert (
        figures.counts["drivers"] > BLOCK
        and figures.counts["terms"] > BLOCK
        and sum(figures.faults.values()) > BLOCK
    )


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_under_simulated_faults_nothing_is_broken_and_all_comes_to_rest(first: int) -> None:
    run_block(first)


@pytest.mark.parametrize("_", range(NEW))
def test_nor_with_seeds_that_are_new_in_each_run(_: int) -> None:
    """What fails names its seed: ``python -m tests.simulation --replay SEED --shrink`` tells the story."""
    run_block(random.SystemRandom().randrange(10**6, 10**9))


def test_a_seed_replays_exactly_whatever_ran_before_it() -> None:
    first = runs.run_one(plan_of(7)).loop
    runs.run_one(plan_of(8))
    again = runs.run_one(plan_of(7), story=[]).loop
    assert (first.hash, first.events, first.now_s) == (again.hash, again.events, again.now_s)


def test_a_seed_replays_exactly_in_another_process_with_other_hashes() -> None:
    code = (
        "from tests.simulation.timed import runs; from tests.simulation.timed.scenario import plan_of; "
        "print(runs.run_one(plan_of(11)).loop.hash)"
    )
    summary = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert summary == [f"{runs.run_one(plan_of(11)).loop.hash}\n".encode()] * 2


REGRESSIONS = (
    # a supervisor's record went on saying a distrust that was over: no job was ever placed there again
    (1037, Fault.LATE),
)
"""Seeds that found a defect of the product, with what was theirs."""


@pytest.mark.parametrize(("seed", "also"), REGRESSIONS)
def test_a_seed_that_found_a_defect_finds_none_any_more(seed: int, also: Fault) -> None:
    assert runs.run_one(plan_of(seed, also)).judge.broken == []


@pytest.mark.parametrize(
    ("plan", "unwritten"), [(without_prepared(plan_of(804783)), 0), (with_lost_claim(), 1)]
)
def test_what_nobody_can_tell_is_counted_and_no_violation(plan: RunPlan, unwritten: int) -> None:
    """A restore to a state of the same term. Who leads next was cut off from before what was lost: a follower that knew has left
    it in the store. Or what was lost is a claim of a moment ago, and the leader takes the assignment back when its time is
    over: who could have known?"""
    judge = runs.run_one(plan).judge
    assert (judge.broken, judge.answers[UNTOLD]) == ([], unwritten)


NOTICED: dict[str, tuple[Fault | None, int]] = {
    "no-wait": (None, 1000),
    "half-the-wait": (Fault.CUT_SHIM, 1001),
    "first-seen-outlives-a-renewal": (None, 1004),
    "end-of-session-taken-as-proof": (Fault.PAUSE_SHIM, 1001),
    "silence-is-not-waited-for-before-revoking": (None, 1001),
    "deadline-a-lease-late": (Fault.CUT_SHIM, 1001),
    "unanswered-renewal-counts": (Fault.CUT_SHIM, 1024),
    "second-killers-never-act": (Fault.PAUSE_SHIM, 1001),
    "second-killers-act-a-lease-late": (Fault.PAUSE_SHIM, 1001),
    "tombstone-before-the-tree-is-empty": (None, 1062),
    "exec-before-the-claim-is-answered": (Fault.SPOIL, 1011),
    "unknown-outcome-acknowledged": (Fault.SPOIL, 1119),
    "draining-is-not-obeyed": (None, 1049),
    "suspended-is-started": (None, 1036),
    "distrusted-registry-is-acted-upon": (Fault.RESTORE, 1007),
    "epoch-does-not-grow": (None, 1000),
    "opened-at-the-hand-over": (None, 1035),
    "second-killers-let-a-prepared-tree-be": (Fault.CRASH_SHIM, 1004),
}
"""By defect of the gate: which fault there is more of, and a seed that shows it. When code or lots change, another one will."""

RANGE = range(1000, 1060)


@pytest.mark.parametrize("name", NOTICED)
def test_the_judge_notices(name: str) -> None:
    (defect,) = [each for each in DEFECTS if each.name == name]
    also, telling = NOTICED[name]
    with defect.patch():
        noticed = any(runs.run_one(plan_of(seed, also)).judge.broken for seed in (telling, *RANGE))
    assert noticed, f"{name} went unnoticed: {defect.of}"


def test_a_failing_story_shrinks_and_still_tells_of_the_same_failure() -> None:
    (defect,) = [each for each in DEFECTS if each.name == SHRUNK]
    also, seed = NOTICED[SHRUNK]
    plan = plan_of(seed, also)
    with defect.patch():
        kind = runs.kind_of(runs.run_one(plan).judge.broken)
        shorter = runs.shrink(plan)
        story = runs.story_of(shorter)
    assert kind and runs.kind_of([story.splitlines()[-1]]) == kind
    assert len(shorter.steps) + len(shorter.troubles) < len(plan.steps) + len(plan.troubles)
    assert runs.run_one(shorter).judge.broken == []


SHRUNK = "half-the-wait"
