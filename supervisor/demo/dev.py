"""Leaves the stack of ``demo`` running until Ctrl-C, for the command ``dev``, to try things on. Prints where
everything is and what to type.

A supervisor that was killed is started again after a moment, as a service manager would do it.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from supervisor.cli.options import Chosen, command
from supervisor.cli.output import print_line
from supervisor.demo.stack import FLEET, Stack, forget_configuration
from supervisor.errors import InvalidInput, SupervisorError, TimedOut
from supervisor.operations.cluster_status import status_of
from supervisor.operations.context import open_commands

PROGRAM = "spark-supervisor"
READY_LIMIT_S = 90.0
RESTART_AFTER_S = 5.0
_POLL_S = 0.2


@command
def dev(chosen: Chosen) -> int:
    """Run a whole fleet on this machine, to try things on; Ctrl-C ends all of it.

    Three ZooKeeper servers and two supervisors, all real, in a directory of their own. Prints what to type next.
    """
    if chosen.document:
        raise InvalidInput("dev runs until Ctrl-C and prints what to type: leave out -o json")
    forget_configuration()
    with Stack("dev", FLEET, keep=False) as stack:
        try:
            _print_line(f"starting three ZooKeeper servers and two supervisors in {stack.directory} ...")
            stack.start_ensemble()
            for name in FLEET:
                stack.start_supervisor(name)
            _print_guide(stack, _ready(stack))
            _keep_running(stack)
        except KeyboardInterrupt:
            _print_line("")
            _print_line("ending jobs, supervisors and ZooKeeper ...")
    _print_line("everything has ended, and nothing was left behind")
    return 0


def _ready(stack: Stack) -> dict[str, Any]:
    """Returns the document of ``status`` as soon as both supervisors are there and one leads. Raises
    TimedOut, SupervisorError."""
    until_at_s = time.monotonic() + READY_LIMIT_S
    with open_commands(stack.settings()) as context:
        while time.monotonic() < until_at_s:
            ended = stack.find_ended()
            if ended is not None:
                raise SupervisorError(f"{ended.what}; its last words: {ended.log_tail}")
            document, _ = status_of(context)
            if document["leader"] is not None and len(document["supervisors"]) == len(stack.daemons):
                return document
            time.sleep(_POLL_S)
    raise TimedOut(f"no leader within {READY_LIMIT_S:g} s", f"see {stack.directory}/*/supervisor.log")


def _print_guide(stack: Stack, document: dict[str, Any]) -> None:
    """Prints what is running, and what to type."""
    leader = document["leader"]
    _print_line("")
    for member in document["supervisors"]:
        name = member["id"]
        role = "leads" if name == leader else "stands by"
        _print_line(
            f"  {name:<6} {role:<10} pid {stack.pid(name):<8} http://{member['address']}   (/metrics /api/status /livez)"
        )
    _print_line("\nIn another terminal:\n")
    for line in _path_line():
        _print_line(line)
    _print_line(f"  export SPARK_SUPERVISOR_CONFIG={shlex.quote(str(stack.config))}")
    _print_line(f"  cd {shlex.quote(str(stack.directory))}\n")
    _print_columns(
        [
            (
                f"{PROGRAM} submit jobs/{stack.spec.name}",
                "a sample job; its application lies beside the spec",
            ),
            (f"{PROGRAM} list --watch", "what runs, and how far it is"),
            (f"{PROGRAM} list -o wide", "with each driver's pid and supervisor"),
            (f"{PROGRAM} show clicks", "its state, its history, its spec"),
            (f"{PROGRAM} explain", "what does not simply run, why, and what helps"),
            (f"{PROGRAM} logs -f clicks", "what the driver writes"),
            ("tail -f record.jsonl", "what the job's own sink writes, a line per batch"),
            (f"{PROGRAM} status", "who leads"),
            (f"{PROGRAM} suspend clicks", "and resume, restart"),
            (f"{PROGRAM} cancel clicks", "for good; submitted again, it goes on from its checkpoint"),
        ]
    )
    _print_line("\nAnd break it:\n")
    _print_columns(
        [
            (f"kill -9 {stack.pid(leader)}", f"{leader}, the leader: the other takes over, no job notices"),
            ("kill -9 DRIVER_PID", "(in list -o wide): the next attempt goes on with the next batch"),
        ]
    )
    _print_line(
        f"\nA killed supervisor is started again after {RESTART_AFTER_S:g} s. Ctrl-C here ends everything."
    )


def _print_columns(lines: list[tuple[str, str]]) -> None:
    width = max(len(text) for text, _ in lines)
    for text, about in lines:
        _print_line(f"  {text:<{width}}   # {about}")


def _keep_running(stack: Stack) -> None:
    """Runs until Ctrl-C."""
    due_at_s: dict[str, float] = {}
    while True:
        time.sleep(_POLL_S)
        ended = stack.find_ended()
        if ended is not None:
            _print_line(f"{ended.what}; it is started again in {RESTART_AFTER_S:g} s")
        now_s = time.monotonic()
        for name, daemon in stack.daemons.items():
            if daemon.process is not None:
                due_at_s.pop(name, None)
            elif now_s >= due_at_s.setdefault(name, now_s + RESTART_AFTER_S):
                _print_line(f"supervisor {name} is started: pid {stack.start_supervisor(name)}")


def _path_line() -> list[str]:
    """Returns what makes the shell find this very installation, or nothing if it does so already."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM)
    if not beside.exists() or (found is not None and Path(found).samefile(beside)):
        return []
    return [f"  export PATH={shlex.quote(str(beside.parent))}:$PATH"]


def _print_line(text: str) -> None:
    for line in text.split("\n"):
        print_line(line)
    sys.stdout.flush()
