"""Hosts whose policies differ: who is given a job, when nobody is, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.actions import Assign, Drain, Note, Plan, Prepare, Withdraw
from supervisor.model.records import (
    POLICIES_MAX,
    Cause,
    Cordon,
    JobRef,
    Member,
    MoveRequest,
    Ownership,
    OwnState,
    PlacementPolicy,
    PreparedDriver,
    PrepareLevel,
    version_of,
)
from supervisor.model.seen import Found
from supervisor.model.view import Row
from supervisor.plan.check import violations
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.registry import leader_writes
from supervisor.registry.attempt_writes import Exit, refuse
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.unit.plan.rows import HOST, NOW_S, exited, job, lease, own, row, updated, view
from tests.unit.plan.test_prepare import STANDBY, asked
from tests.unit.registry.test_versions import entry_for

STRICT, OTHER, OPEN = "5" * 64, "7" * 64, "0" * 64
OF = version_of(job().record)
LAYOUT = Layout("/c")
WHY = "host1: conf spark.plugins: it is forbidden by policy.conf.forbidden (spark.plugins)"


def host(name: str, policy: str, **changes: Any) -> Member:
    return replace(HOST, id=name, host=f"host of {name}", policy_sha256=policy, **changes)


def refused(*policies: str, **changes: Any) -> Found[Ownership]:
    by = tuple(each[:16] for each in policies)
    found = exited(Cause.POLICY, refused_by=by, refused_of=OF, **changes)
    return replace(found, record=replace(found.record, reason=WHY))


def plan_of(state: Found[Ownership], *members: Member, ref: Found[JobRef] | None = None) -> Plan:
    given = row(ref=ref or job(), own=state, own_seen_at_s=NOW_S - 1000.0)
    return make_plan(view(given, members={m.id: m for m in members}), Policy(), NOW_S)


def chosen(plan: Plan) -> str:
    (action,) = plan.actions
    assert isinstance(action, Assign)
    return action.host.id


def note(plan: Plan) -> Note:
    assert plan.actions == ()
    (only,) = plan.notes
    return only


def test_a_host_whose_policy_has_refused_gets_the_job_no_more_whoever_has_that_policy() -> None:
    state = refused(STRICT, supervisor="a")
    assert chosen(plan_of(state, host("a", STRICT), host("b", STRICT), host("c", OPEN))) == "c"


def test_a_job_that_every_host_refuses_is_left_alone_and_says_key_and_rule() -> None:
    plan = plan_of(refused(STRICT, OTHER), host("a", STRICT), host("b", OTHER))
    assert note(plan).quarantined and note(plan).why == f"refused by the policy of every host: {WHY}"
    assert plan.alarms == ()


def test_it_goes_on_by_itself_when_a_policy_has_changed_or_a_host_comes() -> None:
    state = refused(STRICT, OTHER)
    assert chosen(plan_of(state, host("a", STRICT), host("b", OPEN))) == "b"
    assert chosen(plan_of(state, host("a", STRICT), host("b", OTHER), host("c", OPEN))) == "c"


def test_a_host_that_has_not_refused_is_waited_for_where_it_has_no_room() -> None:
    said = note(plan_of(refused(STRICT), host("a", STRICT), host("b", OPEN, drivers=0)))
    assert said.pending and not said.quarantined
    assert "a refuses it by its policy" in said.why and "b " in said.why


def test_a_host_that_distrusts_the_registry_may_yet_take_it() -> None:
    said = note(plan_of(refused(STRICT), host("a", STRICT), host("b", OPEN, distrust="restored")))
    assert said.pending and not said.quarantined and "not trusted" in said.why


def test_a_host_of_a_version_without_policies_is_never_left_out() -> None:
    assert chosen(plan_of(refused(STRICT), host("a", STRICT), host("b", ""))) == "b"
    assert chosen(plan_of(refused(""), host("b", ""))) == "b"


@pytest.mark.parametrize(
    "ref", [job(restart_nonce="n2"), updated(), job(uid="u2")], ids=["restart", "revision", "submitted anew"]
)
def test_another_version_of_the_job_is_asked_of_every_host_again(ref: Found[JobRef]) -> None:
    assert chosen(plan_of(refused(STRICT), host("a", STRICT), ref=ref)) == "a"


def test_where_no_host_is_up_the_job_waits_for_one() -> None:
    said = note(plan_of(refused(STRICT)))
    assert said.pending and said.why == "no supervisor is up"


def test_a_job_that_runs_is_left_alone_whatever_policies_say() -> None:
    running = own(OwnState.CLAIMED, refused_by=(STRICT[:16],), refused_of=OF)
    given = row(ref=job(), own=running)
    for policy in (STRICT, OPEN):
        assert make_plan(view(given, members={"s1": host("s1", policy)}), Policy(), NOW_S).actions == ()


def test_explain_says_whom_it_was_refused_by_and_what_helps() -> None:
    given = row(ref=job(), own=refused(STRICT), own_seen_at_s=NOW_S - 1000.0)
    said = Explainer(view(given, members={"a": host("a", STRICT)}), Policy(), NOW_S, "a").job("j")
    assert said.state.value == "quarantined" and WHY in said.reason
    assert [remedy.command for remedy in said.remedies] == [
        "spark-supervisor apply SPEC.yaml",
        None,
        "spark-supervisor restart j",
    ]
    mixed = view(given, members={"a": host("a", STRICT), "b": host("b", OPEN)})
    hosts = Explainer(mixed, Policy(), NOW_S, "a").job("j").hosts
    assert [each.lacking for each in hosts] == ["a refuses it by its policy", None]


# -- labels, moves, prepared drivers ---------------------------------------------------------------------------------

SESSION = PrepareLevel.SESSION
DRAINED = Cordon(supervisor="s1", cordoned=True, by="me", at="t", why="", op="d1", drain="d1", max_parallel=1)
DRAIN = {"cordons": {"s1": Found(DRAINED, 0)}}


def running(ref: Found[JobRef]) -> Row:
    """It runs on s1, after STRICT has refused it."""
    held = own(OwnState.CLAIMED, refused_by=(STRICT[:16],), refused_of=OF)
    return row(ref=ref, own=held, lease=lease())


def elsewhere(ref: Found[JobRef], *others: Member, **parts: Any) -> Plan:
    members = {m.id: m for m in (host("s1", OPEN, prepares=1), *others)}
    seen = view(running(ref), members=members, **parts)
    plan = make_plan(seen, Policy(), NOW_S)
    assert violations(seen, plan) == ()
    return plan


def test_a_job_that_every_host_with_its_labels_refuses_is_left_alone() -> None:
    ref = job(placement=PlacementPolicy(require=("zone=a",)))
    near, far = host("a", STRICT, labels=("zone=a",)), host("b", OPEN)
    said = note(plan_of(refused(STRICT), near, far, ref=ref))
    assert said.quarantined and said.why == f"refused by the policy of every host where zone=a is: {WHY}"
    open_one = host("c", OPEN, labels=("zone=a",))
    assert chosen(plan_of(refused(STRICT), near, far, open_one, ref=ref)) == "c"
    full = note(plan_of(refused(STRICT), near, replace(open_one, drivers=0), ref=ref))
    assert full.pending and full.why.startswith(
        "no room where zone=a is: a refuses it by its policy; c takes no drivers"
    )


def test_a_cordoned_host_may_yet_take_it() -> None:
    given = row(ref=job(), own=refused(STRICT), own_seen_at_s=NOW_S - 1000.0)
    members = {"s1": host("s1", OPEN), "s2": host("s2", STRICT)}
    said = note(make_plan(view(given, members=members, cordons=DRAIN["cordons"]), Policy(), NOW_S))
    assert said.pending and "s1 is drained" in said.why and "s2 refuses it by its policy" in said.why


def test_a_drain_prepares_a_driver_only_where_the_job_is_allowed() -> None:
    strict, other = host("s2", STRICT, prepares=1), host("s3", OTHER, prepares=1)
    (action,) = elsewhere(job(prepare=SESSION), strict, other, **DRAIN).actions
    assert isinstance(action, Prepare) and action.host.id == "s3"


@pytest.mark.parametrize("level", [None, SESSION])
def test_a_drain_stops_nothing_that_the_other_hosts_have_refused(level: PrepareLevel | None) -> None:
    said = note(elsewhere(job(prepare=level), host("s2", STRICT, prepares=1), **DRAIN))
    assert said.why.startswith("s1 is drained, but it goes on there: no room: s2 refuses it by its policy")


@pytest.mark.parametrize("level", [None, SESSION])
def test_a_job_is_not_moved_to_a_host_that_has_refused_it(level: PrepareLevel | None) -> None:
    to = MoveRequest(to="s2", nonce="n2", before="n1")
    ref = job(prepare=level, restart_nonce="n2", move=to)
    said = note(elsewhere(ref, host("s2", STRICT, prepares=1), host("s3", OPEN, prepares=1)))
    assert said.why == "it goes on, and does not move to s2: s2 refuses it by its policy"
    (action,) = elsewhere(ref, host("s2", OTHER, prepares=1)).actions
    assert isinstance(action, Drain if level is None else Prepare)


def test_a_moved_job_keeps_what_is_known_of_refusals() -> None:
    ref = job(restart_nonce="n2", move=MoveRequest(to="z", nonce="n2", before="n1"))
    stopped = exited(Cause.STOPPED, refused_by=(STRICT[:16],), refused_of=OF)
    kept = assigned(stopped, ref)
    assert (kept.refused_by, kept.refused_of) == ((STRICT[:16],), version_of(ref.record))


def test_a_request_at_a_host_that_has_refused_is_taken_back_and_not_used() -> None:
    ready = PreparedDriver(uid="u1", revision=1, level=SESSION, sha256="0", ready=True)
    strict = host("s2", STRICT, prepares=1, prepared=(ready,))
    (action,) = elsewhere(job(standby=STANDBY), strict, preparations=(asked(),)).actions
    assert isinstance(action, Withdraw) and action.why == "s2 refuses it by its policy"


# -- the writes ---------------------------------------------------------------------------------------------------

CONTEXT = LeaderWriteContext(LAYOUT, 4, 11, "op", "now")


def assigned(state: Found[Ownership], ref: Found[JobRef] | None = None) -> Ownership:
    account = chosen_account(plan_of(state, host("z", OPEN), ref=ref))
    tx = leader_writes.assign(CONTEXT, Assign("j", "w", ref or job(), state, host("z", OPEN), account, None))
    return own_of(tx)


def chosen_account(plan: Plan) -> Any:
    (action,) = plan.actions
    assert isinstance(action, Assign)
    return action.account


def own_of(tx: Any) -> Ownership:
    (data,) = [op.data for op in tx.ops if getattr(op, "path", "") == LAYOUT.own("j") and hasattr(op, "data")]
    return decode(Ownership, data, "/own/j")


def test_an_assignment_keeps_what_is_known_of_this_version_and_forgets_that_of_another() -> None:
    state = refused(STRICT, OTHER)
    assert assigned(state).refused_by == state.record.refused_by
    assert assigned(state, job(restart_nonce="n2")).refused_by == ()
    assert assigned(state, updated()).refused_by == ()


def test_refusals_add_up_each_policy_once_and_the_newest_are_kept() -> None:
    state = own(OwnState.ASSIGNED, refused_by=("a" * 16, STRICT[:16]), refused_of=OF)
    exit_, entry = Exit(Cause.POLICY, WHY), entry_for(state)
    tx = refuse(LAYOUT, entry, state, exit_, "op", "now", policy_sha256=STRICT)
    assert own_of(tx).refused_by == ("a" * 16, STRICT[:16])
    many = own(OwnState.ASSIGNED, refused_by=tuple(f"{n:016x}" for n in range(POLICIES_MAX)), refused_of=OF)
    tx = refuse(LAYOUT, entry_for(many), many, exit_, "op", "now", policy_sha256=STRICT)
    assert own_of(tx).refused_by == (*(f"{n:016x}" for n in range(1, POLICIES_MAX)), STRICT[:16])


def test_what_a_leader_of_the_version_before_carries_to_another_revision_does_not_count() -> None:
    """It knows neither field, and keeps both."""
    carried = own(OwnState.EXITED, cause=Cause.LOST, revision=2, refused_by=(STRICT[:16],), refused_of=OF)
    ref = replace(updated(), record=replace(updated().record, update=None))
    assert chosen(plan_of(carried, host("a", STRICT), ref=ref)) == "a"
    tx = refuse(
        LAYOUT,
        entry_for(given := own(OwnState.ASSIGNED, revision=2, refused_by=("a" * 16,), refused_of=OF)),
        given,
        Exit(Cause.POLICY, WHY),
        "op",
        "now",
        policy_sha256=STRICT,
    )
    assert own_of(tx).refused_by == (STRICT[:16],)


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.POLICY}))
def test_no_other_cause_keeps_a_policy_from_the_job(cause: Cause) -> None:
    state = own(OwnState.ASSIGNED)
    tx = refuse(LAYOUT, entry_for(state), state, Exit(cause, "why"), "op", "now", policy_sha256=STRICT)
    assert own_of(tx).refused_by == ()
