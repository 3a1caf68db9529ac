"""A simulated host: its clock, its disk, the attempts that live there, and its supervisor, which comes back when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.timed.attempts import Attempt
from tests.simulation.timed.loop import Clock
from tests.simulation.timed.supervisors import SimSupervisor

if TYPE_CHECKING:
    from tests.simulation.timed.world import TimedWorld


@dataclass(eq=False)
class SimulatedHost:
    """``attempts``: its run directories. ``links``: names of attempts that lead to the directory of a prepared driver. ``cgroups``: where there are none, a tree can't be proven empty by others."""

    world: TimedWorld
    name: str
    clock: Clock
    cgroups: bool
    drivers: int
    boot_id: str = "boot-1"
    up: bool = True
    boots: int = 1
    disk: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    supervisor: SimSupervisor | None = None
    down: int = 0  # how many faults keep its supervisor from being started

    def start_supervisor(self) -> None:
        if self.up and self.supervisor is None and not self.down:
            self.supervisor = SimSupervisor(self.world, self)

    def supervisor_ended(self, which: SimSupervisor) -> None:
        if self.supervisor is which:
            self.supervisor = None
            self.world.loop.after(1.0 + 2.0 * self.world.random.random(), self.start_supervisor)

    def shim_died(self, attempt: Attempt) -> None:
        if self.supervisor is not None:
            self.supervisor.guardian.shim_died(attempt)

    def prepared_driver_is_ready(self) -> None:
        """The agent looks four times a second while it waits for one."""
        if self.supervisor is not None and self.supervisor.agent is not None:
            agent, process = self.supervisor.agent, self.supervisor.process
            self.world.loop.after(0.25 * self.world.random.random(), agent.wake.set, process)

    def deadline_written(self, attempt: Attempt) -> None:
        if self.supervisor is not None:
            self.supervisor.guardian.deadline_written(attempt)

    def crash(self) -> None:
        """Power off: everything on it is gone at once, and nobody closes anything."""
        if not self.up:
            return
        self.up = False
        loop = self.world.loop
        for attempt in self.attempts.values():
            if attempt.driver is not None:
                attempt.driver.lose_power()
            attempt.starter_alive = False
        for process in self.world.processes_of(self):
            process.on_death.clear()
            loop.kill(process)
        self.attempts.clear()
        self.links.clear()
        self.supervisor = None

    def boot(self) -> None:
        self.up = True
        self.boots += 1
        self.boot_id = f"boot-{self.boots}"
        self.clock.offset_s = -self.clock.rate * self.world.loop.now_s
        self.start_supervisor()
