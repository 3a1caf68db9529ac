"""Every point of leader and commands in memory: recorded first, then a run per point, moment and mode, or per random pair."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import structlog

from tests.crash_points.memory_stories import STORIES
from tests.crash_points.memory_world import NEVER_FAIL, Fault, MemoryWorld
from tests.crash_points.points import MODES, MOMENTS, Point

MEMORY_MODES = (*MODES, "lose")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log of the leaders."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


def run_story(story: str, *faults: Fault) -> MemoryWorld:
    world = MemoryWorld(*faults)
    with world.at_virtual_time():
        STORIES[story](world)
    return world


Passed = dict[str, Counter[Point]]
"""Story → how often each point was passed."""

Pair = tuple[str, Fault, Fault]


def record() -> Passed:
    """Raises AssertionError if a story goes wrong without any fault."""
    passed = {}
    for story in STORIES:
        world = run_story(story)
        assert not world.broken, f"{story}, without any fault: {world.broken}"
        passed[story] = world.passed
    return passed


def faults(passed: Passed, *, everywhere: bool = False) -> list[tuple[str, Fault]]:
    """(story, fault): each point in the first story that passes it (``everywhere``: in each), at both moments, in each mode; multis are lost, too."""
    found = []
    known: set[Point] = set()
    for story, points in passed.items():
        for point in sorted(points if everywhere else points.keys() - known):
            modes = MODES if point.op not in NEVER_FAIL else MODES[:-1]
            found += [(story, Fault(str(point), moment, mode)) for moment in MOMENTS for mode in modes]
            if "zookeeper.commit" in point.op:
                found.append((story, Fault(str(point), "before", "lose")))
        known |= points.keys()
    return found


PAIR_MODES = (("kill", "kill"), ("kill", "pause"), ("pause", "kill"), ("pause", "pause"))


def pairs(passed: Passed, count: int, seed: int) -> Iterator[Pair]:
    """Two faults in one story, in one process or in two: each at any pass of any point, before or after it."""
    drawn = random.Random(seed)
    stories = sorted(passed)
    passes = {
        story: [(point, n + 1) for point in sorted(passed[story]) for n in range(passed[story][point])]
        for story in stories
    }
    for _ in range(count):
        story = drawn.choice(stories)
        modes = drawn.choice(PAIR_MODES)
        first, second = (
            Fault(str(point), drawn.choice(MOMENTS), mode, nth)
            for mode, (point, nth) in zip(modes, drawn.sample(passes[story], 2), strict=True)
        )
        yield story, first, second


def run_pairs(pairs: Iterable[Pair]) -> tuple[Counter[int], dict[str, list[str]]]:
    """(how many pairs by the number of their faults that struck, pair → what must not be)."""
    struck, wrong = Counter[int](), dict[str, list[str]]()
    for pair in pairs:
        world = run_story(*pair)
        struck[world.struck] += 1
        if world.broken:
            wrong[describe_pair(pair)] = world.broken
    return struck, wrong


def describe_pair(pair: Pair) -> str:
    story, first, second = pair
    return f"{story} {first} + {second}"


def parse_pair(text: str) -> Pair:
    """Raises ValueError."""
    story, _, both = text.partition(" ")
    first, second = both.split(" + ")
    return story, Fault.parse(first), Fault.parse(second)


def run(faults: Iterable[tuple[str, Fault]]) -> tuple[int, list[str]]:
    """(how many faults struck, what must not be)."""
    struck, wrong = 0, []
    for story, fault in faults:
        world = run_story(story, fault)
        struck += world.struck
        wrong += [f"{story}, {fault}: {each}" for each in world.broken]
    return struck, wrong
