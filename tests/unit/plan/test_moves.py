"""Which jobs leave their host when it is cordoned or drained or somebody moves them, how many at a time, and what holds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.actions import ROOM_ELSEWHERE, Action, Assign, Drain, Note, Plan, Prepare, Withdraw
from supervisor.model.records import (
    Cause,
    Cordon,
    Desired,
    Lease,
    Member,
    MoveRequest,
    Ownership,
    OwnState,
    Phase,
    PlacementPolicy,
    PreparedDriver,
)
from supervisor.model.seen import Found, Unreadable
from supervisor.model.transaction import SetData, Transaction
from supervisor.model.view import Row, SeenLease, SeenPreparation, View
from supervisor.plan import moves
from supervisor.plan.check import violations
from supervisor.plan.decide import FRESH
from supervisor.plan.explain import Await, Explainer
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import decode
from supervisor.registry import leader_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.unit.plan.rows import NOW_S, exited, job, lease, own, row, updated, view
from tests.unit.plan.test_prepare import HOSTS, LAYOUT, SESSION, A, B, asked, keeps

S = OwnState
DRAINED = Cordon(
    supervisor="s1", cordoned=True, by="ops@h", at="t", why="new disks", op="d1", drain="d1", max_parallel=2
)
CORDONED = replace(DRAINED, drain="", max_parallel=0)
SAID = "s1 is drained by ops@h: new disks"


def on(*cordons: Cordon) -> dict[str, Any]:
    return {"cordons": {each.supervisor: Found(each, 0) for each in cordons}}


def running(name: str = "j", **changes: Any) -> Row:
    """It runs on s1. Its uid is that of ``j``: u1, else u-NAME."""
    uid = "u1" if name == "j" else f"u-{name}"
    ref = job(name, uid, **{"prepare": SESSION, **changes})
    claimed = lease(uid=uid, name=name)
    return row(name=name, ref=ref, own=own(S.CLAIMED, uid), lease=claimed)


def moved(to: str = "s2", **changes: Any) -> Row:
    """It runs on s1, and somebody moves it."""
    return running(restart_nonce="n2", move=MoveRequest(to=to, nonce="n2", before="n1"), **changes)


def arrived(name: str, phase: Phase | None, **changes: Any) -> Row:
    """It left s1 by the drain d1; ``phase`` is how far its attempt on s2 is, None: only assigned."""
    uid = f"u-{name}"
    state = S.ASSIGNED if phase is None else S.CLAIMED
    held = {"supervisor": "s2", "moved_by": "d1", **changes}
    seen: SeenLease | None = None if phase is None else lease(phase=phase, uid=uid, name=name)
    return row(name=name, ref=job(name, uid, prepare=SESSION), own=own(state, uid, **held), lease=seen)


def plan_of(*rows: Row, asked: tuple[SeenPreparation, ...] = (), **parts: Any) -> Plan:
    seen = view(*rows, **{"members": HOSTS, "preparations": asked, **parts})
    plan = make_plan(seen, Policy(), NOW_S)
    assert violations(seen, plan) == ()
    return plan


def of(plan: Plan, kind: type[Action]) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, kind)]


def note_of(plan: Plan, name: str = "j") -> Note:
    (note,) = [note for note in plan.notes if note.name == name]
    return note


def ready_for(*names: str, host: Member = B) -> tuple[Member, tuple[SeenPreparation, ...]]:
    """``host`` with a driver ready for each, and the requests for them."""
    for name in names:
        host = keeps(host, uid=f"u-{name}")
    return host, tuple(asked(name=name, uid=f"u-{name}") for name in names)


class TestCordon:
    def test_nothing_new_is_placed_on_it(self) -> None:
        plan = plan_of(row(ref=job(), own=own(S.VACANT)), **on(CORDONED))
        (action,) = plan.actions
        assert isinstance(action, Assign) and action.host.id == "s2"

    def test_what_runs_there_goes_on(self) -> None:
        plan = plan_of(running(), **on(CORDONED))
        assert plan.actions == () and note_of(plan).why == "running as wanted"

    def test_a_crash_with_every_host_cordoned_is_not_started_and_there_is_an_alarm(self) -> None:
        plan = plan_of(
            row(ref=job(), own=own(S.VACANT)), **on(CORDONED, replace(CORDONED, supervisor="s2", why=""))
        )
        assert plan.actions == ()
        assert note_of(plan).why == ("no room: s1 is cordoned by ops@h: new disks; s2 is cordoned by ops@h")
        assert [str(each) for each in plan.alarms] == [
            "1 job can't be started: every host is cordoned; spark-supervisor uncordon HOST lets one take jobs again"
        ]

    def test_a_host_that_is_not_cordoned_any_more_takes_jobs(self) -> None:
        plan = plan_of(
            row(ref=job(), own=own(S.VACANT)), members={"s1": A}, **on(replace(DRAINED, cordoned=False))
        )
        assert of(plan, Assign) == ["j"] and plan.alarms == ()

    def test_a_record_that_cannot_be_read_counts_and_moves_nothing(self) -> None:
        cordons = {"s1": Unreadable("torn", 3)}
        plan = plan_of(running(), row(name="k", ref=job("k"), own=own(S.VACANT)), cordons=cordons)
        assert [(type(a), a.host.id) for a in plan.actions if isinstance(a, Assign)] == [(Assign, "s2")]
        assert of(plan, Drain) == []
        assert "uncordon s1 (or cordon s1) writes it anew" in str(plan.alarms[0])

    def test_no_driver_is_prepared_there(self) -> None:
        restarted = running(restart_nonce="n2")
        cordoned = replace(CORDONED, supervisor="s2")
        (action,) = plan_of(restarted, **on(cordoned)).actions
        assert isinstance(action, Prepare) and action.host.id == "s1"

    def test_what_is_prepared_there_is_taken_back_and_no_start_uses_it(self) -> None:
        cordoned = replace(CORDONED, supervisor="s2")
        members = {"s1": A, "s2": keeps(B)}
        plan = plan_of(running(restart_nonce="n2"), asked=(asked(),), members=members, **on(cordoned))
        (action,) = plan.actions
        assert isinstance(action, Withdraw) and action.why == "s2 is cordoned by ops@h: new disks"
        stopped = row(ref=job(prepare=SESSION), own=exited(Cause.STOPPED))
        plan = plan_of(stopped, asked=(asked(),), members=members, **on(cordoned))
        (assign,) = [each for each in plan.actions if isinstance(each, Assign)]
        assert (assign.host.id, assign.prepared) == ("s1", False)

    def test_an_assignment_that_is_about_to_use_it_may(self) -> None:
        handed = row(ref=job(prepare=SESSION), own=own(S.ASSIGNED, supervisor="s2"))
        plan = plan_of(
            handed,
            asked=(asked(),),
            members={"s1": A, "s2": keeps(B)},
            **on(replace(CORDONED, supervisor="s2")),
        )
        assert plan.actions == ()

    @pytest.mark.parametrize("changes", [{"restart_nonce": "n2"}, {"restart_nonce": "n2", "prepare": None}])
    def test_a_restart_stops_nothing_that_nobody_could_start_again(self, changes: dict[str, Any]) -> None:
        plan = plan_of(running(**changes), members={"s1": A}, **on(CORDONED))
        assert plan.actions == ()
        assert (
            "attempt 2 goes on, it could not be started again now: no room: no host that takes jobs is up (s1 is"
            in note_of(plan).why
        )
        assert of(
            plan_of(running(**changes), members={"s1": A, "s2": HOSTS["s2"]}, **on(CORDONED)), Drain
        ) == (["j"] if "prepare" in changes else [])

    def test_an_update_stops_nothing_that_nobody_could_start_again(self) -> None:
        pending = row(ref=updated(prepare=None), own=own(S.CLAIMED), lease=lease())
        plan = plan_of(pending, members={"s1": A}, **on(CORDONED))
        assert plan.actions == () and "it could not be started again now: no room" in note_of(plan).why

    def test_the_check_refuses_an_assignment_to_it(self) -> None:
        seen = view(row(ref=job(), own=own(S.VACANT)), members=HOSTS)
        plan = make_plan(seen, Policy(), NOW_S)
        (assign,) = plan.actions
        assert isinstance(assign, Assign)
        seen = replace(seen, **on(replace(CORDONED, supervisor=assign.host.id)))
        assert violations(seen, plan) == (
            f"j: Assign although {assign.host.id} is cordoned by ops@h: new disks",
        )


class TestMove:
    def test_prepares_there_and_the_running_driver_goes_on(self) -> None:
        plan = plan_of(moved())
        (action,) = plan.actions
        assert isinstance(action, Prepare) and action.host.id == "s2"
        assert note_of(plan).why == (
            "it moves to s2: a driver is to be prepared on s2; the running one goes on until it is ready"
        )

    def test_stops_it_when_a_driver_is_ready_there(self) -> None:
        plan = plan_of(moved(), asked=(asked(),), members={"s1": A, "s2": keeps(B)})
        (action,) = plan.actions
        assert isinstance(action, Drain) and action.why == "it moves to s2; a driver is ready on s2"

    def test_a_driver_that_is_ready_elsewhere_is_of_no_use(self) -> None:
        third = replace(B, id="s3")
        plan = plan_of(moved(), asked=(asked("s3"),), members={"s1": A, "s2": B, "s3": keeps(third)})
        assert [type(action) for action in plan.actions] == [Withdraw]

    def test_places_it_there_and_only_once(self) -> None:
        stopped = replace(moved(), own=exited(Cause.STOPPED), lease=None)
        busier = {f"k{n}": row(name=f"k{n}", own=own(S.CLAIMED, f"uk{n}", supervisor="s2")) for n in range(3)}
        (assign,) = [each for each in plan_of(stopped, *busier.values()).actions if isinstance(each, Assign)]
        assert assign.host.id == "s2", "s1 would be less used"
        there = replace(moved(), own=own(S.CLAIMED, supervisor="s2", restart_nonce="n2"))
        plan = plan_of(there)
        assert plan.actions == () and note_of(plan).why == "running as wanted"

    @pytest.mark.parametrize(
        ("parts", "why"),
        [
            ({"members": {"s1": A}}, "s2 is not up"),
            ({"members": {"s1": A, "s2": replace(B, distrust="old")}}, "s2 does not trust the registry"),
            (on(replace(CORDONED, supervisor="s2")), "s2 is cordoned by ops@h: new disks"),
            ({"members": {"s1": A, "s2": replace(B, memory=99)}}, "no room: s2 has 0m of 0m free, 0m needed"),
        ],
    )
    def test_it_goes_on_where_it_is_while_the_host_cannot_take_it(
        self, parts: dict[str, Any], why: str
    ) -> None:
        plan = plan_of(moved(), **parts)
        assert plan.actions == ()
        assert note_of(plan).why == f"it goes on, and does not move to s2: {why}"
        assert note_of(plan).moves == ROOM_ELSEWHERE

    def test_a_driver_that_cannot_be_prepared_stops_nothing(self) -> None:
        host = keeps(B, ready=False, why="no Python")
        plan = plan_of(moved(), asked=(asked(),), members={"s1": A, "s2": host})
        assert plan.actions == () and note_of(plan).why.endswith("s2 could prepare no driver: no Python")

    def test_cold_where_none_is_ever_prepared_and_there_is_room(self) -> None:
        (action,) = plan_of(moved(prepare=None)).actions
        assert isinstance(action, Drain) and action.why == "it moves to s2; it starts cold, as its spec says"
        full = {"s1": A, "s2": replace(B, drivers=0)}
        assert plan_of(moved(prepare=None), members=full).actions == ()

    def test_a_later_restart_replaces_it(self) -> None:
        ref = job(prepare=SESSION, restart_nonce="n3", move=MoveRequest(to="s2", nonce="n2", before="n1"))
        plan = plan_of(row(ref=ref, own=own(S.CLAIMED), lease=lease()), members={"s1": A, "s2": B})
        assert "it moves" not in note_of(plan).why

    def test_an_update_that_is_under_way_asks_that_host_first(self) -> None:
        ref = updated(prepare=SESSION)
        request = MoveRequest(to="s3", nonce="n2", before="n1")
        ref = replace(ref, record=replace(ref.record, restart_nonce="n2", move=request))
        pending = row(ref=ref, own=own(S.CLAIMED), lease=lease())
        third = replace(B, id="s3")
        (action,) = plan_of(pending, members={**HOSTS, "s3": third}).actions
        assert isinstance(action, Prepare) and action.host.id == "s3"
        full = plan_of(pending, members={**HOSTS, "s3": replace(third, drivers=0)})
        assert [each.host.id for each in full.actions if isinstance(each, Prepare)] == ["s2"]

    def test_explain_says_what_it_waits_for_and_what_helps(self) -> None:
        seen = view(moved(), members={"s1": A})
        explained = Explainer(seen, Policy(), NOW_S, "s1").job("j")
        assert explained.waits_for is not None and explained.waits_for.kind is Await.MOVE
        assert explained.why == "it goes on, and does not move to s2: s2 is not up"
        assert [each.command for each in explained.remedies] == [None, "spark-supervisor suspend j"]


class TestDrain:
    def test_prepares_elsewhere_for_as_many_as_may_be_under_way(self) -> None:
        plan = plan_of(*map(running, "abc"), **on(DRAINED))
        assert of(plan, Prepare) == ["a", "b"] and of(plan, Drain) == []
        assert all(action.host.id == "s2" for action in plan.actions if isinstance(action, Prepare))
        assert note_of(plan, "a").prepares == "s2" and note_of(plan, "c").moves == "its turn"
        assert note_of(plan, "c").why == "s1 is drained: its turn comes when a, b run elsewhere"

    def test_stops_those_whose_driver_is_ready(self) -> None:
        host, requests = ready_for("b")
        plan = plan_of(*map(running, "abc"), asked=requests, members={"s1": A, "s2": host}, **on(DRAINED))
        assert (of(plan, Drain), of(plan, Prepare)) == (["b"], ["a"])
        assert "s1 is drained; a driver is ready on s2" in [action.why for action in plan.actions]

    @pytest.mark.parametrize("phase", [None, *sorted(set(Phase) - {Phase.RUNNING, Phase.STOPPING})])
    def test_a_job_that_left_and_does_not_run_yet_keeps_its_place(self, phase: Phase | None) -> None:
        one = replace(DRAINED, max_parallel=1)
        plan = plan_of(running("a"), arrived("z", phase), **on(one))
        assert of(plan, Prepare) == of(plan, Drain) == []
        assert note_of(plan, "a").why == "s1 is drained: its turn comes when z runs elsewhere"

    def test_the_next_goes_when_it_runs(self) -> None:
        one = replace(DRAINED, max_parallel=1)
        assert of(plan_of(running("a"), arrived("z", Phase.RUNNING), **on(one)), Prepare) == ["a"]

    @pytest.mark.parametrize(
        ("state", "changes", "waits"),
        [
            (S.DRAINING, {}, True),
            (S.EXITED, {"cause": Cause.STOPPED}, True),
            (S.EXITED, {"cause": Cause.USER_ERROR}, False),
            (S.EXITED, {"cause": Cause.USER_ERROR, "supervisor": "s2", "moved_by": "d1"}, True),
            (S.EXITED, {"cause": Cause.USER_ERROR, "supervisor": "s2", "moved_by": "d0"}, False),
            (
                S.EXITED,
                {"cause": Cause.NO_SPARK, "supervisor": "s2", "moved_by": "d1", "permanent": True},
                True,
            ),
            (S.REVOKED, {"supervisor": "s2", "moved_by": "d1"}, True),
            (S.DRAINING, {"supervisor": "s2", "moved_by": "d1"}, False),
        ],
    )
    def test_what_counts_as_under_way(self, state: OwnState, changes: dict[str, Any], waits: bool) -> None:
        other = row(name="z", ref=job("z", "u-z"), own=own(state, "u-z", **changes), lease=None)
        plan = plan_of(running("a"), other, **on(replace(DRAINED, max_parallel=1)))
        assert of(plan, Prepare) == ([] if waits else ["a"])

    def test_a_suspended_job_does_not_count(self) -> None:
        other = row(name="z", ref=job("z", "u-z", Desired.SUSPENDED), own=own(S.DRAINING, "u-z"))
        assert of(plan_of(running("a"), other, **on(replace(DRAINED, max_parallel=1))), Prepare) == ["a"]

    def test_a_job_without_room_elsewhere_goes_on_and_does_not_hold_up_the_others(self) -> None:
        members = {"s1": A, "s2": replace(B, memory=150)}
        big = running("a", memory=500)
        plan = plan_of(big, running("b"), members=members, **on(replace(DRAINED, max_parallel=1)))
        assert (of(plan, Prepare), of(plan, Drain)) == (["b"], [])
        assert note_of(plan, "a").moves == ROOM_ELSEWHERE
        assert note_of(plan, "a").why.startswith(
            "s1 is drained, but it goes on there: no room: s2 has 0m of 0m"
        )

    def test_the_only_host_keeps_all_its_jobs(self) -> None:
        plan = plan_of(running("a"), running("b", prepare=None), members={"s1": A}, **on(DRAINED))
        assert plan.actions == ()
        why = f"s1 is drained, but it goes on there: no room: no other host that takes jobs is up ({SAID})"
        assert {note.why for note in plan.notes} == {why}

    def test_cold_drivers_are_stopped_only_for_as_much_room_as_there_is(self) -> None:
        rows = [running(name, prepare=None) for name in "abc"]
        members = {"s1": A, "s2": replace(B, memory=250, starting=9)}
        plan = plan_of(*rows, members=members, **on(replace(DRAINED, max_parallel=9)))
        assert of(plan, Drain) == ["a", "b"]
        assert note_of(plan, "c").moves == ROOM_ELSEWHERE

    def test_room_that_is_given_to_a_start_is_not_given_to_a_move_too(self) -> None:
        start = row(name="z", ref=job("z", "u-z"), own=own(S.VACANT, "u-z"))
        members = {"s1": A, "s2": replace(B, memory=150)}
        for rows, members_now in (((running("a", prepare=None), start), members),):
            plan = plan_of(*rows, members=members_now, **on(DRAINED))
            assert (of(plan, Assign), of(plan, Drain)) == (["z"], [])

    def test_a_ready_driver_whose_room_is_given_to_a_start_stops_nothing(self) -> None:
        host, requests = ready_for("a", host=replace(B, memory=150))
        start = row(name="z", ref=job("z", "u-z"), own=own(S.VACANT, "u-z"))
        plan = plan_of(running("a"), start, asked=requests, members={"s1": A, "s2": host}, **on(DRAINED))
        assert (of(plan, Assign), of(plan, Drain)) == (["z"], [])

    def test_a_driver_that_cannot_be_prepared_stops_nothing_and_its_request_stays(self) -> None:
        host = replace(
            B,
            prepared=(PreparedDriver(uid="u-a", revision=1, level=SESSION, sha256="0", why="no Python"),),
        )
        plan = plan_of(
            running("a"),
            running("b"),
            asked=(asked(name="a", uid="u-a"),),
            members={"s1": A, "s2": host},
            **on(replace(DRAINED, max_parallel=1)),
        )
        assert (of(plan, Drain), of(plan, Withdraw), of(plan, Prepare)) == ([], [], ["b"])
        assert note_of(plan, "a").why.endswith("s2 could prepare no driver: no Python")

    def test_waits_while_starts_are_held_and_while_the_epoch_is_not_recorded(self) -> None:
        for parts in ({"recorded": False}, {"paused": True}):
            assert of(plan_of(running(prepare=None), **parts, **on(DRAINED)), Drain) == []

    def test_a_job_whose_move_cannot_be_made_is_drained_like_any_other(self) -> None:
        plan = plan_of(moved("s3", prepare=None), **on(DRAINED))
        assert of(plan, Drain) == ["j"]

    def test_a_job_that_somebody_moves_is_stopped_once_and_counts(self) -> None:
        plan = plan_of(
            moved(prepare=None), running("k", prepare=None), **on(replace(DRAINED, max_parallel=1))
        )
        assert of(plan, Drain) == ["j"]
        assert note_of(plan, "k").why == "s1 is drained: its turn comes when j runs elsewhere"

    def test_a_silent_attempt_is_revoked_and_not_drained(self) -> None:
        silent = replace(running(), lease=lease(silent_s=1000.0))
        assert [type(action).__name__ for action in plan_of(silent, **on(DRAINED)).actions] == ["Revoke"]

    def test_two_hosts_at_once(self) -> None:
        third = replace(B, id="s3")
        other = replace(running("b", prepare=None), own=own(S.CLAIMED, "u-b", supervisor="s2"))
        plan = plan_of(
            running("a", prepare=None),
            other,
            members={**HOSTS, "s3": third},
            **on(DRAINED, replace(DRAINED, supervisor="s2", drain="d2")),
        )
        assert of(plan, Drain) == ["a", "b"]


class TestAssignAfterADrain:
    def assigned(self, held: Found[Ownership], *cordons: Cordon) -> Ownership:
        seen = view(row(ref=job(), own=held), members=HOSTS, **on(*cordons))
        (action,) = [each for each in make_plan(seen, Policy(), NOW_S).actions if isinstance(each, Assign)]
        context = LeaderWriteContext(LAYOUT, 4, 11, "op-1", "now")
        tx = leader_writes.assign(
            context,
            Assign("j", "w", action.ref, action.own, action.host, FRESH, None, moved_by=action.moved_by),
        )
        return written(tx)

    def test_remembers_by_which_drain_it_left(self) -> None:
        assert self.assigned(exited(Cause.STOPPED), DRAINED).moved_by == "d1"

    @pytest.mark.parametrize("held", [exited(Cause.USER_ERROR, failures=0), own(S.VACANT)])
    def test_not_what_was_not_stopped_for_it(self, held: Found[Ownership]) -> None:
        seen = view(row(ref=job(), own=held, own_seen_at_s=0.0), members=HOSTS, **on(DRAINED))
        (action,) = [each for each in make_plan(seen, Policy(), NOW_S).actions if isinstance(each, Assign)]
        assert action.moved_by == ""

    def test_stays_of_it_until_it_has_run(self) -> None:
        lost = exited(Cause.PREPARED_LOST, supervisor="s2", moved_by="d1")
        assert self.assigned(lost, DRAINED).moved_by == "d1"
        assert self.assigned(exited(Cause.STOPPED, supervisor="s2", moved_by="d1"), DRAINED).moved_by == ""

    def test_not_after_a_mere_cordon(self) -> None:
        assert self.assigned(exited(Cause.STOPPED), CORDONED).moved_by == ""


def written(tx: Transaction) -> Ownership:
    (data,) = [op.data for op in tx.ops if isinstance(op, SetData) and op.path == LAYOUT.own("j")]
    return decode(Ownership, data, "own")


class Fleet:
    """Carries plans out: what the leader's writes and the hosts make of them, a step at a time, on three hosts."""

    def __init__(self, jobs: int, per_host: int) -> None:
        self.hosts = {f"s{n}": replace(A, id=f"s{n}", drivers=per_host, memory=100_000) for n in (1, 2, 3)}
        self.rows = {}
        for n in range(jobs):
            name = f"j{n:02d}"
            host = f"s{n % 3 + 1}"
            self.rows[name] = replace(running(name), own=own(S.CLAIMED, f"u-{name}", supervisor=host))
        self.cordons: dict[str, Found[Cordon] | Unreadable] = {}
        self.asked: dict[str, SeenPreparation] = {}
        self.stopped: list[str] = []
        self.cold: list[str] = []

    def view(self) -> View:
        members = dict(self.hosts)
        for request in self.asked.values():
            assert isinstance(request.seen, Found)
            members[request.supervisor] = keeps(members[request.supervisor], uid=request.seen.record.uid)
        return view(
            *self.rows.values(),
            members=members,
            cordons=self.cordons,
            preparations=tuple(self.asked.values()),
        )

    def step(self) -> bool:
        """One pass of the leader, all of it carried out; then every driver is a step further. Returns whether it did anything."""
        seen = self.view()
        plan = make_plan(seen, Policy(), NOW_S)
        assert violations(seen, plan) == ()
        self.judge()
        before = dict(self.rows)
        for action in plan.actions:
            self.carry_out(action)
        self.advance(before)
        return bool(plan.actions) or self.rows != before

    def carry_out(self, action: Action) -> None:
        name, here = action.name, self.rows.get(action.name)
        match action:
            case Prepare(host=host):
                request = asked(host.id, name=name, uid=f"u-{name}")
                self.asked[request.path] = request
            case Withdraw(path=path):
                del self.asked[path]
            case Drain():
                assert here is not None and isinstance(here.own, Found)
                self.stopped.append(name)
                self.rows[name] = replace(here, own=Found(replace(here.own.record, state=S.DRAINING), 8))
            case Assign(host=host, prepared=prepared, moved_by=moved_by):
                assert here is not None and isinstance(here.own, Found)
                self.cold += [] if prepared else [name]
                record = replace(
                    here.own.record, state=S.ASSIGNED, supervisor=host.id, moved_by=moved_by, cause=None
                )
                self.rows[name] = replace(here, own=Found(record, 9), lease=None)
                for path, request in list(self.asked.items()):
                    if prepared and request.supervisor == host.id and path.endswith(f"u-{name}.1"):
                        del self.asked[path]
            case _:
                raise AssertionError(action)

    def advance(self, before: dict[str, Row]) -> None:
        for name, here in before.items():
            if self.rows[name] is not here:
                continue
            assert isinstance(here.own, Found)
            record, changed = here.own.record, None
            if record.state is S.DRAINING:
                changed = replace(record, state=S.EXITED, cause=Cause.STOPPED)
                self.rows[name] = replace(here, own=Found(changed, 10), lease=None)
            elif record.state is S.ASSIGNED:
                changed = replace(record, state=S.CLAIMED)
                self.rows[name] = replace(
                    here, own=Found(changed, 11), lease=lease(phase=Phase.QUERY, uid=record.uid, name=name)
                )
            elif here.lease is not None and isinstance(here.lease.seen, Found):
                found: Lease = here.lease.seen.record
                if found.phase is not Phase.RUNNING:
                    self.rows[name] = replace(here, lease=lease(uid=record.uid, name=name))

    def judge(self) -> None:
        """At most ``max_parallel`` jobs do not run, and nothing is placed where it must not be."""
        away = [name for name, here in self.rows.items() if not self.runs(here)]
        parallel = [c.record.max_parallel for c in self.cordons.values() if isinstance(c, Found)]
        assert len(away) <= max(parallel, default=0), away

    @staticmethod
    def runs(here: Row) -> bool:
        held = here.lease is not None and isinstance(here.lease.seen, Found)
        assert isinstance(here.own, Found)
        return here.own.record.state is S.CLAIMED and held and here.lease.seen.record.phase is Phase.RUNNING  # type: ignore[union-attr]

    def on(self, host: str) -> list[str]:
        return [
            n for n, r in self.rows.items() if isinstance(r.own, Found) and r.own.record.supervisor == host
        ]

    def rest(self) -> None:
        for _ in range(500):
            if not self.step():
                return
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("parallel", [1, 2, 3, 12])
def test_three_hosts_in_turn_by_hand_overs_only(parallel: int) -> None:
    """Twelve jobs, three hosts: each is drained, empty at rest, and uncordoned. Every job is stopped once for each drain of its
    host, none starts cold, and never are more under way than may be."""
    fleet = Fleet(12, 8)
    for host in ("s1", "s2", "s3"):
        here = fleet.on(host)
        drain = replace(DRAINED, supervisor=host, drain=f"d-{host}", max_parallel=parallel)
        fleet.cordons[host] = Found(drain, 0)
        fleet.stopped.clear()
        fleet.rest()
        assert fleet.on(host) == [] and sorted(fleet.stopped) == sorted(here)
        fleet.cordons[host] = Found(replace(drain, cordoned=False), 1)
        fleet.rest()
    assert fleet.cold == [] and fleet.asked == {}


