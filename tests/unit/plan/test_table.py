"""The table is whole: every state that can be has a cell, every cell a decision, every decision a function."""

from __future__ import annotations

import itertools

from supervisor.model.records import OwnState
from supervisor.plan.decide import DECIDERS
from supervisor.plan.table import ROWS, TABLE, Do, Owned, Wanted


def test_no_cell_is_missing() -> None:
    assert set(TABLE) == set(itertools.product(Owned, Wanted))


def test_every_ownership_state_has_a_row() -> None:
    assert set(ROWS) == set(itertools.product(OwnState, (True, False)))


def test_every_decision_is_used_and_has_its_function() -> None:
    assert set(TABLE.values()) == set(Do) == set(DECIDERS)


def test_without_a_reference_nothing_is_ever_assigned() -> None:
    gone = {do for (_, wanted), do in TABLE.items() if wanted in (Wanted.GONE_DIRTY, Wanted.GONE_CLEAN)}
    assert not gone & {Do.ASSIGN, Do.ASSIGN_FIRST, Do.ASSIGN_WHEN_DEAD, Do.AFTER_EXIT, Do.KEEP}


def test_nothing_is_assigned_over_an_attempt_that_may_live() -> None:
    for owned in (Owned.ASSIGNED, Owned.CLAIMED_RENEWED, Owned.CLAIMED_SILENT, Owned.CLAIMED_OTHER):
        assert TABLE[owned, Wanted.RUNNING] not in (Do.ASSIGN, Do.ASSIGN_FIRST, Do.ASSIGN_WHEN_DEAD)
