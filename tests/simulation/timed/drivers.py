"""A driver's process tree, as a behaviour: how it starts, what it obeys, how it ends. It takes the place of Spark.

One that was prepared waits at its barrier first: that is no driver to the judge, until it has read its opening.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from supervisor.shim import state as shim

if TYPE_CHECKING:
    from tests.simulation.timed.attempts import Attempt


class SimulatedDriver:
    """The driver's process tree, as a behaviour drawn from job and attempt. The judge is told of its birth and end."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.world = attempt.world
        entry = attempt.launch.assignment
        self.name, self.uid, self.number = entry.name, entry.uid, entry.attempt
        self.random = self.world.lots("driver", self.name, attempt.key)
        self.alive = True
        self.ended = ""
        self._dies_at_s: float | None = None
        self._root_alive = True
        self._begun = False
        self._stopping = False
        self._behaviour = self.world.behaviour_of(self.name)
        self._executed = False
        if attempt.request is None:
            self._execute()
        else:
            self._after(self.random.uniform(0.2, 2.0), self._be_ready)

    def _execute(self) -> None:
        """From here on the application runs."""
        self.number = self.attempt.now.assignment.attempt
        self._executed = True
        self.world.judge.executed(self)
        self._live()

    def _be_ready(self) -> None:
        if self._behaviour.hangs and self.random.random() < 0.5:
            return
        self.attempt.ready = True
        self.attempt.host.prepared_driver_is_ready()

    def read_opening(self, before_at_s: float) -> None:
        """The opening is there: its clock is read after it, also when its shim is dead."""
        runner = self.attempt.runner
        if not self._root_alive or self._executed or runner is None:
            return
        if self.attempt.host.clock.boottime_s(self.world.loop.now_s) >= before_at_s:
            runner.deliver(shim.ExecLate())
            self.exit(78, "too late for its opening")
            return
        self._execute()
        runner.deliver(shim.Executed())

    def _live(self) -> None:
        lots, kind = self.random, self._behaviour
        if not self.attempt.now.reports:
            begun_at_s = 0.5
        elif kind.hangs and lots.random() < 0.5:
            begun_at_s = 1e6
        else:
            begun_at_s = lots.uniform(0.2, 2.0)
        self._after(begun_at_s, self._begin)
        if kind.crash_mean_s is not None:
            self._after(lots.expovariate(1 / kind.crash_mean_s), self._crash)
        if kind.finishes_s is not None:
            self._after(lots.uniform(0.5, 1.5) * kind.finishes_s, lambda: self.exit(0, "finished"))

    def _crash(self) -> None:
        if not self.world.calm:
            self.exit(1, "crashed")

    def _begin(self) -> None:
        verdict = self.attempt.verdict
        if self.attempt.now.is_held and (verdict is None or verdict.cause):
            if verdict is None:
                self._after(0.1, self._begin)
            else:
                self.exit(78, f"not let begin: {verdict.why}")
            return
        self._begun = True
        self._report("begun")
        self._report("session")
        self._after(0.3, self._progress)

    def _progress(self) -> None:
        if not self._stopping:
            self._report("progress", queries=1)
            self._after(20.0, self._progress)

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        def still() -> None:
            if self._root_alive:
                what()

        self.world.loop.after(seconds, still)

    def _report(self, event: str, queries: int | None = None) -> None:
        runner = self.attempt.runner
        if runner is not None and self.attempt.launch.reports:
            runner.report(shim.Reported(event, query="q", id="q", queries=queries))

    # -- what is done to it ----------------------------------------------------------------------------------------

    def order_stop(self) -> bool:
        """False: nobody takes orders there."""
        if not (self._root_alive and self._begun and self.attempt.launch.reports):
            return False
        if self._behaviour.deaf:
            return True
        self._stopping = True
        self._after(0.02, lambda: self._report("heard"))
        self._after(0.05, lambda: self._report("stopping", queries=1))
        batch_s = self.random.uniform(0.05, 2.5)
        self._after(batch_s, lambda: self._report("stopped"))
        self._after(batch_s + 0.3, lambda: self.exit(0, "stopped at a batch boundary"))
        return True

    def terminate(self) -> None:
        if not self._behaviour.deaf:
            self._after(self.random.uniform(0.05, 1.5), lambda: self.exit(-15, "SIGTERM"))

    def exit(self, status: int, why: str) -> None:
        """Its root ends. Now and then a child lives on (the Python driver of a killed JVM)."""
        if not self._root_alive:
            return
        self._root_alive = False
        self.ended = self.ended or why
        if not (why != "killed" and self.random.random() < 0.1):
            self._empty()
        if self.attempt.runner is not None:
            self.attempt.runner.driver_ended(status)

    def kill(self, why: str) -> float:
        if not self.alive:
            return 0.0
        loop = self.world.loop
        if self._dies_at_s is None:
            self.ended = self.ended or why
            took_s = self.random.choice([0.005, 0.02, 0.1, self.random.uniform(0.1, 1.8)])
            self._dies_at_s = loop.now_s + took_s
            loop.after(took_s, self._killed)
        return self._dies_at_s - loop.now_s

    def _killed(self) -> None:
        self.exit(-9, "killed")
        self._empty()

    def lose_power(self) -> None:
        self._root_alive = False
        self.ended = self.ended or "its host crashed"
        self._empty()

    def _empty(self) -> None:
        if self.alive:
            self.alive = False
            if self._executed:
                self.world.judge.tree_empty(self)
