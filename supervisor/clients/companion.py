"""A helper process of ours that watches us, and acts when we die, however we die.

``Companion`` is our side: it starts ``python -m <module>`` and tells it lines through a pipe; the last line is what holds.
``last_message`` is the companion's side: it returns when we are dead, with that line, or when we dismissed it. The end of
the pipe proves nothing, because other children may hold it; so the companion watches a pidfd of this process, which it
inherits. A pidfd can't come to mean somebody else, even if we die before the companion has begun, as a pid could.

What a companion is told never appears in argv or in the environment. It is in a session of its own and blocks SIGTERM,
SIGINT and SIGHUP, so what is sent to a group or a control group to stop us does not end it. The companions are
``daemon.process.session_closer``, ``death_guard`` and ``stack_guard``; ``task_child`` starts its children by the same
``spawn``. PDEATHSIG would not do: it fires when the *thread* that called fork ends. A shim's twin is a fork of the
shim, no companion.
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
_DISMISSED = b'{"go": true}'


def spawn(module: str, *, stdout: int, stderr: int | None = None, umask: int = -1) -> subprocess.Popen[bytes]:
    """Start ``python -m <module> <fd of a pidfd of this process>``, with its stdin a pipe from here.

    It inherits that descriptor and its three streams, nothing else, and the signals that this thread blocks.
    Raises SupervisorError when it can't be started (no process, memory or descriptor left).
    """
    path = os.pathsep.join(filter(None, (_PACKAGE_PARENT, os.environ.get("PYTHONPATH", ""))))
    try:
        us = os.pidfd_open(os.getpid())
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(us)],
                pass_fds=(us,),
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": path},
                umask=umask,
            )
        finally:
            os.close(us)
    except (OSError, subprocess.SubprocessError) as error:
        raise SupervisorError(f"{module} could not be started: {error}") from error


class Companion:
    """One such process. Use from one thread at a time."""

    def __init__(self, module: str) -> None:
        """Raises SupervisorError, as ``spawn``."""
        # Inherited by the child, which is deaf to them from its first instruction on; an ignored signal would be ours too.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
        try:
            self._process = spawn(module, stdout=subprocess.DEVNULL)
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

    def send(self, message: bytes) -> None:
        """Tell it one line, at once and whole; it replaces the line before.

        Raises SupervisorError: the child is gone, or has not read for very long.
        """
        line = message + b"\n"
        if len(line) > select.PIPE_BUF:
            raise SupervisorError(f"{len(line)} bytes are too much for one line to a helper process")
        try:
            os.write(self._pipe.fileno(), line)
        except (OSError, ValueError) as error:  # ValueError: the pipe is closed
            raise SupervisorError(f"process {self.pid} can't be told anything: {error}") from error

    def dismiss(self, timeout_s: float) -> None:
        """Make it go without acting. It is killed if it has not ended after ``timeout_s``. Idempotent."""
        try:
            self.send(_DISMISSED)
        except SupervisorError:
            pass  # it is gone already
        if not self.wait(timeout_s):
            self.kill()

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


# -- the other side ---------------------------------------------------------------------------------------------------


def last_message() -> bytes | None:
    """Wait in the companion until its parent is dead; return the last line that it was told (b"": none).

    None: the parent has dismissed it.
    """
    parent, pipe = int(sys.argv[1]), sys.stdin.fileno()
    os.set_blocking(pipe, False)
    poller = select.poll()
    poller.register(parent, select.POLLIN)
    poller.register(pipe, select.POLLIN)
    message = unread = b""
    while True:
        dead = parent in {fd for fd, _ in poller.poll()}
        text, ended = _drain(pipe)
        *lines, unread = (unread + text).split(b"\n")
        if _DISMISSED in lines:
            return None
        message = lines[-1] if lines else message
        if dead:
            return message
        if ended:
            poller.unregister(pipe)  # proves nothing; the pidfd will tell


def await_parent_death() -> None:
    """Block in a process that ``spawn`` has started until the one who started it is dead."""
    poller = select.poll()
    poller.register(int(sys.argv[1]), select.POLLIN)
    poller.poll()


def _drain(pipe: int) -> tuple[bytes, bool]:
    """All that is in the pipe now, and whether it has ended."""
    text = b""
    while True:
        try:
            chunk = os.read(pipe, 65536)
        except BlockingIOError:
            return text, False
        if not chunk:
            return text, True
        text += chunk
