"""One pass of the leader on an ensemble in memory: what it must not forget, and whose trouble stays whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from supervisor.act.carry_out import ActionExecutor
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader import controller as module
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.model.lease_terms import full_wait_s
from supervisor.model.records import Acceptance, Cleanliness, EpochRecord, Handover, Member, OwnState
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Reads, Transaction
from supervisor.plan.make import Policy
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryClient


class Flaky(MemoryClient):
    """``failing``: so many of the next pipelined reads are not answered."""

    failing = 0

    def read_many(self, paths: Sequence[str]) -> Reads:
        if self.failing > 0:
            self.failing -= 1
            raise Unreachable("no answer")
        return super().read_many(paths)


class Rig:
    def __init__(self) -> None:
        self.bench = Bench()
        layout = self.bench.layout
        self.bench.put(layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
        self.bench.put(
            layout.supervisor("s1"),
            Member(
                id="s1",
                host="h",
                boot_id="b",
                address="",
                memory=10 << 40,
                drivers=10,
                starting=10,
                software="",
                since="",
            ),
        )
        self.bench.zoo.put(layout.assigned_to("s1"), b"")
        self.client = Flaky(self.bench.zoo)
        self.client.start()
        self.nudges = 0
        term: Term[Any] = Term(1, 0, self.client, 1000.0, depose=lambda why: None, nudge=self._nudged)
        term.set_recorded()
        loop = Watchdog(end=lambda code: None).register("test", 60.0)
        recorder = Recorder(Metrics(boottime_s), boottime_s())
        self.controller = Controller(term, layout, Policy(), recorder, loop)

    def _nudged(self) -> None:
        self.nudges += 1

    def run_once(self) -> None:
        """As its loop does."""
        self.controller._handle(self.controller.reconcile_once().view.wish)

    def done(self) -> list[str]:
        """One pass → what was carried out, and about whom."""
        return [
            f"{type(one.action).__name__} {one.action.name}"
            for one in self.controller.reconcile_once().results
        ]


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.done()
    return rig


def test_a_ring_survives_the_pass_that_could_not_read(rig: Rig) -> None:
    rig.bench.submit("a")
    rig.client.failing = 1
    with pytest.raises(Unreachable):
        rig.controller.reconcile_once()
    assert rig.done() == ["Assign a"]


def test_unknown_rings_survive_the_pass_that_could_not_read(rig: Rig) -> None:
    rig.bench.submit("a")
    rig.bench.submit("b")
    rig.client.failing = 1
    with pytest.raises(Unreachable):
        rig.controller.reconcile_once()
    assert sorted(rig.done()) == ["Assign a", "Assign b"]


def test_in_a_crowd_unknown_rings_are_answered_when_their_time_has_come(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REREAD_ALL_BELOW", 0)
    monkeypatch.setattr(module, "CROWDED_FULL_READ_EVERY_S", 1000.0)
    rig.bench.submit("a")
    rig.bench.submit("b")
    assert rig.done() == ["Assign b"]
    assert "Assign a" not in rig.done()
    monkeypatch.setattr(module, "CROWDED_FULL_READ_EVERY_S", 0.0)
    assert "Assign a" in rig.done()


@pytest.mark.parametrize(
    "policy",
    [RestartPolicy(jitter=-1.0), RestartPolicy(jitter=1e300), RestartPolicy(initial_s=-5.0, max_s=-1e308)],
)
def test_a_policy_that_makes_no_sense_troubles_nobody_else(rig: Rig, policy: RestartPolicy) -> None:
    rig.bench.submit("a")
    job = rig.bench.ref("a").record
    rig.bench.exit("a", failures=-(10**400))
    rig.bench.put(rig.bench.layout.job("a"), replace(job, terms=replace(job.terms, restart=policy)))
    rig.bench.submit("b")
    assert "Assign b" in rig.done()


def test_a_reference_beside_its_own_result_stops_nobody_else(rig: Rig) -> None:
    """Read at different moments, around a ``resume`` of a failed job; or put there by hand."""
    rig.bench.submit("a")
    job = rig.bench.ref("a").record
    rig.bench.fail("a")
    rig.bench.put(rig.bench.layout.job("a"), job)
    rig.bench.submit("b")
    done = rig.controller.reconcile_once()
    assert done.broken == ()
    assert [one.action.name for one in done.results] == ["b"]
    assert "a" in rig.controller._observer.in_motion()


def test_who_waits_for_a_place_does_not_hold_an_older_uids_checkpoint(rig: Rig) -> None:
    old = rig.bench.submit("a", checkpoint="s3://bkt/one")
    rig.done()
    rig.bench.commands().cancel("a")
    rig.bench.submit("a", checkpoint="s3://bkt/two")
    rig.bench.zoo.put(rig.bench.layout.supervisor("s1"), b"gone")
    while rig.done():
        pass
    assert rig.bench.own("a").state is OwnState.VACANT
    result = rig.bench.result(old.uid)
    assert result is not None and result.state.value == "clean"
    assert rig.bench.submit("b", checkpoint="s3://bkt/one")


def test_a_reference_that_names_another_job_is_left_alone(rig: Rig) -> None:
    """Copied by hand: what is meant for this name would be done to that one."""
    rig.bench.submit("a")
    rig.bench.submit("b")
    rig.bench.put(rig.bench.layout.job("b"), rig.bench.ref("a").record)
    done = rig.controller.reconcile_once()
    assert [one.action.name for one in done.results] == ["a"]
    assert any("is about 'a'" in alarm.text for alarm in done.plan.alarms)


# -- what an operator asks of the cluster ---------------------------------------------------------------------------


def test_receivers_are_told_of_a_result_before_it_is_cleaned_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that comes to no end is forgotten, but its clean-up may have been carried out."""
    uid = rig.bench.submit("a").uid
    rig.bench.fail("a")
    inbox = rig.controller.notifier_inbox = NotifierInbox()
    executor = rig.controller._executor

    def interrupted(*arguments: object) -> None:
        ActionExecutor.carry_out(executor, *arguments)  # type: ignore[arg-type]
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(executor, "carry_out", interrupted)
    rig.controller._full_at_s = float("-inf")
    with pytest.raises(RuntimeError):
        rig.done()
    result = rig.bench.result(uid)
    assert result is not None and result.state is Cleanliness.CLEAN
    shown = inbox.take()
    assert shown is not None and [each.uid for each in shown.happened] == [uid]


