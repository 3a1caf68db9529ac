"""Whatever happens in whatever order: ``ShimWorld`` raises when a driver runs without a lease, or is buried alive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model import lease_terms
from supervisor.model.launch import Launch
from supervisor.model.records import OwnState
from supervisor.shim import state as shim
from supervisor.shim.machine import next_wake_at_s
from tests.unit.shim.world import HANDED, LAUNCH, PREPARED, REPORT_EVENTS, ShimWorld, kill_tree, running

OUTCOMES = ["done", "done", "done", "not_sent", "lost", "applied", "late"]
REPORTS = ["begun", "progress", "stopping", "stopped", "terminated", "unheard"]


def outside(world: ShimWorld, what: str) -> None:
    """What the leader, users and bad luck do to /own."""
    if what in ("wreck", "repair"):
        getattr(world, what)()
    if world.good is not None:
        return
    own = world.own()
    if what == "bump":
        world.move(own.state)
    elif what == "drain" and own.state is OwnState.CLAIMED:
        world.move(OwnState.DRAINING)
    elif what == "revoke" and own.state in (OwnState.CLAIMED, OwnState.DRAINING):
        world.move(OwnState.REVOKED)
    elif what == "unassign" and own.state is OwnState.ASSIGNED:
        world.move(OwnState.VACANT)
    elif what == "reassign" and own.state in (OwnState.REVOKED, OwnState.VACANT, OwnState.EXITED):
        world.move(OwnState.ASSIGNED, attempt=own.attempt + 1, claim="")


def agent(world: ShimWorld, what: str) -> None:
    """What the agent says to the shim of a prepared driver, also when it has an attempt already."""
    events = {
        "wanted": shim.StillWanted(),
        "discard": shim.DiscardAsked(),
        "hand over": shim.HandedOver(HANDED),
        "hand over another's": shim.HandedUnfit("it is no attempt"),
    }
    world.deliver(events[what])


def driver(world: ShimWorld, what: str) -> None:
    if what == "kill works":
        if world.stage() is shim.Stage.KILLING:
            kill_tree(world)
    elif what == "kill fails":
        if world.stage() is shim.Stage.KILLING:
            world.deliver(shim.TreeSeen(False))
    elif what == "exits" and world.driver:
        world.driver = False
        world.deliver(shim.Exited(1))
    elif what == "executed" and world.driver:
        world.deliver(shim.Executed())
    elif what == "unheard":
        world.deliver(shim.Unheard(shim.Order("stop")))
    elif what not in ("exits", "executed"):
        world.deliver(shim.Reported(what, query="q", queries=1))


STEPS = st.one_of(
    st.tuples(st.just("agent"), st.sampled_from(["wanted", "discard", "hand over", "hand over another's"])),
    st.tuples(st.just("answer"), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 1.0, 3.0, 8.0, 20.0, 30.0])),
    st.tuples(st.just("suspend"), st.sampled_from([1.0, 20.0, 100.0])),
    st.tuples(st.just("clock"), st.sampled_from([-3600.0, 1.0, 3.2e8])),
    st.tuples(
        st.just("link"),
        st.sampled_from(["connect", "connect", "disconnect", "lose", "give up", "late", "watch", "stop"]),
    ),
    st.tuples(
        st.just("own"),
        st.sampled_from(["bump", "drain", "revoke", "unassign", "reassign", "wreck", "repair"]),
    ),
    st.tuples(
        st.just("driver"), st.sampled_from(["executed", "exits", "kill works", "kill fails", *REPORTS])
    ),
)


def play(world: ShimWorld, steps: list[tuple[str, object]]) -> None:
    for kind, what in steps:
        if world.finished:
            return
        if kind == "answer":
            world.answer(str(what))
        elif kind == "wait":
            world.wait(float(str(what)))
        elif kind == "suspend":
            world.now_s += float(str(what))
            world.deliver(shim.Tick())
        elif kind == "clock":
            world.offset_s += float(str(what))
        elif kind == "own":
            outside(world, str(what))
        elif kind == "driver":
            driver(world, str(what))
        elif kind == "agent":
            agent(world, str(what))
        else:
            link(world, str(what))


def link(world: ShimWorld, what: str) -> None:
    match what:
        case "connect":
            world.connect()
        case "disconnect":
            world.disconnect()
        case "lose":
            world.lose_session()
        case "give up":
            world.give_up_session()
        case "late":
            world.come_late()
        case "watch":
            world.deliver(shim.OwnChanged())
        case "stop":
            world.deliver(shim.StopAsked())


@settings(max_examples=600, deadline=None)
@given(st.lists(STEPS, max_size=60), st.booleans())
def test_no_sequence_of_events_breaks_the_lease(steps: list[tuple[str, object]], takes_orders: bool) -> None:
    play(ShimWorld(takes_orders=takes_orders), steps)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=60), st.booleans())
def test_no_sequence_of_events_breaks_the_lease_of_a_running_driver(
    steps: list[tuple[str, object]],
    takes_orders: bool,
) -> None:
    world = ShimWorld(takes_orders=takes_orders)
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    play(world, steps)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=20), st.lists(STEPS, max_size=60), st.booleans())
def test_no_sequence_of_events_breaks_the_lease_of_a_prepared_driver(
    before: list[tuple[str, object]], steps: list[tuple[str, object]], takes_orders: bool
) -> None:
    world = ShimWorld(PREPARED, takes_orders=takes_orders)
    play(world, before)
    world.deliver(shim.HandedOver(HANDED))
    play(world, steps)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_it_comes_to_an_end_once_everything_works_again(steps: list[tuple[str, object]]) -> None:
    world = ShimWorld()
    play(world, steps)
    world.repair()
    for _ in range(400):
        if world.finished:
            break
        world.connect()
        while world.answer():
            pass
        world.wait(2.0)
        if world.driver:
            world.driver = False
            world.deliver(shim.Exited(0))
        if world.stage() is shim.Stage.KILLING:
            kill_tree(world)
    assert world.finished
    own = world.own()
    ours = (own.uid, own.attempt, own.claim) == ("uid-1", 1, "c1a1")
    # what became of the claim could not be told for the full wait, which frees the job
    given_up = not world.executions
    assert not ours or own.state in (OwnState.EXITED, OwnState.VACANT) or given_up


def unsure() -> ShimWorld:
    """The claim was sent, and nobody knows what became of it."""
    world = ShimWorld()
    world.connect()
    world.answer()
    return world


def closing(outcome: str) -> ShimWorld:
    """... and its session is gone: a new one has asked for its end."""
    world = unsure()
    world.answer(outcome)
    world.lose_session()
    world.answer("lost")
    world.connect()
    world.wait(1.0)
    return world


def burying() -> ShimWorld:
    world = running()
    world.driver = world.tree = False
    world.deliver(shim.Exited(1))
    world.deliver(shim.TreeSeen(True))
    return world


BEGINNINGS = {
    "unsure": unsure,
    "closing, applied": lambda: closing("applied"),
    "closing, lost": lambda: closing("lost"),
    "burying": burying,
    "connecting": ShimWorld,
    "running": running,
}
MOVES: list[tuple[str, object]] = [
    ("link", "disconnect"),
    ("link", "connect"),
    ("link", "lose"),
    ("link", "give up"),
    ("answer", "done"),
    ("answer", "lost"),
    ("answer", "not_sent"),
    ("wait", 1.0),
    ("link", "stop"),
]


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
def test_no_stage_is_without_an_end(begin: Callable[[], ShimWorld]) -> None:
    """Every short way for the worse. Then all works again, and it is asked to stop: it ends, and is not woken for nothing."""
    for steps in product(MOVES, repeat=3):
        world = begin()
        play(world, list(steps))
        world.deliver(shim.StopAsked())
        assert why_endless(world) is None, (why_endless(world), steps)


def why_endless(world: ShimWorld) -> str | None:
    for _ in range(200):
        if world.finished:
            return None
        world.connect()
        while world.answer():
            pass
        if world.stage() is shim.Stage.KILLING:
            kill_tree(world)
        while world.answer():
            pass
        world.wait(0.5)
        if not world.finished and not world.sent and next_wake_at_s(world.state) <= world.now_s:
            return f"it spins in {world.stage()}"
    return f"it never ends: {world.stage()}"


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    "begin", [unsure, lambda: closing("applied"), lambda: closing("lost")], ids=["unsure", "applied", "lost"]
)
def test_an_unknown_claim_that_nobody_can_resolve_ends_the_shim(
    begin: Callable[[], ShimWorld], asked: bool
) -> None:
    """ZooKeeper stays away for good. Nothing was executed, so nothing but the wait for its lease depends on it."""
    world = begin()
    world.answer("lost")
    world.disconnect()
    if asked:
        world.deliver(shim.StopAsked())
    world.wait(2 * lease_terms.full_wait_s(world.launch.lease_s))
    assert world.finished and world.executions == 0


LIES = st.builds(
    shim.Reported,
    st.sampled_from([*REPORT_EVENTS, "nonsense"]),
    query=st.sampled_from(["", "q", "r"]),
    id=st.sampled_from(["", "i", "j"]),
    queries=st.sampled_from([None, 0, 1, -3, 10**9]),
    executors=st.sampled_from([None, 0, 1]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(STEPS, LIES), max_size=60),
    st.booleans(),
    st.booleans(),
    st.sampled_from([LAUNCH, replace(LAUNCH, executors_outlive_s=90.0, cluster_timeout_s=10.0)]),
)
def test_whatever_the_driver_says_its_grace_ends_when_it_was_to_end(
    steps: list[tuple[str, object] | shim.Reported],
    takes_orders: bool,
    runs: bool,
    launch: Launch,
) -> None:
    """However often it is asked to stop, and whatever it answers."""
    world, until_at_s = ShimWorld(launch, takes_orders=takes_orders), None
    if runs:
        world.connect()
        world.run()
        world.deliver(shim.Executed())
    for step in steps:
        if world.finished:
            return
        if isinstance(step, shim.Reported):
            world.deliver(step)
        else:
            play(world, [step])
        ladder = world.state.ladder
        if ladder is not None:
            until_at_s = ladder.kill_at_s if until_at_s is None else until_at_s
            assert ladder.kill_at_s == until_at_s == world.state.stop_until_at_s
            assert world.now_s < until_at_s or world.stage() is not shim.Stage.STOPPING
