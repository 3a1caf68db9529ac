"""When twin and guardian kill, and in what order (protocol §7.4)."""

from __future__ import annotations

import pytest

from supervisor.model.emptiness import Emptiness
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.second_killer import (
    Act,
    KillerProbe,
    SecondKiller,
    ShimStruck,
    TreeStruck,
    next_probe_at_s,
    step,
)

DEADLINE_S = 1000.0
NEAR_S = DEADLINE_S - SECOND_KILLER_PERIOD_S
LIVES, DIED = KillerProbe(False, DEADLINE_S), KillerProbe(True, DEADLINE_S)


def acting(at_s: float = NEAR_S, probe: KillerProbe = LIVES) -> SecondKiller:
    return step(SecondKiller(), probe, at_s)


def test_while_the_shim_lives_and_its_deadline_is_far_nothing_is_done() -> None:
    killer = acting(NEAR_S - 0.001)
    assert killer.act is Act.PROBE
    assert next_probe_at_s(killer) == NEAR_S


def test_a_deadline_that_comes_near_kills_the_shim_before_its_tree() -> None:
    killer = acting()
    assert (killer.act, killer.due, killer.shim_dead) == (Act.KILL_SHIM, True, False)
    killer = step(killer, ShimStruck(True), NEAR_S)
    assert killer.act is Act.KILL_TREE
    assert step(killer, TreeStruck(0.2, Emptiness.EMPTY), NEAR_S).act is Act.OVER


def test_the_death_of_the_shim_is_acted_on_at_once() -> None:
    killer = acting(0.0, DIED)
    assert (killer.act, killer.due) == (Act.KILL_SHIM, False)


def test_a_driver_that_is_not_to_be_killed_has_no_deadline() -> None:
    killer = acting(NEAR_S, KillerProbe(False, None))
    assert killer.act is Act.PROBE and next_probe_at_s(killer) is None


def test_a_torn_deadline_leaves_standing_what_is_known() -> None:
    known = acting(0.0)
    torn = KillerProbe(False, None, readable=False)
    assert step(known, torn, NEAR_S - 0.001).act is Act.PROBE
    assert step(known, torn, NEAR_S).act is Act.KILL_SHIM


def test_a_deadline_that_was_called_off_is_forgotten() -> None:
    assert step(acting(0.0), KillerProbe(False, None), DEADLINE_S).act is Act.PROBE


@pytest.mark.parametrize(("shim_dead", "tree"), [(False, Emptiness.EMPTY), (True, Emptiness.POPULATED)])
def test_it_is_not_over_while_the_shim_or_anything_of_the_tree_lives(
    shim_dead: bool, tree: Emptiness
) -> None:
    killer = step(acting(), ShimStruck(shim_dead), NEAR_S)
    assert killer.act is Act.KILL_TREE, (
        "a shim that dies slowly runs no further line of code: its tree is killed anyway"
    )
    killer = step(killer, TreeStruck(0.5, tree), NEAR_S)
    assert (killer.act, killer.took_s) == (Act.KILL_SHIM, 0.5)
    killer = step(step(killer, ShimStruck(True), NEAR_S), TreeStruck(0.25, Emptiness.UNPROVABLE), NEAR_S)
    assert (killer.act, killer.took_s, killer.tree) == (Act.OVER, 0.75, Emptiness.UNPROVABLE)


def test_an_event_out_of_turn_changes_nothing() -> None:
    fresh, over = SecondKiller(), SecondKiller(Act.OVER)
    for event in (ShimStruck(True), TreeStruck(1.0, Emptiness.EMPTY)):
        assert step(fresh, event, NEAR_S) == fresh
    for event in (LIVES, DIED, ShimStruck(True), TreeStruck(1.0, Emptiness.EMPTY)):
        assert step(over, event, NEAR_S) == over