def test_a_paused_cluster_is_left_alone_and_what_is_due_is_done_after_it(rig: Rig) -> None:
    rig.bench.zoo.put(rig.bench.layout.pause, b"")
    rig.bench.submit("a")
    uid = rig.bench.submit("b").uid
    rig.bench.commands().cancel("b")
    before = rig.bench.zoo.tree()
    assert [rig.done() for _ in range(3)] == [[], [], []] and rig.bench.zoo.tree() == before
    rig.bench.zoo.client().commit(Transaction("unpause", "u", (Delete(rig.bench.layout.pause, ANY_VERSION),)))
    assert sorted(rig.done()) == ["Assign a", "CleanUp b"]
    result = rig.bench.result(uid)
    assert result is not None and result.state.value == "clean"


def test_a_pause_that_comes_after_the_plan_was_made_still_holds_it_back(rig: Rig) -> None:
    rig.bench.submit("a")
    rig.client.before_next_commit(lambda: rig.bench.zoo.put(rig.bench.layout.pause, b""))
    (carried,) = rig.controller.reconcile_once().results
    assert carried.outcome.value == "changed" and rig.bench.own("a").state is OwnState.VACANT


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(("epoch", "nudges", "stays"), [(0, 0, False), (1, 1, True), (2, 0, True)])
def test_a_wish_of_this_term_is_passed_on_and_one_of_an_earlier_term_is_done(
    rig: Rig,
    epoch: int,
    nudges: int,
    stays: bool,
    paused: bool,
) -> None:
    if paused:
        rig.bench.zoo.put(rig.bench.layout.pause, b"")
    rig.bench.put(
        rig.bench.layout.switchover, Handover(epoch=epoch, leader="l1", to=None, by="x@y", at="now", op="op")
    )
    rig.run_once()
    assert (rig.nudges, rig.bench.has(rig.bench.layout.switchover)) == (nudges, stays)


def test_a_wish_stays_where_the_registry_is_not_trusted(rig: Rig) -> None:
    rig.controller._term.set_distrust("restored")
    rig.bench.put(
        rig.bench.layout.switchover, Handover(epoch=0, leader="l1", to=None, by="x@y", at="now", op="op")
    )
    rig.run_once()
    assert rig.bench.has(rig.bench.layout.switchover)


def test_the_end_of_the_wait_after_a_restore_is_written_down_once_and_jobs_start(rig: Rig) -> None:
    layout = rig.bench.layout
    rig.bench.put(layout.accepted, Acceptance(id="a1", epoch=1, by="me", at="t", wait_s=full_wait_s(5.0)))
    rig.bench.submit("a")
    rig.controller._full_at_s = float("-inf")
    assert rig.done() == []
    acceptance = rig.controller._observer._accepted
    assert acceptance is not None
    rig.controller._observer._accepted = replace(acceptance, first_seen_at_s=acceptance.first_seen_at_s - 100)
    assert rig.done() == []
    found = rig.bench.record(Acceptance, layout.accepted)
    assert isinstance(found, Found) and found.record.waited
    assert rig.done() == ["Assign a"]
