"""A helper process of ours that is told things through a pipe and watches us by a pidfd. Called by
``daemon.process.session_closer``.

What it is told never appears in argv or in the environment. It is in a session of its own and blocks SIGTERM, SIGINT and
SIGHUP, so what is sent to a group or a control group to stop us does not end it. It inherits a pidfd of this process, not
its pid: a pidfd can't come to mean somebody else, even if we die before the child has begun.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from supervisor.errors import SupervisorError

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
_NOT_FOR_IT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class PipedChild:
    """``python -m <module> <fd of a pidfd of this process>``, with its stdin a pipe from here. Use from one thread."""

    def __init__(self, module: str) -> None:
        """Raises SupervisorError when it can't be started (no process, memory or descriptor left)."""
        path = os.pathsep.join(filter(None, (_PACKAGE_PARENT, os.environ.get("PYTHONPATH", ""))))
        # Inherited by the child, which is deaf to them from its first instruction on; an ignored signal would be ours too.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
        try:
            us = os.pidfd_open(os.getpid())
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(us)],
                    pass_fds=(us,),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                    env={**os.environ, "PYTHONPATH": path},
                )
            finally:
                os.close(us)
        except (OSError, subprocess.SubprocessError) as error:
            raise SupervisorError(f"{module} could not be started: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)  # a child that hangs must not make us hang

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, line: bytes) -> None:
        """One line, at once and whole. Raises SupervisorError: the child is gone, or has not read for very long."""
        if len(line) > select.PIPE_BUF:
            raise SupervisorError(f"{len(line)} bytes are too much for one line to a helper process")
        try:
            os.write(self._pipe.fileno(), line)
        except OSError as error:
            raise SupervisorError(f"process {self.pid} can't be told anything: {error}") from error

    def wait(self, timeout_s: float) -> bool:
        """Close the pipe and wait for the end. True if it came."""
        self._pipe.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
