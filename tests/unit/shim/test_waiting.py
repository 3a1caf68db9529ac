"""A driver that has no executor: neither time-out of ``health`` ends it, ``cluster_timeout`` does, and the lease says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisor.model.executors import NOTHING_THERE
from supervisor.model.launch import Launch
from supervisor.model.records import Cause, Lease, Phase, Progress
from supervisor.records.codec import decode
from supervisor.shim import driver, health, waiting
from supervisor.shim.reports import parse
from supervisor.shim.state import (
    Executed,
    Life,
    Order,
    Reported,
    Stage,
    StopAsked,
    Terminate,
    WriteLog,
)
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
        if event == "cluster":
            one = Reported(event, error=count)
        elif count:
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


def test_executors_that_come_and_go_again_end_no_wait_but_those_that_stay_do() -> None:
    flaps = tuple((executors(at_s // 5 % 2), float(at_s)) for at_s in range(20, 1021, 5))
    assert cause((*UP, *flaps), LIMITED, 1020.0) is Cause.CLUSTER_TIMED_OUT
    assert cause((*UP, *flaps[:-1]), LIMITED, 1020.0) is None, "it has one now"
    verdict = health.overdue(life(*UP, *flaps), LIMITED, 0.0, 1020.0)
    assert verdict is not None
    assert verdict[1] == "cluster prod gave it no executor that stayed for 1000 s"
    stayed = (*UP, *without(15, 500), *((executors(1), 505.0 + at_s) for at_s in range(0, 70, 10)))
    assert cause((*stayed, *without(580, 1200)), LIMITED, 1200.0) is None
    assert cause((*stayed, *without(580, 1580)), LIMITED, 1580.0) is Cause.CLUSTER_TIMED_OUT


def test_a_job_that_commits_batches_is_not_ended_for_its_executors() -> None:
    batches = tuple(("progress", at_s + 10.0) for at_s in range(15, 3000, 20))
    signs = sorted((*UP, *without(15, 3000), *batches), key=lambda sign: sign[1])
    assert cause(tuple(signs), LIMITED, 3001.0) is None


def test_a_driver_whose_only_query_has_ended_does_not_stall_while_it_has_no_executor() -> None:
    ended = (*UP, (executors(1), 15.0), ("progress", 20.0), ("terminated", 21.0))
    assert cause(ended, ON_CLUSTER, 82.0) is Cause.STALLED
    assert cause((*ended, *without(25, 500)), ON_CLUSTER, 500.0) is None


def test_what_the_lease_says_of_it() -> None:
    waits = life(*UP, *without(15, 100))
    assert waiting.record_of_wait(life(*UP, (executors(0), 15.0)), ON_CLUSTER, 22.9) is None
    record = waiting.record_of_wait(waits, ON_CLUSTER, 100.0)
    assert record is not None
    assert (record.cluster, record.since, record.application, record.says) == ("prod", "t15", "app-1", "")
    said = health.after_report(waits, Reported("cluster", error="no worker is alive"), 101.0)
    record = waiting.record_of_wait(said, ON_CLUSTER, 102.0)
    assert record is not None and record.says == "no worker is alive"
    has_one = health.after_report(said, Reported("executors", executors=1), 103.0)
    assert waiting.record_of_wait(has_one, ON_CLUSTER, 103.0) is None
    again = health.after_report(has_one, Reported("executors", executors=0, at="t110"), 110.0)
    assert waiting.record_of_wait(again, ON_CLUSTER, 117.0) is None, "it may be one that begins"
    record = waiting.record_of_wait(again, ON_CLUSTER, 118.0)
    assert record is not None and (record.since, record.says) == ("t110", "")


def test_a_context_that_waits_for_the_cluster_is_not_taken_for_a_job_without_queries() -> None:
    """On YARN the SparkContext itself waits, between begun and session."""
    waits = (("begun", 2.0), *without(7, 2000))
    assert health.phase_of(life(*waits), ON_CLUSTER, 0.0, 2000.0) is Phase.BEGUN
    assert health.phase_of(life(("begun", 2.0)), ON_CLUSTER, 0.0, 2000.0) is Phase.RUNNING
    up = (*waits, ("session", 2003.0), (executors(1), 2004.0))
    assert health.phase_of(life(*up), ON_CLUSTER, 0.0, 2010.0) is Phase.SESSION
    assert cause(up, ON_CLUSTER, 2296.0) is None


def says_of_cluster(from_s: int, to_s: int, word: str) -> tuple[tuple[str, float], ...]:
    return tuple((f"cluster {word}", float(at_s)) for at_s in range(from_s, to_s + 1, 10))


def in_order(*signs: tuple[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(signs, key=lambda sign: sign[1]))


def test_a_driver_that_hangs_while_its_context_is_made_is_ended_though_it_says_that_it_has_no_executor() -> (
    None
):
    hangs = (("begun", 2.0), *without(7, 600))
    assert cause(hangs, ON_CLUSTER, 600.0) is None
    assert cause((*hangs, (executors(0), 605.0)), ON_CLUSTER, 608.0) is Cause.START_TIMED_OUT
    idle = (("begun", 2.0), *without(7, 60))
    assert cause(idle, ON_CLUSTER, 5000.0) is None, "it has given up making one, and runs without"


def test_an_application_that_waits_in_the_queue_of_its_cluster_does_not_hang() -> None:
    waits = (("begun", 2.0), *without(7, 3000))
    queued = in_order(*waits, *says_of_cluster(20, 3000, "full"))
    assert cause(queued, ON_CLUSTER, 3000.0) is None
    taken_on = in_order(*without(3005, 3300), *says_of_cluster(3010, 3300, ""))
    assert cause((*queued, *taken_on), ON_CLUSTER, 3300.0) is None, "it starts there, and may take its time"
    later = in_order(*without(3305, 3365), *says_of_cluster(3310, 3365, ""))
    assert cause((*queued, *taken_on, *later), ON_CLUSTER, 3365.0) is Cause.START_TIMED_OUT
    nothing = in_order(*waits, *says_of_cluster(20, 3000, NOTHING_THERE))
    assert cause(nothing, ON_CLUSTER, 3000.0) is Cause.START_TIMED_OUT, "it never came to the queue"


@pytest.mark.parametrize(
    ("counted", "every_s"), [(None, 5.0), (0, 5.0), (2, 10.0)], ids=["unknown", "none", "some"]
)
def test_how_often_executors_are_counted(counted: int | None, every_s: float) -> None:
    assert waiting.count_every_s(Life(executors=counted), ON_CLUSTER) == every_s
    quick = replace(ON_CLUSTER, stall_timeout_s=4.0)
    assert waiting.count_every_s(Life(executors=counted), quick) == 1.0
    limited = replace(ON_CLUSTER, cluster_timeout_s=2.0)
    assert waiting.count_every_s(Life(executors=counted), limited) == 2.0


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


def published(world: ShimWorld) -> list[str]:
    """What the shim's log says of waits."""
    events = [effect.event for effect in world.effects if isinstance(effect, WriteLog)]
    return [event for event in events if event in ("shim_waits_for_cluster", "shim_has_executors")]


