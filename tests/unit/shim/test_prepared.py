"""A driver that was brought up before there is an attempt: the shim's stage ``prepared``, and what is different after it (protocol §9.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model import lease_terms
from supervisor.model.records import Cause, OwnState
from supervisor.shim import state as shim
from supervisor.shim.claim import CONNECT_PATIENCE_S
from supervisor.shim.end import bury_from_s
from supervisor.shim.prepared import UNWANTED_S
from supervisor.shim.state import Effect, Stage
from tests.unit.shim.world import ENTRY, HANDED, PREPARED, ShimWorld, kill_tree

REQUESTS = (shim.Read, shim.Commit, shim.FirstConnect, shim.Exec, shim.WriteDeadline)


def prepared() -> ShimWorld:
    return ShimWorld(PREPARED)


def handed_over() -> ShimWorld:
    world = prepared()
    world.wait(60)
    world.deliver(shim.HandedOver(HANDED))
    return world


def opened() -> ShimWorld:
    """Its claim has committed and its opening was written; the driver has not read it yet."""
    world = handed_over()
    world.connect()
    world.run()
    assert world.stage() is Stage.STARTING and world.executed() == 1
    return world


def begun() -> ShimWorld:
    world = opened()
    world.deliver(shim.Executed())
    world.deliver(shim.Reported("begun"))
    return world


@pytest.mark.parametrize("confirmed", [False, True])
def test_executors_of_one_that_was_opened_are_waited_for_whether_or_not_it_has_said_so(
    confirmed: bool,
) -> None:
    """It may have read its opening, and worked on its cluster, before the shim heard of it."""
    state = begun().state if confirmed else opened().state
    assert state.executed is confirmed
    launch = replace(state.launch, executors_outlive_s=90.0)
    over = replace(state, launch=launch, cause=Cause.LEASE_EXPIRED, empty_at_s=1000.0)
    assert bury_from_s(over) >= 1090.0
    assert bury_from_s(replace(over, exec_at_s=None, executed=False)) == 1000.0, "it was never let go"


def kinds(effects: list[Effect] | tuple[Effect, ...]) -> set[type]:
    return {type(effect) for effect in effects}


# -- before there is an attempt ----------------------------------------------------------------------------------------


def test_it_asks_nothing_of_the_registry_and_opens_nothing() -> None:
    world = prepared()
    world.deliver(shim.Reported("session"))
    world.wait(UNWANTED_S / 2)
    assert world.stage() is Stage.PREPARED
    assert not kinds(world.effects) & {*REQUESTS}
    assert world.state.life == shim.Life()


def test_it_goes_when_no_agent_has_wanted_it_for_ten_minutes() -> None:
    world = prepared()
    world.wait(UNWANTED_S - 1)
    world.deliver(shim.StillWanted())
    world.wait(UNWANTED_S - 1)
    assert not world.finished
    world.wait(2)
    assert world.finished and not world.executed()


@pytest.mark.parametrize(
    "event",
    [shim.DiscardAsked(), shim.StopAsked(), shim.Exited(78), shim.HandedUnfit("it is no attempt")],
    ids=lambda e: type(e).__name__,
)
def test_it_is_discarded_when_it_is_not_wanted_or_asked_to_stop_or_dead(event: shim.Event) -> None:
    world = prepared()
    world.deliver(event)
    assert world.finished and not world.executed()


# -- the hand-over -----------------------------------------------------------------------------------------------------


def test_its_first_connection_and_its_patience_count_from_the_hand_over() -> None:
    """Else a driver that was prepared a minute ago would be too late for every claim."""
    world = prepared()
    world.wait(10 * CONNECT_PATIENCE_S)
    world.deliver(shim.StillWanted())
    world.deliver(shim.HandedOver(HANDED))
    assert world.stage() is Stage.CONNECTING and world.count(shim.FirstConnect) == 1
    world.wait(CONNECT_PATIENCE_S - 1)
    assert not world.finished
    world.connect()
    world.run()
    assert world.executed() == 1 and world.own().state is OwnState.CLAIMED


def test_a_trust_check_that_is_too_old_at_its_first_connection_claims_nothing() -> None:
    world = prepared()
    world.wait(60)
    world.deliver(shim.HandedOver(replace(HANDED, looked_s=world.now_s - CONNECT_PATIENCE_S)))
    world.connect()
    world.run(1)
    assert world.finished and not world.executed() and world.own().state is OwnState.ASSIGNED


def test_nobody_discards_what_was_handed_over() -> None:
    """A claim may be under way."""
    for world in (handed_over(), opened(), begun()):
        before = world.state
        world.deliver(shim.DiscardAsked())
        world.deliver(shim.StillWanted())
        assert world.state == before and not world.finished
    world = handed_over()
    world.connect()
    world.answer()
    assert world.stage() is Stage.CLAIMING
    world.deliver(shim.DiscardAsked())
    world.run()
    assert world.executed() == 1


def test_a_second_hand_over_changes_nothing() -> None:
    world = begun()
    other = replace(HANDED, assignment=replace(ENTRY, attempt=2, own_version=99))
    before = world.state
    world.deliver(shim.HandedOver(other))
    assert world.state == before


def test_the_claim_carries_the_id_that_its_tree_was_born_with() -> None:
    """By that id twin, guardian and the marker in the environment of its processes know the tree."""
    world = prepared()
    born_with = world.state.claim_id
    world.deliver(shim.HandedOver(HANDED))
    world.connect()
    world.run()
    assert world.own().claim == born_with


def test_its_opening_comes_after_the_deadline_and_ends_with_it() -> None:
    world = opened()
    wrote, opens = [e for e in world.effects if isinstance(e, shim.WriteDeadline | shim.Exec)]
    assert isinstance(wrote, shim.WriteDeadline) and isinstance(opens, shim.Exec)
    assert wrote.deadline_at_s == world.state.deadline_at_s is not None
    assert opens.before_at_s == lease_terms.shim_acts_at_s(world.state.deadline_at_s)


# -- gone before the application began ---------------------------------------------------------------------------------


def buried(world: ShimWorld) -> tuple[Cause | None, bool]:
    kill_tree(world)
    world.run(5)
    own = world.own()
    assert own.state is OwnState.EXITED
    return own.cause, own.permanent


def test_one_that_dies_while_its_claim_is_under_way_is_not_opened() -> None:
    world = handed_over()
    world.connect()
    world.answer()
    assert world.stage() is Stage.CLAIMING
    world.driver = False
    world.deliver(shim.Exited(1))
    world.answer()
    assert not world.executed()
    assert buried(world) == (Cause.PREPARED_LOST, False)


@pytest.mark.parametrize("status", [0, 1, 2, 127, -9, 137])
def test_one_that_ends_before_it_has_begun_is_no_failure_of_the_job(status: int) -> None:
    """Whatever its last words are: the next start is cold, and tells."""
    world = opened()
    world.driver = False
    world.deliver(shim.Exited(status, "java.lang.OutOfMemoryError: Java heap space"))
    assert buried(world) == (Cause.PREPARED_LOST, False)


def test_one_that_does_not_begin_in_time_is_no_failure_of_the_job() -> None:
    world = opened()
    world.run(HANDED.start_timeout_s + 1)
    assert world.stage() is Stage.KILLING
    assert buried(world) == (Cause.PREPARED_LOST, False)


def test_once_begun_it_is_a_driver_like_any_other() -> None:
    world = begun()
    world.driver = False
    world.deliver(shim.Exited(1, "ValueError: x"))
    assert buried(world) == (Cause.USER_ERROR, False)


def test_one_that_was_asked_to_stop_or_refused_by_its_host_says_so() -> None:
    world = opened()
    world.deliver(shim.StopAsked())
    world.driver = False
    world.deliver(shim.Exited(143))
    assert buried(world)[0] is Cause.STOPPED
    world = opened()
    world.driver = False
    world.deliver(shim.Exited(78, refused=(Cause.BAD_CHECKPOINT, "it is another one")))
    assert buried(world)[0] is Cause.BAD_CHECKPOINT


def test_a_lease_that_runs_out_before_it_has_begun_is_told_as_such() -> None:
    world = opened()
    world.disconnect()
    world.wait(40)
    assert world.state.cause is Cause.LEASE_EXPIRED
    world.connect()
    assert buried(world)[0] is Cause.LEASE_EXPIRED


def test_a_driver_that_read_its_opening_too_late_was_not_charged_either() -> None:
    world = opened()
    world.driver = False
    world.deliver(shim.ExecLate())
    world.deliver(shim.Exited(78))
    assert buried(world)[0] is Cause.LEASE_EXPIRED
