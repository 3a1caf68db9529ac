"""Work that must not share our interpreter, in a process of its own that can be ended at any moment. Called by ``daemon``.

``run_task`` starts ``python -m <module>``, gives it one JSON object on stdin and takes one from stdout: nothing of it stands
in argv or in the environment. ``serve`` is the other end. The child has low priority; it ends with us, however we die: it
holds a pidfd of this process (never its pid, see ``piped_child``). It writes to shared places only: with the host's umask.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from supervisor.clients import umask
from supervisor.errors import SupervisorError, TimedOut

NICE: Final = 10
LOOK_EVERY_S: Final = 0.2

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])


class TaskEnded(SupervisorError):
    """The child was ended because its work is not wanted any more."""


def run_task(
    module: str, task: dict[str, Any], timeout_s: float, go_on: Callable[[], bool]
) -> dict[str, Any]:
    """The child's answer. Raises Ended (``go_on`` said no), TimedOut, SupervisorError (it died, or could not be started)."""
    path = os.pathsep.join(filter(None, (_PACKAGE_PARENT, os.environ.get("PYTHONPATH", ""))))
    try:
        us = os.pidfd_open(os.getpid())
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(us)],
                pass_fds=(us,),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": path},
                umask=umask.given(),
            )
        finally:
            os.close(us)
    except (OSError, subprocess.SubprocessError) as error:
        raise SupervisorError(f"{module} could not be started: {error}") from error
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
    go_on: Callable[[], bool],
) -> dict[str, Any]:
    waited_s = 0.0
    given: bytes | None = task
    while True:
        try:
            said = child.communicate(given, LOOK_EVERY_S)[0]
            break
        except subprocess.TimeoutExpired:
            given, waited_s = None, waited_s + LOOK_EVERY_S
        if not go_on():
            raise TaskEnded(f"{module} was ended")
        if waited_s >= timeout_s:
            raise TimedOut(f"it was not done after {timeout_s:.0f} s, and was ended")
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise SupervisorError(f"{module} ended with {child.returncode} and said nothing")
    return answer


def serve(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The child: ``argv[1]`` is a pidfd of the one who started it. Ends the process."""
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    os.nice(NICE)
    answer = work(json.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()
    os._exit(0)


def _end_with(supervisor: int) -> None:
    poller = select.poll()
    poller.register(supervisor, select.POLLIN)
    poller.poll()
    os._exit(1)
