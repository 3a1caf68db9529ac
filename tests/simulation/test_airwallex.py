"""Airwallex's incident, replayed: 300 registered jobs, some stuck at every stage of a start, some poisoned, and a takeover.

There, one start that hung held up the queue behind it, and a failover left healthy jobs waiting. Here leader, plan, executor
and agents are the product's, on an ensemble in memory and in virtual time; starters and shims are models that hang where
their job's kind says. No time is asserted, only order and outcome: every healthy job runs while each stuck one is still in
its first attempt, so nothing waited for a ``start_timeout``.

What frees a starting slot is argued in ``supervisor/model/load.py``. The small real one: ``faults/test_stuck_starts.py``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import generate_latest

from supervisor.clients.zookeeper import ZooClient
from supervisor.coord.term import Term
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.launcher import HostedAttempts, Launcher, Refused, TrustCheck
from supervisor.daemon.host.prepared import HostLoad
from supervisor.daemon.leader import controller as controllers
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.record import Pass, Recorder
from supervisor.daemon.loops.watchdog import Watchdog
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.model.records import Assignment, Cause, Driver, EpochRecord, Lease, Member, Ownership, Phase
from supervisor.model.seen import Found
from supervisor.observe.listing import take_rows
from supervisor.observe.observer import Observer
from supervisor.plan.make import Policy
from supervisor.records.ids import new_op_id
from supervisor.records.reading import seen
from supervisor.registry import attempt_writes
from supervisor.registry.attempt_writes import AttemptIdentity, Exit
from tests.fakes import zookeeper as fake
from tests.fakes.registry_bench import AT, Bench
from tests.fakes.zookeeper import MemoryClient
from tests.waiting import wait_until

HOSTS, STARTING, DRIVERS = 8, 2, 45
TICK_S = 5.0
START_TIMEOUT_S = 300.0  # of ``registry_bench.terms``


class Kind(StrEnum):
    """First in a job's name. The stuck and the poisoned come before the healthy in every order by name."""

    FETCH = "a-fetch"  # its spec or file does not come: a thread of the agent hangs
    SPAWN = "a-spawn"  # its shim's process is not made: the same thread, later
    CLAIM = "a-claim"  # a shim that never claims
    SUBMIT = "a-submit"  # a hanging spark-submit: claimed, renewed, never begun
    SESSION = "a-session"  # a session, and no batch
    CRASH = "a-crash"  # ends at once, again and again
    CORRUPT = "a-corrupt"  # its reference is garbage
    MISSING = "a-missing"  # its blob is gone
    HEALTHY = "h"

    @classmethod
    def of(cls, name: str) -> Kind:
        return cls(name.rpartition("-")[0])


STUCK = (Kind.FETCH, Kind.SPAWN, Kind.CLAIM, Kind.SUBMIT, Kind.SESSION)
POISONED = (Kind.CRASH, Kind.CORRUPT, Kind.MISSING)
JOBS = [
    *(f"{kind}-{i:03}" for kind in (*STUCK, *POISONED) for i in range(8)),
    *(f"h-{i:03}" for i in range(236)),
]
assert len(JOBS) == 300


@dataclass
class Attempt:
    given: Assignment
    claim: str
    fence: int
    since_at_s: float
    renewals: int = 0


