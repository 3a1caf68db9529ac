"""The family of scenarios: each a small declaration, as data."""

from __future__ import annotations

from tests.explore.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("submit", "A job is submitted while two supervisors run; nothing goes wrong.",
             ((("submit", "a", "u1-a"),),), running=()),
    Scenario("cancel", "A running job is cancelled.", ((("cancel", "a"),),)),
    Scenario("paused shim", "A shim is stopped for any time; its job starts elsewhere or goes on.", kinds=("pause shim",), faults=1),
    Scenario("paused leader", "The leader is stopped, another one is elected, the first one wakes up.",
             kinds=("pause supervisor",), faults=1),
    Scenario("cancel, shim stopped or killed", "A cancel while the shim is stopped, killed or cut off.",
             ((("cancel", "a"),),), kinds=("pause shim", "kill shim", "cut shim"), faults=1),
    Scenario("starting, shim paused", "The shim is stopped at any moment of its start: before the claim, before exec, after it.",
             kinds=("pause shim",), faults=1, settled=False),
    Scenario("submitted anew", "Cancelled, and the name submitted again at once.",
             ((("cancel", "a"), ("submit", "a", "u1-a")),)),
)

BY_NAME = {one.name: one for one in SCENARIOS}
