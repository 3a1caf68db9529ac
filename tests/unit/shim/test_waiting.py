"""A driver that has no executor: neither time-out of ``health`` ends it, ``cluster_timeout`` does, and the lease says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.launch import Launch
from supervisor.model.records import Cause, Lease, Phase, Progress
from supervisor.records.codec import decode
from supervisor.shim import health, waiting
from supervisor.shim.reports import parse
from supervisor.shim.state import Executed, Life, Order, Reported, WriteLog
from tests.unit.shim.world import LAUNCH, LEASE, ShimWorld, running

ON_CLUSTER: Launch = replace(
    LAUNCH, start_timeout_s=300.0, stall_timeout_s=60.0, executors_outlive_s=90.0, on_cluster="prod"
)
LIMITED: Launch = replace(ON_CLUSTER, cluster_timeout_s=1000.0)
UP = (("begun", 2.0), ("session", 10.0), ("query", 12.0))


def executors(count: int) -> str:
    return f"executors {count}"


def life(*signs: tuple[str, float]) -> Life:
    """``signs``: event and when it came, ``executors N`` with the number of executors; exec was at 0."""
    made = Life()
    for word, at_s in signs:
        event, _, count = word.partition(" ")
        one = Reported(event, progress=Progress(query="q", batch_id=0), query="q", id="1", at=f"t{at_s:g}")
        if count:
            one = replace(one, executors=int(count), id="app-1")
        made = health.after_report(made, one, at_s)
    return made


def without(from_s: int, to_s: int, every_s: int = 5) -> tuple[tuple[str, float], ...]:
    return tuple((executors(0), float(at_s)) for at_s in range(from_s, to_s + 1, every_s))


def cause(signs: tuple[tuple[str, float], ...], launch: Launch, at_s: float) -> Cause | None:
    verdict = health.overdue(life(*signs), launch, 0.0, at_s)
    return verdict[0] if verdict else None


def test_a_start_without_an_executor_is_no_slow_start_and_is_judged_anew_from_the_first_one() -> None:
    waits = (*UP, *without(15, 5000))
    assert cause(waits, ON_CLUSTER, 5000.0) is None
    assert health.phase_of(life(*waits), ON_CLUSTER, 0.0, 5000.0) is Phase.QUERY
    has_one = (*waits, (executors(2), 5005.0))
    assert cause(has_one, ON_CLUSTER, 5299.0) is None
    assert cause(has_one, ON_CLUSTER, 5301.0) is Cause.START_TIMED_OUT


def test_a_running_job_that_loses_all_executors_does_not_stall_until_it_has_one_again() -> None:
    runs = (*UP, (executors(1), 15.0), ("progress", 20.0))
    assert cause(runs, ON_CLUSTER, 80.0) is Cause.STALLED
    lost = (*runs, *without(25, 4000))
    assert cause(lost, ON_CLUSTER, 4030.0) is None
    assert health.phase_of(life(*lost), ON_CLUSTER, 0.0, 4000.0) is Phase.RUNNING
    again = (*lost, (executors(1), 4005.0))
    assert cause(again, ON_CLUSTER, 4059.0) is None
    assert cause(again, ON_CLUSTER, 4061.0) is Cause.STALLED


def test_a_driver_that_does_not_answer_any_more_is_judged_as_any_other() -> None:
    hangs = (*UP, *without(15, 100))
    assert waiting.is_without(life(*hangs), 159.0)
    assert not waiting.is_without(life(*hangs), 160.0)
    assert cause(hangs, ON_CLUSTER, 399.0) is None
    assert cause(hangs, ON_CLUSTER, 400.0) is Cause.START_TIMED_OUT


def test_cluster_timeout_counts_from_when_it_has_been_without_and_says_what_the_cluster_said() -> None:
    waits = (*UP, *without(15, 1010))
    assert cause(waits, LIMITED, 1014.0) is None
    assert cause(waits, LIMITED, 1015.0) is Cause.CLUSTER_TIMED_OUT
    said = health.after_report(life(*waits), Reported("cluster", error="no worker is alive"), 1012.0)
    verdict = health.overdue(said, LIMITED, 0.0, 1015.0)
    assert verdict is not None
    assert verdict[1] == "cluster prod gave it no executor for 1000 s: no worker is alive"
    had_one = (*UP, *without(15, 500), (executors(1), 505.0), *without(510, 1200))
    assert cause(had_one, LIMITED, 1200.0) is None


def test_what_the_lease_says_of_it() -> None:
    waits = life(*UP, *without(15, 100))
    record = waiting.record_of_wait(waits, ON_CLUSTER, 100.0)
    assert record is not None
    assert (record.cluster, record.since, record.application, record.says) == ("prod", "t15", "app-1", "")
    said = health.after_report(waits, Reported("cluster", error="no worker is alive"), 101.0)
    record = waiting.record_of_wait(said, ON_CLUSTER, 102.0)
    assert record is not None and record.says == "no worker is alive"
    has_one = health.after_report(said, Reported("executors", executors=1), 103.0)
    assert waiting.record_of_wait(has_one, ON_CLUSTER, 103.0) is None
    again = health.after_report(has_one, Reported("executors", executors=0, at="t110"), 110.0)
    record = waiting.record_of_wait(again, ON_CLUSTER, 110.0)
    assert record is not None and (record.since, record.says) == ("t110", "")


def test_a_context_that_waits_for_the_cluster_is_not_taken_for_a_job_without_queries() -> None:
    """On YARN the SparkContext itself waits, between begun and session."""
    waits = (("begun", 2.0), *without(7, 2000))
    assert health.phase_of(life(*waits), ON_CLUSTER, 0.0, 2000.0) is Phase.BEGUN
    assert health.phase_of(life(("begun", 2.0)), ON_CLUSTER, 0.0, 2000.0) is Phase.RUNNING
    up = (*waits, ("session", 2003.0), (executors(1), 2004.0))
    assert health.phase_of(life(*up), ON_CLUSTER, 0.0, 2010.0) is Phase.SESSION
    assert cause(up, ON_CLUSTER, 2296.0) is None


@pytest.mark.parametrize(
    ("counted", "every_s"), [(None, 5.0), (0, 5.0), (2, 10.0)], ids=["unknown", "none", "some"]
)
def test_how_often_executors_are_counted(counted: int | None, every_s: float) -> None:
    assert waiting.count_every_s(Life(executors=counted), ON_CLUSTER) == every_s
    quick = replace(ON_CLUSTER, stall_timeout_s=4.0)
    assert waiting.count_every_s(Life(executors=counted), quick) == 1.0


@pytest.mark.parametrize("count", [b"-1", b"true", b'"0"', b"null", b"1e400", b"0.5", b"[]", b"9" * 40])
def test_an_odd_count_says_nothing(count: bytes) -> None:
    report = parse(b'{"event":"executors","id":"app","count":' + count + b"}")
    assert report is not None and report.executors is None
    assert health.after_report(Life(), report, 5.0) == Life()


def starting(launch: Launch) -> ShimWorld:
    """A world in which the driver runs, and has reported nothing."""
    world = ShimWorld(launch)
    world.connect()
    world.run()
    world.deliver(Executed())
    world.run()
    return world


def lease_of(world: ShimWorld) -> Lease:
    return decode(Lease, world.nodes[LEASE].data, LEASE)


def test_the_shim_counts_from_the_session_on_and_publishes_what_it_hears() -> None:
    world = starting(LIMITED)
    world.run(20.0)
    assert Order("executors") not in world.effects, "there is nobody to ask"
    world.deliver(Reported("session"))
    world.run(1.0)
    assert Order("executors") in world.effects
    world.deliver(Reported("executors", executors=0, id="app-1", at="2026-11-26T15:00:00.000Z"))
    world.run(0.1)
    wait = lease_of(world).cluster_wait
    assert wait is not None and (wait.cluster, wait.application) == ("prod", "app-1")
    assert [effect.event for effect in world.effects if isinstance(effect, WriteLog)][
        -1
    ] == "shim_waits_for_cluster"
    world.run(6.0)
    world.deliver(Reported("executors", executors=1, id="app-1"))
    world.run(0.1)
    assert lease_of(world).cluster_wait is None
    assert [effect.event for effect in world.effects if isinstance(effect, WriteLog)][
        -1
    ] == "shim_has_executors"


def test_a_driver_that_says_it_again_and_again_makes_no_more_writes() -> None:
    world = running(ON_CLUSTER)
    world.deliver(Reported("session"))
    world.run(1.0)
    before = world.count(WriteLog), lease_of(world).renewals
    for number in range(1000):
        world.deliver(Reported("executors", executors=number % 2))
        world.run(0.001)
    assert world.count(WriteLog) <= before[0] + 1
    assert lease_of(world).renewals <= before[1] + 2


def test_a_driver_that_holds_no_executors_is_not_counted_and_can_not_wait() -> None:
    world = running(LAUNCH)
    world.deliver(Reported("session"))
    world.deliver(Reported("executors", executors=0))
    world.run(10.0)
    assert Order("executors") not in world.effects
    assert lease_of(world).cluster_wait is None
    assert world.state.life.without_at_s is None


def test_the_wait_is_a_phase_of_the_start_of_its_own() -> None:
    world = starting(ON_CLUSTER)
    world.deliver(Reported("session"))
    for _ in range(10):
        world.wait(5.0)
        world.run(0.1)
        world.deliver(Reported("executors", executors=0))
    world.wait(2.0)
    world.deliver(Reported("executors", executors=1))
    world.deliver(Reported("progress", progress=Progress(query="q", batch_id=0), query="q", id="1"))
    world.run(10.0)
    start = lease_of(world).start
    assert start is not None and start.cluster_s is not None and start.first_batch_s is not None
    assert start.cluster_s >= 45.0
    assert start.first_batch_s <= 5.0
