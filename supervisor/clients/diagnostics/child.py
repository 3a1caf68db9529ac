"""Starts the process that collects diagnostics, and ends it. The shim starts one, so it goes without ``subprocess``.

What that process is to do goes through a pipe, and nothing of this process' environment is given to it but where Python and
this package are: it becomes another user, and the environment of a supervisor may hold secrets.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Final

import supervisor
from supervisor.clients import processes
from supervisor.clients.diagnostics.collection import DiagnosticsTask
from supervisor.model.driver_user import DriverUser

_PASSED_ON: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "CRASH_POINTS",
    "CRASH_POINTS_PACKAGE",
)
_PACKAGE_PARENT: Final = os.path.dirname(os.path.dirname(os.path.abspath(supervisor.__file__)))
_TASK_MAX_BYTES: Final = 32 * 1024


class DiagnosticsProcess:
    """Is the process: ``output`` is a descriptor with what it writes, up to its end. The caller closes both by ``close``.
    In a shim it is reaped with all other children; elsewhere ``reap`` does it."""

    def __init__(self, task: DiagnosticsTask, user: DriverUser | None) -> None:
        """Starts it. Raises OSError when that is not possible."""
        given = json.dumps({**asdict(task), "user": None if user is None else asdict(user)}).encode()
        if len(given) > _TASK_MAX_BYTES:  # a pipe takes more than this at once, unless its user has too many
            raise OSError(f"a task of {len(given)} bytes")
        (asked, ask), (self.output, written) = os.pipe(), os.pipe()
        try:
            os.set_blocking(ask, False)  # nobody waits
            if os.write(ask, given) < len(given):
                raise OSError("a pipe has no room for the task")
            self.pid = _spawn(asked, written)
        except OSError:
            os.close(self.output)
            raise
        finally:
            for descriptor in (asked, ask, written):
                os.close(descriptor)
        try:
            self._pidfd: int | None = os.pidfd_open(self.pid)
        except OSError:  # it has ended, or its own alarm ends it
            self._pidfd = None

    def kill(self) -> None:
        """Ends it at once. Idempotent, never raises."""
        if self._pidfd is not None:
            try:
                processes.send_signal(self._pidfd, signal.SIGKILL)
            except OSError:  # another user's, and no capability: its own alarm ends it
                pass

    def close(self) -> None:
        """Lets go of it, after its output has ended or is not wanted any more. It must be called once."""
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)
        os.close(self.output)

    def reap(self) -> None:
        """Waits for its end, after ``kill``. Never raises."""
        try:
            os.waitpid(self.pid, 0)
        except OSError:
            pass


def _spawn(asked: int, written: int) -> int:
    env = {name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (_PACKAGE_PARENT, env.get("PYTHONPATH", ""))))
    argv = [sys.executable, "-P", "-m", "supervisor.clients.diagnostics"]
    streams = [
        (os.POSIX_SPAWN_DUP2, asked, 0),
        (os.POSIX_SPAWN_DUP2, written, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawn(sys.executable, argv, env, file_actions=streams, setsid=True)
