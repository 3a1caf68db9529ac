"""Scenarios that a defect of the gate asked for: no other one shows it."""

from __future__ import annotations

from tests.explore.scenario import Scenario

MORE: tuple[Scenario, ...] = (
    Scenario("two shims, one killed", "A restarted agent starts a second shim for one entry; one of them is killed.",
             settled=False, kinds=("second shim", "kill shim"), faults=2),
    Scenario("two shims, a claim unanswered", "A restarted agent starts a second shim for one entry; a claim never arrives.",
             settled=False, kinds=("second shim", "lose request"), faults=2),
    Scenario("submitted anew, calmly", "Cancelled, and the name submitted again; nothing goes wrong.",
             ((("cancel", "a"), ("submit", "a", "u1-a")),), faults=0),
    Scenario("suspended, shim cut off", "Suspended while the shim cannot hear: its attempt is buried after the full wait.",
             ((("suspend", "a"),),), kinds=("cut shim",)),
)
