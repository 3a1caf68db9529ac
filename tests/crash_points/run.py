"""One run: a scenario on a fleet, with one failpoint (or a pair, or none), and what must hold afterwards."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from tests.crash_points.crash_fleet import PAUSE_S, CrashFleet, pause
from tests.crash_points.points import Arm, Control, Point
from tests.crash_points.scenarios import DRIVERS, LIMIT_S, SCENARIOS
from tests.faults import checker
from tests.faults.checker import Acknowledged
from tests.testbed.fleet_commands import CommandResult
from tests.waiting import wait_until

AGAIN = (4, 5, 6, 7, -9, -15)
"""Exit codes of a command after which it is given again: changed meanwhile, unreachable, unknown, late, killed."""

OF_A_SHIM = frozenset({f"{kind}{role}" for kind in ("", "prepared_") for role in ("shim", "twin", "starter")})
"""Roles whose processes belong to one attempt, or to one prepared driver."""
OF_ONE_JOB = OF_A_SHIM | {"cli"}
"""Roles whose processes belong to one job: many such runs may share a fleet."""


@dataclass(frozen=True)
class Task:
    """What to run. ``points``: (point, moment, nth) each; more than one: a pair. ``mode``: of all, or ``kill+pause``: of each."""

    scenario: str
    mode: str
    points: tuple[tuple[str, str, int], ...]

    @property
    def roles(self) -> set[str]:
        return {Point.parse(point).role for point, _, _ in self.points}

    @property
    def modes(self) -> tuple[str, ...]:
        each = tuple(self.mode.split("+"))
        return each if len(each) == len(self.points) else (self.mode,) * len(self.points)

    @property
    def title(self) -> str:
        return " + ".join(f"{point}:{moment}:{nth}" for point, moment, nth in self.points) + f":{self.mode}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """``scenario title``. Raises ValueError."""
        scenario, _, title = text.partition(" ")
        points, _, mode = title.rpartition(":")
        found = []
        for each in points.split(" + "):
            point, moment, nth = each.rsplit(":", 2)
            found.append((point, moment, int(nth)))
        return cls(scenario, mode, tuple(found))


@dataclass
class RunOutcome:
    """``hit``: how many of the points struck. ``wrong``: what must not be, one sentence each."""

    task: Task
    name: str
    hit: int = 0
    wrong: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    took_s: float = 0.0
    story: str = ""

    def line(self) -> str:
        return json.dumps(asdict(self))


class OneRun:
    """A ``Story`` (``scenarios``) with failpoints. ``recording``: commands pass points too, none strikes."""

    def __init__(self, fleet: CrashFleet, name: str, task: Task, *, recording: bool = False) -> None:
        self.fleet = fleet
        self.name = name
        self.task = task
        self.outcome = RunOutcome(task, name)
        self._recording = recording
        self.undisturbed = not task.points
        self._acknowledged: list[Acknowledged] = []
        self._woken: list[threading.Thread] = []
        self._stopped = threading.Event()
        self._cli = Control(fleet.directory / "commands" / name)
        self._arms: dict[str, tuple[Control, Arm]] = {}
        for i, ((point, moment, nth), mode) in enumerate(zip(task.points, task.modes, strict=True)):
            role = Point.parse(point).role
            arm = Arm(f"{name}-{i}", point, moment, nth, mode, name if role in OF_ONE_JOB else "")
            self._arms[arm.id] = (self._cli if role == "cli" else fleet.control, arm)

    # -- the run ----------------------------------------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        began_at_s = time.monotonic()
        for control, arm in self._arms.values():
            control.arm(arm)
            if arm.mode == "pause":
                self._woken.append(
                    threading.Thread(target=self._wake_later, args=(control, arm), daemon=True)
                )
                self._woken[-1].start()
        try:
            SCENARIOS[self.task.scenario](self)
            self._rest()
        except (AssertionError, SupervisorError) as error:
            self.outcome.wrong.append(str(error))
        finally:
            self._stopped.set()
            for thread in self._woken:
                thread.join()
            for control, arm in self._arms.values():
                control.disarm(arm)
            self.outcome.hit = sum(control.hit(arm) is not None for control, arm in self._arms.values())
        if self.outcome.wrong:
            self.outcome.story = self.fleet.story(self.name)
        self.fleet.forget(self.name)
        self.outcome.took_s = round(time.monotonic() - began_at_s, 2)
        return self.outcome

    def _wake_later(self, control: Control, arm: Arm) -> None:
        while (hit := control.hit(arm)) is None:
            if self._stopped.wait(0.1):
                return
        pause(max(0.0, hit.at_s + PAUSE_S - boottime_s()))
        self.fleet.wake(hit)

    def _rest(self) -> None:
        """After everybody has been woken: nothing may come after, nothing may be left, and the fleet is whole."""
        pauses = [(control, arm) for control, arm in self._arms.values() if arm.mode == "pause"]
        for thread, (control, arm) in zip(self._woken, pauses, strict=False):
            if control.hit(arm) is not None:
                thread.join()
        last: list[str] = []

        def gone() -> bool:
            last[:] = self.fleet.leftovers(self.name)
            return not last

        with contextlib.suppress(AssertionError):
            wait_until(gone, LIMIT_S, period_s=0.2)
        self.outcome.wrong.extend(f"left over: {each}" for each in last)
        self.fleet.wait_complete(LIMIT_S)
        notes = self.fleet.notes(self.name)
        self.outcome.wrong.extend(checker.violations(notes, self._acknowledged, grace_s=self.fleet.grace_s))
        self._judge_disturbed()

    def _judge_disturbed(self) -> None:
        """I6: a fault of a supervisor or of a command starts no driver more. (A second ``restart`` is another order.)"""
        wanted = DRIVERS.get(self.task.scenario)
        beside = self.task.roles & OF_A_SHIM or (
            self.task.scenario in ("restart", "prepared", "unready", "prepared_killed")
            and "cli" in self.task.roles
        )
        if wanted is None or beside:
            return
        found = [note.attempt for note in self.fleet.starts(self.name)]
        if len(found) != wanted:
            self.outcome.wrong.append(f"I6: drivers started for attempts {found}, {wanted} are to be")

    # -- for scenarios ----------------------------------------------------------------------------------------------------

    def submit(self, **spec: Any) -> None:
        with self.fleet._cli:
            path = self.fleet.spec_file(self.name, **spec)
        self.command("submit", str(path))

    def apply(self, **spec: Any) -> None:
        with self.fleet._cli:
            path = self.fleet.spec_file(self.name, **spec)
        self.command("apply", str(path))

    def cancel(self) -> None:
        result = self.command("cancel", self.name, "-o", "json")
        heard = not self.task.roles & OF_A_SHIM
        self._acknowledged.append(Acknowledged(self.name, result.document["uid"], boottime_s(), heard))

    def linger(self, seconds: float) -> None:
        """Until all points have struck, or so long."""
        arms = list(self._arms.values())
        with contextlib.suppress(AssertionError):
            wait_until(lambda: arms and all(control.hit(arm) for control, arm in arms), seconds, period_s=0.2)

    def command(self, *words: str, config: Path | None = None, also: tuple[int, ...] = ()) -> CommandResult:
        """Give it until it is done."""
        last: list[CommandResult] = []

        def done() -> bool:
            before = self._registered()
            result = self._run_command(*words, config=config)
            last[:] = [result]
            if result.code in (0, *also):
                return True
            self.outcome.messages.append(f"{words[0]}: exit code {result.code}: {result.err.strip()[-300:]}")
            if result.code == 5 and words[0] in ("submit", "cancel") and self._registered() != before:
                self.outcome.wrong.append(
                    f"{words[0]} said that nothing was acknowledged, and has had its effect: {result.err}"
                )
            if result.code not in AGAIN and self.task.mode != "raise":
                raise AssertionError(f"{' '.join(words)}: exit code {result.code}: {result.err}")
            return False

        try:
            wait_until(done, LIMIT_S, f"{words[0]} to be done", period_s=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said {last}") from None
        return last[0]

    def _registered(self) -> bool:
        with self.fleet._observing:
            return self.fleet.read_znode(self.fleet.layout.job(self.name)) is not None

    def _run_command(self, *words: str, config: Path | None) -> CommandResult:
        if self._recording:
            return self._outcome_of(self.fleet.control, *words, config=config)
        if any(control is self._cli and control.hit(arm) is None for control, arm in self._arms.values()):
            return self._outcome_of(self._cli, *words, config=config)
        if config is not None:
            return self._outcome_of(self._cli, *words, config=config)
        return self.fleet.cli(*words)

    def _outcome_of(self, control: Control, *words: str, config: Path | None) -> CommandResult:
        process = self.fleet.armed_cli(control, self.name, *words, config=config)
        out, err = process.communicate(timeout=LIMIT_S)
        return CommandResult(process.returncode, out, err)


def run_batch(fleet: CrashFleet, tasks: Sequence[Task], name: Callable[[], str]) -> list[RunOutcome]:
    """Side by side, each with a job of its own."""
    runs = [OneRun(fleet, name(), task) for task in tasks]
    if len(runs) == 1:
        return [runs[0].run()]
    threads = [threading.Thread(target=run.run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [run.outcome for run in runs]
