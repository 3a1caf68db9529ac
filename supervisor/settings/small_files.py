"""Reads a small file that a person named, whatever it is: a directory, a FIFO, ten megabytes of garbage.

It is called for ``supervisor.yaml`` and for job specs. It never waits for another process (a FIFO, a
terminal) and never reads more than it has to.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

SHOWN_MAX = 200


def read_small(path: Path, max_bytes: int) -> bytes:
    """Returns the content, or the first ``max_bytes + 1`` bytes if it is longer. Raises OSError, also for
    what is no file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read(max_bytes + 1)


def shortened(path: Path) -> str:
    """Returns ``path`` for a message, cut to ``SHOWN_MAX`` characters: a name may be as long as somebody
    likes.
    """
    text = str(path)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
