"""Scenarios that a defect of the gate asked for: no other one shows it."""

from __future__ import annotations

from tests.explore.scenario import Scenario

MORE: tuple[Scenario, ...] = (
    Scenario("two shims, one killed", "A restarted agent starts a second shim for one entry; one of them is killed.",
             settled=False, kinds=("second shim", "kill shim"), faults=2),
    Scenario("two shims, a claim unanswered", "A restarted agent starts a second shim for one entry; a claim never arrives.",
             settled=False, kinds=("second shim", "lose request"), faults=2),
)
