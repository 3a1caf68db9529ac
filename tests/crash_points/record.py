"""The list of points, found by running each scenario once and writing down what every process passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.crash_points.crash_fleet import CrashFleet
from tests.crash_points.points import Point
from tests.crash_points.run import OneRun, Task
from tests.crash_points.scenarios import SCENARIOS

Passed = dict[str, Counter[Point]]
"""Scenario → how often each point was passed in it by one process."""


def record(fleet: CrashFleet, scenarios: Iterable[str], name: Callable[[], str]) -> Passed:
    """Raises AssertionError if a scenario does not end well without any fault."""
    passed: Passed = {}
    for scenario in scenarios:
        fleet.control.record()
        outcome = OneRun(fleet, name(), Task(scenario, "record", ()), recording=True).run()
        passed[scenario] = fleet.control.recorded()
        fleet.control.off()
        assert not outcome.wrong, f"{scenario}, without any fault: {outcome.wrong}\n{outcome.story}"
    return passed


def where(passed: Passed) -> dict[Point, tuple[str, int]]:
    """Each point → the first scenario that passes it, and which of its passes there is to be struck: the one in the middle."""
    chosen: dict[Point, tuple[str, int]] = {}
    for scenario in SCENARIOS:
        for point, times in passed.get(scenario, Counter[Point]()).items():
            # commands are many processes, each counts for itself
            nth = 1 if point.role == "cli" else (times + 1) // 2
            chosen.setdefault(point, (scenario, nth))
    return dict(sorted(chosen.items()))
