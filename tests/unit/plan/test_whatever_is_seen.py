"""Whatever the records say, of many jobs at once: a sound plan, a word about each name, and a multi for each action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.act.transactions import transaction_for
from supervisor.model.actions import Assign
from supervisor.model.driver_memory import MIB, next_memory
from supervisor.model.load import Load, loads_of
from supervisor.model.records import Acceptance, Cause, Desired, Member, OwnState, Phase
from supervisor.model.restart import OnExhausted, RestartPolicy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, SeenAcceptance, SeenLease, View
from supervisor.plan.check import violations
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy, make_plan
from supervisor.plan.room import freed
from supervisor.records.layout import Layout
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.unit.plan.rows import HOST, NOW_S, job, lease, leftover, own, row, view

GIB = 1024 * MIB
CONTEXT = LeaderWriteContext(Layout("/r"), 4, 1, "op", "t")
LONG_AGO = st.sampled_from([0.0, 40.0, 100_000.0])
MEMORY_STEPS: list[dict[str, Any]] = [
    {},
    {"memory_step": 1.5, "memory_max": 4 * GIB},
    {"memory_step": 1.01, "memory_max": GIB},
    {"memory_step": 10.0, "memory_max": 1},
]


@st.composite
def rows(draw: st.DrawFn, number: int) -> Row:
    def one(*of: Any) -> Any:
        return draw(st.sampled_from(of))

    name, uid, other = f"j{number}", f"u{number}", f"v{number}"
    policy = RestartPolicy(
        jitter=0.0,
        attempts=one(None, 0, 3),
        on_exhausted=one(*OnExhausted),
        **one(*MEMORY_STEPS),
    )
    wanted = one(None, *Desired)
    ref = (
        None
        if wanted is None
        else job(
            name,
            uid,
            wanted,
            restart=policy,
            memory=one(GIB, 2 * GIB),
            driver_memory=one(0, GIB, 2 * GIB),
            unbounded=one(True, False),
            priority=one(0, 1),
        )
    )
    state = one(None, "unreadable", *OwnState)
    owned = (
        None
        if state is None
        else Unreadable("bad", 3, 30)
        if state == "unreadable"
        else replace(
            own(
                state,
                one(uid, other),
                cause=one(None, *Cause),
                supervisor=one("s1", "s2", "gone"),
                memory=one(GIB, 2 * GIB),
                raised=one(0, 1, 2),
                driver_memory=one(0, GIB, 3 * GIB),
                restart_nonce=one("n1", "n0"),
                job_version=one(3, 2),
                permanent=one(True, False),
                failures=one(0, 1, 4),
                ran_s=one(0.0, 10_000.0),
                revision=one(1, 1, 0),
            ),
            mzxid=one(10, 70),
        )
    )
    lease_read = one("unread", "absent", "unreadable", "there")
    silent_s = draw(LONG_AGO)
    seen = (
        lease(silent_s, one(*Phase), one(uid, other), claim=one("c", "d")) if lease_read == "there" else None
    )
    if lease_read in ("absent", "unreadable"):
        seen = SeenLease(None if lease_read == "absent" else Unreadable("bad", 1, 1), NOW_S - silent_s, NOW_S)
    left = tuple(leftover(each) for each in one((), (uid,), (other,), (uid, other), ("w",)))
    return row(
        name=name, ref=ref, own=owned, lease=seen, leftovers=left, own_seen_at_s=NOW_S - draw(LONG_AGO)
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    def one(*of: Any) -> Any:
        return draw(st.sampled_from(of))

    jobs = [draw(rows(number)) for number in range(one(1, 3, 6))]
    members = {
        each: replace(
            HOST,
            id=each,
            memory=one(2 * GIB, 5 * GIB),
            drivers=one(1, 3),
            distrust=one(None, None, "restored"),
        )
        for each in one((), ("s1",), ("s1", "s2"))
    }
    accepted = one(
        None,
        None,
        Unreadable("bad", 1, 1),
        *(
            Found(Acceptance(id="a", epoch=4, by="me", at="t", wait_s=32.0, waited=waited), 1, 50)
            for waited in (True, False)
        ),
    )
    return view(
        *jobs,
        members=members,
        paused=one(False, False, False, True),
        recorded=one(True, True, True, False),
        accepted=None if accepted is None else SeenAcceptance(accepted, 50, NOW_S - draw(LONG_AGO)),
        distrust=one(None, None, None, "restored"),
    )


@settings(max_examples=80, deadline=None)
@given(views())
def test_a_plan_is_sound_says_something_of_each_name_and_explain_agrees(given: View) -> None:
    plan = make_plan(given, Policy(), NOW_S)
    assert plan == make_plan(given, Policy(), NOW_S)
    assert violations(given, plan) == ()
    assert not [alarm for alarm in plan.alarms if "could not be judged" in alarm.text]
    assert {each.name for each in (*plan.actions, *plan.notes)} == set(given.rows)
    for action in plan.actions:
        transaction_for(action, CONTEXT)
    explainer, acted = Explainer(given, Policy(), NOW_S, "s1"), {action.name for action in plan.actions}
    for name in (name for name, seen in given.rows.items() if seen.is_listed):
        assert explainer.job(name).action is not None or name not in acted


@st.composite
def due(draw: st.DrawFn) -> View:
    """Jobs that all want a place, on hosts that have not enough of them."""

    def one(*of: Any) -> Any:
        return draw(st.sampled_from(of))

    policy = RestartPolicy(jitter=0.0, memory_step=2.0, memory_max=4 * GIB)
    jobs = []
    for number in range(6):
        uid, state = f"u{number}", one(OwnState.VACANT, OwnState.EXITED, OwnState.REVOKED, OwnState.CLAIMED)
        owned = own(
            state,
            uid,
            cause=one(Cause.USER_ERROR, Cause.OUT_OF_MEMORY),
            ran_s=5.0,
            supervisor=one("s1", "s2"),
            memory=GIB,
        )
        jobs.append(
            row(
                name=f"j{number}",
                ref=job(f"j{number}", uid, restart=policy, memory=GIB, driver_memory=GIB),
                own=owned,
                lease=lease(0.0 if state is OwnState.CLAIMED else 100_000.0, uid=uid),
                own_seen_at_s=NOW_S - 1000.0,
            )
        )
    members = {
        each: replace(HOST, id=each, memory=one(2, 3, 5) * GIB, drivers=3, starting=5)
        for each in ("s1", "s2")
    }
    return view(*jobs, members=members)


@settings(max_examples=80, deadline=None)
@given(due(), st.integers(0, 3))
def test_what_is_in_flight_has_its_place_and_is_not_placed_again(given: View, number: int) -> None:
    in_flight = tuple(each for each in make_plan(given, Policy(), NOW_S).actions if isinstance(each, Assign))[
        :number
    ]
    placed = [
        each for each in make_plan(given, Policy(), NOW_S, in_flight).actions if isinstance(each, Assign)
    ]
    assert not {each.name for each in in_flight} & {each.name for each in placed}
    loads: Mapping[str, Load] = loads_of(given.rows.values())
    members: Mapping[str, Member] = given.members
    for each in (*in_flight, *placed):
        loads = freed(loads, each.own.record) if each.waited else loads
        load = loads.get(each.host.id, Load()).plus(
            next_memory(each.ref.record, each.own.record).whole, starting=True
        )
        loads = {**loads, each.host.id: load}
        member = members[each.host.id]
        assert load.drivers <= member.drivers and load.memory <= member.memory
