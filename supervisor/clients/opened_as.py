"""Opens a file as the Unix user of a driver, for what a job names on the host (``local:``): the kernel says what that user
may read, whoever has put which link where.

The supervisor reads other files than a job may. By its own rights it would read, for a job, whatever the job's user makes
the path lead to. So a process of that user (``python -m supervisor.clients.opened_as``) opens the file and passes the
descriptor back. Where driver and supervisor are one user, there is nothing to gain, and the file is opened here.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import stat
import subprocess
import sys
from typing import Final

from supervisor.clients import privileges
from supervisor.clients.package_path import python_path
from supervisor.errors import InvalidInput, Unreachable
from supervisor.model.driver_user import DriverUser

LIMIT_S: Final = 30.0
"""A file system that hangs ends it. Python itself needs a moment to start."""
FILE_MAX_BYTES: Final = 8 * 2**30
"""No jar and no packed environment is larger. Whoever opens the file reads it, and copies it."""
OF_HOST: Final = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""These errors say nothing of the file."""
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_as(path: str, user: DriverUser | None) -> io.BufferedReader:
    """Returns the regular file at ``path``, which is absolute, opened as ``user``, or as this process's own user if that is
    None. Raises InvalidInput if it is no file that this user may read, or one of more than ``FILE_MAX_BYTES``, and
    Unreachable if that can't be found out now."""
    try:
        descriptor = _opened(path) if user is None else _opened_by_child(path, user)
    except OSError as error:
        if error.errno in OF_HOST:
            raise Unreachable(
                f"{path} cannot be read here now ({error.strerror})", "repair this host"
            ) from None
        whom = "" if user is None else f" by user {user.name}, as whom the job runs"
        raise InvalidInput(f"{path} cannot be read{whom} ({error.strerror or error})") from None
    file = os.fdopen(descriptor, "rb")
    if os.fstat(descriptor).st_size > FILE_MAX_BYTES:
        file.close()
        raise InvalidInput(f"{path} is larger than {FILE_MAX_BYTES >> 30} GiB")
    return file


def _opened(path: str) -> int:
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file")
    return descriptor


def _opened_by_child(path: str, user: DriverUser) -> int:
    """Raises OSError as the child met it, and Unreachable."""
    ours, theirs = socket.socketpair()
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    numbers = [str(each) for each in (user.uid, user.gid, *user.groups)]
    argv = [sys.executable, "-P", "-m", "supervisor.clients.opened_as", path, user.name, *numbers]
    with ours, theirs:
        ours.settimeout(LIMIT_S)
        try:
            child = subprocess.Popen(
                argv,
                env={**env, "PYTHONPATH": python_path(env)},
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
        except OSError as error:
            raise Unreachable(f"no process can be started to open {path} ({error.strerror})") from None
        theirs.close()
        try:
            said, descriptors, _flags, _sender = socket.recv_fds(ours, 1024, 1)
        except OSError:
            raise Unreachable(
                f"{path}: no answer within {LIMIT_S:.0f} s whether user {user.name} may read it"
            ) from None
        finally:
            child.kill()
            child.wait()
    if descriptors:
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]
    number, _, why = said.decode("utf-8", "replace").partition(" ")
    if not number.isdigit():
        raise Unreachable(f"{path}: the process that was to open it as user {user.name} ended without a word")
    raise OSError(int(number), why)


def main(path: str, name: str, uid: int, gid: int, groups: tuple[int, ...]) -> None:
    """Runs in the process, whose stdin is a socket. Raises nothing."""
    signal.alarm(int(LIMIT_S))  # whatever hangs
    with socket.socket(fileno=os.dup(0)) as answer:
        try:
            privileges.become(DriverUser(name=name, uid=uid, gid=gid, groups=groups))
            socket.send_fds(answer, [b"0"], [_opened(path)])
        except OSError as error:
            answer.send(f"{error.errno or errno.EIO} {error.strerror or error}".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), tuple(map(int, sys.argv[5:])))
