"""Incidents of Flink's job recovery, replayed on this code. What happened there is told in README.md beside this file.

Leaders and one host are moved by hand, one step at a time, on an ensemble in memory; every step is the product's code.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.coord.leadership import State
from supervisor.model.actions import Assign, CleanUp, Conclude
from supervisor.model.records import Cause, Cleanliness, Outcome, OwnState, Result
from supervisor.model.seen import Found
from supervisor.operations.jobs import Did
from supervisor.plan.make import Policy, make_plan
from supervisor.records.reading import seen
from tests.fakes import zookeeper as fake
from tests.fakes.zookeeper import MemoryZoo
from tests.simulation.test_flink_2354_required import NAME, ScriptedTerm, ScriptedWorld
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped, running
from tests.waiting import wait_until


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedWorld]:
    """One host and one bounded job: it can finish. In the end all comes to rest, and the judge looks."""
    made = ScriptedWorld(bounded=True)
    monkeypatch.setattr(fake, "boottime_s", lambda: made.stage.clock_s)
    yield made
    made.resolve_outcome()
    made.judge()


def finished(world: ScriptedWorld) -> ScriptedTerm:
    """A leads, the job has run and is finished, and nobody has noticed yet."""
    world.submit()
    world.elect("A")
    world.act("A")
    world.start()
    world.end(Cause.FINISHED, 0)
    return world.terms["A"]


def kinds(term: ScriptedTerm) -> list[type]:
    return [type(action) for action in term.actions]


def test_flink_5193_one_job_that_cannot_be_read_keeps_no_other_from_recovering() -> None:
    world = ScriptedWorld()
    stage = world.stage
    for name in ("a", "b", "c"):
        stage.submit(name)
    stage.zoo.put(stage.layout.job("b"), b"\xac\xed\x00\x05 not what it was")
    world.elect("A")
    term = world.terms["A"]
    assert [(type(action), action.name) for action in term.actions] == [(Assign, "a"), (Assign, "c")]
    alarms = make_plan(term.observer.take_view(None), Policy(), stage.clock_s).alarms
    assert any(alarm.job == "b" for alarm in alarms), "it is told whose record it is"
    world.act("A")
    assert {driver.entry.name for driver in world.host.claim_all()} == {"a", "c"}
    assert stage.commands().cancel("b").did is Did.CANCELLED, "and the one can be repaired"


def test_flink_9494_what_was_recovered_under_a_term_that_is_over_starts_nothing(world: ScriptedWorld) -> None:
    world.submit()
    world.elect("A")
    assert kinds(world.terms["A"]) == [Assign]
    world.elect("B")
    assert world.terms["A"].act() is False, "A has read the job, and was not told that it is deposed"
    assert world.terms["B"].act() is True
    world.start()
    assert len(world.alive) == 1


def test_flink_9573_leading_again_revives_nothing_of_an_earlier_term(world: ScriptedWorld) -> None:
    world.submit()
    world.elect("A")
    first = world.terms["A"]
    world.elect("B")
    world.elect("A")
    assert world.terms["A"].epoch > world.terms["B"].epoch > first.epoch
    assert first.act() is False, "A leads, but not by the term that planned this"
    assert world.terms["A"].act() is True


def test_flink_10255_a_standby_owns_nothing_that_a_removal_could_trip_over(tmp_path: Path) -> None:
    zoo, epochs = bootstrapped(), MemoryEpochs()
    leader, standby = Rig(zoo, epochs, tmp_path / "a", "a"), Rig(zoo, epochs, tmp_path / "b", "b")
    with running(leader):
        leader.leads()
        with running(standby):
            standby.waits_in(State.FOLLOWING)
            zoo.put(PATHS.doorbell, b"a-job-is-submitted")
            wait_until(lambda: standby.beats > 3, 10, "the standby to look")
            sessions = {client.session.id for client in standby.clients if client.session is not None}
            assert sessions, "the standby is connected"
            assert not [tx for session, tx in zoo.log if session in sessions], "and has written nothing"


def test_flink_11665_a_late_removal_by_an_earlier_term_does_not_hit_the_next_run(
    world: ScriptedWorld,
) -> None:
    earlier = finished(world)
    earlier.plan()
    assert kinds(earlier) == [Conclude]
    world.elect("A")  # revoked, and granted again at once
    world.act("A")
    world.plan("A")
    late = world.terms["A"]
    assert kinds(late) == [CleanUp]
    world.elect("A")
    world.act("A")
    world.submit()  # the next run, under the same name
    assert earlier.act() is False and late.act() is False
    assert world.stage.registered(NAME)


def test_flink_11813_a_finished_job_is_finished_for_every_leader_that_comes(world: ScriptedWorld) -> None:
    finished(world)
    world.plan("A")
    world.act("A")
    for letter in "BCD":
        world.elect(letter)
        assert Assign not in kinds(world.terms[letter])
        world.act(letter)
        world.start()
        assert world.alive == []
        assert outcome(world) is Outcome.FINISHED


def test_flink_19154_losing_zookeeper_or_stopping_deletes_nothing(tmp_path: Path) -> None:
    zoo, epochs = bootstrapped(), MemoryEpochs()
    for path in ("/t/jobs/j", "/t/own/j", "/t/lease/j", "/t/results/u"):
        zoo.put(path, b"as it was")
    before = records(zoo)
    rig = Rig(zoo, epochs, tmp_path / "a")
    with running(rig):
        rig.leads()
        zoo.disconnect(rig.client)
        rig.waits_in(State.SUSPENDED)
        zoo.reconnect(rig.client)
        rig.waits_in(State.LEADING)
        zoo.expire(rig.client)
        rig.leads(2)
    assert records(zoo) == before, "suspended, lost, stopped: what is registered stays registered"


def records(zoo: MemoryZoo) -> dict[str, bytes]:
    return {path: data for path, data in zoo.tree().items() if data == b"as it was"}


def test_flink_27382_a_leader_that_goes_in_the_middle_of_a_clean_up_leaves_it_to_the_next(
    world: ScriptedWorld,
) -> None:
    finished(world)
    world.plan("A")
    world.act("A")
    world.revoke("A")
    assert result(world).state is Cleanliness.DIRTY, "what is not cleaned says so"
    world.elect("B")
    assert kinds(world.terms["B"]) == [CleanUp]
    world.act("B")
    assert result(world).state is Cleanliness.CLEAN
    assert world.stage.read_znode(world.stage.layout.lease(NAME)) is None
    assert world.stage.state(NAME) is OwnState.VACANT


def test_flink_33500_no_pass_of_the_leader_can_wait_for_the_store() -> None:
    """The command line stores a job. What the leader's loop is made of has no way to the store: it does not even load it."""
    code = "import sys, supervisor.daemon.leader.controller; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "supervisor.plan.make" in loaded and "supervisor.act.carry_out" in loaded
    assert not [
        module
        for module in loaded
        if module.startswith(("supervisor.clients.store", "supervisor.registry.blobs", "boto"))
    ]


def outcome(world: ScriptedWorld) -> Outcome:
    return result(world).outcome


def result(world: ScriptedWorld) -> Result:
    (uid,) = world.submitted
    path = world.stage.layout.result(uid)
    found = seen(Result, world.stage.read_znode(path), path)
    assert isinstance(found, Found)
    return found.record
