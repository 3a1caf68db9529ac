"""All that the nemesis may break and the users use: ensemble, S3 API, fleet, names. Opened by ``open_world``, ended with it."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.lease_terms import outage_survived_s
from tests.chaos.diary import Diary
from tests.chaos.fleet import Attempt, ChaosFleet
from tests.chaos.shared_lock import SharedLock
from tests.chaos.terms import TermWatcher
from tests.fakes.faulty_s3 import FaultyS3
from tests.faults.checker import DeadShim
from tests.testbed.ensembles import Ensemble
from tests.testbed.moto import AWS_ENV, MotoServer
from tests.testbed.proxy import Proxies

NODES = 3
SESSION_S = 4.0
GRACE_S = 3.0
LEASES_S = (8.0, 8.0, 12.0, 15.0)
"""Short ones, which an unlucky ZooKeeper outage may end, and long ones, which it must not."""

RECONNECT_S = 3.5
"""What a client needs to find another server after its own is silent (two thirds of the session), on a busy machine."""

STALL_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True)
class Options:
    """``kind``: of the ensemble, ``docker`` or ``embedded``. ``restores``: how often old ZooKeeper data is put back."""

    seconds: float
    seed: int
    kind: str = "docker"
    jobs: int = 10
    supervisors: int = 3
    restores: int = 0


class Stalls(threading.Thread):
    """Moments at which this machine did not let us run: nobody else ran either, so an outage then is nobody's fault."""

    def __init__(self, diary: Diary) -> None:
        super().__init__(name="stalls", daemon=True)
        self._diary = diary
        self._stopping = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        last_at_s = boottime_s()
        while not self._stopping.is_set():
            time.sleep(POLL_S)
            gap_s, last_at_s = boottime_s() - last_at_s - POLL_S, boottime_s()
            self.longest_s = max(self.longest_s, gap_s)
            if gap_s > STALL_S:
                self._diary.write("stall", for_s=round(gap_s, 2))
                with self._diary.harm("machine stalled"):
                    pass

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(5)


@dataclass
class ChaosWorld:
    """``user_links``: the users' way to the ensemble. ``s3``: what stands before the S3 API. ``leases_s``: by job name.

    ``harmed``: run directories whose shim or twin was hit; one of the two is always left alone, for any one killer suffices, and
    with none there is no promise. ``done``: the time is up.
    """

    options: Options
    directory: Path
    ensemble: Ensemble
    fleet: ChaosFleet
    s3: FaultyS3
    user_links: Proxies
    diary: Diary
    terms: TermWatcher
    stalls: Stalls
    shared_lock: SharedLock = field(default_factory=SharedLock)
    done: threading.Event = field(default_factory=threading.Event)
    leases_s: dict[str, float] = field(default_factory=dict)
    harmed: set[str] = field(default_factory=set)
    stopped: set[ProcessId] = field(default_factory=set)
    ended_servers: int = 0
    restored_at_s: list[float] = field(default_factory=list)
    dead_shims: list[DeadShim] = field(default_factory=list)
    """Of prepared drivers."""
    violations: list[str] = field(default_factory=list)
    link_locks: dict[int, threading.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [f"job-{number:02}" for number in range(self.options.jobs)]
        self.leases_s = {name: LEASES_S[number % len(LEASES_S)] for number, name in enumerate(names)}
        self._lock = threading.Lock()

    def random(self, purpose: str) -> random.Random:
        """The same choices for the same seed and purpose."""
        return random.Random(f"{self.options.seed}/{purpose}")

    def take(self, attempt: Attempt) -> bool:
        """That this attempt's shim or twin may be harmed: once."""
        with self._lock:
            if attempt.tree in self.harmed:
                return False
            self.harmed.add(attempt.tree)
            return True

    def frail(self, outage_s: float) -> list[str]:
        """Jobs whose leases an outage of ``outage_s`` may end."""
        return [
            name
            for name, lease_s in self.leases_s.items()
            if outage_survived_s(lease_s) < outage_s + RECONNECT_S
        ]

    def wait(self, seconds: float) -> None:
        """Less if the time is up."""
        self.done.wait(seconds)

    def link_lock(self, links: Proxies) -> threading.Lock:
        with self._lock:
            return self.link_locks.setdefault(id(links), threading.Lock())


@contextmanager
def open_world(options: Options, directory: Path) -> Iterator[ChaosWorld]:
    """Everything up: a leader, all supervisors, no job yet. Nothing of it is left afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ensemble = _open_ensemble(options, directory, stack)
        moto = MotoServer(directory)
        stack.callback(moto.stop)
        stack.enter_context(aws_environment(AWS_ENV))
        s3 = FaultyS3(moto.port)
        stack.callback(s3.stop)
        diary = Diary(directory / "diary.jsonl")
        stack.callback(diary.close)
        user_links = stack.enter_context(Proxies(ensemble.hosts))
        (directory / "fleet").mkdir()
        fleet = ChaosFleet(
            ensemble,
            "/chaos",
            directory / "fleet",
            supervisors=options.supervisors,
            session_s=SESSION_S,
            grace_s=GRACE_S,
            store=f"s3://{moto.new_bucket()}/store",
            endpoint_url=s3.endpoint_url,
            judged=False,
            capacity={"memory": "16g"},
            defaults={"health": {"start_timeout": "30s"}},
        )
        stack.enter_context(fleet)
        terms, stalls = TermWatcher(ensemble.hosts, fleet.layout), Stalls(diary)
        for watcher in (terms, stalls):
            watcher.start()
            stack.callback(watcher.stop)
        yield ChaosWorld(options, directory, ensemble, fleet, s3, user_links, diary, terms, stalls)


def _open_ensemble(options: Options, directory: Path, stack: ExitStack) -> Ensemble:
    if options.kind == "embedded":
        return stack.enter_context(EmbeddedEnsemble(directory / "zookeeper", NODES))
    from tests.testbed.docker_ensemble import DockerEnsemble

    return stack.enter_context(DockerEnsemble(NODES))


@contextmanager
def aws_environment(values: dict[str, str]) -> Iterator[None]:
    """For the users, who work in this process: these AWS settings and no others."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in before:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(before)
