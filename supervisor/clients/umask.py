"""The umask of our own processes, and the one that drivers get. Called by ``cli.run``, shims, stores, who starts processes.

What a supervisor or a shim writes on its host (run directories, files of jobs, properties, logs) may hold secrets: from
``keep_private`` on it is for their own user alone, whatever mode a call asks for. The umask that the process was started
with is the host's word for everything else. Drivers run with it, because the files that they write (output, checkpoints)
are shared as their users have arranged it; and a store in a directory that hosts share is made with it. Standard library
only, and no pathlib: a shim imports this.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

PRIVATE = 0o077
GROUP = 0o750
"""As ``most`` of what the group may read, and nobody else: the output of drivers, for programs that collect logs."""
_given: int | None = None


def keep_private() -> None:
    """What this process and its children make from here on is for this user alone. Before there are threads."""
    global _given
    before = os.umask(PRIVATE)
    if _given is None:
        _given = before


def give_back() -> None:
    """The umask is again what it was at the start. For a child that becomes something of the user's."""
    global _given
    if _given is not None:
        os.umask(_given)
        _given = None


@contextlib.contextmanager
def private() -> Iterator[None]:
    """``keep_private`` for a while."""
    keep_private()
    try:
        yield
    finally:
        give_back()


def given() -> int:
    """What this process was started with, or −1 if that is in force: as ``subprocess.Popen(umask=…)`` takes it."""
    return -1 if _given is None else _given


def share(made: str | int, most: int = 0o777) -> None:
    """Give a file (or its descriptor) or a directory that we have just made the mode that it would have by ``given``.

    ``most``: the bits that it may get (of these a file is never given the executable ones).
    Whatever the file system itself has let others do, by a default ACL say, stays as it is. Never raises.
    """
    if _given is None:
        return
    with contextlib.suppress(OSError):
        status = os.stat(made)
        mode = stat.S_IMODE(status.st_mode)
        if not mode & PRIVATE:
            os.chmod(made, mode | most & (0o777 if stat.S_ISDIR(status.st_mode) else 0o666) & ~_given)


def make_shared_directories(path: str, most: int = 0o777) -> None:
    """``path`` and what is missing above it, each with the mode by ``given`` and ``most``. Raises OSError."""
    above = os.path.dirname(path)
    if above != path and not os.path.exists(above):
        make_shared_directories(above, most)
    make_shared_directory(path, most)


def make_shared_directory(path: str, most: int = 0o777) -> None:
    """``path`` itself, if it is missing, and nothing above it. Raises OSError."""
    try:
        os.mkdir(path, most)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        share(path, most)
