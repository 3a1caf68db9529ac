"""A large fleet without any other harm: jobs are placed, the leader is killed, a host is lost for good.

What it costs and how long it takes is in simulated time: a host of the simulation is never busy, so these are the times of the
protocol, with the pauses and the caps that it has.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace

from supervisor.model.lease_terms import full_wait_s
from tests.simulation.timed.judge import DriverLife
from tests.simulation.timed.scenario import (
    Behaviour,
    Fault,
    Job,
    PlannedAct,
    RunPlan,
    Step,
    Trouble,
    quiet,
)
from tests.simulation.timed.world import TimedWorld

SUBMITTED_FROM_S, SUBMITS_PER_S = 2.0, 15.0
LEASE_S, GRACE_S = 30.0, 6.0
SETTLED_AT_LEAST_S, EACH_JOB_OF_A_HOST_S = 100.0, 2.0
"""After this all are assumed to run; the greater of both counts."""
AT_REST_S, LED_S, AFTER_LOSS_S = 20.0, 20.0, 180.0
SAMPLE_S = 0.1
RENEWALS = "renew"

Row = tuple[str, str]


class FleetTimes:
    """When all jobs run, when the leader is killed, when a host is lost, and when the run is over, in seconds from its begin."""

    def __init__(self, jobs: int, hosts: int) -> None:
        self.rest_at_s = max(SETTLED_AT_LEAST_S, EACH_JOB_OF_A_HOST_S * jobs / hosts)
        self.killed_at_s = self.rest_at_s + AT_REST_S
        self.lost_at_s = self.killed_at_s + LED_S
        self.over_at_s = self.lost_at_s + AFTER_LOSS_S


def plan_of_fleet(jobs: int, hosts: int, times: FleetTimes) -> RunPlan:
    """Every host has room for half as many again as its share."""
    named = tuple(
        Job(f"j{n}", LEASE_S, GRACE_S, 60.0, True, True, None, "fail", f"s3://bucket/j{n}", Behaviour())
        for n in range(jobs)
    )
    steps = tuple(
        Step(PlannedAct.SUBMIT, SUBMITTED_FROM_S + n / SUBMITS_PER_S, job.name) for n, job in enumerate(named)
    )
    killed = Trouble(Fault.CRASH_SUPERVISOR, times.killed_at_s, 10.0, who=0, which=1)
    lost = Trouble(Fault.CRASH_HOST, times.lost_at_s, 10 * times.over_at_s, who=1, which=0)
    return replace(
        quiet(),
        hosts=hosts,
        drivers=-(-3 * jobs // (2 * hosts)),
        starting=4,
        session_s=6.0,
        until_at_s=times.over_at_s,
        jobs=named,
        steps=steps,
        troubles=(killed, lost),
    )


class FleetRun:
    """``rows`` after ``run``: what, and its figure. ``broken``: what the judge found. A driver of the simulation is now and then
    so late that its attempt is given up: that is a second one of its job."""

    def __init__(self, jobs: int, hosts: int) -> None:
        self.jobs, self.hosts = jobs, hosts
        self.times = FleetTimes(jobs, hosts)
        self.world = TimedWorld(plan_of_fleet(jobs, hosts, self.times))
        self._writes_when: dict[float, Counter[str]] = {}
        self._led_again_at_s = 0.0
        loop = self.world.loop
        for at_s in (self.times.rest_at_s, self.times.killed_at_s):
            loop.after(at_s - 0.5, lambda at_s=at_s: self._note_writes(at_s))  # type: ignore[misc]
        loop.after(self.times.killed_at_s + SAMPLE_S, self._watch_leadership)

    def run(self) -> FleetRun:
        self.world.run()
        return self

    @property
    def broken(self) -> list[str]:
        return self.world.judge.broken

    def _note_writes(self, at_s: float) -> None:
        self._writes_when[at_s] = Counter(self.world.judge.writes)

    def _watch_leadership(self) -> None:
        if self.world.judge.terms > 1:
            self._led_again_at_s = self.world.loop.now_s
        else:
            self.world.loop.after(SAMPLE_S, self._watch_leadership)

    # -- figures ---------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        lives, times = self.world.judge.lives, self.times
        first = [life for life in lives if life.exec_at_s < times.killed_at_s]
        between = [life for life in lives if times.killed_at_s <= life.exec_at_s < times.lost_at_s]
        moved = [life for life in lives if life.exec_at_s >= times.lost_at_s]
        return [*self._placement(first), *self._rest(), *self._takeover(between), *self._loss(first, moved)]

    def _placement(self, first: list[DriverLife]) -> list[Row]:
        submitted = {step.name: step.at_s for step in self.world.plan.steps}
        waits = [life.exec_at_s - submitted[life.name] for life in first]
        hosted = Counter({life.name: life.host for life in first}.values())
        writes = self._writes_when[self.times.rest_at_s]
        other = (writes.total() - writes[RENEWALS]) / self.jobs
        return [
            ("jobs that run once all are submitted", f"{len({life.name for life in first}):,}"),
            (
                "from submit to the driver, median and longest",
                f"{statistics.median(waits):.1f} and {max(waits):.1f} s",
            ),
            (
                "jobs of the host that has fewest and most",
                f"{min(hosted.values())} and {max(hosted.values())}",
            ),
            ("ZooKeeper writes for each job until it runs, but for renewals", f"{other:.1f}"),
        ]

    def _rest(self) -> list[Row]:
        spent = self._writes_when[self.times.killed_at_s] - self._writes_when[self.times.rest_at_s]
        rest_s = self.times.killed_at_s - self.times.rest_at_s
        others = (spent.total() - spent[RENEWALS]) / rest_s
        return [
            ("at rest: renewals of leases", f"{spent[RENEWALS] / rest_s:.0f} per s"),
            ("at rest: other writes", f"{others:.1f} per s"),
        ]

    def _takeover(self, between: list[DriverLife]) -> list[Row]:
        took = f"{self._led_again_at_s - self.times.killed_at_s:.1f} s" if self._led_again_at_s else "never"
        return [
            ("kill -9 of the leader, until another one leads", took),
            ("drivers started by that", str(len(between))),
        ]

    def _loss(self, first: list[DriverLife], moved: list[DriverLife]) -> list[Row]:
        newest = {life.name: life for life in first}
        lost = Counter(newest[life.name].host for life in moved).most_common(1)
        gone, count = lost[0] if lost else ("", 0)
        last_s = max((life.exec_at_s for life in moved), default=self.times.lost_at_s) - self.times.lost_at_s
        got = Counter(life.host for life in moved)
        return [
            ("jobs of the lost host, and drivers started for them elsewhere", f"{count} and {len(moved)}"),
            ("loss of that host, until the last of them runs elsewhere", f"{last_s:.0f} s"),
            ("of which the full wait", f"{full_wait_s(LEASE_S):.0f} s"),
            ("of them, those that one other host got at most", str(max(got.values(), default=0))),
            ("of them, those that the lost host got", str(got[gone])),
        ]
