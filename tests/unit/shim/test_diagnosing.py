"""When diagnostics are collected: before a kill for silence, and in the way of no other kill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model import lease_terms
from supervisor.model.diagnostics import COLLECT_S
from supervisor.model.records import Cause, OwnState, Progress
from supervisor.shim import end
from supervisor.shim import state as shim
from supervisor.shim.state import Stage
from tests.unit.shim.world import LAUNCH, ShimWorld, kill_tree, running

STALL_S = 60.0


def working(*, diagnoses: bool = False, **launch: Any) -> ShimWorld:
    """A driver runs and has committed a batch."""
    world = running(replace(LAUNCH, stall_timeout_s=STALL_S, **launch))
    world.diagnoses = diagnoses
    progress(world)
    return world


def progress(world: ShimWorld) -> None:
    world.deliver(shim.Reported("progress", progress=Progress(batch_id=7)))


def silent(**launch: Any) -> ShimWorld:
    """... and then nothing more for as long as is allowed."""
    world = working(**launch)
    world.run(STALL_S + 0.5)
    return world


def asked(world: ShimWorld) -> list[shim.Diagnose]:
    return [effect for effect in world.effects if isinstance(effect, shim.Diagnose)]


def test_a_silent_driver_is_diagnosed_and_then_killed() -> None:
    world = silent()
    (once,) = asked(world)
    assert (world.stage(), once.within_s) == (Stage.RUNNING, COLLECT_S)
    assert "active, batch 7 at " in once.progress[0]
    assert "60 s" in once.why
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    assert world.stage() is Stage.KILLING
    assert (world.state.cause, world.state.diagnostics) == (Cause.STALLED, "/log.diagnostics.txt")


@pytest.mark.parametrize(
    ("pids", "said"),
    [
        ((), "60 s"),
        ((41,), "; process 41 is stopped (SIGSTOP)"),
        ((41, 42), "; processes 41, 42 are stopped (SIGSTOP)"),
    ],
)
def test_the_reason_says_which_processes_are_stopped(pids: tuple[int, ...], said: str) -> None:
    world = silent()
    world.deliver(shim.Diagnosed("/log.diagnostics.txt", pids))
    assert world.stage() is Stage.KILLING and world.state.reason.endswith(said)


def test_diagnostics_that_never_come_delay_the_kill_for_their_time_only() -> None:
    world = silent()
    world.run(COLLECT_S - 2)
    assert world.stage() is Stage.RUNNING
    world.run(2.5)
    assert (world.stage(), world.state.cause, len(asked(world))) == (Stage.KILLING, Cause.STALLED, 1)


def test_the_lease_is_renewed_while_diagnostics_are_collected() -> None:
    world = silent(lease_s=6.0)
    renewals = world.state.renewals
    world.run(COLLECT_S - 2)
    assert world.state.renewals >= renewals + 5


def test_the_deadline_waits_for_no_diagnostics() -> None:
    """No renewal commits any more at the moment when the collection begins."""
    world = silent(lease_s=10.0)
    deadline_at_s = world.state.deadline_at_s
    assert deadline_at_s is not None
    world.wait(lease_terms.shim_acts_at_s(deadline_at_s) - world.now_s)
    assert (world.stage(), world.state.cause) == (Stage.KILLING, Cause.LEASE_EXPIRED)


@pytest.mark.parametrize("how", ["revoked", "exit", "another attempt"])
def test_what_else_kills_waits_for_no_diagnostics(how: str) -> None:
    world = silent()
    if how == "exit":
        world.driver = False
        world.deliver(shim.Exited(1))
    else:
        changes = {"claim": "another"} if how == "another attempt" else {}
        world.move(OwnState.REVOKED if how == "revoked" else OwnState.CLAIMED, **changes)
        world.deliver(shim.OwnChanged())
        world.run()
    assert world.stage() is Stage.KILLING


def test_a_wait_for_the_cluster_that_is_over_waits_for_no_diagnostics() -> None:
    """The driver is not silent: it has no executor."""
    world = working(executors_outlive_s=30.0, cluster_timeout_s=20.0)
    for _ in range(30):
        world.deliver(shim.Reported("executors", executors=0))
        world.run(1.0)
    assert (world.stage(), world.state.cause) == (Stage.KILLING, Cause.CLUSTER_TIMED_OUT)
    assert world.state.kill_began_at_s and not asked(world)


def test_one_that_comes_back_is_not_killed_and_its_next_silence_is_diagnosed_again() -> None:
    world = silent()
    progress(world)
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    assert world.stage() is Stage.RUNNING
    world.run(STALL_S + 0.5)
    assert (len(asked(world)), world.stage()) == (2, Stage.RUNNING)


def recovered() -> ShimWorld:
    """It was silent, its diagnostics are there, and it has gone on."""
    world = silent(stop_grace_s=20.0)
    progress(world)
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    world.run(5.0)
    return world


def test_the_diagnostics_of_a_silence_that_is_over_are_those_of_no_end() -> None:
    world = recovered()
    world.driver = False
    world.deliver(shim.Exited(1, "another error"))
    kill_tree(world)
    assert end.describe(world.state).diagnostics == ""


def test_one_that_ends_by_itself_while_it_is_silent_has_its_diagnostics() -> None:
    world = silent()
    world.driver = False
    world.deliver(shim.Exited(1, "it hung"))
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    kill_tree(world)
    assert end.describe(world.state).diagnostics == "/log.diagnostics.txt"


def test_one_that_comes_back_while_it_is_to_stop_is_diagnosed_anew_if_it_does_not_end() -> None:
    """A stop came while it was silent, and it has gone on since."""
    world = silent(stop_grace_s=20.0)
    world.deliver(shim.StopAsked())
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    world.run(1.0)
    assert world.state.diagnostics == "/log.diagnostics.txt"  # it is as silent as before
    progress(world)
    world.run(1.0)
    assert world.state.diagnostics == ""
    world.run(17.0)
    assert [each.why for each in asked(world)][1:] == ["it does not end after SIGTERM"]
    world.deliver(shim.Diagnosed("/log.diagnostics.txt"))
    world.run(2.0)
    assert (world.stage(), end.describe(world.state).diagnostics) == (Stage.KILLING, "/log.diagnostics.txt")


def test_one_that_is_to_stop_is_not_held_up_by_a_look_at_its_heap() -> None:
    """For that a JVM stops all its threads, and it may have been about to end."""
    world = recovered()
    world.deliver(shim.StopAsked())
    world.run(19.5)
    assert [each.heap for each in asked(world)] == [True, False]


def test_one_that_has_not_begun_in_time_is_diagnosed() -> None:
    world = ShimWorld(replace(LAUNCH, start_timeout_s=30.0), diagnoses=False)
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.run(31)
    assert (len(asked(world)), world.stage()) == (1, Stage.RUNNING)
    assert asked(world)[0].progress == ("no query was heard of",)


def test_one_that_does_not_stop_is_diagnosed_within_its_grace() -> None:
    world = working(stop_grace_s=20.0)
    world.deliver(shim.StopAsked())
    began_at_s = world.now_s
    world.run(19.5)
    (once,) = asked(world)
    assert (world.stage(), once.why) == (Stage.STOPPING, "it does not end after SIGTERM")
    assert 0 < once.within_s <= COLLECT_S
    world.run(0.5)
    assert world.stage() is Stage.KILLING and world.state.kill_began_at_s == began_at_s + 20.0


def test_one_that_stops_in_time_is_not_diagnosed() -> None:
    world = working(stop_grace_s=20.0)
    world.deliver(shim.StopAsked())
    world.run(6.0)
    world.driver = False
    world.deliver(shim.Exited(0))
    kill_tree(world)
    world.run()
    assert world.finished and not asked(world)


def test_a_grace_that_is_too_short_is_not_spent_on_diagnostics() -> None:
    world = working(stop_grace_s=1.0)
    world.deliver(shim.StopAsked())
    world.run(1.5)
    assert world.stage() is Stage.KILLING and not asked(world)


@settings(max_examples=150)
@given(
    answers_after_s=st.one_of(st.none(), st.floats(0.0, 40.0)),
    grace_s=st.floats(0.0, 60.0),
    stops_after_s=st.floats(0.0, STALL_S + 30.0),
)
def test_no_kill_comes_later_than_without_diagnostics_but_for_their_time(
    answers_after_s: float | None, grace_s: float, stops_after_s: float
) -> None:
    """Whenever the driver is to stop, and whenever diagnostics come or not: SIGKILL comes at the end of the grace, or
    ``COLLECT_S`` after the silence was found."""
    world = working(stop_grace_s=grace_s)
    began_at_s, asked_at_s, stopped_at_s = world.now_s, None, None
    for _ in range(400):
        if world.stage() is Stage.KILLING:
            break
        world.run(0.5)
        if asked(world) and asked_at_s is None:
            asked_at_s = world.now_s
        due = answers_after_s is not None and asked_at_s is not None
        if due and not world.state.diagnosed and world.now_s >= asked_at_s + (answers_after_s or 0.0):
            world.deliver(shim.Diagnosed())
        if (
            stopped_at_s is None
            and world.now_s - began_at_s >= stops_after_s
            and world.stage() is Stage.RUNNING
        ):
            world.deliver(shim.StopAsked())
            stopped_at_s = world.now_s
    latest_s = STALL_S + COLLECT_S if stopped_at_s is None else stopped_at_s - began_at_s + grace_s
    assert world.stage() is Stage.KILLING
    assert world.state.kill_began_at_s - began_at_s <= latest_s + 1.0
