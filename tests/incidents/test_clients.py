"""Incidents of ZooKeeper's clients and of Spark, replayed on this code. What happened there is told in README.md beside this file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import supervisor
from supervisor.coord import leadership
from supervisor.coord.leadership import LeadershipState, State
from supervisor.errors import Conflict
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryZoo
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped, running
from tests.waiting import wait_until


@pytest.mark.parametrize("noticed_at_s", [101.0, 109.0])
def test_curator_460_leadership_is_over_a_session_time_after_the_last_answered_request(
    noticed_at_s: float,
) -> None:
    """However late the loss of the connection was noticed."""
    sent_at_s = 100.0
    leads = LeadershipState(State.LEADING, session=1, timeout_s=10.0, epoch=7, fence=7, highest=7, owner=1)
    machine_state, _ = leadership.step(leads, leadership.ElectionTick(noticed_at_s, sent_at_s))
    machine_state, _ = leadership.step(machine_state, leadership.SessionDisconnected())
    assert machine_state.state is State.SUSPENDED
    assert (
        leadership.step(machine_state, leadership.ElectionTick(109.9, sent_at_s))[0].state is State.SUSPENDED
    )
    assert (
        leadership.step(machine_state, leadership.ElectionTick(110.0, sent_at_s))[0].state
        is State.STEPPING_DOWN
    )


def test_curator_644_645_contenders_that_all_come_back_at_once_elect_one_leader(tmp_path: Path) -> None:
    zoo, epochs = bootstrapped(), MemoryEpochs()
    rigs = [Rig(zoo, epochs, tmp_path / name, name) for name in "abc"]
    with running(*rigs):
        wait_until(lambda: settled(rigs) and newest(rigs), 20, "one leader, and its term")
        before = newest(rigs)
        for rig in rigs:
            zoo.disconnect(rig.client)
            zoo.expire(rig.client)
        for rig in rigs:
            zoo.reconnect(rig.client)
        wait_until(lambda: newest(rigs) > before and settled(rigs), 20, "one leader, elected anew")
        done, beats = len(zoo.log), [rig.beats for rig in rigs]
        wait_until(
            lambda: all(rig.beats > seen + 5 for rig, seen in zip(rigs, beats, strict=True)),
            20,
            "all to go on looking",
        )
        assert not [tx for _, tx in zoo.log[done:] if any(op.path == PATHS.leader for op in tx.ops)]


def settled(rigs: list[Rig]) -> bool:
    states = [rig.contender.report().state for rig in rigs]
    return sorted(states) == sorted([State.LEADING, State.FOLLOWING, State.FOLLOWING])


def newest(rigs: list[Rig]) -> int:
    return max((term.epoch for rig in rigs for term in rig.terms), default=0)


def test_kazoo_42_an_ensemble_that_comes_back_empty_is_led_by_nobody_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    zoo = bootstrapped()
    rig = Rig(zoo, MemoryEpochs(), tmp_path / "a")
    with running(rig):
        rig.leads()
        zoo.restore(MemoryZoo().snapshot(), zoo.zxid + 1)
        zoo.expire(rig.client)
        rig.waits_in(State.FOLLOWING)
        wait_until(lambda: rig.contender.report().alarm, 20, "an alarm")
        assert len(rig.terms) == 1
    assert zoo.tree() == {}


def test_kazoo_m4_none_of_its_recipes_is_used() -> None:
    recipes = re.compile(
        r"kazoo\.recipe|\b(Election|NonBlockingLease|Semaphore|ChildrenWatch|DataWatch)\(|client\.(Lock|Lease|Party)\("
    )
    sources = sorted(Path(supervisor.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    assert [
        path.name for path in sources if "kazoo" in (text := path.read_text()) and recipes.search(text)
    ] == []


@pytest.mark.parametrize("place", ["s3://bkt/x", "s3://bkt/x/", "s3://bkt/x/y"])
def test_spark_26425_two_jobs_never_have_one_checkpoint(place: str) -> None:
    bench = Bench()
    bench.submit("a", checkpoint="s3://bkt/x")
    with pytest.raises(Conflict, match="belongs to job a"):
        bench.submit("b", checkpoint=place)
    assert not bench.has(bench.layout.job("b"))
