"""What a seed means: a fleet, its jobs, what users do, and what goes wrong when. Plain values, so that a story can be cut."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum


class Fault(StrEnum):
    PAUSE_SUPERVISOR = "supervisor stopped (SIGSTOP)"
    CRASH_SUPERVISOR = "supervisor killed"
    RESTART_SUPERVISOR = "supervisor restarted in order"
    PAUSE_SHIM = "shim stopped (SIGSTOP)"
    CRASH_SHIM = "shim killed"
    PAUSE_TWIN = "twin stopped (SIGSTOP)"
    CRASH_TWIN = "twin killed"
    CRASH_HOST = "host crashed"
    CUT_SUPERVISOR = "supervisor cut off from ZooKeeper"
    CUT_SHIM = "shim cut off from ZooKeeper"
    CUT_HOST = "host cut off from ZooKeeper"
    LATE = "messages of a host late"
    SPOIL = "connections lost at writes"
    SERVER_DOWN = "ZooKeeper server down"
    LEADER_DOWN = "ZooKeeper leader down"
    SERVER_CUT = "ZooKeeper server cut off from its peers"
    QUORUM = "ZooKeeper quorum lost"
    LAG = "ZooKeeper follower lags"
    RESTORE = "ZooKeeper restored from an old snapshot"
    STORE_DOWN = "store down"
    STORE_LATE = "store slow"
    WALL = "wall clock jumps"
    KILL_DRIVER = "driver killed"


class PlannedAct(StrEnum):
    SUBMIT = "submit"
    CANCEL = "cancel"
    SUSPEND = "suspend"
    RESUME = "resume"
    RESTART = "restart"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    SWITCHOVER = "switchover"


@dataclass(frozen=True)
class Behaviour:
    """Of a job's driver. ``crash_mean_s``: mean time to a crash of its own; None: never. ``deaf``: to orders and SIGTERM."""

    crash_mean_s: float | None = None
    finishes_s: float | None = None
    hangs: bool = False
    deaf: bool = False


@dataclass(frozen=True)
class Job:
    name: str
    lease_s: float
    grace_s: float
    start_timeout_s: float
    reports: bool
    unbounded: bool
    attempts: int | None
    on_exhausted: str
    place: str
    behaviour: Behaviour
    update: str = ""
    """``prepare``: its restarts are handed to prepared drivers. ``standby``: one is kept while it runs, too."""


@dataclass(frozen=True)
class Trouble:
    """One fault. ``who``: picks its victim among those there are then. ``which``: a detail."""

    fault: Fault
    at_s: float
    for_s: float
    who: int
    which: int

    def __str__(self) -> str:
        return f"{self.at_s:8.2f} {self.fault.value} for {self.for_s:.1f} s (victim {self.who}, {self.which})"


@dataclass(frozen=True)
class Step:
    """One command of a user."""

    act: PlannedAct
    at_s: float
    name: str

    def __str__(self) -> str:
        return f"{self.at_s:8.2f} {self.act.value} {self.name}"


@dataclass(frozen=True)
class RunPlan:
    """One run. Times are true seconds from its beginning; faults and users stop at ``until_at_s``."""

    seed: int
    hosts: int
    servers: int
    session_s: float
    chunk: int
    cgroups: bool
    drivers: int
    starting: int
    claim_timeout_s: float
    sweep_s: float
    until_at_s: float
    jobs: tuple[Job, ...]
    steps: tuple[Step, ...]
    troubles: tuple[Trouble, ...]

    @property
    def survives_minority(self) -> bool:
        """protocol §7: D − K − r ≥ session time + 2 ticks, for every job; minus 2p, by which a shim kills early."""
        return all(job.lease_s * 5 / 6 - 3.0 >= self.session_s + 2.0 for job in self.jobs)

    @property
    def is_small(self) -> bool:
        return len(self.jobs) <= 3 and self.until_at_s <= 100.0

    def summary(self) -> str:
        lines = [
            f"seed {self.seed}: {self.hosts} hosts, {self.servers} ZooKeeper servers, session {self.session_s:g} s, "
            f"{len(self.jobs)} jobs, {self.until_at_s:.0f} s of faults, {'cgroups' if self.cgroups else 'no cgroups'}",
        ]
        lines += [
            f"  job {job.name}: lease {job.lease_s:g} s, grace {job.grace_s:g} s, {job.behaviour}"
            for job in self.jobs[:8]
        ]
        happens: list[Step | Trouble] = [*self.steps, *self.troubles]
        lines += [f"  {one}" for one in sorted(happens, key=lambda one: one.at_s)]
        return "\n".join(lines)


ALSO = 3