def report_count(world: ShimWorld, count: int) -> None:
    world.deliver(Reported("executors", executors=count, id="app-1", at=f"t{world.now_s:g}"))


def waits_for(world: ShimWorld, seconds: int) -> None:
    """The driver says every five seconds that it has none."""
    for _ in range(0, seconds, 5):
        report_count(world, 0)
        world.run(5.0)


def test_the_shim_counts_from_the_session_on_and_publishes_what_it_hears() -> None:
    world = starting(LIMITED)
    world.run(20.0)
    assert Order("executors") not in world.effects, "there is nobody to ask"
    world.deliver(Reported("session"))
    world.run(1.0)
    assert Order("executors") in world.effects
    waits_for(world, 10)
    wait = lease_of(world).cluster_wait
    assert wait is not None and (wait.cluster, wait.application) == ("prod", "app-1")
    assert published(world) == ["shim_waits_for_cluster"]
    report_count(world, 1)
    world.run(6.0)
    assert lease_of(world).cluster_wait is None
    assert published(world) == ["shim_waits_for_cluster", "shim_has_executors"]


def test_a_start_whose_executors_come_a_moment_after_the_session_tells_nothing() -> None:
    world = starting(replace(ON_CLUSTER, lease_s=300.0))
    world.deliver(Reported("session"))
    world.run(1.0)
    renewals = lease_of(world).renewals
    report_count(world, 0)
    world.run(5.0)
    report_count(world, 1)
    world.run(1.0)
    assert published(world) == []
    assert lease_of(world).renewals == renewals


def test_an_end_that_comes_right_after_other_news_is_told_as_soon_as_there_may_be_news_again() -> None:
    world = running(ON_CLUSTER)
    waits_for(world, 15)
    world.deliver(Reported("cluster", error="no worker is alive"))
    world.run(0.1)
    wait = lease_of(world).cluster_wait
    assert wait is not None and wait.says == "no worker is alive"
    report_count(world, 2)
    world.run(0.1)
    assert lease_of(world).cluster_wait is not None, "it was told something a moment ago"
    world.run(driver.NEWS_PAUSE_S)
    assert lease_of(world).cluster_wait is None
    assert published(world) == ["shim_waits_for_cluster", "shim_has_executors"]


def test_the_end_of_the_belief_is_told_like_any_other() -> None:
    world = running(replace(ON_CLUSTER, lease_s=300.0, stall_timeout_s=600.0))
    waits_for(world, 10)
    assert lease_of(world).cluster_wait is not None
    world.run(waiting.UNHEARD_S - 4.0)
    assert lease_of(world).cluster_wait is None
    assert published(world) == ["shim_waits_for_cluster", "shim_has_executors"]
    says = [effect.why for effect in world.effects if isinstance(effect, WriteLog)][-1]
    assert says == "it has not said for 60 s that it has none; it is judged as any other"


def test_a_driver_that_has_no_executor_gets_sigterm_at_once_when_it_is_to_stop() -> None:
    """It would come to no batch boundary."""
    for count, terminated in ((1, 0), (0, 1)):
        world = running(ON_CLUSTER)
        world.takes_orders = True
        world.deliver(Reported("begun"))
        report_count(world, count)
        world.deliver(StopAsked())
        world.run(1.0)
        assert (world.stage(), world.count(Terminate)) == (Stage.STOPPING, terminated)


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


@pytest.mark.parametrize(
    ("real", "asked", "told"),
    [
        ("local[1]", "spark://127.0.0.1:7999", "local[1]"),
        ("local[2]", "local[2]", ""),
        ("", "local[2]", ""),
        ("local[2]", "", ""),
        ("k8s://https://api:443", "k8s://https://api", ""),
    ],
)
def test_the_lease_says_the_master_of_the_session_if_it_is_not_that_of_the_spec(
    real: str, asked: str, told: str
) -> None:
    """``.master("local")`` in the code beats the spec: the driver runs, and waits for no executor."""
    world = running(replace(ON_CLUSTER, master=asked))
    report = parse(json.dumps({"event": "session", "master": real}).encode())
    assert report is not None
    world.deliver(report)
    world.deliver(Reported("executors", executors=1, id="local-1"))
    world.wait(LAUNCH.lease_s / 3)
    world.run()
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    assert (lease.own_master, lease.cluster_wait) == (told, None)
