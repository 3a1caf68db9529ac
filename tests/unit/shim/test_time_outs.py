"""Which of the two time-outs judges an application, and from when on (REFERENCE.md: ``health``)."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from supervisor.model.launch import CHECKPOINT, Launch
from supervisor.model.records import Cause, Phase, Progress
from supervisor.shim import health, queries
from supervisor.shim.state import Life, Reported
from tests.unit.shim.world import LAUNCH

QUICK_TO_STALL: Launch = replace(LAUNCH, start_timeout_s=300.0, stall_timeout_s=10.0)


def life(*signs: tuple[str, float]) -> Life:
    """``signs``: event and when it came; exec was at 0."""
    made = Life()
    for event, at_s in signs:
        made = health.after_report(
            made, Reported(event, progress=Progress(query="q", batch_id=0), query="q", id="1"), at_s
        )
    return made


@pytest.mark.parametrize(
    ("signs", "at_s", "cause"),
    [
        ((), 299.0, None),
        ((), 300.0, Cause.START_TIMED_OUT),
        ((("waiting", 2.0),), 299.0, None),
        ((("waiting", 2.0),), 300.0, Cause.NO_ACCESS),
        ((("waiting", 2.0), ("begun", 200.0), ("session", 201.0)), 499.0, None),
        ((("waiting", 2.0), ("begun", 200.0), ("session", 201.0)), 500.0, Cause.START_TIMED_OUT),
        ((("begun", 1.0),), 1e6, None),
        ((("begun", 1.0), ("session", 2.0)), 299.0, None),
        ((("begun", 1.0), ("session", 2.0)), 300.0, Cause.START_TIMED_OUT),
        ((("begun", 1.0), ("session", 280.0), ("query", 292.0)), 299.0, None),  # a slow start
        ((("begun", 1.0), ("session", 280.0), ("query", 292.0)), 300.0, Cause.START_TIMED_OUT),
        # also if the first batch is
        ((("begun", 1.0), ("session", 2.0), ("query", 3.0)), 299.0, None),
        ((("query", 3.0), ("progress", 290.0)), 299.9, None),
        ((("query", 3.0), ("progress", 290.0)), 300.0, Cause.STALLED),
        ((("query", 3.0), ("idle", 20.0)), 29.9, None),
        ((("query", 3.0), ("idle", 20.0)), 30.0, Cause.STALLED),
        ((("query", 3.0), ("progress", 5.0), ("working", 14.0)), 23.9, None),
        ((("query", 3.0), ("progress", 5.0), ("working", 14.0)), 24.0, Cause.STALLED),
    ],
)
def test_who_judges(signs: tuple[tuple[str, float], ...], at_s: float, cause: Cause | None) -> None:
    verdict = health.overdue(life(*signs), QUICK_TO_STALL, 0.0, at_s)
    assert (verdict[0] if verdict else None) is cause


SLOW = (("begun", 2.0), ("session", 20.0), ("query", 45.0), ("progress", 97.0))
"""A start on a host of load 20: Spark is up after 18 s, its first batch 52 s after its query."""


def phases(launch: Launch, signs: tuple[tuple[str, float], ...], until_at_s: int) -> list[Phase]:
    """What the phase was at each second, without what repeats."""
    reported = [
        health.phase_of(life(*(sign for sign in signs if sign[1] <= at_s)), launch, 0.0, float(at_s))
        for at_s in range(until_at_s)
    ]
    return [phase for phase, _ in groupby(reported)]


def test_a_slow_start_is_not_running_before_its_first_batch() -> None:
    assert phases(QUICK_TO_STALL, SLOW, 96) == [Phase.CLAIMED, Phase.BEGUN, Phase.SESSION, Phase.QUERY]
    assert phases(QUICK_TO_STALL, SLOW, 400) == [
        Phase.CLAIMED,
        Phase.BEGUN,
        Phase.SESSION,
        Phase.QUERY,
        Phase.RUNNING,
    ]


@pytest.mark.parametrize("late", [(), (("session", 310.0),), (("session", 310.0), ("query", 320.0))])
def test_a_job_without_queries_runs_when_its_start_is_judged_no_more_and_goes_on_running(
    late: tuple[tuple[str, float], ...],
) -> None:
    assert phases(QUICK_TO_STALL, (("begun", 2.0), *late), 400) == [Phase.CLAIMED, Phase.BEGUN, Phase.RUNNING]


def test_a_jvm_application_runs_with_its_first_commit() -> None:
    """Its commit log is all that is to be seen of it; without a checkpoint there is not even that."""
    silent = replace(QUICK_TO_STALL, reports=False)
    seen = replace(silent, env={CHECKPOINT: "file:///ck"})
    assert phases(seen, (("looked", 1.0),), 299) == [Phase.CLAIMED]
    assert phases(seen, (("looked", 1.0), ("progress", 60.0)), 400) == [Phase.CLAIMED, Phase.RUNNING]
    assert phases(seen, (("looked", 1.0),), 400) == [Phase.CLAIMED, Phase.RUNNING]
    assert phases(silent, (), 10) == [Phase.CLAIMED]
    assert phases(silent, (), 12) == [Phase.CLAIMED, Phase.RUNNING]


def triggered(kind: str, interval_s: float, *signs: tuple[str, float]) -> Life:
    made = life(("begun", 1.0), ("session", 2.0), ("query", 40.0))
    made = health.after_report(
        made, Reported("trigger", query="q", id="1", trigger=kind, interval_s=interval_s), 41.0
    )
    for event, at_s in signs:
        made = health.after_report(
            made, Reported(event, progress=Progress(query="q", batch_id=0), query="q", id="1"), at_s
        )
    return made


@pytest.mark.parametrize("kind", ["real_time", "processing", "continuous"])
def test_the_first_batch_may_take_two_intervals_of_its_trigger(kind: str) -> None:
    """Real-time mode commits after five minutes: ``start_timeout: 5m`` would end each attempt before that."""
    made = triggered(kind, 300.0)
    assert health.overdue(made, LAUNCH, 0.0, 639.0) is None
    verdict = health.overdue(made, LAUNCH, 0.0, 640.0)
    assert verdict is not None and verdict[0] is Cause.START_TIMED_OUT
    short = triggered(kind, 1.0)
    assert health.overdue(short, LAUNCH, 0.0, 299.0) is None
    assert health.overdue(short, LAUNCH, 0.0, 300.0) is not None


def test_a_continuous_query_is_asked_often_and_judged_by_its_epochs() -> None:
    made = triggered("continuous", 60.0, ("progress", 100.0))
    assert not queries.is_to_be_probed(made, 600.0, 109.0)
    assert queries.is_to_be_probed(made, 600.0, 110.0)
    assert queries.probe_every_s(made, 600.0) == 10.0
    assert health.overdue(made, QUICK_TO_STALL, 0.0, 219.0) is None, "two intervals"
    verdict = health.overdue(made, QUICK_TO_STALL, 0.0, 220.0)
    assert verdict == (Cause.STALLED, "query q: no epoch was committed for 120 s")
    usual = triggered("processing", 60.0, ("progress", 100.0))
    assert queries.probe_every_s(usual, 600.0) == 100.0