OFTEN = {
    Fault.PAUSE_SUPERVISOR: 6,
    Fault.CRASH_SUPERVISOR: 5,
    Fault.RESTART_SUPERVISOR: 2,
    Fault.PAUSE_SHIM: 4,
    Fault.CRASH_SHIM: 3,
    Fault.PAUSE_TWIN: 1,
    Fault.CRASH_TWIN: 1,
    Fault.CRASH_HOST: 2,
    Fault.CUT_SUPERVISOR: 5,
    Fault.CUT_SHIM: 4,
    Fault.CUT_HOST: 2,
    Fault.LATE: 3,
    Fault.SPOIL: 4,
    Fault.SERVER_DOWN: 3,
    Fault.LEADER_DOWN: 3,
    Fault.SERVER_CUT: 4,
    Fault.QUORUM: 2,
    Fault.LAG: 3,
    Fault.RESTORE: 1,
    Fault.STORE_DOWN: 2,
    Fault.STORE_LATE: 2,
    Fault.WALL: 1,
    Fault.KILL_DRIVER: 2,
}
"""How often each fault is drawn."""

LENGTHS = {
    Fault.PAUSE_SUPERVISOR: (0.05, 70.0),
    Fault.PAUSE_SHIM: (0.1, 25.0),
    Fault.PAUSE_TWIN: (0.5, 20.0),
    Fault.CRASH_SUPERVISOR: (0.0, 20.0),
    Fault.CRASH_HOST: (2.0, 30.0),
    Fault.QUORUM: (0.5, 25.0),
    Fault.SERVER_DOWN: (0.5, 20.0),
    Fault.LEADER_DOWN: (0.5, 20.0),
    Fault.RESTORE: (3.0, 30.0),
}


