"""Every point of leader and commands in memory: recorded first, then a run per point, moment and mode."""

from __future__ import annotations

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


def tell(story: str, fault: Fault | None = None) -> MemoryWorld:
    world = MemoryWorld(fault)
    with world.at_virtual_time():
        STORIES[story](world)
    return world


def record() -> dict[str, set[Point]]:
    """Story → points. Raises AssertionError if a story goes wrong without any fault."""
    passed = {}
    for story in STORIES:
        world = tell(story)
        assert not world.broken, f"{story}, without any fault: {world.broken}"
        passed[story] = set(world.passed)
    return passed


def faults(passed: dict[str, set[Point]], *, everywhere: bool = False) -> list[tuple[str, Fault]]:
    """(story, fault): each point in the first story that passes it (``everywhere``: in each), at both moments, in each mode; multis are lost, too."""
    found = []
    known: set[Point] = set()
    for story, points in passed.items():
        for point in sorted(points if everywhere else points - known):
            modes = MODES if point.op not in NEVER_FAIL else MODES[:-1]
            found += [(story, Fault(str(point), moment, mode)) for moment in MOMENTS for mode in modes]
            if "zookeeper.commit" in point.op:
                found.append((story, Fault(str(point), "before", "lose")))
        known |= points
    return found


def run(faults: Iterable[tuple[str, Fault]]) -> tuple[int, list[str]]:
    """(how many faults struck, what must not be)."""
    struck, wrong = 0, []
    for story, fault in faults:
        world = tell(story, fault)
        struck += world.struck
        wrong += [f"{story}, {fault}: {each}" for each in world.broken]
    return struck, wrong
