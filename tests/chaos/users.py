"""Users who submit, cancel, suspend, resume, restart, update, roll back, move and submit again all the while, and write down
what they were told.

Each name belongs to one user, so what it should be doing is known from the answers alone: an acknowledged command decides;
after an unknown outcome either is right until the same command, given again, is acknowledged. Most commands are given in
this process, through what the command line itself calls; a share by the real command line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.clients.sessions import keep_session
from supervisor.clock import boottime_s
from supervisor.errors import Conflict, NotFound, SupervisorError
from supervisor.model.records import Desired
from supervisor.operations.apply import carry_out, judge_all
from supervisor.operations.context import CommandContext, layout_of
from supervisor.operations.submit import prepare, prepare_all, store_prepared
from supervisor.records.ids import new_uid
from supervisor.settings.file import load_settings
from supervisor.spec.files import read_located
from tests.chaos.world import GRACE_S, SESSION_S, ChaosWorld
from tests.faults.checker import Acknowledged

CLI_SHARE = 0.06
CLI_TIMEOUT_S = 90.0
OBEYED_S = 90.0
"""A restart is carried out by the leader, who may be away or paused for a while."""
PREPARED_S = 240.0
"""One that waits for a prepared driver may wait for as long as ``start_timeout`` more, which each new leader counts anew."""

RUNNING, SUSPENDED, GONE, UNKNOWN = "running", "suspended", "gone", "unknown"
AFTER = {"submit": RUNNING, "resume": RUNNING, "restart": RUNNING, "suspend": SUSPENDED, "cancel": GONE}
CHANGES = {"update", "roll_back", "move"}
"""These leave a job in the state in which it is."""
STOPPING = {"cancel", "suspend", "restart", *CHANGES}
SLOW = {"restart", *CHANGES}
"""These are obeyed by the leader, maybe when a driver is prepared; and an update that fails is rolled back after that."""
BROKEN_SHARE = 0.25
"""So many of the updates are to a spec whose driver fails soon after its begin."""

CHOICES: dict[str, tuple[tuple[int, str], ...]] = {
    GONE: ((1, "submit"),),
    RUNNING: (
        (26, "cancel"),
        (20, "suspend"),
        (18, "restart"),
        (10, "submit"),
        (6, "resume"),
        (12, "update"),
        (4, "roll_back"),
        (4, "move"),
    ),
    SUSPENDED: ((60, "resume"), (20, "cancel"), (8, "suspend"), (8, "update"), (4, "roll_back")),
}
OFTEN_CHANGED = (
    (14, "cancel"),
    (12, "suspend"),
    (24, "restart"),
    (6, "submit"),
    (4, "resume"),
    (24, "update"),
    (8, "roll_back"),
    (8, "move"),
)
"""What is done to a job that runs and can have a prepared driver."""
OBSERVED: dict[str, Any] = {"observe": "5s", "rollback": "continue"}
"""An update that fails is rolled back whatever it has left, so that each job that is to run does in the end."""

KNOBS: tuple[dict[str, Any], ...] = (
    {},
    {"child": True},
    {"child": True, "setsid_child": True},
    {"orders": "obey"},
    {"ignore_term": True, "child": True},
    {"term_delay_s": 0.5},
)

PREPARED: dict[str, Any] = {"update": {"prepare": "session"}, "resources": {"memory": "512m"}}
STANDBY: dict[str, Any] = {**PREPARED, "standby": {"level": "session", "where": "any", "refresh": "60s"}}
UPDATES: tuple[dict[str, Any], ...] = (PREPARED, {}, STANDBY, PREPARED)
"""How a job is restarted: cold; by a prepared driver; by one that is kept while it runs."""


def update_of(number: int) -> dict[str, Any]:
    return UPDATES[number % len(UPDATES)]


@dataclass(frozen=True, slots=True)
class ExpectedStage:
    """What a name should be doing from ``at_s`` on. ``uid``: None before the first submit."""

    at_s: float
    state: str
    uid: str | None


@dataclass
class Job:
    """One name. ``stages``: what it should be doing, in order; the last one counts now. ``pending``: the command whose outcome
    is unknown."""

    name: str
    spec: Path
    stages: list[ExpectedStage] = field(default_factory=lambda: [ExpectedStage(0.0, GONE, None)])
    pending: str | None = None
    update: dict[str, Any] = field(default_factory=dict)
    changes: int = 0

    @property
    def now(self) -> ExpectedStage:
        return self.stages[-1]

    @property
    def known(self) -> ExpectedStage:
        """The newest stage that is not in doubt."""
        return next(stage for stage in reversed(self.stages) if stage.state != UNKNOWN)

    def becomes(self, state: str, uid: str | None) -> None:
        self.stages.append(ExpectedStage(boottime_s(), state, uid))


class User(threading.Thread):
    """``acknowledged``: cancels, for the judge. ``answers``: how often each command got which answer."""

    def __init__(self, world: ChaosWorld, number: int, names: list[str], pause_s: float) -> None:
        super().__init__(name=f"user {number}", daemon=True)
        self._world = world
        self._pause_s = pause_s
        self._choice = world.random(self.name)
        self._config = world.fleet.user_config()
        settings = load_settings(self._config, {})
        sessions = keep_session(world.user_links.hosts, SESSION_S)
        self._context = CommandContext(settings, sessions, layout_of(settings))
        self._blobs = self._context.blobs()
        numbers = {name: number for number, name in enumerate(world.leases_s)}
        self.jobs = [Job(name, self._write_spec(name, []), update=update_of(numbers[name])) for name in names]
        self.acknowledged: list[Acknowledged] = []
        self.answers: Counter[str] = Counter()

    def _write_spec(self, name: str, args: list[str]) -> Path:
        world = self._world
        number = list(world.leases_s).index(name)
        knobs = {"beat_s": 0.05, "batch_s": 1.0, **KNOBS[number % len(KNOBS)]}
        spec = {"lease": f"{world.leases_s[name]:g}s", "stop_grace": f"{GRACE_S:g}s", **update_of(number)}
        spec["update"] = {**spec.get("update", {}), **OBSERVED}
        return world.fleet.spec_file(name, knobs=knobs, args=args, **spec)

    def run(self) -> None:
        for job in self.jobs:
            with self._world.shared_lock.shared():
                self._give(job, "submit")
        while not self._world.done.wait(self._choice.expovariate(1 / self._pause_s)):
            job = self._choice.choice(self.jobs)
            with self._world.shared_lock.shared():
                self._give(job, job.pending or self._next(job))

    def finish(self) -> None:
        """After the faults: give what is unknown again until it is answered. Raises SupervisorError, AssertionError."""
        for job in self.jobs:
            for _ in range(10):
                if job.pending is None:
                    break
                self._give(job, job.pending)
            assert job.pending is None, f"{job.name}: {job.pending} is never answered"

    def cancel_all(self) -> None:
        for job in self.jobs:
            if job.now.state != GONE:
                self._give(job, "cancel")
        assert all(job.now.state == GONE for job in self.jobs), [job.now for job in self.jobs]

    def close(self) -> None:
        self._context.sessions.close()

    def _next(self, job: Job) -> str:
        often = job.update and job.now.state == RUNNING
        weights, commands = zip(*(OFTEN_CHANGED if often else CHOICES[job.now.state]), strict=True)
        chosen: str = self._choice.choices(commands, weights)[0]
        return chosen

    def _give(self, job: Job, command: str) -> None:
        by_cli = self._choice.random() < CLI_SHARE
        stops = [job.name] if command in STOPPING else []
        obeyed_s = PREPARED_S if job.update else OBEYED_S
        aftermath_s = obeyed_s if command in SLOW else self._world.leases_s[job.name] + GRACE_S + 6.0
        if command == "update" and job.pending is None:
            self._change_spec(job)
        elif command == "submit" and job.now.state == GONE:
            self._write_good_spec(job)
        harm = self._world.diary.harm(
            f"user: {command}", stops, aftermath_s=aftermath_s, is_obeyed_later=command in SLOW
        )
        with harm:
            before = job.now
            job.becomes(UNKNOWN, before.uid)
            try:
                uid = self._by_command_line(job, command) if by_cli else self._here(job, command)
            except CommandRefused as refused:
                # It was not done, for a reason that the registry gives: look what is there.
                self._answered(job, command, "refused", str(refused))
                if command in CHANGES:
                    job.pending, before = None, job.known
                job.becomes(before.state, before.uid)
                return
            except Exception as error:
                self._answered(job, command, "unknown", f"{type(error).__name__}: {error}")
                job.pending = command
                return
            job.pending = None
            job.becomes(AFTER.get(command, job.known.state), uid)
            if command == "cancel":
                lease_s = self._world.leases_s[job.name]
                self.acknowledged.append(
                    Acknowledged(job.name, uid, boottime_s(), heard=False, lease_s=lease_s)
                )
            self._answered(job, command, "acknowledged", uid)

    def _answered(self, job: Job, command: str, answer: str, what: str) -> None:
        self.answers[f"{command} {answer}"] += 1
        self._world.diary.write(
            "command", by=self.name, name=job.name, command=command, answer=answer, what=what[:200]
        )

    def _here(self, job: Job, command: str) -> str:
        commands = self._context.commands
        try:
            match command:
                case "submit":
                    return self._submit(job)
                case "update":
                    return self._apply(job)
                case "roll_back":
                    return str(commands.roll_back(job.name, self.name).uid)
                case "move":
                    return str(commands.move(job.name, self._some_host()).uid)
            return str(getattr(commands, command)(job.name).uid)
        except (Conflict, NotFound) as error:
            raise CommandRefused(str(error)) from error

    def _some_host(self) -> str:
        return str(self._choice.choice(self._world.fleet.members).id)

    def _change_spec(self, job: Job) -> None:
        """A new spec for each update; of some the driver fails."""
        job.changes += 1
        broken = ["exit_after_s=1", "exit_code=3"] if self._choice.random() < BROKEN_SHARE else []
        self._write_spec(job.name, [f"change={job.changes}", *broken])

    def _write_good_spec(self, job: Job) -> None:
        """A new submission has nothing to be rolled back to: a spec that an update has broken would fail for ever."""
        self._write_spec(job.name, [f"change={job.changes}"])

    def _apply(self, job: Job) -> str:
        context = self._context
        read = prepare_all([job.spec], context.settings, lambda _: None, read_located)
        (one,) = judge_all(context, read, again=True)
        for done in carry_out(context, [one], self.name) if one.error is None else ():
            assert done is one
        if one.error is not None:
            raise one.error
        return one.uid

    def _submit(self, job: Job) -> str:
        context = self._context
        prepared = prepare(job.spec, context.settings.defaults)
        context.bootstrap_or_check(self._blobs)
        done = context.commands.check_submit(job.name, prepared.sha256, prepared.spec.checkpoint)
        if done is None:
            done = context.commands.submit(
                store_prepared(self._blobs, prepared, new_uid(job.name), Desired.RUNNING)
            )
        return done.uid

    def _by_command_line(self, job: Job, command: str) -> str:
        words = {
            "submit": ["submit", str(job.spec)],
            "update": ["apply", str(job.spec), "--again"],
            "roll_back": ["rollback", job.name],
            "move": ["move", job.name, "--to", self._some_host()],
        }
        argv = [
            sys.executable,
            "-P",
            "-c",
            "from supervisor.cli.main import main; main()",
            *words.get(command, [command, job.name]),
            "-o",
            "json",
        ]
        done = subprocess.run(
            [*argv, "--config", str(self._config)],
            capture_output=True,
            text=True,
            timeout=CLI_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        self.answers["by the command line"] += 1
        if done.returncode in (Conflict.exit_code, NotFound.exit_code):
            raise CommandRefused(done.stderr)
        if done.returncode != 0:
            raise SupervisorError(f"exit code {done.returncode}: {done.stderr}")
        document = json.loads(done.stdout)
        found = document[0] if isinstance(document, list) else document
        return str(found["uid"]) if "uid" in found else str(job.now.uid)


class CommandRefused(Exception):
    """Answered with a reason why not (exit code 4): nothing was done."""


def make_users(world: ChaosWorld, count: int, pause_s: float) -> list[User]:
    names = list(world.leases_s)
    return [User(world, number, names[number::count], pause_s) for number in range(count)]
