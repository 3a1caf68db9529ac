"""Breadth first through every interleaving, so that the first violation comes with a shortest trace.

``explore`` takes all moves of all processes in every state. A state that was seen (``canon.key_of``) is not expanded
again. Of each new state one predecessor is remembered, from which the story of a violation is told.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.explore import clock, faults, shims, supervisors, users
from tests.explore.canon import key_of
from tests.explore.scenario import Scenario
from tests.explore.shims import Move
from tests.explore.world import World


def successors(world: World, kinds: tuple[str, ...]) -> Iterator[Move]:
    """Every move from this state. Time goes on only when nothing urgent is left."""
    urgent = False
    for move in ordinary(world):
        urgent |= move.urgent
        yield move._replace(world=supervisors.notice(move.world))
    for move in faults.moves(world, kinds):
        yield move._replace(world=supervisors.notice(move.world))
    if not urgent:
        yield Move("time goes on", supervisors.notice(clock.advance(world)))


def ordinary(world: World) -> Iterator[Move]:
    for index in range(len(world.supervisors)):
        yield from supervisors.moves(world, index)
    for index in range(len(world.shims)):
        yield from shims.moves(world, index)
    for index in range(len(world.users)):
        yield from users.moves(world, index)
    yield from faults.recoveries(world)


@dataclass
class Found:
    """What an exploration came to. ``complete``: every state within the scenario's bounds was seen."""

    scenario: str
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    complete: bool = True
    broken: str | None = None
    trace: list[str] = field(default_factory=list)
    converged: int = 0

    @property
    def line(self) -> str:
        bounds = "complete" if self.complete else "CUT OFF"
        return (f"{self.scenario:34} {self.states:9,} states {self.transitions:10,} transitions  depth {self.depth:3} "
                f"{self.converged:6,} brought to rest {self.seconds:7.1f} s  {bounds}")


@dataclass(slots=True)
class Seen:
    """How a state was come to: by ``label`` from the state number ``parent``, at ``tick``."""

    parent: int
    label: str
    tick: int


def explore(scenario: Scenario, max_states: int, rest_every: int = 0, *, wide: bool = False) -> Found:
    """All states of a scenario, at most ``max_states``. ``wide``: with its wider number of faults.

    ``rest_every``: from each n-th state it is also asked whether all comes to rest as declared (``rest``); 0: never.
    """
    from tests.explore import rest

    begun_s = time.process_time()
    found = Found(scenario.name)
    shims.STEPS.clear()
    start, beginning = scenario.begin(wide=wide)
    if start.broken is not None:
        return Found(scenario.name, 1, broken=start.broken, trace=beginning)
    seen: dict[tuple[object, ...], int] = {key_of(start): 0}
    story = [Seen(0, "", start.tick)]
    frontier: deque[tuple[World, int, int]] = deque([(start, 0, 0)])
    calm = rest.Calm()
    while frontier:
        world, number, depth = frontier.popleft()
        found.depth = depth
        if rest_every and number % rest_every == 0:
            why = calm.wrong(world)
            found.converged += 1
            if why is not None:
                found.broken, found.trace = why, [*told(story, number), *calm.trace]
                break
        for move in successors(world, scenario.kinds):
            found.transitions += 1
            key = key_of(move.world)
            if key in seen:
                continue
            seen[key] = len(story)
            story.append(Seen(number, move.label, move.world.tick))
            if move.world.broken is not None:
                found.broken, found.trace = move.world.broken, told(story, len(story) - 1)
                break
            frontier.append((move.world, len(story) - 1, depth + 1))
        if found.broken is not None:
            break
        if len(story) >= max_states:
            found.complete = False
            break
    found.states = len(story)
    found.seconds = time.process_time() - begun_s
    return found


def told(story: list[Seen], number: int) -> list[str]:
    """The moves that led there, oldest first."""
    lines: list[str] = []
    while number:
        one = story[number]
        lines.append(f"tick {one.tick:3}  {one.label}")
        number = one.parent
    return lines[::-1]
