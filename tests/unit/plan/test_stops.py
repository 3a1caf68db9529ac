"""Whatever a cluster looks like: what the plan stops in order to start it again is started again, and each plan is sound.

Each stop of each plan counts, whoever has decided it: one that does not ask ``plan.startable`` is found here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.model.actions import Assign, Drain, Plan
from supervisor.model.driver_memory import next_memory
from supervisor.model.records import Cause, Cordon, Desired, OwnState, PrepareLevel
from supervisor.model.seen import Found
from supervisor.model.view import Row, View
from supervisor.plan.check import violations
from supervisor.plan.explain import Await, Explainer
from supervisor.plan.make import Policy, make_plan
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.spec.site_policy import SitePolicy
from tests.unit.plan.rows import HOST, NOW_S, job, lease, own, row, updated, view
from tests.unit.plan.worlds import LAYOUT, world

CONTEXT = LeaderWriteContext(LAYOUT, 4, 11, "op-1", "now")
SEEDS = 1000
MANY = (1000,)
A, B = replace(HOST, prepares=1), replace(HOST, id="s2", host="host2", prepares=1)


def planned(seen: View) -> Plan:
    return make_plan(seen, Policy(), NOW_S)


def stops_of(plan: Plan) -> list[Drain]:
    """The stops of jobs that are to run on."""
    drains = [each for each in plan.actions if isinstance(each, Drain)]
    return [each for each in drains if each.ref.record.desired is Desired.RUNNING]


def ended(one: Row) -> Row:
    assert isinstance(one.own, Found)
    held = replace(one.own.record, state=OwnState.EXITED, cause=Cause.STOPPED, permanent=False)
    return replace(one, own=Found(held, one.own.version + 1), own_seen_at_s=NOW_S)


def given(one: Row, action: Assign) -> Row:
    assert isinstance(one.own, Found) and isinstance(one.ref, Found)
    wanted, held = one.ref.record, one.own.record
    held = replace(
        held,
        state=OwnState.ASSIGNED,
        uid=wanted.uid,
        supervisor=action.host.id,
        memory=next_memory(wanted, held).whole,
        job_version=one.ref.version,
        revision=wanted.revision,
        restart_nonce=wanted.restart_nonce,
    )
    return replace(one, own=Found(held, one.own.version + 1), own_seen_at_s=NOW_S)


def after(seen: View, plan: Plan, stopped: list[Drain]) -> View:
    """What is seen once the assignments of ``plan`` are written and ``stopped`` have ended."""
    rows = dict(seen.rows)
    for action in plan.actions:
        if isinstance(action, Assign):
            rows[action.name] = given(rows[action.name], action)
    for stop in stopped:
        rows[stop.name] = ended(rows[stop.name])
    return replace(seen, rows=rows)


def not_started(seen: View, stopped: list[Drain]) -> dict[str, str]:
    plan = planned(seen)
    started = {each.name for each in plan.actions if isinstance(each, Assign)}
    whys = {note.name: note.why for note in plan.notes}
    return {stop.name: whys.get(stop.name, "?") for stop in stopped if stop.name not in started}


def changed(name: str = "j", what: str = "restart", **parts: Any) -> Row:
    """A job that runs on s1, and is to be restarted or updated."""
    ref = job(name, restart_nonce="n2", **parts) if what == "restart" else updated(name=name, **parts)
    return row(
        name=name, ref=ref, own=own(OwnState.CLAIMED, memory=parts.get("memory", 100)), lease=lease(name=name)
    )


CORDON = Cordon(supervisor="s2", cordoned=True, by="me", at="t", why="", op="o")
FULL = replace(B, memory=0)
NO_ONE: dict[str, dict[str, Any]] = {
    "no host trusts the registry": {"members": {"s1": replace(A, distrust="older")}},
    "the other is cordoned": {
        "members": {"s1": replace(A, distrust="older"), "s2": B},
        "cordons": {"s2": Found(CORDON, 1)},
    },
    "the other is full": {"members": {"s1": replace(A, distrust="older"), "s2": FULL}},
    "its supervisor is gone": {"members": {}},
    "its supervisor is gone, and the other full": {"members": {"s2": FULL}},
    "the other keeps no prepared drivers": {"members": {"s2": replace(FULL, prepares=0)}},
    "the other only leads": {"members": {"s2": replace(B, drivers=0)}},
    "the epoch is not recorded yet": {"members": {"s1": A, "s2": B}, "recorded": False},
}


@pytest.mark.parametrize("prepare", [None, PrepareLevel.SESSION])
@pytest.mark.parametrize("what", ["restart", "update"])
@pytest.mark.parametrize("case", NO_ONE)
def test_a_driver_goes_on_that_could_not_be_started_again(
    case: str, what: str, prepare: PrepareLevel | None
) -> None:
    runs = changed(what=what, prepare=prepare)
    plan = planned(view(runs, **NO_ONE[case]))
    assert stops_of(plan) == []
    (note,) = [each for each in plan.notes if each.name == "j"]
    assert "attempt 2 goes on" in note.why or "the update waits" in note.why or prepare, note.why
    if NO_ONE[case].get("recorded", True):
        explained = Explainer(view(runs, **NO_ONE[case]), Policy(), NOW_S, "s1").job("j")
        assert explained.waits_for is not None and explained.waits_for.kind in (
            Await.START_PLACE,
            Await.PREPARED,
        )


def test_a_driver_goes_on_while_no_host_trusts_the_registry() -> None:
    plan = planned(view(changed(), members={"s1": replace(A, distrust="older")}))
    assert plan.actions == ()
    assert plan.notes[0].why == (
        "a restart was asked for; attempt 2 goes on, it could not be started again now: "
        "no room: no host that takes jobs is up; s1 can't trust the registry"
    )


def test_a_place_is_counted_on_once() -> None:
    """Both supervisors of two jobs are gone, and the only host has room for one: one of them is stopped, and then the other
    goes on, while the first one ends."""
    rows, members = [changed("a"), changed("b")], {"s2": replace(B, drivers=1)}
    first = view(*rows, members=members)
    (stop,) = planned(first).actions
    assert stop.name == "a"
    assert isinstance(rows[0].own, Found)
    draining = replace(
        rows[0], own=replace(rows[0].own, record=replace(rows[0].own.record, state=OwnState.DRAINING))
    )
    assert planned(view(draining, rows[1], members=members)).actions == ()


def test_what_waits_for_the_place_comes_first() -> None:
    waits = row(name="a", ref=job("a", memory=900), own=own(OwnState.VACANT, uid=""))
    plan = planned(view(waits, changed("b", memory=900), members={"s1": A}))
    assert plan.actions == ()
    assert "a waits and comes first" in next(note.why for note in plan.notes if note.name == "b")
    plan = planned(view(waits, changed("b", memory=900, priority=1), members={"s1": A}))
    assert [each.name for each in plan.actions] == ["b"]


def test_a_policy_that_has_come_to_forbid_its_checkpoint_stops_nothing() -> None:
    runs = changed(checkpoint="s3a://lake/j")
    strict = Policy(site=SitePolicy(checkpoints=("s3a://other/*",)))
    plan = make_plan(view(runs, members={"s1": A}), strict, NOW_S)
    assert plan.actions == () and "policy.checkpoints" in plan.notes[0].why


@pytest.mark.parametrize("first", range(0, 4 * SEEDS, SEEDS))
def test_what_is_stopped_to_be_started_again_is_started_again(first: int) -> None:
    stopped = 0
    for seed in range(first, first + SEEDS):
        seen = world(seed, starting=MANY)
        plan = planned(seen)
        stops = stops_of(plan)
        stopped += len(stops)
        for together in ([stop] for stop in stops), [stops]:
            for each in together:
                left = not_started(after(seen, plan, each), each)
                assert not left, f"seed {seed}: stopped, and not started: {left}"
    assert stopped > SEEDS / 20, "the views are such as count"


@pytest.mark.parametrize("first", range(0, 4 * SEEDS, SEEDS))
def test_each_plan_is_sound_whatever_there_is(first: int) -> None:
    for seed in range(first, first + SEEDS):
        seen = world(seed)
        plan = planned(seen)
        assert plan == planned(seen), f"seed {seed}: two plans of one view"
        assert violations(seen, plan) == (), f"seed {seed}"
        odd = [note for note in plan.notes if "could not be judged" in note.why]
        assert not odd, f"seed {seed}: {odd}"
        for action in plan.actions:
            transaction_for(action, CONTEXT)