@dataclass
class SimulatedHost:
    """A real agent; its starter and shims are this model."""

    bench: Bench
    name: str
    directory: Path
    release: threading.Event
    keys: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    spawned: list[Assignment] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    claims: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        member = Member(
            id=self.name,
            host=f"{self.name}.example",
            boot_id="b",
            address="",
            memory=1 << 50,
            drivers=DRIVERS,
            starting=STARTING,
            software="",
            since="",
        )
        hosted = HostedAttempts(self.directory, self.directory)
        self.client = self.bench.zoo.client()
        self.agent = Agent(member, self.bench.layout, self._connect, cast(Launcher, self), hosted)

    def _connect(self, on_link: Any) -> ZooClient:
        return cast(ZooClient, MemoryClient(self.bench.zoo, on_link=on_link))

    # -- as the starter ---------------------------------------------------------------------------------------------

    def start(self, given: Assignment, look: TrustCheck, ended_before: str | None = None) -> None:
        key, kind = f"{given.uid}.{given.attempt}", Kind.of(given.name)
        if key in self.keys:
            return
        self.keys.add(key)
        if kind in (Kind.FETCH, Kind.SPAWN):
            self.hanging.add(key)
            self.release.wait()
            raise Unreachable("it never came")
        if kind is Kind.MISSING:
            raise Refused(Cause.BAD_ARTIFACT, f"the spec of {given.name} is not in the store")
        if kind is not Kind.CLAIM:
            self.spawned.append(given)

    def refused(self, why: Refused) -> None:
        pass

    def check_again(self) -> dict[str, str]:
        return {}

    def loads(self) -> list[HostLoad]:
        return []

    # -- as its shims -----------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        self.agent._round()
        wait_until(lambda: self.agent._under_way <= self.hanging, 20, "what does not hang", period_s=0.002)
        for attempt in tuple(self.attempts):
            self._go_on(attempt, now_s)
        while self.spawned:
            self._claim(self.spawned.pop(0), now_s)

    def _claim(self, given: Assignment, now_s: float) -> None:
        path = self.bench.layout.own(given.name)
        own = seen(Ownership, self.client.read(path), path)
        before = self.client.read(self.bench.layout.lease(given.name))
        assert isinstance(own, Found)
        attempt = Attempt(given, new_op_id(), given.own_version + 1, now_s)
        lease = self._lease(attempt, Phase.CLAIMED, now_s)
        version = before.stat.version if before else None
        self.client.commit(
            attempt_writes.claim(
                self.bench.layout, given, own, attempt.claim, lease, version, new_op_id(), AT
            )
        )
        self.claims[given.name] += 1
        self.attempts.append(attempt)

    def _go_on(self, attempt: Attempt, now_s: float) -> None:
        kind = Kind.of(attempt.given.name)
        if kind is Kind.CRASH:
            self._end(attempt, Cause.USER_ERROR)
        elif kind is not Kind.HEALTHY and now_s - attempt.since_at_s >= START_TIMEOUT_S:
            self._end(attempt, Cause.START_TIMED_OUT)
        else:
            attempt.renewals += 1
            phase = {Kind.HEALTHY: Phase.RUNNING, Kind.SESSION: Phase.SESSION}.get(kind, Phase.CLAIMED)
            lease, layout = self._lease(attempt, phase, now_s), self.bench.layout
            self.client.commit(
                attempt_writes.renew(layout, attempt.given.name, attempt.fence, lease, new_op_id())
            )

    def _end(self, attempt: Attempt, cause: Cause) -> None:
        given, layout = attempt.given, self.bench.layout
        own = seen(Ownership, self.client.read(layout.own(given.name)), "own")
        assert isinstance(own, Found)
        mine = AttemptIdentity(given.name, given.uid, given.attempt, attempt.claim)
        tx = attempt_writes.tombstone(layout, own, mine, Exit(cause, cause.value, 1, 1.0), new_op_id(), AT)
        assert tx is not None
        self.client.commit(tx)
        self.attempts.remove(attempt)
        self.ended.append(given.name)

    def _lease(self, attempt: Attempt, phase: Phase, now_s: float) -> Lease:
        given = attempt.given
        lease = Lease(
            name=given.name,
            uid=given.uid,
            attempt=given.attempt,
            claim=attempt.claim,
            lease_s=30.0,
            stop_grace_s=30.0,
            phase=phase,
            driver=Driver(host=self.name, shim_pid=1, pid=2),
            since=AT,
        )
        return replace(lease, renewals=attempt.renewals, ran_s=now_s - attempt.since_at_s)


