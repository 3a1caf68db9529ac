"""The ladder of an orderly stop, alone and in the machine: what is done, in which order, and what the tombstone says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.records import OwnState, StopMode
from supervisor.shim import state as shim
from supervisor.shim import stopping
from supervisor.shim.state import Stage
from tests.unit.shim.world import LAUNCH, ShimWorld, kill_tree, running

GRACE_S = 20.0


def asked_to_stop(*, takes_orders: bool = True, **launch: object) -> ShimWorld:
    """A driver runs, and the fence has just been moved to draining."""
    world = running(replace(LAUNCH, stop_grace_s=GRACE_S, **launch))  # type: ignore[arg-type]
    world.takes_orders = takes_orders
    world.move(OwnState.DRAINING)
    world.deliver(shim.OwnChanged())
    world.run()
    assert world.stage() is Stage.STOPPING
    return world


def ended(world: ShimWorld, status: int) -> ShimWorld:
    """The driver's root ends by itself, and the rest of the tree is killed."""
    world.driver = False
    world.deliver(shim.Exited(status))
    kill_tree(world)
    world.run()
    assert world.finished
    return world


def orders(world: ShimWorld) -> list[str]:
    return [effect.order for effect in world.effects if isinstance(effect, shim.Order)]


def test_one_that_stops_at_its_boundary_gets_no_signal() -> None:
    world = asked_to_stop()
    world.deliver(shim.Reported("stopping", queries=2))
    world.run(stopping.ANSWER_S + 1)
    world.deliver(shim.Reported("stopped"))
    ended(world, 0)
    assert (orders(world), world.count(shim.Terminate)) == (["stop"], 0)
    assert world.own().stop_mode is StopMode.BATCH_BOUNDARY
    assert world.own().history[-1].detail.startswith("batch_boundary: ")


@pytest.mark.parametrize("answer", ["deaf", "no query", "a JVM application"])
def test_one_that_cannot_be_asked_gets_sigterm_at_once(answer: str) -> None:
    world = asked_to_stop(takes_orders=answer != "deaf", reports=answer != "a JVM application")
    if answer == "no query":
        world.deliver(shim.Reported("stopping", queries=0))
    assert world.count(shim.Terminate) == 1
    assert ended(world, 143).own().stop_mode is StopMode.SIGTERM


def test_one_that_does_not_answer_gets_sigterm_before_its_time() -> None:
    world = asked_to_stop()
    world.run(stopping.ANSWER_S - 1)
    assert world.count(shim.Terminate) == 0
    world.run(2)
    assert world.count(shim.Terminate) == 1


def test_one_that_has_heard_is_given_the_time() -> None:
    """Its JVM may be too busy to say how many queries there are."""
    world = asked_to_stop()
    world.deliver(shim.Reported("heard"))
    world.run(stopping.ANSWER_S + 1)
    assert world.count(shim.Terminate) == 0
    world.run(GRACE_S - stopping.ANSWER_S)
    assert world.count(shim.Terminate) == 1


def test_a_batch_that_does_not_end_in_time_gets_sigterm_and_then_sigkill() -> None:
    world = asked_to_stop()
    world.deliver(shim.Reported("stopping", queries=1))
    world.run(GRACE_S - stopping.TERMINATE_MAX_S - 1)
    assert world.count(shim.Terminate) == 0
    world.run(2)
    assert (world.count(shim.Terminate), world.stage()) == (1, Stage.STOPPING)
    world.run(stopping.TERMINATE_MAX_S)
    assert world.stage() is Stage.KILLING
    kill_tree(world)
    world.run()
    assert world.own().stop_mode is StopMode.SIGKILL


def test_an_application_that_lingers_after_its_queries_gets_sigterm() -> None:
    world = asked_to_stop()
    world.deliver(shim.Reported("stopping", queries=1))
    world.deliver(shim.Reported("stopped"))
    world.run(GRACE_S - stopping.TERMINATE_MAX_S + 1)
    assert world.count(shim.Terminate) == 1
    assert ended(world, 143).own().stop_mode is StopMode.SIGTERM


def test_one_that_fails_while_it_is_waited_for_was_stopped_by_nobody() -> None:
    world = asked_to_stop()
    world.deliver(shim.Reported("stopping", queries=1))
    assert ended(world, 1).own().stop_mode is None


def test_the_deadline_stands_above_the_ladder() -> None:
    """protocol §7: a driver that stops slowly never outlives its lease."""
    world = asked_to_stop(lease_s=10.0)
    world.deliver(shim.Reported("stopping", queries=1))
    world.disconnect()
    world.wait(9.0)
    assert world.stage() is Stage.KILLING
    kill_tree(world)
    world.connect()
    world.run()
    assert world.own().stop_mode is StopMode.SIGKILL


def test_without_a_stop_there_is_no_mode() -> None:
    assert ended(running(), 1).own().stop_mode is None


WORDS = st.lists(
    st.tuples(
        st.floats(0, 30),
        st.sampled_from(["heard", "stopping", "stopping 0", "stopped", "unheard", "progress"]),
    ),
    max_size=12,
)


@given(st.floats(0.1, 3600), st.booleans(), WORDS)
def test_whatever_the_driver_says_sigterm_comes_once_and_never_late(
    grace_s: float,
    reports: bool,
    words: list[tuple[float, str]],
) -> None:
    launch = replace(LAUNCH, stop_grace_s=grace_s, reports=reports)
    ladder, now_s, signals_s = stopping.begin(launch, True, 0.0), 0.0, []
    for after_s, word in [*words, (7200.0, "progress")]:
        until_at_s = now_s + after_s
        while now_s <= until_at_s and not ladder.terminated:
            if stopping.is_to_be_terminated(ladder, now_s):
                ladder = stopping.terminated(ladder)
                signals_s.append(now_s)
            now_s = (
                min(max(now_s, stopping.acts_at_s(ladder)), until_at_s)
                if stopping.acts_at_s(ladder) > now_s
                else now_s
            )
            if now_s >= until_at_s:
                break
        now_s = until_at_s
        name, _, count = word.partition(" ")
        ladder = (
            stopping.unheard(ladder, now_s)
            if name == "unheard"
            else stopping.after_report(ladder, name, 0 if count else 1, now_s)
        )
    assert len(signals_s) == 1
    share_s = min(stopping.TERMINATE_MAX_S, grace_s * stopping.TERMINATE_SHARE)
    assert signals_s[0] <= ladder.kill_at_s - share_s + 1e-9
