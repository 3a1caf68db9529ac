"""Runs a helper process that watches its parent, and acts when the parent dies, however it dies.

``Companion`` is the parent's side: it starts ``python -m <module>`` and sends it lines through a pipe; only
the last line counts. ``last_message`` is the companion's side: it returns when the parent is dead, with that
line, or when the parent has dismissed it. The end of the pipe proves nothing, because other children may hold
it; so the companion watches a pidfd of the parent, which it inherits. Unlike a pid, a pidfd can't come to
mean another process, even if the parent dies before the companion has begun.

What is sent to a companion never appears in argv or in the environment. The companion is in a session of its
own and blocks SIGTERM, SIGINT and SIGHUP, so a signal that is sent to a group or a control group to stop the
parent does not end it. The companions are ``daemon.process.session_closer``, ``death_guard`` and
``stack_guard``; ``task_child`` starts its children by the same ``spawn``. PDEATHSIG would not do: it fires
when the *thread* that called fork ends. A shim's twin is a fork of the shim, not a companion.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable

from supervisor.clients.package_path import python_path
from supervisor.errors import SupervisorError

_NOT_FOR_IT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DISMISSED = b'{"go": true}'


def spawn(module: str, *, stdout: int, stderr: int | None = None, umask: int = -1) -> subprocess.Popen[bytes]:
    """Starts ``python -m <module> <fd of a pidfd of this process>``, with a pipe from this process as its
    stdin.

    The child inherits that descriptor, its three streams and the signals that this thread blocks, and nothing
    else. Raises SupervisorError when it can't be started (no process, memory or descriptor left).
    """
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
                env={**os.environ, "PYTHONPATH": python_path(os.environ)},
                umask=umask,
            )
        finally:
            os.close(us)
    except (OSError, subprocess.SubprocessError) as error:
        raise SupervisorError(f"{module} could not be started: {error}") from error


class Companion:
    """Is the parent's side of one such process. It must be used from one thread at a time."""

    def __init__(self, module: str) -> None:
        """Starts the process. Raises SupervisorError, as ``spawn``."""
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
        """Sends one line, at once and whole; it replaces the line before.

        Raises SupervisorError if the child is gone, if it has not read for very long, or if the line is
        longer than PIPE_BUF.
        """
        line = message + b"\n"
        if len(line) > select.PIPE_BUF:
            raise SupervisorError(f"{len(line)} bytes are too much for one line to a helper process")
        try:
            os.write(self._pipe.fileno(), line)
        except (OSError, ValueError) as error:  # ValueError: the pipe is closed
            raise SupervisorError(f"process {self.pid} can't be told anything: {error}") from error

    def dismiss(self, timeout_s: float) -> None:
        """Makes the child end without acting. The child is killed if it has not ended after ``timeout_s``.
        Idempotent."""
        try:
            self.send(_DISMISSED)
        except SupervisorError:
            pass  # it is gone already
        if not self.wait(timeout_s):
            self.kill()

    def wait(self, timeout_s: float) -> bool:
        """Closes the pipe and waits for the end of the child. Returns True if it has ended in time."""
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


def last_message(heard: Callable[[bytes], None] = lambda _line: None) -> bytes | None:
    """Waits in the companion until its parent is dead; returns the last line that was sent (b"" if there was
    none).

    Returns None if the parent has dismissed it. ``heard`` is called with the newest line whenever one has come, so that
    the companion can prepare; it must not raise.
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
        if lines:
            heard(message)
        if ended:
            poller.unregister(pipe)  # proves nothing; the pidfd will show it


def await_parent_death() -> None:
    """Blocks, in a process that ``spawn`` has started, until the process that started it is dead."""
    poller = select.poll()
    poller.register(int(sys.argv[1]), select.POLLIN)
    poller.poll()


def _drain(pipe: int) -> tuple[bytes, bool]:
    """Returns all that is in the pipe now, and whether the pipe has ended."""
    text = b""
    while True:
        try:
            chunk = os.read(pipe, 65536)
        except BlockingIOError:
            return text, False
        if not chunk:
            return text, True
        text += chunk
