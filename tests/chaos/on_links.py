"""Faults of links between processes and the ensemble: what lies on one of a member's two ways, or on the users' way.

Short ones end no attempt, and only what may outlast a lease is a harm. One-way: what the clients say gets lost, or what the
servers say. The users' links are hit as the others are: that is where unknown outcomes come from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.chaos.nemesis import Fault, Skipped
from tests.chaos.world import ChaosWorld
from tests.testbed.proxy import Proxies, Proxy, Way

WAYS: tuple[tuple[Way, ...], ...] = ((), (Way.REQUESTS,), (Way.RESPONSES,))
NAMES = {(): "both ways", (Way.REQUESTS,): "requests", (Way.RESPONSES,): "responses"}
USERS = 5
"""One fault in so many is of the users' links."""


@contextmanager
def chosen(world: ChaosWorld, choice: random.Random) -> Iterator[tuple[str, Proxies, str]]:
    """(host, links, what to call them), and nobody else's victim meanwhile."""
    if choice.randrange(USERS) == 0:
        found = ("users", world.user_links, "users")
    else:
        i = choice.randrange(len(world.fleet.links))
        way = choice.randrange(len(world.fleet.links[i]))
        found = (
            world.fleet.members[i].id,
            world.fleet.links[i][way],
            f"{world.fleet.members[i].id} way {way}",
        )
    lock = world.link_lock(found[1])
    if not lock.acquire(blocking=False):
        raise Skipped
    try:
        yield found
    finally:
        lock.release()


def reset(world: ChaosWorld, choice: random.Random) -> None:
    with chosen(world, choice) as (_, links, title):
        world.diary.fault("links reset", title)
        links.each(Proxy.cut)


def reset_one(world: ChaosWorld, choice: random.Random) -> None:
    """The connections to one of the servers, which stays away for a moment."""
    with chosen(world, choice) as (_, links, title):
        node = choice.randrange(len(links))
        with world.diary.lasting("one server refused", f"{title} server {node}"):
            links[node].refuse()
            world.wait(choice.uniform(0.2, 2.0))
            links[node].heal()


def blink(world: ChaosWorld, choice: random.Random) -> None:
    """Silence for a moment, one way or both."""
    ways = choice.choice(WAYS)
    _lasting(world, choice, f"links cut briefly, {NAMES[ways]}", (0.1, 1.0), lambda proxy: proxy.drop(*ways))


def hold(world: ChaosWorld, choice: random.Random) -> None:
    """Nothing gets lost, but it arrives late."""
    ways = choice.choice(WAYS)
    _lasting(world, choice, f"links held, {NAMES[ways]}", (0.1, 1.0), lambda proxy: proxy.hold(*ways))


def slow(world: ChaosWorld, choice: random.Random) -> None:
    delay_s = choice.uniform(0.02, 0.3)
    _lasting(world, choice, "links slow", (1.0, 4.0), lambda proxy: proxy.delay(delay_s))


def crawl(world: ChaosWorld, choice: random.Random) -> None:
    rate = choice.uniform(8_000, 40_000)
    _lasting(world, choice, "links narrow", (1.0, 4.0), lambda proxy: proxy.throttle(rate))


def cut(world: ChaosWorld, choice: random.Random) -> None:
    """Beyond the session, and beyond the shorter leases."""
    ways = choice.choice(WAYS)
    _lasting(world, choice, f"links cut, {NAMES[ways]}", (4.0, 12.0), lambda proxy: proxy.drop(*ways))


def _lasting(
    world: ChaosWorld,
    choice: random.Random,
    kind: str,
    bounds_s: tuple[float, float],
    do: Callable[[Proxy], None],
) -> None:
    with chosen(world, choice) as (host, links, title):
        lasts_s = choice.uniform(*bounds_s)
        with (
            world.diary.harm(kind, world.frail(lasts_s), host),
            world.diary.lasting(kind, title, for_s=round(lasts_s, 2)),
        ):
            links.each(do)
            try:
                world.wait(lasts_s)
            finally:
                links.each(Proxy.heal)


def all_faults() -> list[tuple[float, Fault]]:
    return [(34, reset), (20, reset_one), (16, blink), (12, hold), (8, slow), (6, crawl), (4, cut)]