class Fleet:
    """Eight hosts with two starting slots each, and a leader at a time."""

    controller: Controller
    client: MemoryClient
    metrics: Metrics

    def __init__(self, directory: Path) -> None:
        self.now_s = 1000.0
        self.bench = Bench()
        self.release = threading.Event()
        for number in range(HOSTS):
            self.bench.zoo.put(self.bench.layout.assigned_to(f"s{number}"), b"")
        self.hosts = [
            SimulatedHost(self.bench, f"s{n}", directory / f"s{n}", self.release) for n in range(HOSTS)
        ]
        self.epoch = 0
        self.most_watches = 0

    def lead(self) -> None:
        """A leader that knows nothing. The one before it is gone: its session, and with it its watches."""
        self.epoch += 1
        if self.epoch > 1:
            self.controller.executor.close()
            self.client.close()
        layout = self.bench.layout
        self.bench.put(layout.epoch, EpochRecord(epoch=self.epoch, supervisor="l", op="op"))
        self.client = self.bench.zoo.client()
        term: Term[Any] = Term(self.epoch, self.epoch - 1, self.client, 1e9, depose=lambda why: None)
        term.set_recorded()
        loop = Watchdog(end=lambda code: None).register("test", 60.0)
        self.metrics = Metrics(lambda: self.now_s)
        self.controller = Controller(term, layout, Policy(), Recorder(self.metrics, self.now_s), loop)

    def tick(self) -> Pass:
        self.now_s += TICK_S
        done = self.controller.reconcile_once()
        assert done.broken == ()
        for host in self.hosts:
            host.tick(self.now_s)
        self.most_watches = max(self.most_watches, self.watches())
        return done

    def states(self) -> dict[str, str]:
        """As ``list`` shows them."""
        view = Observer(self.client, self.bench.layout, lambda: self.now_s, 0).take_view(None)
        return {str(row.name): row.state for row in take_rows(self.client, self.bench.layout, view, 0.0)}

    def until_they_run(self, names: list[str]) -> None:
        """Tick by tick, and no stuck start is over before: nothing has waited for its end."""
        while True:
            states = self.states()
            if all(states[name] == "running" for name in names):
                return
            self.tick()
            over = [name for host in self.hosts for name in host.ended if Kind.of(name) in STUCK]
            assert not over, (
                f"{over} have ended, and {[n for n in names if states[n] != 'running']} did not run by then"
            )

    def watches(self) -> int:
        return sum(
            len(watches)
            for table in (self.bench.zoo._data_watches, self.bench.zoo._child_watches)
            for watches in table.values()
        )

    def counted(self, phase: str) -> float:
        text = generate_latest(self.metrics.registry).decode()
        (line,) = [
            line
            for line in text.splitlines()
            if line.startswith(f'spark_supervisor_job_start_seconds_count{{phase="{phase}"}}')
        ]
        return float(line.split()[-1])


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    for module in (controllers, fake):
        monkeypatch.setattr(module, "boottime_s", lambda: fleet.now_s)
    yield fleet
    fleet.release.set()
    fleet.controller.executor.close()
    for host in fleet.hosts:
        host.agent._pool.shutdown(wait=True)


def test_300_jobs_of_which_some_are_stuck_at_every_stage_of_a_start(fleet: Fleet) -> None:
    layout = fleet.bench.layout
    for name in JOBS:
        fleet.bench.submit(name)
    for name in JOBS:
        if Kind.of(name) is Kind.CORRUPT:
            fleet.bench.zoo.put(layout.job(name), b"{")
    fleet.lead()
    fleet.tick()
    healthy = [name for name in JOBS if Kind.of(name) is Kind.HEALTHY]

    fleet.until_they_run(healthy)
    states = fleet.states()
    for kind, allowed in {
        **dict.fromkeys(STUCK, {"starting", "pending"}),
        Kind.CRASH: {"backoff", "starting", "pending"},
        Kind.CORRUPT: {"quarantined"},
        Kind.MISSING: {"quarantined"},
    }.items():
        found = {state for name, state in states.items() if Kind.of(name) is kind}
        assert found <= allowed, f"{kind}: {found}"
    assert fleet.counted("queued") >= len(healthy)

    # The leader dies; five jobs are submitted before another leads.
    late = [f"h-9{i:02}" for i in range(5)]
    for name in late:
        fleet.bench.submit(name)
    fleet.lead()
    first = fleet.tick()
    touched = {one.action.name for one in first.results}
    assert not touched & set(healthy), "a takeover touches no running job"
    assert touched & set(late), "and starts what is due in its first pass"
    fleet.until_they_run(late)
    most = (
        1 + 2 * HOSTS
    )  # the doorbell, and each agent's own assignments and requests for prepared drivers; none per job
    assert fleet.most_watches == most
    claims = sum((host.claims for host in fleet.hosts), Counter[str]())
    assert {claims[name] for name in (*healthy, *late)} == {1}


def test_without_the_limit_of_a_slot_it_is_the_incident(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many stuck jobs as there are slots, and nobody else starts until they have timed out."""
    monkeypatch.setattr("supervisor.model.load.SLOT_MAX_S", 1e9)
    monkeypatch.setattr("supervisor.model.load.SLOT_SHARE", 10.0)
    for name in (*(f"{Kind.SUBMIT}-{i:03}" for i in range(HOSTS * STARTING)), "h-000"):
        fleet.bench.submit(name)
    fleet.lead()
    with pytest.raises(AssertionError, match=r"have ended, and \['h-000'\] did not run by then"):
        fleet.until_they_run(["h-000"])
