"""Breadth first through every interleaving, so that the first violation comes with a shortest trace.

``explore`` takes all moves of all processes in every state. A state that was seen (``canon.key_of``) is not expanded
again. Of each new state one predecessor is remembered, from which the story of a violation is told.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.explore import clock, faults, rest, shims, supervisors, users
from tests.explore.canon import key_of
from tests.explore.scenario import Begun, Scenario
from tests.explore.setting import Remembering
from tests.explore.shims import ExploredMove
from tests.explore.world import ExploredWorld

NEWEST = 0.5
"""Of a deep search: how often the newest state is the next."""


def successors(world: ExploredWorld, kinds: tuple[str, ...]) -> Iterator[ExploredMove]:
    """Every move from this state. Time goes on only when nothing urgent is left."""
    urgent = False
    for move in ordinary(world):
        urgent |= move.urgent
        yield move._replace(world=supervisors.notice(move.world))
    for move in faults.moves(world, kinds):
        yield move._replace(world=supervisors.notice(move.world))
    if not urgent:
        yield ExploredMove("time goes on", supervisors.notice(clock.advance(world)))


def ordinary(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index in range(len(world.supervisors)):
        yield from supervisors.moves(world, index)
    for index in range(len(world.shims)):
        yield from shims.moves(world, index)
    for index in range(len(world.users)):
        yield from users.moves(world, index)
    yield from faults.recoveries(world)


@dataclass
class Explored:
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
        return (
            f"{self.scenario:34} {self.states:9,} states {self.transitions:10,} transitions  depth {self.depth:3} "
            f"{self.converged:6,} brought to rest {self.seconds:7.1f} s  {bounds}"
        )


@dataclass(slots=True)
class Seen:
    """How a state was come to: by ``label`` from the state number ``parent``, at ``tick``."""

    parent: int
    label: str
    tick: int


class Kept:
    """What explorations of the same code may share: their beginnings, and which states come to rest."""

    def __init__(self) -> None:
        self.begun: Begun = {}
        self._calms: dict[tuple[object, ...], rest.Calm] = {}
        shims.STEPS.clear()

    def calm(self, world: ExploredWorld) -> rest.Calm:
        """Of worlds that have in common what the key of a state leaves out."""
        kind = (
            world.split,
            world.slow_users,
            world.replaceable,
            world.hasty,
            world.sweeps,
            world.removes,
            world.slow_reads,
            world.prepares > 0,
        )
        return self._calms.setdefault(kind, rest.Calm())


class Search:
    """One exploration under way. ``story``: of each state one predecessor; ``frontier``: what is not expanded yet."""

    def __init__(self, scenario: Scenario, rest_every: int, deep: int | None, kept: Kept) -> None:
        self.found = Explored(scenario.name)
        self.scenario = scenario
        self.rest_every = rest_every
        self.kept = kept
        self.calm = rest.Calm()
        self.story: list[Seen] = []
        self.seen: set[tuple[object, ...]] = set()
        self.frontier: deque[tuple[ExploredWorld, int, int]] = deque()
        self.chance = None if deep is None else random.Random(deep)
        self.telling: list[str] = []
        self.at = 0

    def begin(self, *, wide: bool) -> None:
        start = self.scenario.begin(self.telling, self.kept.begun, wide=wide)
        if start.broken is not None:
            self.found.broken = start.broken
            return
        self.telling = []
        self.calm = self.kept.calm(start)
        self.add(start, 0, "", 0)

    def add(self, world: ExploredWorld, parent: int, label: str, depth: int) -> None:
        key = key_of(world)
        if key in self.seen:
            return
        self.seen.add(key)
        self.story.append(Seen(parent, label, world.tick))
        if world.broken is not None:
            self.at, self.found.broken = len(self.story) - 1, world.broken
        else:
            self.frontier.append((world, len(self.story) - 1, depth))

    def go_on(self, max_states: int) -> None:
        while self.frontier and self.found.broken is None:
            if len(self.story) >= max_states:
                self.found.complete = False
                self.rest_of_frontier()
                return
            world, self.at, depth = self.next()
            self.found.depth = max(self.found.depth, depth)
            self.bring_to_rest(world, self.at)
            if self.found.broken is not None:
                return
            for move in successors(world, self.scenario.kinds):
                self.found.transitions += 1
                self.add(move.world, self.at, move.label, depth + 1)
                if self.found.broken is not None:
                    return

    def next(self) -> tuple[ExploredWorld, int, int]:
        """The oldest; in a deep search the newest or any one, by chance."""
        if self.chance is not None:
            if self.chance.random() < NEWEST:
                return self.frontier.pop()
            self.frontier.rotate(self.chance.randrange(len(self.frontier)))
        return self.frontier.popleft()

    def rest_of_frontier(self) -> None:
        """What was found and not expanded any more comes to rest all the same."""
        for world, number, _ in self.frontier:
            self.at = number
            self.bring_to_rest(world, number)
            if self.found.broken is not None:
                return

    def bring_to_rest(self, world: ExploredWorld, number: int) -> None:
        if not self.rest_every or number % self.rest_every:
            return
        self.telling = self.calm.trace
        why = self.calm.wrong(world)
        self.found.converged += 1
        if why is not None:
            self.found.broken = why
        else:
            self.calm.trace.clear()

    def deliver(self) -> list[str]:
        return [*tell_story(self.story, self.at), *self.telling] if self.found.broken is not None else []


def explore(
    scenario: Scenario,
    max_states: int,
    rest_every: int = 1,
    *,
    wide: bool = False,
    deep: int | None = None,
    kept: Kept | None = None,
) -> Explored:
    """All states of a scenario, at most ``max_states``. ``wide``: with its wider number of faults. ``deep``: where the bound
    cuts it off, far and scattered states rather than all the near ones, by this seed; a trace is not the shortest then.

    ``rest_every``: from each n-th state it is also asked whether all comes to rest as declared (``rest``); 0: never. What
    raises, in production code or in what is planted there, is a violation like any other. ``kept``: of earlier explorations
    of the very same code.
    """
    begun_at_s = time.process_time()
    search = Search(scenario, rest_every, deep, Kept() if kept is None else kept)
    Remembering.kept = scenario.replaceable
    try:
        search.begin(wide=wide)
        search.go_on(max_states)
    except Exception as error:  # code that raises in a step is a finding, with the way that led there
        search.found.broken = crashed(error)
    found = search.found
    found.trace = search.deliver()
    found.states = max(1, len(search.story))
    found.seconds = time.process_time() - begun_at_s
    return found


def crashed(error: Exception) -> str:
    """What was raised, and where: in the innermost function that is not the explorer's own, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if "tests/explore/" not in frame.filename] or list(frames)
    last = theirs[-1]
    file = (
        last.filename.rpartition("supervisor/")[2]
        if "supervisor/" in last.filename
        else last.filename.rpartition("/")[2]
    )
    return f"crash: {type(error).__name__} in {file}: {last.name}: {str(error) or 'no message'}"


def tell_story(story: list[Seen], number: int) -> list[str]:
    """The moves that led there, oldest first."""
    lines: list[str] = []
    while number:
        one = story[number]
        lines.append(f"tick {one.tick:3}  {one.label}")
        number = one.parent
    return lines[::-1]
