"""The second and the third killer of an attempt: its twin, and the guardian of its host.

Real are ``model.second_killer`` and ``daemon.host.guarded_attempt``: what they decide is carried out here, with delays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from supervisor.clients.zookeeper import Committed, Reads
from supervisor.daemon.host import guarded_attempt as guard
from supervisor.daemon.host.guarded_attempt import GuardedAttempt, GuardStage
from supervisor.model import second_killer
from supervisor.model.emptiness import Emptiness
from supervisor.model.lease_terms import KILL_TIME_S, SECOND_KILLER_PERIOD_S
from supervisor.model.records import Ownership
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, ShimStruck, TreeStruck
from supervisor.records.reading import seen
from tests.simulation.timed.loop import Process

if TYPE_CHECKING:
    from tests.simulation.timed.attempts import Attempt
    from tests.simulation.timed.hosts import SimulatedHost
    from tests.simulation.timed.world import TimedWorld

GUARDIAN_SLICE_S = 0.05


class Twin:
    """What ``shim.twin: watch`` is. A process of its own; it is woken by the shim's death and by the deadline."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._world = attempt.world
        self.process = self._world.process(f"twin {attempt.key}", attempt.host)
        self._killer = SecondKiller()
        self._planned_at_s = 0.0

    def read_soon(self) -> None:
        self._world.loop.after(0.001 + 0.01 * self._world.random.random(), self._poll, self.process)

    def read_later(self) -> None:
        """In time for the deadline that was written, unless a look before it is planned: that one sees the new deadline."""
        deadline_at_s, loop = self._attempt.deadline_at_s, self._world.loop
        if deadline_at_s is None or self._planned_at_s > loop.now_s:
            return
        clock = self.process.clock
        left_s = deadline_at_s - SECOND_KILLER_PERIOD_S - clock.boottime_s(loop.now_s)
        wait_s = max(0.0, left_s / clock.rate) + 0.05 * self._world.random.random()
        self._planned_at_s = loop.now_s + wait_s
        loop.after(wait_s, self._poll, self.process)

    def _poll(self) -> None:
        attempt, now_s = self._attempt, self.process.clock.boottime_s(self._world.loop.now_s)
        if self._killer.act is not Act.PROBE:
            return
        self._killer = second_killer.step(
            self._killer, KillerProbe(attempt.shim_dead, attempt.deadline_at_s), now_s
        )
        if self._killer.act is Act.PROBE:
            self._planned_at_s = 0.0
            self.read_later()
        else:
            self._strike()

    def _strike(self) -> None:
        attempt, loop = self._attempt, self._world.loop
        if self._killer.act is Act.KILL_SHIM:
            if not attempt.shim_dead:
                loop.note(f"{self.process.name} kills the shim")
                assert attempt.shim is not None
                loop.kill(attempt.shim)
            loop.after(0.002, lambda: self._struck(ShimStruck(True)), self.process)
        elif self._killer.act is Act.KILL_TREE:
            left_s = attempt.kill_tree("twin")
            took_s = min(left_s, KILL_TIME_S)
            loop.after(
                took_s + 0.001,
                lambda: self._struck(TreeStruck(took_s, attempt.emptiness(by_shim=False))),
                self.process,
            )
        else:
            loop.kill(self.process)

    def _struck(self, blow: ShimStruck | TreeStruck) -> None:
        self._killer = second_killer.step(
            self._killer, blow, self.process.clock.boottime_s(self._world.loop.now_s)
        )
        self._strike()


@dataclass
class GuardedProcesses:
    attempt: Attempt
    guarded_attempt: GuardedAttempt
    striking: bool = False
    planned_at_s: float = 0.0


