"""What becomes of a job that runs and whose spec was changed: nothing stops before there is something better (protocol §9.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.actions import Assign, Drain, GiveUpdateUp, Prepare, Withdraw
from supervisor.model.records import Cause, Desired, JobRef, OwnState, PreparedDriver, PrepareLevel
from supervisor.model.seen import Found
from supervisor.model.view import Row, SeenPreparation
from supervisor.plan.check import violations
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy
from tests.unit.plan.rows import NOW_S, exited, job, lease, own, row, updated, view
from tests.unit.plan.test_prepare import HOSTS, SESSION, A, B, asked, keeps, only, plan_of

S = OwnState


def waiting(ref: Found[JobRef] | None = None, **changes: Any) -> Row:
    """Revision 1 runs on s1, and revision 2 is wanted."""
    return row(ref=ref or updated(prepare=SESSION), own=own(S.CLAIMED, **changes), lease=lease())


def request(**changes: Any) -> SeenPreparation:
    spec = updated().record.spec
    return asked(**{"revision": 2, "spec": spec, **changes})


def ready(**changes: Any) -> PreparedDriver:
    driver = PreparedDriver(
        uid="u1", revision=2, level=PrepareLevel.SESSION, sha256="1", ready=True, ready_at="t"
    )
    return replace(driver, **changes)


def on(driver: PreparedDriver) -> dict[str, Any]:
    return {"s1": A, "s2": replace(B, prepared=(driver,))}


def test_a_driver_of_the_new_revision_is_asked_for_and_the_running_one_goes_on() -> None:
    action = only(plan_of(waiting()))
    assert isinstance(action, Prepare)
    assert (action.host.id, action.why) == ("s2", "revision 2 is to replace 1")


def test_nothing_is_done_while_it_is_being_prepared() -> None:
    plan = plan_of(waiting(), asked=(request(),))
    assert plan.actions == ()
    assert plan.notes[0].why == "a driver is being prepared on s2; the running one goes on until it is ready"


def test_the_running_one_is_stopped_when_it_is_ready() -> None:
    action = only(plan_of(waiting(), asked=(request(),), members=on(ready())))
    assert isinstance(action, Drain)
    assert action.why == "revision 2 replaces 1; a driver is ready on s2"


def test_the_next_attempt_goes_to_it() -> None:
    stopped = row(ref=updated(prepare=SESSION), own=exited(Cause.STOPPED))
    action = only(plan_of(stopped, asked=(request(),), members=on(ready())))
    assert isinstance(action, Assign)
    assert (action.host.id, action.prepared) == ("s2", True)


@pytest.mark.parametrize(
    "other", [{"revision": 1, "sha256": "0"}, {"sha256": "2"}, {"uid": "u2"}, {"ready": False}]
)
def test_another_driver_does_not_count(other: dict[str, Any]) -> None:
    plan = plan_of(waiting(), asked=(request(),), members=on(ready(**{"ready_at": "", **other})))
    assert not any(isinstance(action, Drain) for action in plan.actions)


def test_a_revision_that_cannot_be_prepared_is_given_up_and_stops_nothing() -> None:
    cannot = on(ready(ready=False, ready_at="", why="No module named 'clicks'"))
    action = only(plan_of(waiting(), asked=(request(),), members=cannot))
    assert isinstance(action, GiveUpdateUp)
    assert action.why == "s2 could prepare no driver: No module named 'clicks'"


def test_one_that_is_not_ready_within_start_timeout_is_given_up() -> None:
    late = request(seen_at_s=NOW_S - job().record.terms.start_timeout_s)
    action = only(plan_of(waiting(), asked=(late,)))
    assert isinstance(action, GiveUpdateUp)


def test_without_room_it_waits_and_the_running_one_goes_on() -> None:
    full = {name: replace(host, drivers=0) for name, host in HOSTS.items()}
    plan = plan_of(waiting(), members=full)
    assert plan.actions == ()
    assert plan.notes[0].why.startswith("the update waits: no room: ")
    assert plan.notes[0].why.endswith("(restart j --cold does not wait)")


@pytest.mark.parametrize(
    "changes",
    [
        {"prepare": None},
        {"prepare": SESSION, "restart_nonce": "n2", "cold_restart": "n2"},
    ],
    ids=["its spec says so", "restart --cold"],
)
def test_starts_cold_where_none_shall_be_prepared(changes: dict[str, Any]) -> None:
    action = only(plan_of(waiting(updated(**changes))))
    assert isinstance(action, Drain)


def test_what_is_no_update_is_drained_at_once() -> None:
    """A resume from a savepoint, or a third revision while the second is about to run."""
    for ref, revision in (
        (updated(3, prepare=SESSION), 2),
        (Found(replace(job(prepare=SESSION).record, revision=2), 4), 1),
    ):
        assert isinstance(only(plan_of(waiting(ref, revision=revision))), Drain)


def test_where_no_driver_runs_it_starts_cold() -> None:
    action = only(plan_of(row(ref=updated(prepare=SESSION), own=exited(), own_seen_at_s=NOW_S)))
    assert isinstance(action, Assign), "a fix of a crash loop waits for no back-off"
    assert not action.prepared


def test_given_up_it_is_a_job_as_any_other() -> None:
    ref = updated(prepare=SESSION)
    update = ref.record.update
    assert update is not None
    record = replace(ref.record, revision=1, spec=update.before.spec, update=replace(update, given_up="why"))
    plan = plan_of(waiting(Found(record, 5)), asked=(request(),))
    assert isinstance(only(plan), Withdraw), "what was prepared of it goes"
    assert plan_of(waiting(Found(record, 5))).actions == ()


def test_a_suspended_one_is_stopped_and_a_restart_waits_with_it() -> None:
    suspended = updated(prepare=SESSION, desired=Desired.SUSPENDED)
    assert isinstance(only(plan_of(waiting(suspended))), Drain)
    restarted = updated(prepare=SESSION, restart_nonce="n2")
    assert isinstance(only(plan_of(waiting(restarted))), Prepare)


def test_explain_says_for_what_it_waits() -> None:
    seen = view(waiting(), members=HOSTS, preparations=(request(),))
    explained = Explainer(seen, Policy(), NOW_S, "s1").job("j")
    assert explained.waits_for is not None
    assert explained.why == "a driver is being prepared on s2; the running one goes on until it is ready"


@pytest.mark.parametrize(
    ("ref", "owned"),
    [
        (updated(), own(S.CLAIMED, revision=2)),
        (updated(), own(S.DRAINING)),
        (updated(), own(S.CLAIMED, uid="u2")),
        (job(), own(S.CLAIMED)),
    ],
)
def test_the_check_refuses_to_give_up_what_is_not_pending(ref: Any, owned: Any) -> None:
    one = row(ref=ref, own=owned, lease=lease())
    seen = view(one, members=HOSTS)
    plan = replace(plan_of(row()), actions=(GiveUpdateUp("j", "w", ref, owned),), notes=(), alarms=())
    assert violations(seen, plan) == (
        "j: GiveUpdateUp although what runs is not the revision before its update",
    )


def test_the_standby_of_the_old_revision_goes() -> None:
    old = asked()
    plan = plan_of(waiting(), asked=(old,), members={"s1": A, "s2": keeps(B)})
    assert isinstance(only(plan), Withdraw)


def test_what_may_pass_is_waited_for_however_long_it_lasts() -> None:
    """The host has no room after all, or its store does not answer: nothing is wrong with the revision."""
    waits = on(ready(ready=False, ready_at="", why="no room: s2 has its 1 driver", waits=True))
    late = request(seen_at_s=NOW_S - 10 * job().record.terms.start_timeout_s)
    plan = plan_of(waiting(), asked=(late,), members=waits)
    assert plan.actions == ()
    assert "the update waits: s2 could prepare no driver: no room" in plan.notes[0].why


def test_what_one_policy_refuses_another_may_allow() -> None:
    """One update waits, and says what for; where all have this policy, it is given up."""
    refused = on(ready(ready=False, ready_at="", why="conf spark.plugins: it is forbidden", refused=True))
    strict = {name: replace(member, policy_sha256="aa") for name, member in refused.items()}
    assert isinstance(only(plan_of(waiting(), asked=(request(),), members=strict)), GiveUpdateUp)
    mixed = {**strict, "s1": replace(strict["s1"], policy_sha256="bb")}
    plan = plan_of(waiting(), asked=(request(),), members=mixed)
    assert plan.actions == ()
    assert "the update waits: s2 could prepare no driver: conf spark.plugins" in plan.notes[0].why


def test_a_restart_does_not_wait_for_room_beside_an_update() -> None:
    full = {"s1": replace(HOSTS["s1"], drivers=1), "s2": replace(HOSTS["s2"], drivers=0)}
    action = only(plan_of(waiting(updated(prepare=SESSION, restart_nonce="n2")), members=full))
    assert isinstance(action, Drain)


def test_where_no_host_prepares_drivers_it_starts_cold() -> None:
    old = {name: replace(host, prepares=0) for name, host in HOSTS.items()}
    action = only(plan_of(waiting(), members=old))
    assert isinstance(action, Drain)
    assert action.why == "revision 2 replaces 1; it starts cold: no host keeps prepared drivers"