def plan_of(seed: int, also: Fault | None = None) -> RunPlan:
    """The run that ``seed`` stands for. ``also``: with a few more of this fault, for whoever looks at it alone. Nearly all are small, one in two thousand is large, one in a thousand lasts for hours."""
    lots = random.Random(seed)
    size = lots.random()
    if size < 0.96:
        hosts, names, until_at_s = (
            lots.choice([2, 2, 3]),
            lots.choice([1, 1, 1, 2, 3]),
            lots.uniform(12.0, 50.0),
        )
    elif size < 0.9995:
        hosts, names, until_at_s = lots.choice([3, 4, 5]), lots.randint(3, 12), lots.uniform(30.0, 90.0)
    else:
        hosts, names, until_at_s = lots.choice([5, 7]), lots.choice([50, 100, 200]), lots.uniform(20.0, 40.0)
    if names == 1 and lots.random() < 0.0015:
        until_at_s = lots.uniform(1800.0, 7200.0)
    lease_s = lots.choice([5.0, 8.0, 12.0, 12.0, 20.0])
    session_s = lots.choice([4.0, 4.0, 6.0])
    update = random.Random(f"{seed} update")  # lots of its own: the rest of a seed is as it was without it
    jobs = tuple(
        replace(_job(lots, n, lease_s), update=update.choice(["", "prepare", "prepare", "standby"]))
        for n in range(names)
    )
    calm = lots.random() < 0.1
    steps = tuple(_steps(lots, jobs, until_at_s))
    troubles = () if calm else tuple(_troubles(lots, until_at_s, names))
    if also is not None:
        more = random.Random(f"{seed} {also}")
        extra = (
            Trouble(
                also,
                more.uniform(4.0, until_at_s),
                more.uniform(1.0, 30.0),
                more.randrange(1000),
                more.randrange(1000),
            )
            for _ in range(ALSO)
        )
        troubles = tuple(sorted((*troubles, *extra), key=lambda trouble: trouble.at_s))
    return RunPlan(
        seed=seed,
        hosts=hosts,
        servers=lots.choice([3, 3, 3, 5]),
        session_s=session_s,
        chunk=lots.choice([64, 64, 3, 1]),
        cgroups=lots.random() < 0.7,
        drivers=max(2, -(-2 * names // hosts)),
        starting=lots.choice([2, 10]),
        claim_timeout_s=lots.choice([8.0, 15.0]),
        sweep_s=lots.choice([5.0, 20.0]),
        until_at_s=until_at_s,
        jobs=jobs,
        steps=steps,
        troubles=troubles,
    )


def without_prepared(plan: RunPlan) -> RunPlan:
    """Every start is a cold one."""
    return replace(plan, jobs=tuple(replace(job, update="") for job in plan.jobs))


def quiet() -> RunPlan:
    """Two hosts, one job, nobody who does harm."""
    return replace(
        plan_of(1),
        hosts=2,
        servers=3,
        session_s=4.0,
        chunk=64,
        cgroups=True,
        drivers=2,
        starting=10,
        claim_timeout_s=12.0,
        sweep_s=20.0,
        until_at_s=60.0,
        jobs=(Job("j0", 20.0, 6.0, 20.0, True, True, None, "fail", "s3://bucket/j0", Behaviour()),),
        steps=(Step(PlannedAct.SUBMIT, 2.0, "j0"),),
        troubles=(),
    )


def with_lost_claim() -> RunPlan:
    """A restore to a moment between an assignment and its claim, which nobody who could lead has seen.

    ZooKeeper's state is saved at 5 s. h1 leads, and is stopped from the assignment to h0 until after the restore; h0, which has
    seen the claim, is cut off when the restore comes, and until its driver's lease is nearly over.
    """
    return replace(
        quiet(),
        steps=(Step(PlannedAct.SUBMIT, 4.75, "j0"),),
        troubles=(
            Trouble(Fault.PAUSE_SUPERVISOR, 4.9, 2.5, who=1, which=0),
            Trouble(Fault.CUT_HOST, 7.0, 13.0, who=0, which=0),
            Trouble(Fault.RESTORE, 7.0, 20.0, who=0, which=0),
        ),
    )


def _job(lots: random.Random, number: int, lease_s: float) -> Job:
    kind = lots.random()
    behaviour = Behaviour()
    if kind < 0.15:
        behaviour = Behaviour(crash_mean_s=lots.choice([3.0, 20.0]))
    elif kind < 0.22:
        behaviour = Behaviour(hangs=True)
    elif kind < 0.32:
        behaviour = Behaviour(deaf=True)
    elif kind < 0.37:
        behaviour = Behaviour(finishes_s=15.0)
    shared = number > 0 and lots.random() < 0.1
    return Job(
        name=f"j{number}",
        lease_s=lots.choice([lease_s, lease_s, 5.0]) if number else lease_s,
        grace_s=lots.choice([2.0, 6.0, 15.0]),
        start_timeout_s=20.0,
        reports=lots.random() < 0.8,
        unbounded=behaviour.finishes_s is None,
        attempts=lots.choice([None, None, 1, 3]),
        on_exhausted=lots.choice(["fail", "suspend"]),
        place=f"s3://bucket/{'j0' if shared else f'j{number}'}",
        behaviour=behaviour,
    )


def _steps(lots: random.Random, jobs: tuple[Job, ...], until_at_s: float) -> list[Step]:
    steps = [
        Step(
            PlannedAct.SUBMIT,
            lots.uniform(0.5, 3.0) if lots.random() < 0.8 else lots.uniform(0.5, until_at_s),
            job.name,
        )
        for job in jobs
    ]
    count = int(lots.expovariate(1 / (until_at_s / 25.0 * min(4.0, 1 + len(jobs) / 8))))
    kinds = (
        [PlannedAct.SUBMIT] * 5
        + [PlannedAct.CANCEL] * 5
        + [PlannedAct.SUSPEND] * 2
        + [PlannedAct.RESUME] * 3
        + [PlannedAct.RESTART] * 2
        + [PlannedAct.SWITCHOVER]
    )
    for _ in range(min(count, 60)):
        at_s, job = lots.uniform(3.0, until_at_s), lots.choice(jobs)
        act = lots.choice(kinds)
        steps.append(Step(act, at_s, job.name))
        if act is PlannedAct.CANCEL and lots.random() < 0.5:
            steps.append(Step(PlannedAct.SUBMIT, at_s + lots.choice([0.01, 0.3, 3.0]), job.name))
    if lots.random() < 0.08:
        at_s = lots.uniform(3.0, until_at_s)
        steps += [
            Step(PlannedAct.PAUSE, at_s, ""),
            Step(PlannedAct.UNPAUSE, min(until_at_s, at_s + lots.uniform(0.5, 15.0)), ""),
        ]
    return sorted(steps, key=lambda step: step.at_s)


def _troubles(lots: random.Random, until_at_s: float, names: int) -> list[Trouble]:
    mean = until_at_s / lots.choice([4.0, 8.0, 20.0])
    kinds, weights = list(OFTEN), [float(weight) for weight in OFTEN.values()]
    for index in range(len(kinds)):  # a run has its own character: some faults often, some never
        weights[index] *= lots.choice([0.0, 1.0, 1.0, 4.0])
    if not any(weights):
        weights = [1.0] * len(kinds)
    found = []
    for _ in range(min(400, max(1, int(lots.uniform(0.5, 1.5) * mean)))):
        (fault,) = lots.choices(kinds, weights)
        shortest, longest = LENGTHS.get(fault, (0.1, 15.0))
        for_s = shortest + (longest - shortest) * lots.random() ** 2
        found.append(
            Trouble(fault, lots.uniform(2.0, until_at_s), for_s, lots.randrange(1000), lots.randrange(1000))
        )
        if lots.random() < 0.15:  # faults come together
            other = lots.choice(kinds)
            found.append(
                Trouble(
                    other,
                    found[-1].at_s + lots.uniform(0.0, 2.0),
                    for_s,
                    lots.randrange(1000),
                    lots.randrange(1000),
                )
            )
    return sorted(found, key=lambda trouble: trouble.at_s)


def without(plan: RunPlan, dropped: tuple[Step | Trouble, ...]) -> RunPlan:
    """``plan`` without some of what happens in it."""
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step not in dropped),
        troubles=tuple(trouble for trouble in plan.troubles if trouble not in dropped),
    )
