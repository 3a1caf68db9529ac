"""One attempt on a simulated host: its run directory, and the processes that live there.

Real are ``shim.machine``, ``shim.link``, ``model.second_killer`` and ``daemon.host.guarded_attempt``. This file and ``runner``, ``killers`` and
``drivers`` are to them what processes, signals, pipes and files are in production.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import ShimRecord, StartVerdict
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import Launch
from supervisor.model.records import Preparation
from supervisor.shim import state as shim
from tests.simulation.timed.drivers import SimulatedDriver
from tests.simulation.timed.killers import Twin
from tests.simulation.timed.loop import Process
from tests.simulation.timed.runner import SimulatedRunner

if TYPE_CHECKING:
    from tests.simulation.timed.hosts import SimulatedHost
    from tests.simulation.timed.world import TimedWorld


@dataclass(eq=False)
class Attempt:
    """A run directory and who lives there. ``deadline_at_s``: what the deadline file says, by the host's clock.

    ``decided_at_s``: true time when the agent had found nothing against starting it. ``request``: what a prepared driver was
    prepared for, ``handed``: the attempt that was handed to it, ``opening``: before when its application may begin.
    """

    world: TimedWorld
    host: SimulatedHost
    key: str
    launch: Launch
    boot_id: str
    decided_at_s: float
    claim: str = ""
    record: ShimRecord | None = None
    shim: Process | None = None
    runner: SimulatedRunner | None = None
    twin: Twin | None = None
    starter_alive: bool = False
    driver: SimulatedDriver | None = None
    deadline_at_s: float | None = None
    verdict: StartVerdict | None = None
    request: Preparation | None = None
    begun_at_s: float = 0.0
    ready: bool = False
    handed: Launch | None = None
    opening: float | None = None

    @property
    def now(self) -> Launch:
        """By what its attempt runs."""
        return self.handed or self.launch

    @property
    def is_free(self) -> bool:
        """It is a prepared driver to which no attempt was handed."""
        return self.request is not None and self.handed is None

    def hand_over(self, launch: Launch, decided_at_s: float) -> None:
        """The file ``handed.json`` is there, whole."""
        self.handed, self.decided_at_s = launch, decided_at_s
        if self.runner is not None:
            self.runner.wake()

    def start_shim(self) -> None:
        """Fork and exec of the shim; then its twin, its starter, and only then the rest of it."""
        world = self.world
        self.shim = world.process(f"shim {self.key}", self.host)
        self.claim = f"{world.random.getrandbits(64):016x}"

        def record() -> None:
            self.record = ShimRecord(ProcessId(world.new_pid(), 1, self.boot_id), self.claim)
            self.twin = Twin(self)
            self.starter_alive = True

        def run() -> None:
            self.runner = SimulatedRunner(self)

        assert self.shim is not None
        self.shim.on_death.append(self._shim_died)
        world.loop.after(0.02 + 0.1 * world.random.random(), record, self.shim)
        world.loop.after(0.15 + 0.3 * world.random.random(), run, self.shim)

    def _shim_died(self) -> None:
        if self.driver is None and self.runner is not None and not self.runner.release:
            self.starter_alive = False  # the end of its pipe
        if self.twin is not None:
            self.twin.read_soon()
        self.host.shim_died(self)

    @property
    def shim_dead(self) -> bool:
        return self.shim is None or self.shim.dead

    @property
    def nobody_lives(self) -> bool:
        return self.shim_dead and (self.twin is None or self.twin.process.dead)

    def write_deadline(self, deadline_at_s: float | None) -> None:
        self.deadline_at_s = deadline_at_s
        if self.twin is not None:
            self.twin.read_later()
        self.host.deadline_written(self)

    def wait_at_barrier(self) -> None:
        """Of a prepared driver: the starter becomes the driver at once."""
        if self.starter_alive:
            self.starter_alive = False
            self.driver = SimulatedDriver(self)

    # -- the tree --------------------------------------------------------------------------------------------------

    def kill_tree(self, why: str) -> float:
        """SIGKILL to everything in it. Returns for how many seconds something of it will still be seen."""
        self.starter_alive = False
        return self.driver.kill(why) if self.driver is not None else 0.0

    def emptiness(self, by_shim: bool) -> Emptiness:
        if self.starter_alive or (self.driver is not None and self.driver.alive):
            return Emptiness.POPULATED
        return Emptiness.EMPTY if by_shim or self.host.cgroups else Emptiness.UNPROVABLE

    def exec(self, before_at_s: float) -> None:
        """The starter looks at its clock once more, and becomes the driver."""
        assert self.runner is not None and self.shim is not None
        if self.request is not None and self.driver is not None:
            self.driver.read_opening(before_at_s)
        if not self.starter_alive:
            return
        if self.host.clock.boottime_s(self.world.loop.now_s) >= before_at_s:
            self.starter_alive = False
            self.runner.deliver(shim.ExecLate())
            return
        self.starter_alive = False
        self.driver = SimulatedDriver(self)
        self.runner.deliver(shim.Executed())
