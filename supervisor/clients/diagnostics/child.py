"""Starts the process that collects diagnostics, and ends it. The shim starts one, so it goes without ``subprocess``.

What that process is to do goes through a pipe, and nothing of this process' environment is given to it but where Python and
this package are: it becomes another user, and the environment of a supervisor may hold secrets.

It is forked, and nothing waits for its exec. posix_spawn and ``subprocess`` would (vfork), with Python's global lock held:
where Python's executable can't be opened, because its disk hangs or what checks files at exec does, the shim would neither
renew nor kill until it could. A process that stands by, forked when the shim begins, would do the same, but takes 6 MiB of
its own (measured) for as long as each job lives.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict
from typing import Final, NoReturn

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
_UNTIL_EXEC_S: Final = 60
LATE_S: Final = 5.0
"""So much after the time of its task its own alarm has ended it, unless the driver has stopped it (SIGSTOP): an alarm does
not end what is stopped. Nobody waits longer."""


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

    def read(self, max_bytes: int, until_at_s: float) -> bytes | None:
        """Returns what it writes next, nothing at its end, and None from ``until_at_s`` on (of ``time.monotonic``), if it
        has not ended by then. Raises OSError."""
        watched, left_s = select.poll(), until_at_s - time.monotonic()
        watched.register(self.output, select.POLLIN)
        return os.read(self.output, max_bytes) if left_s > 0 and watched.poll(left_s * 1000) else None

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
    """Forks it, and returns its pid before it has become what it is to be. Raises OSError."""
    env = {name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (_PACKAGE_PARENT, env.get("PYTHONPATH", ""))))
    argv = [sys.executable, "-P", "-m", "supervisor.clients.diagnostics"]
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _exec(argv, env, (asked, written, null))
        return pid
    finally:
        os.close(null)


def _exec(argv: list[str], env: dict[str, str], streams: tuple[int, int, int]) -> NoReturn:
    """Becomes the collector. Other threads of the parent may have held any lock at the fork: nothing here takes one, and the
    alarm ends what hangs all the same."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_UNTIL_EXEC_S)
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.set_inheritable(number, True)  # where both are the same, dup2 changes nothing
        os.execve(argv[0], argv, env)
    finally:
        os._exit(127)  # a forked copy must never return into its parent's code
