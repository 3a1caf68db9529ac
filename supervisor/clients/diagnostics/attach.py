"""Asks a JVM for its threads and its heap, by HotSpot's attach protocol. A JRE has no jcmd, so it is spoken here.

A JVM that has no attach listener yet starts one when it gets SIGQUIT while there is a file ``.attach_pid<pid>``. Without
that file the same signal prints the threads into the output of the driver, and in a JVM that does not handle it (``-Xrs``,
or one that is only just starting) it ends the process. So the file is there first, and the signal goes only to a JVM that
catches it. The listener is the socket ``/tmp/.java_pid<pid>``; it serves the JVM's own user and root. One connection is one
command: ``1 NUL command NUL argument NUL argument NUL argument NUL``; the answer is a number, a newline and the text. This
is version 1, which Java 8 to 25 know.

A JVM that is killed leaves its socket. It is not removed for it: that would take its user, in its mount namespace, after its
end, and proof that no later JVM of the same number listens there. It is an empty file, as after jcmd; a later JVM of
that number removes it when it starts, and systemd-tmpfiles removes sockets at which nobody listens.

What answers is the job's own code as far as this process knows: nothing is waited for longer than ``until_at_s``, nothing is
read beyond ``max_bytes``, and no link is followed. It must run as the user of the JVM.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import stat
import time
from typing import Final, NamedTuple

from supervisor.clients import processes
from supervisor.clients.diagnostics import proc
from supervisor.clients.processes import ProcessId

ANSWER_MAX_BYTES: Final = 4 * 2**20
_POLL_S: Final = 0.05
_ARGUMENTS: Final = 3
_CHUNK_BYTES: Final = 65536


class AttachFailed(Exception):
    """The JVM could not be asked, or has not answered in time; the text says why."""


class JavaProcess(NamedTuple):
    """Is a JVM: the process, its user as the kernel says, and the pid that it has in its own namespace."""

    process: ProcessId
    uid: int
    own_pid: int


def ask_jvm(java: JavaProcess, command: str, *arguments: str, until_at_s: float) -> str:
    """Returns the answer of the JVM to a command. ``until_at_s`` is of ``time.monotonic``. Raises AttachFailed."""
    try:
        directory = os.open(
            f"/proc/{java.process.pid}/root/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except OSError as error:
        raise AttachFailed(f"its /tmp can't be opened ({error.strerror})") from None
    try:
        connection = _connected(directory, java)
        if connection is None:
            connection = _started(directory, java, until_at_s)
        with connection:
            return _asked(connection, command, arguments, until_at_s)
    except OSError as error:
        raise AttachFailed(f"it has not answered ({error.strerror or error})") from None
    finally:
        os.close(directory)


def _connected(directory: int, java: JavaProcess) -> socket.socket | None:
    """Returns a connection to the attach listener, or None if there is none. Raises OSError, AttachFailed."""
    try:
        target = os.open(
            f".java_pid{java.own_pid}", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(target)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != java.uid:
            raise AttachFailed("the socket of its attach listener is not its own")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connection.connect(f"/proc/self/fd/{target}")
            return connection
        except OSError as error:
            connection.close()
            if error.errno == errno.ECONNREFUSED:  # of an earlier JVM
                return None
            raise
    finally:
        os.close(target)


def _started(directory: int, java: JavaProcess, until_at_s: float) -> socket.socket:
    """Makes the JVM start its attach listener, and returns a connection to it. Raises OSError, AttachFailed."""
    name, is_ours = f".attach_pid{java.own_pid}", True
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o600, dir_fd=directory))
    except FileExistsError:  # another one asks just now
        is_ours = False
    try:
        _send_quit(java.process)
        while time.monotonic() < until_at_s:
            connection = _connected(directory, java)
            if connection is not None:
                return connection
            if not processes.alive(java.process):
                raise AttachFailed("it has ended")
            time.sleep(_POLL_S)
        raise AttachFailed("it has not started its attach listener in time")
    finally:
        if is_ours:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)


def _send_quit(process: ProcessId) -> None:
    """Sends SIGQUIT to a JVM that catches it. Raises OSError, AttachFailed."""
    if not proc.catches(process.pid, signal.SIGQUIT):
        raise AttachFailed("it does not handle SIGQUIT (-Xrs, or it is only just starting)")
    pidfd = processes.open_pidfd(process)
    if pidfd is None:
        raise AttachFailed("it has ended")
    try:
        processes.send_signal(pidfd, signal.SIGQUIT)
    finally:
        os.close(pidfd)


def _asked(connection: socket.socket, command: str, arguments: tuple[str, ...], until_at_s: float) -> str:
    padded = (*arguments, "", "", "")[:_ARGUMENTS]
    request = "\0".join(("1", command, *padded)) + "\0"
    connection.settimeout(_left_s(until_at_s))
    connection.sendall(request.encode())
    answer = b""
    while len(answer) < ANSWER_MAX_BYTES:
        connection.settimeout(_left_s(until_at_s))
        try:
            more = connection.recv(_CHUNK_BYTES)
        except TimeoutError:
            if not answer:
                raise AttachFailed("it has not answered in time (it comes to no safepoint?)") from None
            break
        if not more:
            break
        answer += more
    code, _, text = answer.partition(b"\n")
    if code.strip() != b"0":
        raise AttachFailed(f"it has refused: {text[:200].decode('utf-8', 'replace').strip() or 'no answer'}")
    return text.decode("utf-8", "replace")


def _left_s(until_at_s: float) -> float:
    left_s = until_at_s - time.monotonic()
    if left_s <= 0:
        raise AttachFailed("it has not answered in time")
    return left_s
