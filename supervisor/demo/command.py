"""Runs ``demo``, which is a fleet on this machine, a real streaming job, three kills, two changes, a roll back and
a cancel, reported while they happen.

The exit code is 0 only if all of it was observed. The story is in ``demo.story``, the screen that it is
printed on in ``demo.screen``, the processes that it happens to in ``demo.stack``. They meet in this module:
``Live`` is the story's world, made of real processes.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import time
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.main import run_command
from supervisor.cli.options import Chosen, command
from supervisor.clients import processes
from supervisor.clients.marked import find_marked, is_marked
from supervisor.clock import boottime_s, wall_s
from supervisor.demo.record import BatchLine, parse_record
from supervisor.demo.screen import Screen
from supervisor.demo.stack import FLEET, JOB, ROWS_PER_BATCH, Stack, forget_configuration
from supervisor.demo.story import Story
from supervisor.demo.world import FAST, DemoPace
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.model.job_row import JobRow
from supervisor.model.records import LeaderHint
from supervisor.model.seen import Found, Seen
from supervisor.observe.listing import job_row, read_job
from supervisor.operations.context import CommandContext, open_commands
from supervisor.records.reading import seen

if TYPE_CHECKING:
    from collections.abc import Iterator

Keep = Annotated[
    bool, typer.Option("--keep", help="Leave the directory with logs, record and configuration behind.")
]
Fast = Annotated[bool, typer.Option("--fast", help="Shorter waits.")]

CHANGED_TRIGGER = "700 milliseconds"
_METRIC = "spark_supervisor_takeover_seconds_count "
_HTTP_TIMEOUT_S = 3.0


@command
def demo(chosen: Chosen, keep: Keep = False, fast: Fast = False) -> int:
    """Watch it survive, on this machine: the leader, the driver and the leader again are killed, and the job is changed.

    Needs Java 17 and nothing else; takes two minutes or so and leaves nothing behind. Exit code 0 only if all of what it
    promises was seen.
    """
    if chosen.document:
        raise InvalidInput("demo tells a story on the screen: leave out -o json")
    forget_configuration()
    screen = Screen()
    with Stack("demo", FLEET, keep=keep, trigger="500 milliseconds" if fast else "1 second") as stack:
        screen.title("spark-supervisor demo: kill whatever you like, the stream goes on")
        screen.text(
            "Three ZooKeeper servers, two supervisors and one streaming job, all real and on this machine; then the killing "
            f"begins. It takes two minutes or so and lives in {stack.directory}; in the end, or at Ctrl-C, all of it goes."
        )
        pace = FAST if fast else DemoPace()
        assert pace.rows_per_batch == ROWS_PER_BATCH
        try:
            with live(stack) as world:
                story = Story(world, screen, pace, FLEET)
                all_seen = story.run()
        except KeyboardInterrupt:
            screen.text("Interrupted: everything is being ended ...")
            raise
        if not all_seen:
            stack.keep_directory()
        screen.live("everything is being ended")
        stack.close()
    screen.text("")
    if keep or not all_seen:
        screen.text(
            f"Everything has ended. To look at: {stack.directory} (record.jsonl, logs/, */supervisor.log)"
        )
    else:
        screen.text("Everything has ended, and nothing was left behind. To try it with your own hands:")
        screen.command("spark-supervisor dev")
    if not all_seen:
        raise SupervisorError(f"not everything was seen: {story.failure}")
    return 0


@contextlib.contextmanager
def live(stack: Stack) -> Iterator[Live]:
    """Yields the world of the story. The session that its ``start_ensemble`` opens is closed in the end."""
    with contextlib.ExitStack() as closing:
        yield Live(stack, closing)


class Live:
    """Acts on real processes. Readings return None while ZooKeeper does not answer."""

    def __init__(self, stack: Stack, closing: contextlib.ExitStack) -> None:
        self._stack = stack
        self._closing = closing
        self._commands: CommandContext | None = None

    def now_s(self) -> float:
        return boottime_s()

    def pause(self, seconds: float) -> None:
        ended = self._stack.find_ended()
        if ended is not None:
            raise SupervisorError(
                f"{ended.what}, and it was not us who killed it; its last words: {ended.log_tail}"
            )
        time.sleep(seconds)

    def start_ensemble(self) -> str:
        self._stack.start_ensemble()
        settings = self._stack.settings()
        self._commands = self._closing.enter_context(open_commands(settings))
        return settings.zookeeper.hosts

    def start_supervisor(self, name: str) -> int:
        return self._stack.start_supervisor(name)

    def pid_of(self, name: str) -> int:
        return self._stack.pid(name)

    def kill_supervisor(self, name: str) -> None:
        self._stack.kill_supervisor(name)

    def leader(self) -> LeaderHint | None:
        context = self._context()
        with contextlib.suppress(SupervisorError):
            found: Seen[LeaderHint] = seen(
                LeaderHint, context.zoo().read(context.layout.leader), context.layout.leader
            )
            return found.record if isinstance(found, Found) else None
        return None

    def members(self) -> frozenset[str]:
        context = self._context()
        with contextlib.suppress(SupervisorError):
            return frozenset(context.zoo().children(context.layout.supervisors) or ())
        return frozenset()

    def has_planned(self, leader: LeaderHint) -> bool:
        host, _, port = leader.address.rpartition(":")
        # the heaviest import there is, for this command alone
        connection = HTTPConnection(host, int(port), timeout=_HTTP_TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        return any(float(line.removeprefix(_METRIC)) >= 1 for line in lines if line.startswith(_METRIC))

    def submit(self) -> str:
        return self._run("submit", str(self._stack.spec))

    def cancel(self) -> str:
        return self._run("cancel", JOB)

    def change(self) -> str:
        self._stack.write_spec(CHANGED_TRIGGER)
        return self._run("apply", str(self._stack.spec))

    def break_it(self) -> str:
        self._stack.break_program()
        return self._run("apply", str(self._stack.spec))

    def why_given_up(self) -> str | None:
        context = self._context()
        with contextlib.suppress(SupervisorError):
            found = read_job(context.zoo(), context.layout, JOB)
            update = None if found is None or found.ref is None else found.ref.update
            return None if update is None else update.given_up or None
        return None

    def roll_back(self) -> str:
        return self._run("rollback", JOB, "--to", "1")

    def list_all(self) -> str:
        return self._run("list", "--all")

    def job(self) -> JobRow | None:
        context = self._context()
        with contextlib.suppress(SupervisorError):
            found = read_job(context.zoo(), context.layout, JOB)
            return None if found is None else job_row(found, wall_s())
        return None

    def record(self) -> tuple[BatchLine, ...]:
        try:
            return parse_record(self._stack.record.read_text())
        except FileNotFoundError:
            return ()

    def drivers(self, uid: str, attempt: int | None = None) -> list[int]:
        found = [process.pid for process in find_marked("SPARK_SUPERVISOR_UID", uid)]
        return [
            pid
            for pid in found
            if attempt is None or is_marked(pid, "SPARK_SUPERVISOR_ATTEMPT", str(attempt))
        ]

    def kill_driver(self, uid: str, pid: int) -> None:
        process = processes.identify(pid)
        if process is None or not is_marked(pid, "SPARK_SUPERVISOR_UID", uid) or not processes.kill(process):
            raise SupervisorError(
                f"process {pid} is no driver of {uid} any more: it ended before it was killed"
            )

    def commands(self) -> tuple[str, str]:
        return shlex.quote(str(self._stack.config)), shlex.quote(str(self._stack.spec))

    def _context(self) -> CommandContext:
        assert self._commands is not None, "the ensemble is not started"
        return self._commands

    def _run(self, *arguments: str) -> str:
        """Runs a command of the command line, as anybody would give it, in this process. Raises
        SupervisorError."""
        printed, noticed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(noticed):
            code = run_command([*arguments, "--config", str(self._stack.config)])
        if code != 0:
            raise SupervisorError(
                f"spark-supervisor {arguments[0]} exited with {code}: {noticed.getvalue().strip()}"
            )
        return printed.getvalue()