def test_as_many_jobs_stay_as_find_no_room() -> None:
    fleet = Fleet(12, 5)
    fleet.cordons["s1"] = Found(DRAINED, 0)
    fleet.rest()
    assert len(fleet.on("s1")) == 2 and len(fleet.stopped) == 2
    explained = Explainer(fleet.view(), Policy(), NOW_S, "s2")
    held: Iterable[str] = fleet.on("s1")
    for name in held:
        said = explained.job(name)
        assert said.waits_for is not None and said.waits_for.text == ROOM_ELSEWHERE
        assert "no room: s2 has all its 5 drivers; s3 has all its 5 drivers" in said.why


def test_a_drain_looks_at_the_jobs_of_its_own_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of hosts that are gone for good may stay: a plan must not look at every job for each of them."""
    looked: list[str] = []

    def is_under_way(one: Row, cordon: Cordon) -> bool:
        looked.append(one.name)
        return under_way(one, cordon)

    under_way = moves.is_under_way
    monkeypatch.setattr(moves, "is_under_way", is_under_way)
    gone = [replace(DRAINED, supervisor=f"gone{n}", op=f"g{n}", drain=f"g{n}") for n in range(9)]
    rows = [running(), arrived("a", Phase.BEGUN), running("b")]
    plan_of(*rows, **on(DRAINED, *gone))
    assert sorted(looked) == ["a", "b", "j"]


@pytest.mark.parametrize("asked_for", ["update", "restart"])
def test_nothing_is_stopped_for_a_host_with_its_labels_that_is_cordoned(asked_for: str) -> None:
    """Its present host lacks the label that it requires now, and the only one that has it takes nothing new."""
    terms = {"prepare": None, "placement": PlacementPolicy(require=("gpu=1",))}
    ref = updated(**terms) if asked_for == "update" else job(restart_nonce="n2", **terms)
    runs = row(ref=ref, own=own(S.CLAIMED), lease=lease())
    members = {"s1": A, "s2": replace(B, labels=("gpu=1",))}
    plan = plan_of(runs, members=members, **on(replace(CORDONED, supervisor="s2")))
    assert plan.actions == ()
    note = note_of(plan)
    assert note.unplaceable and "no host has gpu=1 (s2 is cordoned by ops@h: new disks)" in note.why
    assert of(plan_of(runs, members=members), Drain) == ["j"]