class SimulatedGuardian:
    """What ``daemon.host.guardian`` is, in the process of a supervisor: it guards every attempt of the host."""

    def __init__(
        self, world: TimedWorld, host: SimulatedHost, process: Process, client: Callable[[], Any]
    ) -> None:
        self._world = world
        self._host = host
        self._process = process
        self._client = client
        self._guarded: dict[str, GuardedProcesses] = {}
        self._tick()

    def _tick(self) -> None:
        """Every p, for all but the plainly watched, who are looked at when their time comes or their shim dies."""
        attempts = self._host.attempts
        for key in [
            key for key, guarded in self._guarded.items() if attempts.get(key) is not guarded.attempt
        ]:
            del self._guarded[key]
        for key, attempt in list(attempts.items()):
            if key not in self._guarded:
                guarded_attempt = GuardedAttempt(
                    key, self._host.name, self._host.boot_id, self._world.layout, self._now_s()
                )
                self._guarded[key] = GuardedProcesses(attempt, guarded_attempt)
        for guarded in list(self._guarded.values()):
            if guarded.guarded_attempt.stage is not GuardStage.WATCHED or guarded.attempt.shim_dead:
                self._attend(guarded)
            else:
                self.deadline_written(guarded.attempt)
        self._world.loop.after(SECOND_KILLER_PERIOD_S, self._tick, self._process)

    def _now_s(self) -> float:
        return self._process.clock.boottime_s(self._world.loop.now_s)

    def shim_died(self, attempt: Attempt) -> None:
        guarded = self._guarded.get(attempt.key)
        if guarded is not None and guarded.attempt is attempt:
            self._world.loop.after(0.005, lambda: self._attend(guarded), self._process)

    def deadline_written(self, attempt: Attempt) -> None:
        guarded, loop = self._guarded.get(attempt.key), self._world.loop
        if (
            guarded is None
            or attempt.deadline_at_s is None
            or guarded.planned_at_s > loop.now_s
            or guarded.attempt is not attempt
        ):
            return
        wait_s = (
            max(0.0, attempt.deadline_at_s - SECOND_KILLER_PERIOD_S - self._now_s())
            / self._process.clock.rate
        )
        wait_s += 0.05 * self._world.random.random()
        guarded.planned_at_s = loop.now_s + wait_s
        loop.after(wait_s, lambda: self._attend(guarded), self._process)

    def _attend(self, guarded: GuardedProcesses) -> None:
        stage = None
        while stage is not guarded.guarded_attempt.stage and not guarded.striking:
            stage = guarded.guarded_attempt.stage
            self._feed(guarded, self._perceive(guarded))

    def _perceive(self, guarded: GuardedProcesses) -> guard.Event:
        attempt = guarded.attempt
        if guarded.guarded_attempt.stage is GuardStage.UNBORN:
            return guard.DirectoryRead(attempt.launch, attempt.record)
        if guarded.guarded_attempt.stage is GuardStage.WATCHED:
            return KillerProbe(attempt.shim_dead, attempt.deadline_at_s)
        if guarded.guarded_attempt.stage is GuardStage.TAKEN:
            return guard.HandedRead(attempt.handed)
        return guard.GuardTick(self._client() is not None)

    def _feed(self, guarded: GuardedProcesses, event: guard.Event) -> None:
        before = guarded.guarded_attempt.stage
        guarded.guarded_attempt, effects = guard.step(guarded.guarded_attempt, event, self._now_s())
        if guarded.guarded_attempt.stage is not before:
            self._world.loop.note(
                f"guardian of {self._host.name}: {guarded.guarded_attempt.key} {guarded.guarded_attempt.stage.value}"
            )
        for effect in effects:
            self._carry_out(guarded, effect)

    def _carry_out(self, guarded: GuardedProcesses, effect: guard.Effect) -> None:
        match effect:
            case guard.Strike(act):
                self._strike(guarded, act)
            case guard.ReadOwn():
                path = self._world.layout.own(guarded.attempt.launch.assignment.name)
                self._client().read_many_async((path,), partial(self._answered, guarded))
            case guard.CommitTombstone(transaction):
                self._client().commit_async(transaction, partial(self._answered, guarded))
            case guard.Remove():
                if guarded.attempt.nobody_lives:
                    self._host.attempts.pop(guarded.attempt.key, None)

    def _strike(self, guarded: GuardedProcesses, act: Act) -> None:
        attempt, loop = guarded.attempt, self._world.loop
        guarded.striking = True
        if act is Act.KILL_SHIM:
            if attempt.shim is not None and not attempt.shim.dead:
                loop.note(f"guardian of {self._host.name} kills {attempt.shim.name}")
                loop.kill(attempt.shim)
            blow: ShimStruck | TreeStruck = ShimStruck(True)
            took_s = 0.002
        else:
            took_s = min(attempt.kill_tree("guardian"), GUARDIAN_SLICE_S)
            blow = TreeStruck(took_s, Emptiness.POPULATED)

        def struck() -> None:
            guarded.striking = False
            told = (
                blow if isinstance(blow, ShimStruck) else TreeStruck(took_s, attempt.emptiness(by_shim=False))
            )
            self._feed(guarded, told)

        loop.after(took_s + 0.001, struck, self._process)

    def _answered(self, guarded: GuardedProcesses, answer: Any) -> None:
        if not guarded.guarded_attempt.asking:
            return
        if isinstance(answer, Committed):
            self._feed(guarded, guard.TombstoneWritten())
        elif isinstance(answer, Reads):
            path = self._world.layout.own(guarded.attempt.launch.assignment.name)
            self._feed(guarded, guard.OwnershipRead(seen(Ownership, answer.nodes[0], path), None, "t"))
        else:
            self._feed(guarded, guard.CommitUnanswered())
