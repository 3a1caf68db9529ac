"""Which drivers are prepared where, what a restart waits for, and who gets a driver that is ready."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from supervisor.model.actions import Action, Assign, Drain, Plan, Prepare, Withdraw
from supervisor.model.records import (
    PREPARED_MAX,
    Assignment,
    Cause,
    Desired,
    JobRef,
    Member,
    OwnState,
    Phase,
    Preparation,
    PreparedDriver,
    PrepareLevel,
    StandbyPolicy,
    StandbyWhere,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.transaction import Create
from supervisor.model.usage import AttemptUsage, DirectoryUse
from supervisor.model.view import Row, SeenPreparation, View
from supervisor.plan.check import violations
from supervisor.plan.decide import FRESH
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy, make_plan
from supervisor.plan.prepare import Preparations
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.registry import leader_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.unit.plan.rows import HOST, NOW_S, exited, job, lease, own, row, view

S, LAYOUT, SESSION = OwnState, Layout("/c"), PrepareLevel.SESSION
CONTEXT = LeaderWriteContext(LAYOUT, 4, 11, "op-1", "now")
A = replace(HOST, id="s1", prepares=1)
B = replace(HOST, id="s2", host="host2", prepares=1)
HOSTS = {"s1": A, "s2": B}
STANDBY = StandbyPolicy(level=SESSION, where=StandbyWhere.OTHER, refresh_s=3600.0)
SLOW = RestartPolicy(jitter=0.0, initial_s=60.0)


def asked(
    host: str = "s2", seen_at_s: float = NOW_S, name: str = "j", uid: str = "u1", **changes: Any
) -> SeenPreparation:
    record = Preparation(
        name=name, uid=uid, revision=1, spec=job().record.spec, level=SESSION, memory=100, why="why", at="t"
    )
    record = replace(record, **changes)
    return SeenPreparation(
        host, LAYOUT.preparation(host, uid, record.revision), Found(record, 0, 1), seen_at_s, seen_at_s
    )


def keeps(host: Member, *, uid: str = "u1", **changes: Any) -> Member:
    driver = PreparedDriver(uid=uid, revision=1, level=SESSION, sha256="0", ready=True, ready_at="t")
    return replace(host, prepared=(*host.prepared, replace(driver, **changes)))


def restarted(**changes: Any) -> Row:
    """It runs on s1, and a restart was asked for."""
    ref = job(restart_nonce="n2", **{"prepare": SESSION, **changes})
    return row(ref=ref, own=own(S.CLAIMED), lease=lease())


def running(**changes: Any) -> Row:
    return row(
        ref=job(**{"prepare": SESSION, "standby": STANDBY, **changes}), own=own(S.CLAIMED), lease=lease()
    )


def plan_of(*rows: Row, asked: tuple[SeenPreparation, ...] = (), **parts: Any) -> Plan:
    seen = view(*rows, **{"members": HOSTS, "preparations": asked, **parts})
    plan = make_plan(seen, Policy(), NOW_S)
    assert violations(seen, plan) == ()
    return plan


def only(plan: Plan) -> Action:
    (action,) = plan.actions
    return action


class TestRestart:
    def test_asks_another_host_and_the_running_driver_goes_on(self) -> None:
        plan = plan_of(restarted())
        action = only(plan)
        assert isinstance(action, Prepare) and (action.host.id, action.level) == ("s2", SESSION)
        assert (
            plan.notes[0].prepares == "s2"
            and "the running one goes on until it is ready" in plan.notes[0].why
        )

    def test_asks_the_present_host_first_if_that_alone_has_what_the_job_wrote(self) -> None:
        there = AttemptUsage(directory=DirectoryUse(path="/s/jobs/u1/cwd", bytes=1, files=1))
        mine = replace(restarted(), lease=lease(usage=there))
        action = only(plan_of(mine))
        assert isinstance(action, Prepare) and action.host.id == "s1"
        plan = plan_of(mine, asked=(asked("s1"),))
        assert plan.notes[0].prepares == "s1"
        action = only(plan_of(mine, members={"s1": replace(A, memory=150), "s2": B}))
        assert isinstance(action, Prepare) and action.host.id == "s2", (
            "without room for both, it begins without"
        )

    def test_asks_the_present_host_if_no_other_has_room(self) -> None:
        action = only(plan_of(restarted(), members={"s1": A, "s2": replace(B, memory=99)}))
        assert isinstance(action, Prepare) and action.host.id == "s1"

    def test_waits_while_the_driver_is_being_prepared(self) -> None:
        plan = plan_of(restarted(), asked=(asked(seen_at_s=NOW_S - 20),))
        assert plan.actions == ()
        assert plan.notes[0].why.startswith("a driver is being prepared on s2; ")
        assert plan.notes[0].wait_s == 40.0

    def test_drains_when_it_is_ready(self) -> None:
        plan = plan_of(restarted(), asked=(asked(),), members={"s1": A, "s2": keeps(B)})
        assert isinstance(only(plan), Drain)
        assert only(plan).why == "a restart was asked for; a driver is ready on s2"

    @pytest.mark.parametrize(
        "other", [{"revision": 2}, {"sha256": "1"}, {"driver_memory": 1}, {"uid": "u0"}, {"ready": False}]
    )
    def test_another_driver_does_not_count(self, other: dict[str, Any]) -> None:
        host = keeps(B, **other)
        assert plan_of(restarted(), asked=(asked(),), members={"s1": A, "s2": host}).actions == ()

    def test_starts_cold_if_the_host_can_prepare_none(self) -> None:
        host = keeps(B, ready=False, why="no Python")
        action = only(plan_of(restarted(), asked=(asked(),), members={"s1": A, "s2": host}))
        assert isinstance(action, Drain) and action.why.endswith(
            "it starts cold: s2 could prepare no driver: no Python"
        )

    def test_starts_cold_after_start_timeout(self) -> None:
        action = only(plan_of(restarted(), asked=(asked(seen_at_s=NOW_S - 60),)))
        assert isinstance(action, Drain) and "no driver within 60 s" in action.why

    @pytest.mark.parametrize(
        ("changes", "members", "why"),
        [
            ({"cold_restart": "n2"}, HOSTS, "a restart was asked for, without a prepared driver"),
            ({"prepare": None}, HOSTS, "a restart was asked for"),
            ({}, {"s1": HOST}, "a restart was asked for; it starts cold: no room: no host that keeps prepared drivers is up"),
            ({}, {"s1": replace(A, memory=199)}, "a restart was asked for; it starts cold: no room: s1 has 0m of 0m free, 0m needed"),
            ({}, {"s1": replace(A, drivers=1)}, "a restart was asked for; it starts cold: no room: s1 has its 1 driver already"),
        ],
    )  # fmt: skip
    def test_starts_cold_at_once_where_nothing_shall_or_can_be_prepared(
        self, changes: dict[str, Any], members: dict[str, Member], why: str
    ) -> None:
        action = only(plan_of(restarted(**changes), members=members))
        assert isinstance(action, Drain) and action.why == why

    def test_a_cold_restart_of_before_does_not_count(self) -> None:
        assert isinstance(only(plan_of(restarted(cold_restart="n1"))), Prepare)

    def test_what_others_have_prepared_takes_room_of_what_is_prepared_next(self) -> None:
        other = Row(
            "k",
            job("k", "u2", prepare=SESSION, restart_nonce="n2"),
            own(S.CLAIMED, uid="u2"),
            NOW_S,
            lease(uid="u2"),
        )
        assert isinstance(other.own, Found)
        there = asked("s2", name="k", uid="u2")
        action = only(
            plan_of(
                restarted(),
                other,
                asked=(there,),
                members={"s2": replace(B, drivers=1), "s1": replace(A, drivers=2)},
            )
        )
        assert isinstance(action, Drain), "s1 runs both, s2 prepares the one that it has room for"

    @pytest.mark.parametrize("starting", [1, 0])
    def test_waits_for_a_starting_slot(self, starting: int) -> None:
        begin = [
            row(
                name=each.id,
                ref=job(each.id, f"u-{each.id}"),
                own=own(S.CLAIMED, f"u-{each.id}", supervisor=each.id),
                lease=lease(phase=Phase.BEGUN, uid=f"u-{each.id}", name=each.id),
            )
            for each in (A, B)
        ]
        busy = {each.id: replace(each, starting=starting) for each in (A, B)}
        plan = plan_of(restarted(), *begin, members=busy)
        assert plan.actions == () and "when there is a place for it" in plan.notes[0].why
        assert "is starting 1 driver already" in plan.notes[0].why

    def test_a_record_that_says_0_starts_one_at_a_time(self) -> None:
        """No setting says that. A host that would be busy for ever would keep its jobs waiting without an end."""
        odd = {"s1": replace(A, starting=0), "s2": replace(B, starting=0)}
        assert isinstance(only(plan_of(restarted(), members=odd)), Prepare)
        assert isinstance(only(plan_of(row(ref=job(), own=own(S.VACANT)), members=odd)), Assign)

    def test_the_time_of_a_request_counts_from_when_hosts_may_prepare(self) -> None:
        held = replace(asked(seen_at_s=NOW_S - 5_000), due_from_at_s=NOW_S - 59)
        assert "a driver is being prepared on s2" in plan_of(restarted(), asked=(held,)).notes[0].why
        late = replace(held, due_from_at_s=NOW_S - 60)
        assert isinstance(only(plan_of(restarted(), asked=(late,))), Drain)

    def test_a_host_that_distrusts_the_registry_is_asked_for_nothing(self) -> None:
        action = only(plan_of(restarted(), members={"s1": A, "s2": replace(B, distrust="restored")}))
        assert isinstance(action, Prepare) and action.host.id == "s1"

    def test_explain_says_for_what_it_waits(self) -> None:
        seen = view(restarted(), members=HOSTS, preparations=(asked(),))
        explained = Explainer(seen, Policy(), NOW_S, "s1").job("j")
        assert str(explained.waits_for) == "a prepared driver on s2"


class TestAssignment:
    def after(self, cause: Cause = Cause.STOPPED, **changes: Any) -> Row:
        return row(ref=job(prepare=SESSION, **changes), own=exited(cause), own_seen_at_s=0.0)

    def assigned(self, *rows: Row, members: dict[str, Member]) -> Assign:
        action = only(plan_of(*rows, members=members))
        assert isinstance(action, Assign)
        return action

    def test_goes_where_a_driver_is_ready_and_says_so(self) -> None:
        for hosts in permutations((A, keeps(B))):
            action = self.assigned(self.after(), members={h.id: h for h in hosts})
            assert (action.host.id, action.prepared) == ("s2", True)
        action = self.assigned(self.after(), members=HOSTS)
        assert (action.host.id, action.prepared) == ("s1", False)

    def test_the_entry_and_the_history_say_it(self) -> None:
        for prepared in (False, True):
            ref, before = job(prepare=SESSION), exited(Cause.STOPPED)
            tx = leader_writes.assign(
                CONTEXT, Assign("j", "w", ref, before, B, FRESH, None, prepared=prepared)
            )
            (data,) = [op.data for op in tx.ops if isinstance(op, Create) and "/assigned/" in op.path]
            assert decode(Assignment, data, LAYOUT.assignment("s2", "u1", 3)).prepared is prepared
            assert (b"prepared" in data) is prepared, "an agent of the version before reads what it knows"

    def test_a_host_without_room_for_a_start_is_passed_over(self) -> None:
        action = self.assigned(self.after(), members={"s1": A, "s2": keeps(replace(B, memory=99))})
        assert (action.host.id, action.prepared) == ("s1", False)

    def test_prepared_drivers_take_no_place_of_a_start(self) -> None:
        others = tuple(asked("s1", name="j", uid="u1", revision=n) for n in range(1, 4))
        plan = plan_of(self.after(), asked=others, members={"s1": replace(A, drivers=1, memory=100)})
        assert any(isinstance(action, Assign) and action.host.id == "s1" for action in plan.actions)

    def test_after_a_prepared_driver_that_was_lost_the_next_start_is_cold_and_at_once(self) -> None:
        lost = self.after(Cause.PREPARED_LOST)
        action = self.assigned(replace(lost, own_seen_at_s=NOW_S), members={"s1": A, "s2": keeps(B)})
        assert not action.prepared and action.account.failures == 0

    def test_a_cold_restart_uses_none(self) -> None:
        action = self.assigned(
            self.after(restart_nonce="n2", cold_restart="n2"), members={"s1": A, "s2": keeps(B)}
        )
        assert not action.prepared

    def test_other_memory_is_another_driver(self) -> None:
        action = self.assigned(self.after(), members={"s1": A, "s2": keeps(B, driver_memory=5)})
        assert not action.prepared


class TestStandby:
    def test_is_asked_for_on_another_host_while_the_job_runs(self) -> None:
        action = only(plan_of(running()))
        assert isinstance(action, Prepare) and action.host.id == "s2"
        starting = replace(running(), lease=lease(phase=Phase.BEGUN))
        assert plan_of(starting).actions == ()

    def test_stands_while_all_is_as_wanted(self) -> None:
        assert plan_of(running(), asked=(asked(),)).actions == ()

    def test_where_any_takes_the_same_host_if_no_other_is_there(self) -> None:
        anywhere = replace(STANDBY, where=StandbyWhere.ANY)
        action = only(plan_of(running(standby=anywhere), members={"s1": A}))
        assert isinstance(action, Prepare) and action.host.id == "s1"
        assert plan_of(running(), members={"s1": A}).actions == ()

    def test_where_other_is_taken_back_from_the_host_that_runs_the_job(self) -> None:
        action = only(plan_of(running(), asked=(asked("s1"),)))
        assert isinstance(action, Withdraw)

    def test_is_prepared_anew_after_refresh(self) -> None:
        for age_s, kinds in ((3599.0, []), (3600.0, [Withdraw])):
            plan = plan_of(
                running(), asked=(asked(seen_at_s=NOW_S - age_s),), members={"s1": A, "s2": keeps(B)}
            )
            assert [type(action) for action in plan.actions] == kinds

    def crashed(self, seen_before_s: float, **changes: Any) -> Row:
        ref = job(prepare=SESSION, standby=STANDBY, restart=RestartPolicy(jitter=0.0))
        return row(ref=ref, own=exited(**changes), own_seen_at_s=NOW_S - seen_before_s)

    def test_takes_the_job_over_at_once_after_the_first_failure_in_a_row(self) -> None:
        members = {"s1": A, "s2": keeps(B)}
        action = only(plan_of(self.crashed(0.0), asked=(asked(),), members=members))
        assert isinstance(action, Assign) and action.prepared
        assert action.account.failures == 1

    def test_stays_over_a_second_crash_and_takes_the_job_over_after_the_back_off(self) -> None:
        members = {"s1": A, "s2": keeps(B)}
        waiting, over = self.crashed(1.9, failures=1), self.crashed(2.0, failures=1)
        assert plan_of(waiting, asked=(asked(),), members=members).actions == ()
        action = only(plan_of(over, asked=(asked(),), members=members))
        assert isinstance(action, Assign) and action.prepared

    def test_one_that_is_not_ready_changes_nothing_of_the_back_off(self) -> None:
        members = {"s1": A, "s2": keeps(B, ready=False, ready_at="")}
        assert plan_of(self.crashed(0.9), asked=(asked(),), members=members).actions == ()

    def test_stays_while_the_attempt_to_which_it_is_handed_is_unclaimed(self) -> None:
        given = row(ref=job(prepare=SESSION), own=own(S.ASSIGNED, supervisor="s2"))
        tight = {"s1": A, "s2": keeps(replace(B, drivers=1, memory=100))}
        assert plan_of(given, asked=(asked(),), members=tight).actions == ()
        claimed = row(ref=job(prepare=SESSION), own=own(S.CLAIMED, supervisor="s2"), lease=lease())
        assert isinstance(only(plan_of(claimed, asked=(asked(),), members=tight)), Withdraw)

    def test_explain_says_what_there_is_of_it(self) -> None:
        def said(asked: tuple[SeenPreparation, ...] = (), **members: Member) -> str:
            seen = view(running(), members=members, preparations=asked)
            explained = Explainer(seen, Policy(), NOW_S, "s1").job("j")
            assert explained.is_fine
            return explained.standby

        assert said(s1=A, s2=B) == "a driver is to be prepared on s2"
        assert said((asked(),), s1=A, s2=B) == "a driver is being prepared on s2"
        assert said((asked(),), s1=A, s2=keeps(B)) == "a driver is ready on s2"
        assert said(s1=A) == "no standby: no room: no other host that keeps prepared drivers is up"
        assert said(s1=A, s2=replace(B, drivers=0)).startswith("no standby: no room: s2 takes no drivers")
        host = keeps(B, ready=False, why="no Python")
        assert said((asked(),), s1=A, s2=host) == "no standby: s2 could prepare no driver: no Python"


class TestBackOff:
    @pytest.mark.parametrize(("initial_s", "kinds"), [(14.9, []), (15.0, [Prepare])])
    def test_a_long_one_is_used_to_prepare(self, initial_s: float, kinds: list[type]) -> None:
        policy = RestartPolicy(jitter=0.0, initial_s=initial_s)
        waiting = row(ref=job(prepare=SESSION, restart=policy), own=exited())
        assert [type(action) for action in plan_of(waiting).actions] == kinds

    def test_not_for_a_job_that_is_never_prepared_or_will_not_be_started_again(self) -> None:
        assert plan_of(row(ref=job(restart=SLOW), own=exited())).actions == ()
        waiting = row(ref=job(prepare=SESSION, restart=SLOW), own=exited(permanent=True))
        assert plan_of(waiting).actions == ()

    def test_the_plan_goes_on_with_the_back_off(self) -> None:
        plan = plan_of(row(ref=job(prepare=SESSION, restart=SLOW), own=exited()))
        assert plan.notes[0].why.startswith("back-off after 1 failure")


class TestWithdrawal:
    @pytest.mark.parametrize(
        "parts",
        [
            {"rows": ()},
            {"rows": (row(own=own(S.VACANT)),)},
            {"rows": (row(ref=job(prepare=SESSION, desired=Desired.SUSPENDED), own=own(S.VACANT)),)},
            {"rows": (row(ref=job(prepare=SESSION), own=own(S.CLAIMED), lease=lease()),)},
            {"rows": (restarted(),), "asked": (asked(revision=7),)},
            {"rows": (restarted(),), "asked": (asked(memory=7),)},
            {"rows": (restarted(),), "asked": (asked("gone"),)},
            {"rows": (restarted(),), "members": {"s1": A, "s2": replace(HOST, id="s2")}},
            {"rows": (running(),), "asked": (asked(level=PrepareLevel.APPLICATION),)},
        ],
    )
    def test_nothing_is_kept_that_nobody_wants(self, parts: dict[str, Any]) -> None:
        given = {"asked": (asked(),), **parts}
        action = only(plan_of(*given.pop("rows"), **given))
        assert isinstance(action, Withdraw)

    def test_one_is_enough(self) -> None:
        plan = plan_of(restarted(), asked=(asked("s1"), asked("s2")), members={"s1": A, "s2": keeps(B)})
        assert isinstance(only(plan), Drain), "one action for a name"
        plan = plan_of(restarted(), asked=(asked("s1"), asked("s2")))
        action = only(plan)
        assert isinstance(action, Withdraw) and "/s2/" in action.path

    def test_nothing_is_done_on_doubt(self) -> None:
        for doubtful in (
            row(ref=job(), own=own(S.CLAIMED), flaws=("half read",)),
            row(ref=Unreadable("broken", 3), own=own(S.CLAIMED)),
            row(ref=job(prepare=SESSION), own=Unreadable("broken", 3)),
        ):
            assert plan_of(doubtful, asked=(asked(),)).actions == ()

    def test_one_that_cant_be_read_goes_and_disturbs_nobody(self) -> None:
        broken = SeenPreparation("s2", "/c/prepare/s2/x.1", Unreadable("torn", 5), NOW_S, NOW_S)
        plan = plan_of(running(), asked=(broken, asked()))
        action = only(plan)
        assert isinstance(action, Withdraw) and (action.path, action.version) == (broken.path, 5)

    def test_where_starts_have_taken_the_room_the_lowest_priority_goes(self) -> None:
        """A start never waits for a prepared driver; so there may be more than fits."""
        rows = [
            Row(n, job(n, f"u-{n}", prepare=SESSION, standby=STANDBY, priority=p), own(S.CLAIMED, uid=f"u-{n}"), NOW_S, lease(uid=f"u-{n}"))
            for n, p in (("low", 0), ("high", 5))
        ]  # fmt: skip
        there = tuple(asked(name=n, uid=f"u-{n}", priority=p) for n, p in (("low", 0), ("high", 5)))
        action = only(plan_of(*rows, asked=there, members={"s1": A, "s2": replace(B, memory=150)}))
        assert isinstance(action, Withdraw) and action.name == "low"

    def test_no_more_is_asked_of_a_host_than_its_record_has_room_for(self) -> None:
        names = [f"j{n}" for n in range(PREPARED_MAX + 2)]
        rows = [Row(n, job(n, f"u-{n}", prepare=SESSION, standby=STANDBY), own(S.CLAIMED, uid=f"u-{n}"), NOW_S, lease(uid=f"u-{n}")) for n in names]  # fmt: skip
        wide = {
            "s1": replace(A, memory=10**6, drivers=100),
            "s2": replace(B, memory=10**6, drivers=100, starting=100),
        }
        assert len(plan_of(*rows, members=wide).actions) == PREPARED_MAX


class TestWhatStopsEverything:
    @pytest.mark.parametrize("parts", [{"paused": True}, {"distrust": "restored"}, {"recorded": False}])
    def test_nothing_is_asked_for_or_taken_back(self, parts: dict[str, Any]) -> None:
        gone = asked(name="gone", uid="u9")
        assert plan_of(restarted(), asked=(gone,), **parts).actions == ()

    def test_the_check_refuses_what_the_plan_would_never_say(self) -> None:
        seen = view(restarted(), members=HOSTS)
        plan = make_plan(seen, Policy(), NOW_S)
        (action,) = plan.actions
        assert isinstance(action, Prepare)
        suspended = view(row(ref=job(desired=Desired.SUSPENDED), own=action.own), members=HOSTS)
        assert violations(suspended, plan) == ("j: Prepare although it is not wanted running",)
        old = replace(B, prepares=0)
        wrong = replace(plan, actions=(replace(action, host=old),))
        assert violations(view(restarted(), members={"s2": old}), replace(wrong, actions=())) == ()
        assert any("keeps no prepared drivers" in each for each in violations(replace(seen, rows={"j": replace(restarted(), own=action.own)}, members={"s2": old}), wrong))  # fmt: skip


# -- plan, carry out, plan: it comes to rest ---------------------------------------------------------------------------


def executed(seen: View, action: Action) -> View:
    """What the next view shows after ``action``, as far as prepared drivers are concerned."""
    if isinstance(action, Withdraw):
        left = tuple(each for each in seen.preparations if each.path != action.path)
        assert len(left) == len(seen.preparations) - 1
        return replace(seen, preparations=left)
    if isinstance(action, Prepare):
        if action.new_host and action.host.id in seen.prepare_hosts:
            return seen  # another request of this plan has made the parent: this multi fails, and is planned anew
        assert action.new_host == (action.host.id not in seen.prepare_hosts)
        tx = leader_writes.prepare(CONTEXT, Prepare('j', action.why, action.ref, action.own, action.host, action.level, new_host=action.new_host))  # fmt: skip
        op = tx.ops[-1]
        assert isinstance(op, Create) and op.path not in {each.path for each in seen.preparations}
        record = decode(Preparation, op.data, op.path)
        made = SeenPreparation(action.host.id, op.path, Found(record, 0, 1), NOW_S, NOW_S)
        hosts = seen.prepare_hosts | {action.host.id}
        return replace(seen, preparations=(*seen.preparations, made), prepare_hosts=hosts)
    if isinstance(action, Drain):
        draining = Found(replace(action.own.record, state=S.DRAINING), action.own.version + 1)
        rows = {**seen.rows, action.name: replace(seen.rows[action.name], own=draining)}
        return replace(seen, rows=rows)
    return seen


def worlds() -> Iterator[View]:
    """Jobs in many states, on hosts of many sizes, with requests from before."""
    states = (
        lambda n: restarted(),
        lambda n: running(),
        lambda n: running(standby=replace(STANDBY, where=StandbyWhere.ANY)),
        lambda n: row(ref=job(prepare=SESSION, restart=SLOW), own=exited()),
        lambda n: row(ref=job(prepare=SESSION), own=own(S.CLAIMED), lease=lease()),
        lambda n: row(ref=job(prepare=SESSION, standby=STANDBY), own=own(S.DRAINING), lease=lease()),
    )
    for first, second, third in permutations(range(len(states)), 3):
        rows = [_named(states[each](each), f"j{n}", f"u{n}") for n, each in enumerate((first, second, third))]
        for memory, drivers in ((1000, 10), (300, 3), (400, 2), (200, 5)):
            members = {
                "s1": replace(A, memory=memory, drivers=drivers),
                "s2": replace(B, memory=memory // 2, drivers=drivers),
            }
            for there in (
                (),
                (
                    asked("s1", name="j0", uid="u0"),
                    asked("s2", name="j1", uid="u1"),
                    asked("s1", name="gone", uid="u9"),
                ),
            ):
                hosts = frozenset(each.supervisor for each in there)
                yield view(*rows, members=members, preparations=there, prepare_hosts=hosts)


def _named(one: Row, name: str, uid: str) -> Row:
    assert isinstance(one.ref, Found) and isinstance(one.own, Found)
    ref = Found(replace(one.ref.record, name=name, uid=uid), one.ref.version)
    mine = Found(replace(one.own.record, uid=uid), one.own.version)
    return replace(one, name=name, ref=ref, own=mine, lease=lease(uid=uid) if one.lease is not None else None)


def test_it_comes_to_rest_and_no_request_goes_back_and_forth() -> None:
    for seen in worlds():
        before = seen
        made: list[str] = []
        for _ in range(12):
            plan = make_plan(seen, Policy(), NOW_S)
            assert plan == make_plan(seen, Policy(), NOW_S)
            assert violations(seen, plan) == ()
            actions = [action for action in plan.actions if isinstance(action, Prepare | Withdraw | Drain)]
            if not actions:
                break
            for action in actions:
                before_it, seen = seen, executed(seen, action)
                if isinstance(action, Prepare) and seen is not before_it:
                    made.append(f"{action.name} on {action.host.id}")
        else:
            pytest.fail(f"no rest: {before}")
        assert len(made) == len(set(made)), "nothing is asked for twice"
        places = [
            (each.supervisor, each.seen.record.uid)
            for each in seen.preparations
            if isinstance(each.seen, Found)
        ]
        assert len(places) == len(set(places))
        wanted = [each.seen.record.name for each in seen.preparations if isinstance(each.seen, Found)]
        assert len(wanted) == len(set(wanted)) or any(
            row.own.record.state is S.DRAINING for row in seen.rows.values()
        )  # type: ignore[union-attr]


def test_after_any_prefix_the_rest_is_still_to_be_done() -> None:
    for seen in worlds():
        plan = make_plan(seen, Policy(), NOW_S)
        actions = [action for action in plan.actions if isinstance(action, Prepare | Withdraw)]
        if not actions:
            continue
        after = executed(seen, actions[0])
        rest = [a for a in make_plan(after, Policy(), NOW_S).actions if isinstance(a, Prepare | Withdraw)]
        planned = {(type(a), a.name) for a in actions[1:]}
        assert planned <= {(type(a), a.name) for a in rest} or isinstance(actions[0], Withdraw)


def test_wishes_cost_no_look_at_every_host_once_all_hosts_keep_as_many_as_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_for: list[str] = []

    def choice(self: Preparations, job: JobRef, *rest: Any) -> Any:
        asked_for.append(job.name)
        return chosen(self, job, *rest)

    chosen = Preparations.choice
    monkeypatch.setattr(Preparations, "choice", choice)
    rows = [
        replace(running(), name=f"j{n}", ref=job(f"j{n}", f"u{n}", prepare=SESSION, standby=STANDBY))
        for n in range(PREPARED_MAX + 5)
    ]
    rows = [replace(one, own=own(S.CLAIMED, f"u{n}"), lease=lease(uid=f"u{n}")) for n, one in enumerate(rows)]
    wide = replace(B, drivers=99, starting=99, memory=10**6)
    plan = plan_of(*rows, members={"s2": wide})
    assert len([one for one in plan.actions if isinstance(one, Prepare)]) == PREPARED_MAX
    assert len(asked_for) == PREPARED_MAX
