"""Empties directories that a driver could write to, in bounded time and whatever it has left there.

A driver of another Unix user can leave what its supervisor can neither read nor remove, nor should go through:
directories without permissions, a thousand deep, millions of files. So a process of that user removes it
(``python -m supervisor.clients.emptying``), which has what the user has and nothing more, and ends by itself. It
takes every directory apart at the top, so that no depth costs anything, and follows no link.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from supervisor.clients import privileges
from supervisor.clients.package_path import python_path
from supervisor.clients.tools import run_tool
from supervisor.model.driver_user import DriverUser

AT_ONCE: Final = 1000
GRACE_S: Final = 5.0
"""So much longer than it was allowed the process may take, to begin and to end."""


def empty_as(uid: int, directories: Sequence[str], limit_s: float) -> None:
    """Empties the directories, as the user ``uid``, for at most ``limit_s``. What is left then is left; nothing is
    raised."""
    argv = (sys.executable, "-P", "-m", "supervisor.clients.emptying", str(uid), f"{limit_s:g}", *directories)
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    run_tool(argv, {**env, "PYTHONPATH": python_path(env)}, limit_s + 2 * GRACE_S)


def main(uid: int, limit_s: float, directories: Sequence[str]) -> None:
    """Runs in the process. Raises OSError."""
    until_at_s = time.monotonic() + limit_s
    signal.alarm(int(limit_s + GRACE_S))  # whatever hangs
    privileges.become(DriverUser(name=f"uid {uid}", uid=uid, gid=uid))
    for directory in directories:
        with suppress(OSError):
            empty(directory, until_at_s)


def remove(path: str, limit_s: float) -> bool:
    """Removes a file, or a directory with all that is in it, for at most ``limit_s``, as this process's own user. Returns
    whether it is gone; what is left then is left for another time."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            if not empty(path, time.monotonic() + limit_s):
                return False
            os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def empty(directory: str, until_at_s: float) -> bool:
    """Removes what is in ``directory``, itself not, until ``until_at_s`` (``time.monotonic``). Returns whether it is
    empty. Raises OSError if it is no directory."""
    top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while names := _some_of(top):
            before = set(names)
            for name in names:
                if time.monotonic() >= until_at_s:
                    return False
                with suppress(OSError):  # seen below
                    _take_apart(name, top, until_at_s)
            if before <= set(_some_of(top)):
                return False  # nothing of it could be removed
        return True
    finally:
        os.close(top)


def _some_of(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in islice(entries, AT_ONCE)]


def _take_apart(name: str, top: int, until_at_s: float) -> None:
    """Removes the entry ``name`` of ``top``. Directories in it move up, to be taken apart there. Raises OSError."""
    if not _is_directory(name, top):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        while time.monotonic() < until_at_s and (names := _some_of(inner)):
            for each in names:
                if _is_directory(each, inner):
                    os.chmod(each, 0o700, dir_fd=inner)
                    os.rename(each, f".{os.urandom(8).hex()}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(each, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_directory(name: str, directory: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
