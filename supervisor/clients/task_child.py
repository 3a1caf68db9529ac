"""Runs work that must not share the interpreter in a process of its own, which can be killed at any moment.
``daemon`` calls it.

``run_task`` starts ``python -m <module>``, writes one JSON object to its stdin and reads one from its stdout:
nothing of it appears in argv or in the environment. ``serve`` is the child's side. The child has low
priority; it ends with its parent, however that dies (see ``companion``). It writes to shared directories
only, with the host's umask.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from supervisor.clients import companion, umask
from supervisor.clients.threads import BackgroundThread
from supervisor.errors import SupervisorError, TimedOut

NICE: Final = 10
POLL_EVERY_S: Final = 0.2

GoOn = Callable[[], bool]
"""Says whether the work of a child is still wanted."""


class TaskEnded(SupervisorError):
    """Means that the child was ended because its work is not wanted any more."""


def run_task(module: str, task: dict[str, Any], timeout_s: float, go_on: GoOn) -> dict[str, Any]:
    """Returns the child's answer. Raises TaskEnded (``go_on`` returned False), TimedOut, SupervisorError (the
    child died, or could not be started)."""
    child = companion.spawn(module, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, umask=umask.given())
    try:
        return _answer(child, module, json.dumps(task).encode(), timeout_s, go_on)
    finally:
        child.kill()
        child.communicate()


def _answer(
    child: subprocess.Popen[bytes],
    module: str,
    task: bytes,
    timeout_s: float,
    go_on: GoOn,
) -> dict[str, Any]:
    waited_s = 0.0
    given: bytes | None = task
    while True:
        try:
            output = child.communicate(given, POLL_EVERY_S)[0]
            break
        except subprocess.TimeoutExpired:
            given, waited_s = None, waited_s + POLL_EVERY_S
        if not go_on():
            raise TaskEnded(f"{module} was ended")
        if waited_s >= timeout_s:
            raise TimedOut(f"it was not done after {timeout_s:.0f} s, and was ended")
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise SupervisorError(f"{module} ended with {child.returncode} and said nothing")
    return answer


def serve(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Reads the task in the child, does ``work`` and answers. Ends the process."""
    BackgroundThread("parent", _end_with_parent).start()
    os.nice(NICE)
    answer = work(json.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()
    os._exit(0)


def _end_with_parent() -> None:
    companion.await_parent_death()
    os._exit(1)
