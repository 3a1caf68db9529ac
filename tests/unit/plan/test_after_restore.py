"""After an accepted restore: nothing is started beside drivers of the lost state, and who renews is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.actions import Alarm, Assign, Drain, Plan, Revoke, Unassign
from supervisor.model.lease_terms import EXECUTORS_OUTLIVE_MAX_S, LEASE_MAX_S, full_wait_s
from supervisor.model.records import Acceptance, Desired, OwnState
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, SeenAcceptance
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from tests.unit.plan.rows import HOST, NOW_S, WAIT_S, exited, job, lease, own, row, view

W = full_wait_s(8.0)
S = OwnState


def seen_acceptance(age_s: float, since_zxid: int = 0, **changes: object) -> SeenAcceptance:
    record = replace(Acceptance(id="a1", epoch=9, by="root@here", at="t", wait_s=W), **changes)  # type: ignore[arg-type]
    return SeenAcceptance(Found(record, 0, 99), since_zxid, NOW_S - age_s)


def planned(accepted: SeenAcceptance | None, *rows: Row, **parts: object) -> Plan:
    seen = view(*rows, accepted=accepted, **parts)
    plan = make_plan(seen, Policy(60.0), NOW_S)
    assert violations(seen, plan) == ()
    return plan


WAITING = {
    "first attempt": row(ref=job(), own=own(S.VACANT, uid="")),
    "restart": row(ref=job(), own=exited(), own_seen_at_s=NOW_S - 100),
    "lost attempt": row(ref=job(), own=own(S.REVOKED), lease=lease(WAIT_S)),
    "resubmitted": row(ref=job(uid="u2"), own=exited()),
}


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_nothing_is_started_until_a_leader_has_noted_the_end_of_the_wait(waiting: Row) -> None:
    for age_s, over in ((0.0, False), (W - 0.1, False), (W + 0.1, True)):
        plan = planned(seen_acceptance(age_s), waiting)
        assert plan.actions == ()
        assert (plan.waited_out is not None) is over
        (note,) = plan.notes
        assert "restored" in note.why and note.pending
        assert plan.alarms == (Alarm(note.why),)
    for accepted in (seen_acceptance(0.0, waited=True), None):
        (action,) = planned(accepted, waiting).actions
        assert isinstance(action, Assign)


def test_a_plan_that_starts_in_the_wait_is_broken() -> None:
    waiting = row(ref=job(), own=own(S.VACANT, uid=""))
    plan = planned(None, waiting)
    assert violations(view(waiting, accepted=seen_acceptance(W + 1)), plan)


def test_whoever_renews_is_left_alone_and_orderly_stops_go_on() -> None:
    assert planned(seen_acceptance(0.0), row(ref=job(), own=own(S.CLAIMED), lease=lease())).actions == ()
    suspended = row(ref=job(desired=Desired.SUSPENDED), own=own(S.CLAIMED), lease=lease())
    assert [type(a) for a in planned(seen_acceptance(0.0), suspended).actions] == [Drain]
    silent = row(ref=job(), own=own(S.CLAIMED), lease=lease(WAIT_S))
    assert [type(a) for a in planned(seen_acceptance(0.0), silent).actions] == [Revoke]


@pytest.mark.parametrize("waited", [False, True])
def test_what_was_assigned_before_the_acceptance_is_taken_back(waited: bool) -> None:
    """That very attempt may have run in the lost state."""
    assigned = row(ref=job(), own=own(S.ASSIGNED))  # of zxid 70
    assert [type(a) for a in planned(seen_acceptance(0.0, 71, waited=waited), assigned).actions] == [Unassign]
    assert planned(seen_acceptance(0.0, 69, waited=waited), assigned).actions == ()


def test_a_wait_that_no_lease_can_have_is_the_longest_there_can_be() -> None:
    waiting = row(ref=job(), own=own(S.VACANT, uid=""))
    for wait_s in (0.0, -1.0, 1e9, float("inf")):
        assert (
            planned(
                seen_acceptance(full_wait_s(LEASE_MAX_S, EXECUTORS_OUTLIVE_MAX_S) - 1, wait_s=wait_s), waiting
            ).waited_out
            is None
        )
        assert (
            planned(
                seen_acceptance(full_wait_s(LEASE_MAX_S, EXECUTORS_OUTLIVE_MAX_S) + 1, wait_s=wait_s), waiting
            ).waited_out
            is not None
        )


def test_an_unreadable_acceptance_holds_everything_back() -> None:
    accepted = SeenAcceptance(Unreadable("/accepted is not JSON", 0), 0, 0.0)
    plan = planned(accepted, row(ref=job(), own=own(S.VACANT, uid="")))
    assert (plan.actions, plan.waited_out) == ((), None)
    assert "/accepted" in plan.notes[0].why


def test_the_end_of_the_wait_is_not_noted_before_the_epoch_is_recorded_or_while_paused() -> None:
    for parts in ({"recorded": False}, {"paused": True}, {"distrust": "restored"}):
        assert (
            planned(seen_acceptance(W + 1), row(ref=job(), own=own(S.VACANT, uid="")), **parts).waited_out
            is None
        )


def test_a_host_that_distrusts_is_given_nothing() -> None:
    waiting = row(ref=job(), own=own(S.VACANT, uid=""))
    unwilling = replace(HOST, distrust="restored")
    plan = planned(None, waiting, members={"s1": unwilling})
    assert plan.actions == () and "s1" in plan.notes[0].why
    (action,) = planned(None, waiting, members={"s1": unwilling, "s2": replace(HOST, id="s2")}).actions
    assert isinstance(action, Assign) and action.host.id == "s2"


def test_distrust_is_the_reason_of_every_job() -> None:
    plan = planned(None, row(ref=job(), own=own(S.VACANT, uid="")), distrust="it was restored")
    assert "it was restored" in plan.notes[0].why
