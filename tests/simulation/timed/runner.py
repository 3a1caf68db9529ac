"""What ``shim.runner`` is: waits for what happens, asks ``machine.step`` what to do, and does it. Real: ``shim.link``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from supervisor.model.emptiness import Emptiness
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.records import Cause
from supervisor.shim import link, machine
from supervisor.shim import state as shim
from supervisor.shim.driver import STOP
from supervisor.shim.state import Now, ShimState, Stage

if TYPE_CHECKING:
    from tests.simulation.timed.attempts import Attempt

KILL_SLICE_S = 0.2


class SimulatedRunner:
    """Of one attempt, in the process of its shim."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._world = attempt.world
        assert attempt.shim is not None
        self.process = attempt.shim
        layout = self._world.layout
        self.state = ShimState(
            attempt.launch,
            layout,
            attempt.claim,
            self._world.new_pid(),
            self._world.new_pid(),
            born_at_s=self._boot_s(),
            stage=Stage.PREPARED if attempt.launch.waits_for_assignment else Stage.CONNECTING,
        )
        self.release = False
        self._posted: deque[shim.Event] = deque()
        self._reported: deque[shim.Event] = deque()
        self._ended: deque[shim.Event] = deque()
        self._turn_due = False
        self._ticks = 0
        self._link: link.RegistryLink | None = None
        if attempt.launch.waits_for_assignment:
            attempt.wait_at_barrier()
        else:
            self._connect()
        self._turn()

    def _connect(self) -> None:
        layout = self._world.layout
        self._link = link.RegistryLink(self.state.launch, layout, self.deliver, lambda *_args, **_more: None)
        self._link.start()

    def _boot_s(self) -> float:
        return self.process.clock.boottime_s(self._world.loop.now_s)

    # -- what happens ----------------------------------------------------------------------------------------------

    def deliver(self, event: shim.Event) -> None:
        self._posted.append(event)
        self._soon()

    def wake(self) -> None:
        """For what was handed over."""
        self._soon()

    def report(self, report: shim.Reported | shim.StillWanted | shim.DiscardAsked) -> None:
        if not self.process.dead:
            self._reported.append(report)
            self._soon()

    def driver_ended(self, status: int) -> None:
        verdict = self._attempt.verdict
        refused = (Cause(verdict.cause), verdict.why) if verdict is not None and verdict.cause else None
        self._ended.append(shim.Exited(status, refused=refused))
        self._soon()

    def _soon(self) -> None:
        if not self._turn_due and not self.process.dead:
            self._turn_due = True
            self._world.loop.after(0.0002, self._turn, self.process)

    def _turn(self) -> None:
        self._turn_due = False
        if self.process.dead:
            return
        for queue in (self._posted, self._reported, self._ended):
            handed = self._attempt.handed
            if handed is not None and self.state.stage is Stage.PREPARED and queue is not self._posted:
                self._feed(shim.HandedOver(handed))
            while queue:
                self._feed(queue.popleft())
        self._feed(shim.Tick())
        self._ticks += 1
        number, wait_s = (
            self._ticks,
            min(SECOND_KILLER_PERIOD_S, max(0.01, machine.next_wake_at_s(self.state) - self._boot_s())),
        )
        self._world.loop.after(wait_s, lambda: self._turn() if number == self._ticks else None, self.process)

    def _feed(self, event: shim.Event) -> None:
        if self.state.stage is Stage.DONE:
            return
        before = self.state.stage
        wall_s = self.process.clock.wall_s + self._world.loop.now_s
        self.state, effects = machine.step(self.state, event, Now(self._boot_s(), wall_s))
        if self.state.stage is not before:
            self._world.loop.note(f"{self.process.name}: {self.state.stage.value} {self.state.reason}")
        for effect in effects:
            self._perform(effect)

    # -- what is done ----------------------------------------------------------------------------------------------

    def _perform(self, effect: shim.Effect) -> None:
        attempt, loop = self._attempt, self._world.loop
        match effect:
            case shim.FirstConnect():
                self._connect()
            case shim.Read() | shim.Commit() | shim.NewClient() | shim.CloseSession():
                assert self._link is not None
                self._link.submit(effect)
            case shim.WriteDeadline(deadline_at_s):
                attempt.write_deadline(deadline_at_s)
            case shim.Exec(before_at_s):
                self.release, attempt.opening = True, before_at_s
                lots = self._world.random
                late_s = lots.choice([0.005, 0.05, 0.3]) if lots.random() < 0.97 else lots.uniform(0.0, 40.0)
                loop.after(late_s, lambda: attempt.exec(before_at_s))
            case shim.Order(order) if order == STOP:
                if attempt.driver is None or not attempt.driver.order_stop():
                    self.deliver(shim.Unheard(effect))
            case shim.Diagnose(within_s):
                # in time, late, or never: it may hang
                loop.after(self._world.random.uniform(0.1, 2.0) * within_s, self._diagnosed, self.process)
            case shim.Terminate():
                if attempt.driver is not None:
                    attempt.driver.terminate()
            case shim.Kill():
                why = f"shim: {self.state.cause.value if self.state.cause else 'exited'}: {self.state.reason}"
                left_s = attempt.kill_tree(why)
                loop.after(min(left_s, KILL_SLICE_S) + 0.001, self._tree_seen, self.process)
            case shim.Finish(why):
                loop.note(f"{self.process.name} is done: {why}")
                attempt.kill_tree("the shim ended")
                loop.spawn(self._finish, self.process, "finish")

    def _diagnosed(self) -> None:
        self.deliver(shim.Diagnosed())

    def _tree_seen(self) -> None:
        while self._ended:
            self._feed(self._ended.popleft())
        self.deliver(shim.TreeSeen(self._attempt.emptiness(by_shim=True) is Emptiness.EMPTY))

    def _finish(self) -> None:
        if self._link is not None:
            self._link.close(1.0)
        self._world.loop.kill(self.process)
