"""A restore that is quicker than a lease: a shim from before it, which has not claimed yet, must not claim by what it finds (I1)."""

from __future__ import annotations

import pytest

from supervisor.shim.state import Stage
from tests.simulation.timed.ensemble import Snapshot
from tests.simulation.timed.loop import Process
from tests.simulation.timed.runner import SimulatedRunner
from tests.simulation.timed.scenario import quiet
from tests.simulation.timed.world import TimedWorld


class Director:
    """Stops the first shim before its claim, saves the registry, waits until another host runs the job, restores."""

    def __init__(self, world: TimedWorld, connected: bool) -> None:
        self.world = world
        self.connected = connected
        self.shim: Process | None = None
        self.saved: Snapshot | None = None
        self.trust_check()

    def is_it(self, runner: SimulatedRunner | None) -> bool:
        if not self.connected:
            return runner is None  # it has only just been started
        return (
            runner is not None and runner.state.stage is Stage.CONNECTING and runner.state.session is not None
        )

    def trust_check(self) -> None:
        world = self.world
        attempts = [attempt for host in world.hosts for attempt in host.attempts.values()]
        if self.shim is None:
            for attempt in attempts:
                if attempt.shim is not None and self.is_it(attempt.runner):
                    self.shim = attempt.shim
                    world.loop.stop(self.shim)
                    node = world.ensemble.tree.read(world.layout.doorbell)
                    assert node is not None
                    self.saved = world.ensemble.take_snapshot(node.stat.version)
        elif any(attempt.driver is not None for attempt in attempts) and self.saved is not None:
            world.judge.restored(world.loop.now_s, self.saved.doorbell_version, lost=True)
            world.ensemble.restore(self.saved, higher=True)
            world.loop.cont(self.shim)
            world.loop.after(5.0, world.users.handle_alarms)
            return
        world.loop.after(0.001, self.trust_check)


@pytest.mark.parametrize("connected", [True, False])
def test_a_shim_from_before_a_restore_does_not_run_the_job_beside_a_driver_of_the_lost_state(
    connected: bool,
) -> None:
    """Assigned to the first host, saved; taken back, and running on the second host when ZooKeeper is restored, faster than
    the lease of that driver runs out. The first host's shim, stopped all the while, finds the assignment as it knows it.
    It was ``connected`` when it was stopped, or connects for the first time now."""
    world = TimedWorld(quiet())
    Director(world, connected)
    world.run()
    assert len(world.judge.lives) >= 2
    assert not [broken for broken in world.judge.broken if "I1:" in broken], world.judge.broken
