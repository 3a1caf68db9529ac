"""The plan of one row at a time: cell by cell, as protocol §8 says. No mock: views in, plans out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from supervisor.model.actions import (
    Action,
    Alarm,
    Assign,
    Bury,
    CleanUp,
    Conclude,
    Drain,
    Revoke,
    SuspendExhausted,
    Unassign,
)
from supervisor.model.lease_terms import EXECUTORS_OUTLIVE_MAX_S, LEASE_MAX_S, full_wait_s
from supervisor.model.records import Cause, Desired, Outcome, OwnState, Pause, Phase
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, SeenLease
from supervisor.plan.check import violations
from supervisor.plan.decide import FRESH, WaitingAssignment
from supervisor.plan.make import Policy, make_plan
from supervisor.spec.site_policy import SitePolicy
from tests.unit.plan.rows import (
    HOST,
    NOW_S,
    WAIT_S,
    exited,
    job,
    lease,
    leftover,
    own,
    row,
    view,
)

SUSPENDED = Desired.SUSPENDED
S = OwnState


def planned(*rows: Row, **parts: Any) -> list[Any]:
    seen = view(*rows, **parts)
    plan = make_plan(seen, Policy(60.0), NOW_S)
    assert violations(seen, plan) == ()
    assert plan == make_plan(seen, Policy(60.0), NOW_S)
    return list(plan.actions)


def kinds(*rows: Row, **parts: Any) -> list[type]:
    return [type(action) for action in planned(*rows, **parts)]


@pytest.mark.parametrize(
    ("name", "parts", "expected"),
    [
        ("first attempt", {"ref": job(), "own": own(S.VACANT, uid="")}, [Assign]),
        ("vacant, suspended", {"ref": job(desired=SUSPENDED), "own": own(S.VACANT)}, []),
        ("assigned, left alone", {"ref": job(), "own": own(S.ASSIGNED)}, []),
        ("assigned, job changed", {"ref": job(version=4), "own": own(S.ASSIGNED)}, [Unassign]),
        ("assigned, host gone", {"ref": job(), "own": own(S.ASSIGNED, supervisor="s9")}, [Unassign]),
        (
            "assigned, timed out",
            {"ref": job(), "own": own(S.ASSIGNED), "own_seen_at_s": NOW_S - 61},
            [Unassign],
        ),
        ("assigned, suspended", {"ref": job(desired=SUSPENDED), "own": own(S.ASSIGNED)}, [Unassign]),
        ("assigned, other uid", {"ref": job(), "own": own(S.ASSIGNED, uid="u0")}, [Unassign]),
        ("claimed, adopted", {"ref": job(), "own": own(S.CLAIMED), "lease": lease()}, []),
        ("claimed, lease not read yet", {"ref": job(), "own": own(S.CLAIMED)}, []),
        ("claimed, new revision", {"ref": job(revision=2), "own": own(S.CLAIMED), "lease": lease()}, [Drain]),
        (
            "claimed, restart",
            {"ref": job(restart_nonce="n2"), "own": own(S.CLAIMED), "lease": lease()},
            [Drain],
        ),
        (
            "claimed, suspended",
            {"ref": job(desired=SUSPENDED), "own": own(S.CLAIMED), "lease": lease()},
            [Drain],
        ),
        (
            "claimed, silent but not for W",
            {"ref": job(), "own": own(S.CLAIMED), "lease": lease(WAIT_S - 0.1)},
            [],
        ),
        ("claimed, silent for W", {"ref": job(), "own": own(S.CLAIMED), "lease": lease(WAIT_S)}, [Revoke]),
        (
            "claimed, other uid",
            {"ref": job(), "own": own(S.CLAIMED, uid="u0"), "lease": lease(uid="u0")},
            [Revoke],
        ),
        (
            "claimed, no reference",
            {"own": own(S.CLAIMED), "lease": lease(), "leftovers": (leftover(),)},
            [Revoke],
        ),
        ("draining, waits", {"ref": job(), "own": own(S.DRAINING), "lease": lease(5)}, []),
        ("draining, W over", {"ref": job(), "own": own(S.DRAINING), "lease": lease(WAIT_S)}, [Assign]),
        (
            "draining for longer than its grace and a lease",
            {"ref": job(), "own": own(S.DRAINING), "lease": lease(1), "own_seen_at_s": NOW_S - 50.1},
            [Revoke],
        ),
        (
            "draining, suspended, W",
            {"ref": job(desired=SUSPENDED), "own": own(S.DRAINING), "lease": lease(WAIT_S)},
            [Bury],
        ),
        ("draining other, waits", {"ref": job(uid="u2"), "own": own(S.DRAINING), "lease": lease(5)}, []),
        (
            "draining other, W",
            {"ref": job(uid="u2"), "own": own(S.DRAINING), "lease": lease(WAIT_S)},
            [Assign],
        ),
        (
            "draining, cancelled, waits",
            {"own": own(S.DRAINING), "lease": lease(5), "leftovers": (leftover(),)},
            [],
        ),
        (
            "draining, cancelled, W",
            {"own": own(S.DRAINING), "lease": lease(WAIT_S), "leftovers": (leftover(),)},
            [CleanUp],
        ),
        ("draining, nothing left", {"own": own(S.DRAINING), "lease": lease(WAIT_S)}, [Bury]),
        ("revoked, waits", {"ref": job(), "own": own(S.REVOKED), "lease": lease(5)}, []),
        ("revoked, W", {"ref": job(), "own": own(S.REVOKED), "lease": lease(WAIT_S)}, [Assign]),
        ("exited, suspended", {"ref": job(desired=SUSPENDED), "own": exited()}, []),
        ("exited, cancelled", {"own": exited(), "lease": lease(), "leftovers": (leftover(),)}, [CleanUp]),
        ("exited other", {"ref": job(uid="u2"), "own": exited()}, [Assign]),
        (
            "vacant, cancelled",
            {"own": own(S.VACANT), "lease": lease(), "leftovers": (leftover(),)},
            [CleanUp],
        ),
        ("vacant, all clean", {"own": own(S.VACANT)}, []),
        ("ownership absent", {"ref": job()}, []),
        ("ownership unreadable", {"ref": job(), "own": Unreadable("broken", 3)}, []),
        (
            "reference unreadable",
            {"ref": Unreadable("broken", 3), "own": own(S.CLAIMED), "lease": lease(WAIT_S)},
            [],
        ),
        ("a flaw", {"ref": job(), "own": own(S.VACANT), "flaws": ("half read",)}, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cell(name: str, parts: dict[str, Any], expected: list[type]) -> None:
    assert kinds(row(**parts)) == expected, name


def test_the_first_attempt_of_a_uid_is_number_one_and_carries_no_failures() -> None:
    (action,) = planned(row(ref=job(uid="u2"), own=exited(failures=5, charged=5)))
    assert (action.account.failures, action.waited) == (0, None)


def test_what_rests_on_the_full_wait_says_so() -> None:
    seen_lease = lease(WAIT_S)
    (action,) = planned(row(ref=job(), own=own(S.REVOKED), lease=seen_lease))
    assert action.waited is not None
    assert action.waited.lease is seen_lease.seen
    assert action.account.failures == 1, "a lost attempt counts for the back-off"
    assert action.account.charged == 0, "but not for the budget"


@pytest.mark.parametrize(("ran_s", "failures"), [(599.0, 5), (600.0, 1)])
def test_a_lost_attempt_resets_as_any_other_if_its_last_renewal_says_that_it_ran_long_enough(
    ran_s: float,
    failures: int,
) -> None:
    lost = own(S.REVOKED, failures=4, charged=4)
    (action,) = planned(row(ref=job(), own=lost, lease=lease(WAIT_S, ran_s=ran_s)))
    assert (action.account.failures, action.account.charged) == (failures, 0 if failures == 1 else 4)


def test_a_lease_of_another_attempt_says_nothing_of_how_long_this_one_ran() -> None:
    seen_lease = SeenLease(lease(ran_s=10_000.0, claim="older").seen, NOW_S - 1_205, NOW_S)
    (action,) = planned(row(ref=job(), own=own(S.REVOKED, failures=4), lease=seen_lease))
    assert action.account.failures == 5


def test_an_absent_or_foreign_lease_waits_for_the_longest_there_can_be() -> None:
    for seen in (None, lease(uid="u0").seen):
        assert kinds(row(ref=job(), own=own(S.REVOKED), lease=SeenLease(seen, NOW_S - 1_200, NOW_S))) == []
        assert kinds(row(ref=job(), own=own(S.REVOKED), lease=SeenLease(seen, NOW_S - 1_205, NOW_S))) == [
            Assign
        ]


def test_a_reference_beside_its_own_result_is_read_again() -> None:
    """Read at different moments: nothing is started of a uid that may have been cancelled, nothing cleaned of one that lives."""
    assert kinds(row(ref=job(), own=own(S.VACANT), leftovers=(leftover(),))) == []
    assert kinds(row(ref=job(), own=own(S.EXITED), lease=lease(), leftovers=(leftover(),))) == []


def test_the_wait_goes_by_the_terms_of_the_old_attempt_not_of_the_new_spec() -> None:
    new = job(uid="u2", lease_s=5.0)
    assert kinds(row(ref=new, own=own(S.DRAINING), lease=lease(silent_s=20.0))) == []
    assert kinds(row(ref=new, own=own(S.DRAINING), lease=lease(silent_s=WAIT_S))) == [Assign]


def test_the_wait_counts_up_to_the_sending_of_the_last_read_not_up_to_now() -> None:
    seen_lease = SeenLease(lease().seen, NOW_S - 10 * WAIT_S, NOW_S - 10 * WAIT_S + 1)
    assert kinds(row(ref=job(), own=own(S.REVOKED), lease=seen_lease)) == []


class TestAfterAnExit:
    def test_the_back_off_counts_from_when_the_leader_first_saw_it(self) -> None:
        parts = {"ref": job(), "own": exited(failures=2)}  # the third failure waits 4 s
        assert kinds(row(**parts, own_seen_at_s=NOW_S - 3.9)) == []
        assert kinds(row(**parts, own_seen_at_s=NOW_S - 4.0)) == [Assign]

    def test_a_requested_stop_is_no_failure_and_no_reset(self) -> None:
        (action,) = planned(row(ref=job(), own=exited(Cause.STOPPED)))
        assert (action.account.failures, action.account.delay_s) == (0, 0.0)
        (action,) = planned(row(ref=job(), own=exited(Cause.STOPPED, failures=3, charged=2)))
        assert (action.account.failures, action.account.charged) == (3, 2), (
            "moved in the middle of a crash loop"
        )

    @pytest.mark.parametrize("state", [S.VACANT, S.EXITED, S.DRAINING])
    def test_a_new_revision_has_no_failures_of_the_old_one(self, state: OwnState) -> None:
        before = own(state, cause=Cause.STOPPED if state is S.EXITED else None, failures=3, charged=3)
        (action,) = planned(row(ref=job(revision=2), own=before, lease=lease(WAIT_S)))
        assert isinstance(action, Assign) and action.account == FRESH

    def test_a_bounded_job_that_exits_zero_is_finished_also_while_suspended(self) -> None:
        for desired in Desired:
            (action,) = planned(row(ref=job(desired=desired, unbounded=False), own=exited(Cause.FINISHED)))
            assert isinstance(action, Conclude)
            assert action.outcome is Outcome.FINISHED

    def test_a_spent_budget_fails_or_suspends(self) -> None:
        for on_exhausted, kind in ((OnExhausted.FAIL, Conclude), (OnExhausted.SUSPEND, SuspendExhausted)):
            policy = RestartPolicy(attempts=3, on_exhausted=on_exhausted)
            assert kinds(row(ref=job(restart=policy), own=exited(failures=3, charged=3))) == [kind]

    def test_a_job_that_failed_for_good_says_first_why(self) -> None:
        own = exited(failures=3, charged=3)
        (action,) = planned(row(ref=job(restart=RestartPolicy(attempts=3)), own=own))
        assert action.why == "ended: user_error; restart budget is spent (3 restarts)"

    def test_no_restart_at_all(self) -> None:
        policy = RestartPolicy(strategy=Strategy.NONE)
        assert kinds(row(ref=job(restart=policy), own=exited())) == [Conclude]
        assert kinds(row(ref=job(restart=policy), own=exited(Cause.SHIM_DIED), own_seen_at_s=NOW_S - 9)) == [
            Assign
        ]

    def test_a_permanent_refusal_is_quarantined_until_a_restart_is_asked_for(self) -> None:
        refused = exited(Cause.BAD_ARTIFACT, permanent=True)
        plan = make_plan(view(row(ref=job(), own=refused, own_seen_at_s=0.0)), Policy(), NOW_S)
        assert plan.actions == ()
        assert plan.notes[0].quarantined
        assert kinds(row(ref=job(restart_nonce="n2"), own=refused)) == [Assign]

    def test_a_checkpoint_outside_of_what_is_allowed_is_not_assigned_and_a_driver_that_runs_is_left_alone(
        self,
    ) -> None:
        site = Policy(site=SitePolicy(checkpoints=("s3a://streams/*",)))
        outside = job()
        outside = replace(
            outside,
            record=replace(outside.record, terms=replace(outside.record.terms, checkpoint="s3://evil/a")),
        )
        plan = make_plan(view(row(ref=outside, own=own(S.VACANT))), site, NOW_S)
        assert plan.actions == ()
        assert (
            plan.notes[0].quarantined
            and "policy.checkpoints" in plan.notes[0].why
            and "s3a://streams/*" in plan.notes[0].why
        )
        running = view(row(ref=outside, own=own(S.CLAIMED), lease=lease()))
        assert make_plan(running, site, NOW_S) == make_plan(running, Policy(), NOW_S)

    def test_a_new_nonce_starts_at_once_without_failures(self) -> None:
        (action,) = planned(row(ref=job(restart_nonce="n2"), own=exited(failures=9, charged=9)))
        assert action.account.failures == 0


class TestOlderUids:
    def test_are_cleaned_beside_a_running_one_without_touching_its_ownership(self) -> None:
        running = {"ref": job(uid="u2"), "own": own(S.CLAIMED, uid="u2"), "lease": lease(uid="u2")}
        (action,) = planned(row(**running, leftovers=(leftover(),)))
        assert isinstance(action, CleanUp)
        assert not action.dead

    def test_are_left_while_their_own_attempt_may_live(self) -> None:
        assert (
            kinds(row(ref=job(uid="u2"), own=own(S.DRAINING), lease=lease(5), leftovers=(leftover(),))) == []
        )


class TestWhatStopsEverything:
    def test_a_registry_that_is_not_trusted(self) -> None:
        plan = make_plan(view(row(ref=job(), own=own(S.VACANT)), distrust="restored"), Policy(), NOW_S)
        assert (plan.actions, plan.alarms) == ((), (Alarm("restored"),))

    def test_pause(self) -> None:
        assert kinds(row(ref=job(), own=own(S.VACANT)), paused=True) == []

    @pytest.mark.parametrize(
        "paused",
        [
            row(ref=job(), own=own(S.VACANT)),
            row(ref=job(revision=2), own=own(S.CLAIMED), lease=lease()),
            row(ref=job(), own=own(S.CLAIMED), lease=lease(WAIT_S)),
            row(own=own(S.VACANT), lease=lease(), leftovers=(leftover(),)),
            row(ref=job(), own=own(S.ASSIGNED, job_version=1)),
            row(own=own(S.REVOKED), lease=lease(WAIT_S)),
        ],
        ids=["assign", "drain", "revoke", "clean", "unassign", "bury"],
    )
    def test_pause_holds_back_every_action_and_says_who_did_it(self, paused: Row) -> None:
        record = Pause(by="ops@host-a", at="2026-11-21T00:00:00Z", reason="moving the brokers", op="op")
        acting = make_plan(view(paused), Policy(), NOW_S)
        held = make_plan(view(paused, paused=True, pause=record), Policy(), NOW_S)
        assert len(acting.actions) == 1
        (note,) = held.notes
        assert (held.actions, held.alarms, note.name) == ((), acting.alarms, acting.actions[0].name)
        assert note.pending and acting.actions[0].why in note.why
        assert note.why.startswith("paused by ops@host-a since 2026-11-21T00:00:00Z (moving the brokers)")

    def test_an_epoch_not_recorded_drains_and_revokes_but_starts_and_cleans_nothing(self) -> None:
        rows = (
            replace(row(ref=job("a"), own=own(S.VACANT)), name="a"),
            replace(row(own=own(S.VACANT), lease=lease(), leftovers=(leftover(),)), name="b"),
            replace(
                row(ref=job("c", desired=Desired.SUSPENDED), own=own(S.CLAIMED), lease=lease()), name="c"
            ),
            replace(row(ref=job("d"), own=own(S.CLAIMED), lease=lease(WAIT_S)), name="d"),
            replace(row(ref=job("e", revision=2), own=own(S.CLAIMED), lease=lease()), name="e"),
        )
        assert kinds(*rows, recorded=False) == [Drain, Revoke], "what is to run on is not stopped yet"


class TestPlacement:
    def rows(self, count: int, **terms: Any) -> list[Row]:
        return [Row(f"j{n}", job(f"j{n}", f"u{n}", **terms), own(S.VACANT, uid="")) for n in range(count)]

    def test_at_most_two_start_at_once_on_a_host(self) -> None:
        plan = make_plan(view(*self.rows(3)), Policy(), NOW_S)
        assert [action.name for action in plan.actions] == ["j0", "j1"]
        assert plan.notes[0].pending
        assert "starting 2" in plan.notes[0].why

    def test_memory_is_declared_memory_and_the_reason_names_it(self) -> None:
        plan = make_plan(view(*self.rows(1, memory=2000)), Policy(), NOW_S)
        assert plan.actions == ()
        assert "s1" in plan.notes[0].why

    def test_priority_goes_first(self) -> None:
        rows = self.rows(2)
        rows.append(Row("z", job("z", "uz", priority=9), own(S.VACANT, uid="")))
        assert planned(*rows)[0].name == "z"

    def test_what_has_no_reference_still_occupies_its_host(self) -> None:
        full = replace(HOST, drivers=1)
        gone = Row("gone", None, own(S.DRAINING, uid="u9"), NOW_S, lease(5, uid="u9"), (leftover("u9"),))
        assert kinds(*self.rows(1), gone, members={"s1": full}) == []

    def test_an_attempt_that_was_waited_out_gives_its_place_back(self) -> None:
        full = replace(HOST, drivers=1)
        assert kinds(row(ref=job(), own=own(S.REVOKED), lease=lease(WAIT_S)), members={"s1": full}) == [
            Assign
        ]

    def test_a_running_driver_frees_its_starting_slot(self) -> None:
        one = replace(HOST, starting=1)
        for phase, expected in ((Phase.BEGUN, []), (Phase.RUNNING, [Assign])):
            running = Row("r", job("r", "ur"), own(S.CLAIMED, uid="ur"), NOW_S, lease(0, phase, uid="ur"))
            assert kinds(running, *self.rows(1), members={"s1": one}) == expected

    def test_nobody_is_up(self) -> None:
        plan = make_plan(view(*self.rows(1), members={}), Policy(), NOW_S)
        assert plan.notes[0].why == "no supervisor is up"


def test_the_check_stops_what_the_table_would_never_say() -> None:
    alive = row(ref=job(), own=own(S.CLAIMED), lease=lease())
    seen = view(alive)
    assert isinstance(alive.own, Found)
    plan = make_plan(view(row(ref=job(), own=own(S.VACANT))), Policy(), NOW_S)
    wrong = replace(plan, actions=(replace(plan.actions[0], own=alive.own),))
    assert violations(seen, wrong) == ("j: Assign although an older attempt may be alive",)


@pytest.mark.parametrize("lease_s", [0.0, -1e9, 4.9, 301.0, 1e12])
def test_a_lease_that_no_spec_can_have_is_waited_for_as_the_longest(lease_s: float) -> None:
    for silent_s, expected in (
        (WAIT_S, []),
        (full_wait_s(LEASE_MAX_S, EXECUTORS_OUTLIVE_MAX_S) + 0.001, [Assign]),
    ):
        parts = {"ref": job(), "own": own(S.REVOKED), "lease": lease(silent_s, lease_s=lease_s)}
        assert kinds(row(**parts)) == expected


def test_each_action_has_one_phrase_which_needs_no_second_verb() -> None:
    """The other forms are made of it: "the leader will start attempt 3", "the leader starts attempt 3"."""
    for action in (*get_args(Action), WaitingAssignment):
        assert isinstance(vars(action).get("phrase"), property), action
