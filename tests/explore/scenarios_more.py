"""Scenarios that a defect of the gate asked for, and the kinds of faults that only they need."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.model.records import Assignment
from supervisor.model.seen import Found
from supervisor.registry.reading import seen
from tests.explore import faults
from tests.explore.scenario import Scenario
from tests.explore.setting import LAYOUT
from tests.explore.shims import Move, spawn
from tests.explore.world import World


def second_shim(world: World) -> Iterator[Move]:
    """An agent that was restarted starts a shim for an entry that has one already (DESIGN §5, exit)."""
    for index, one in faults.running(world):
        for entry in world.tree.children(LAYOUT.assigned_to(one.id)) or ():
            path = f"{LAYOUT.assigned_to(one.id)}/{entry}"
            given = seen(Assignment, world.tree.read(path), path)
            taken = any(shim.key == entry and shim.host == index and not shim.over for shim in world.shims)
            if taken and isinstance(given, Found):
                yield Move(f"{one.id} starts a second shim for {entry}", spawn(world, index, one.id, given.record))


faults.KINDS["second shim"] = second_shim

MORE: tuple[Scenario, ...] = (
    Scenario("two shims, one killed", "A restarted agent starts a second shim for one entry; one of them is killed.",
             settled=False, kinds=("second shim", "kill shim"), faults=2),
    Scenario("two shims, a claim unanswered", "A restarted agent starts a second shim for one entry; a claim never arrives.",
             settled=False, kinds=("second shim", "lose request"), faults=2),
    Scenario("lost answers of a start", "A request of a start is lost, or the answer to it.",
             ((("submit", "a", "u1-a"),),), running=(), kinds=("lose reply", "lose request"), faults=1),
    Scenario("driver fails", "A driver fails by itself.", kinds=("fail driver",), faults=1),
    Scenario("shim killed", "A shim is killed.", kinds=("kill shim",), faults=1),
    Scenario("shim cut off", "A shim loses its connection for any time.", kinds=("cut shim",), faults=1),
    Scenario("start under pauses", "A job is submitted, and its shim stopped or cut off at any moment.",
             ((("submit", "a", "u1-a"),),), running=(), kinds=("pause shim", "cut shim"), faults=1),
    Scenario("suspended and resumed", "A running job is suspended, and resumed at any time after that.",
             ((("suspend", "a"), ("resume", "a")),)),
)
