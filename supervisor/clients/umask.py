"""Manages the umask of the project's own processes, and the one that drivers get. ``cli.run``, shims, stores
and the modules that start processes call it.

What a supervisor or a shim writes on its host (run directories, files of jobs, properties, logs) may hold
secrets: from ``keep_private`` on, only their own user can read it, whatever mode a call asks for. For
everything else the umask counts that the process was started with, as the host has set it. Drivers run with
it, because the files that they write (output, checkpoints) are shared as their users have arranged it; and a
store in a directory that hosts share is made with it. This module imports the standard library only, and no
pathlib, because a shim imports it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

PRIVATE = 0o077
GROUP = 0o750
"""This is ``most`` for what the group may read, and nobody else: the output of drivers, for programs that
collect logs."""
_given: int | None = None


def keep_private() -> None:
    """Makes everything that this process and its children create from here on private to this user. It must
    be called before there are threads."""
    global _given
    before = os.umask(PRIVATE)
    if _given is None:
        _given = before


def give_back() -> None:
    """Restores the umask that the process was started with. A child calls it before it executes something of
    the user's."""
    global _given
    if _given is not None:
        os.umask(_given)
        _given = None


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Does as ``keep_private`` until the block ends."""
    keep_private()
    try:
        yield
    finally:
        give_back()


def given() -> int:
    """Returns the umask that this process was started with, or −1 if that is in force, as
    ``subprocess.Popen(umask=…)`` takes it."""
    return -1 if _given is None else _given


def lets_group_write() -> bool:
    """Says whether the user of this process lets its group write to what it makes: by the umask that the process was started
    with."""
    return not (_in_force() if _given is None else _given) & stat.S_IWGRP


def _in_force() -> int:
    """Returns the umask in force; one that can't be read (no /proc) lets nobody write. It is read there, because asking the
    kernel otherwise sets it for all threads."""
    try:
        with open("/proc/self/status", "rb") as file:
            line = next(each for each in file if each.startswith(b"Umask:"))
    except (OSError, StopIteration):
        return PRIVATE
    return int(line.split()[1], 8)


def share(made: str | int, most: int = 0o777) -> None:
    """Gives a file (or its descriptor) or a directory that this process has just made the mode that it would
    have by ``given``.

    ``most`` are the bits that it may get (of these a file is never given the executable ones). Permissions
    that the file system itself has granted to others, for example by a default ACL, stay as they are. Never
    raises.
    """
    if _given is None:
        return
    with contextlib.suppress(OSError):
        status = os.stat(made)
        mode = stat.S_IMODE(status.st_mode)
        if not mode & PRIVATE:
            os.chmod(made, mode | most & (0o777 if stat.S_ISDIR(status.st_mode) else 0o666) & ~_given)


def make_shared_directories(path: str, most: int = 0o777) -> None:
    """Makes ``path`` and what is missing above it, each with the mode by ``given`` and ``most``. Raises
    OSError."""
    above = os.path.dirname(path)
    if above != path and not os.path.exists(above):
        make_shared_directories(above, most)
    make_shared_directory(path, most)


def make_shared_directory(path: str, most: int = 0o777) -> None:
    """Makes ``path`` itself, if it is missing, and nothing above it. Raises OSError."""
    try:
        os.mkdir(path, most)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        share(path, most)
