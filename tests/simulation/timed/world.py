"""One run: the world of a plan, from bootstrap over faults to rest."""

from __future__ import annotations

import random
import traceback
from contextlib import ExitStack

from supervisor.model.records import Cluster, EpochRecord
from supervisor.model.transaction import Create, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import LAYOUT_VERSION, Layout
from supervisor.registry.blobs import CLUSTER_KEY, ClusterMark
from supervisor.registry.bootstrap_cluster import ClusterIdentity
from tests.simulation.timed.ensemble import Ensemble
from tests.simulation.timed.hosts import SimulatedHost
from tests.simulation.timed.judge import Judge
from tests.simulation.timed.loop import Clock, Process, SimulatedLoop
from tests.simulation.timed.nemesis import Nemesis
from tests.simulation.timed.network import Network
from tests.simulation.timed.patches import installed
from tests.simulation.timed.primitives import Namespaces
from tests.simulation.timed.scenario import Behaviour, Job, RunPlan
from tests.simulation.timed.store import SimStore
from tests.simulation.timed.users import Users

ROOT = "/sim"
REST_MAX_S = 400.0
REST_STEP_S = 2.0


class TimedWorld:
    """``run`` once. ``story``: a list that gets what happened, as text. ``calm``: nobody does any harm any more."""

    def __init__(self, plan: RunPlan, story: list[str] | None = None) -> None:
        self.plan = plan
        self.loop = SimulatedLoop(plan.seed, story)
        self.random = self.lots("world")
        self.calm = self.over = False
        self.layout = Layout(ROOT)
        self.identity = ClusterIdentity("sim", ROOT, SimStore.url)
        self.namespaces = Namespaces(self.loop)
        self.judge = Judge(self)
        self.ensemble = Ensemble(self.loop, plan.servers, self.judge.committed)
        self.net = Network(self.loop, self.ensemble, plan.chunk)
        self.net.on_read = self.judge.contender_read
        self.store = SimStore(self.loop)
        self.users = Users(self)
        self._jobs = {job.name: job for job in plan.jobs}
        self._processes: list[Process] = []
        self._pids = 1000
        self.hosts = [self._host(number) for number in range(plan.hosts)]
        self.nemesis = Nemesis(self)

    # -- what its parts ask for ------------------------------------------------------------------------------------

    def lots(self, *about: str) -> random.Random:
        """Lots of their own for one thing, so that what is drawn elsewhere does not change them."""
        return random.Random("/".join((str(self.plan.seed), *about)))

    def process(self, name: str, host: SimulatedHost) -> Process:
        process = Process(name, host.clock)
        self._processes.append(process)
        self.net.hosts[process] = host.name
        if len(self._processes) > 500:
            self._processes = [each for each in self._processes if not each.dead or each.fibers]
        return process

    def processes_of(self, host: SimulatedHost) -> list[Process]:
        return [process for process in self._processes if process.clock is host.clock and not process.dead]

    def new_pid(self) -> int:
        self._pids += 1
        return self._pids

    def job_of(self, name: str) -> Job:
        return self._jobs[name]

    def behaviour_of(self, name: str) -> Behaviour:
        kind = self._jobs[name].behaviour
        return Behaviour(finishes_s=kind.finishes_s, deaf=kind.deaf) if self.calm else kind

    def boottime_s(self) -> float:
        """Of whoever is running."""
        return self.loop.process.clock.boottime_s(self.loop.now_s)

    def leader_name(self) -> str:
        for host in self.hosts:
            supervisor = host.supervisor
            if (
                supervisor is not None
                and supervisor.contender is not None
                and supervisor.contender.report().state == "leading"
            ):
                return host.name
        return ""

    def results_pruned(self, name: str) -> bool:
        """More results than are kept of one name."""
        return sum(1 for uid, its in self.judge.submitted.items() if its == name) > 4

    # -- the run ---------------------------------------------------------------------------------------------------

    def run(self) -> TimedWorld:
        with ExitStack() as stack:
            stack.enter_context(installed(self))
            try:
                self._found()
                for host in self.hosts:
                    self.loop.after(self.random.random(), host.start_supervisor)
                for step in self.plan.steps:
                    self.loop.after(step.at_s, lambda step=step: self.users.do(step))  # type: ignore[misc]
                for trouble in self.plan.troubles:
                    self.loop.after(trouble.at_s, lambda trouble=trouble: self.nemesis.strike(trouble))  # type: ignore[misc]
                self._until(self.plan.until_at_s)
                if not self.judge.broken:
                    self._rest()
            except Exception as error:
                where = "".join(traceback.format_exception(error)[-6:])
                self.judge.broke(f"defect: {error!r}\n{where}")
            finally:
                self.over = True
                self.loop.end(self._processes)
        return self

    def _until(self, at_s: float) -> None:
        while self.loop.now_s < at_s and not self.judge.broken:
            self.loop.run(min(5.0, at_s - self.loop.now_s))

    def _rest(self) -> None:
        """No more harm: everything comes to rest as it was declared, within a bounded time, and stays so."""
        self.nemesis.end()
        self.calm = True
        self.loop.note("calm")
        self.users.unpause()
        still, until_at_s = 0, self.loop.now_s + REST_MAX_S
        left: list[str] = ["not looked at yet"]
        while still < 2:
            self.loop.run(REST_STEP_S)
            if self.judge.broken:
                return
            left = self.judge.at_rest()
            still = 0 if left else still + 1
            if self.loop.now_s > until_at_s:
                for one in left:
                    self.judge.broke(f"no rest after {REST_MAX_S:g} s: {one}")
                return

    def _host(self, number: int) -> SimulatedHost:
        lots = self.lots("host", str(number))
        clock = Clock(
            lots.uniform(0.0, 1e5), 1.0 + lots.uniform(-0.001, 0.001), 1.8e9 + lots.uniform(-100.0, 100.0)
        )
        return SimulatedHost(self, f"h{number}", clock, self.plan.cgroups, self.plan.drivers)

    def _found(self) -> None:
        layout = self.layout
        cluster = Cluster(id="sim-cluster", name="sim", store=SimStore.url)
        self.ensemble.found(
            Transaction(
                "found",
                "0",
                (
                    Create(ROOT, b""),
                    Create(layout.version, str(LAYOUT_VERSION).encode()),
                    Create(layout.cluster, encode(cluster)),
                    Create(layout.epoch, encode(EpochRecord(epoch=0, supervisor="", op="0"))),
                    Create(layout.doorbell, b""),
                    *(Create(path, b"") for path in layout.persistent_parents()),
                ),
            )
        )
        self.store.objects[CLUSTER_KEY] = encode(ClusterMark(id="sim-cluster", name="sim", root=ROOT)), 0.0
