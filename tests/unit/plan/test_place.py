"""Which host gets an attempt that another host was given and did not start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.actions import Assign
from supervisor.model.records import Cause, Member, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.plan.make import Policy, make_plan
from tests.unit.plan.rows import HOST, NOW_S, exited, job, own, row, view

OTHER = replace(HOST, id="s2", host="host2")
FULL = replace(OTHER, drivers=0)


def chosen(state: Found[Ownership], *members: Member) -> str:
    given = view(row(ref=job(), own=state, own_seen_s=NOW_S - 1000.0), members={m.id: m for m in members})
    actions = make_plan(given, Policy(), NOW_S).actions
    assert len(actions) == 1 and isinstance(actions[0], Assign)
    return actions[0].host.id


@pytest.mark.parametrize("state", [own(OwnState.VACANT), exited(Cause.NO_ROOM)], ids=["taken back", "no room"])
def test_a_host_that_did_not_start_it_comes_last(state: Found[Ownership]) -> None:
    """Its store credentials may be refused, its disk full: without this the emptiest host keeps the job for ever."""
    assert chosen(state, HOST, OTHER) == "s2"
    assert chosen(replace(state, record=replace(state.record, supervisor="s2")), HOST, OTHER) == "s1"
    assert chosen(state, HOST) == "s1"
    assert chosen(state, HOST, FULL) == "s1"


@pytest.mark.parametrize("state", [
    own(OwnState.VACANT, uid="u0"), exited(Cause.USER_ERROR), exited(Cause.STOPPED),
], ids=["another uid's host", "its own failure", "stopped"])
def test_a_host_that_is_not_to_blame_is_not_avoided(state: Found[Ownership]) -> None:
    assert chosen(state, HOST, OTHER) == "s1"
