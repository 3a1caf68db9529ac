"""Every place where a leader may stop while it tells receivers of a job, with every place where the next one stops, dies or is overtaken by
it, and each moment at which a user may have resumed the job. The world and the judge are those of ``test_notifications``.

The explorer (``tests.explore``) does not have it: its worlds are values, and a notifier is a loop with memory of its own. What
it does is told here as completely, because nothing else in the registry rests on it: a run is a job, two leaders and their stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import pytest

from tests.property.notifying import NotifyingLeader, NotifyingWorld
from tests.property.processes import StopPoint

NAME = "a"
HOW = ("dead", "accepted", "lost", "refused")
REQUESTS_MAX = 8
"""A step makes fewer requests of each kind: ``test_no_step_has_more_places_to_stop``."""

Change = Callable[[NotifyingWorld], None]


def resumed(world: NotifyingWorld) -> None:
    world.resumes(NAME)


def cancelled_and_submitted(world: NotifyingWorld) -> None:
    world.cancels(NAME)
    world.cleans(NAME)
    world.submit(NAME)


def updated(world: NotifyingWorld) -> None:
    world.updates(NAME)


def failed(world: NotifyingWorld) -> None:
    world.fails(NAME)


def rolled_back(world: NotifyingWorld) -> None:
    world.rolls_back(NAME)


def quarantined(world: NotifyingWorld) -> None:
    world.quarantines(NAME)


def suspended(world: NotifyingWorld) -> None:
    world.suspends(NAME)


CHANGES: dict[str, tuple[Change, Change]] = {
    "resumed": (failed, resumed),
    "cancelled": (failed, cancelled_and_submitted),
    "updated": (rolled_back, updated),
    "resumed after a quarantine": (quarantined, resumed),
    "suspended after a quarantine": (quarantined, suspended),
    "cancelled after a quarantine": (quarantined, cancelled_and_submitted),
    "updated after a quarantine": (quarantined, updated),
}
MOMENTS = ("unseen", "seen", "stopped", "left", "never")
"""When the user comes: before the first leader has a view, then, while its step stands, when it is gone, or never."""


def stops() -> Iterator[StopPoint | None]:
    yield None
    for kind, after in product(("read", "commit"), range(REQUESTS_MAX)):
        yield StopPoint(kind, after)


def distinct(number: int) -> list[StopPoint | None]:
    """The stops that the ``number``-th step of a leader has: it comes to each of them."""
    found: list[StopPoint | None] = [None]
    for stop in stops():
        world = begun()
        try:
            world.fails(NAME)
            leader = world.leaders[-1]
            for step in range(number + 1):
                world.passes(leader)
                world.steps(leader, stop if step == number else None)
                if step < number:
                    answered(world, "accepted")
            if leader.process is not None:
                found.append(stop)
        finally:
            world.close()
    return found


def begun() -> NotifyingWorld:
    """A leader leads that has read nothing yet, and others have led before it."""
    world = NotifyingWorld()
    world.submit(NAME)
    world.lead()
    return world


def answered(world: NotifyingWorld, how: str) -> None:
    for message in list(world.in_flight):
        world.answers(message, how)


def follow(change: str, moment: str, first: StopPoint | None, second: StopPoint | None, how: str) -> None:
    """``how`` receivers answer what the first leader has sent; it goes on after the second one's step, unless that is ``dead``."""
    happens, undone = CHANGES[change]
    world = begun()
    try:
        leader = world.leaders[-1]
        happens(world)
        if moment == "unseen":
            undone(world)
        world.passes(leader)
        if moment == "seen":
            undone(world)
        world.steps(leader, first)
        if moment == "stopped":
            undone(world)
        if how == "dead":
            world.leave(leader)
        else:
            answered(world, how)
        if moment == "left":
            undone(world)
        successor(world, leader, second)
        world.rest()
    finally:
        world.close()


def successor(world: NotifyingWorld, leader: NotifyingLeader, stop: StopPoint | None) -> None:
    world.lead()
    newest = world.leaders[-1]
    world.passes(newest)
    world.steps(newest, stop)
    if leader in world.leaders:
        world.steps(leader)
    answered(world, "lost")
    if newest in world.leaders:
        world.steps(newest)


def follow_all(
    change: str, moment: str, cases: Iterable[tuple[StopPoint | None, StopPoint | None, str]]
) -> None:
    for first, second, how in cases:
        try:
            follow(change, moment, first, second, how)
        except AssertionError as error:
            error.add_note(f"{change}, {moment}, {first}, {second}, {how}")
            raise


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_wherever_a_leader_stops_the_event_is_told(change: str, moment: str) -> None:
    places = distinct(0)
    follow_all(change, moment, product(places, [None], HOW))


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_wherever_two_leaders_stop_the_event_is_told(change: str, moment: str) -> None:
    places = distinct(0)
    follow_all(change, moment, product(places, places[1:], HOW))


def test_no_step_has_more_places_to_stop() -> None:
    for number in (0, 1):
        places = {(stop.kind, stop.after) for stop in distinct(number) if stop is not None}
        assert places and all(after < REQUESTS_MAX - 1 for _, after in places)
