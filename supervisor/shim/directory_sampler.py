"""Measures what the job has written to its working directory on this host, in a thread of the shim that nothing waits for.

The directory outlives attempts and is on this host alone, so what lies there is told (``model.usage.DirectoryUse``). It is
gone through at ever larger intervals, which are ``PAUSE_FACTOR`` times what that took at least. What cannot be read is
not counted (a driver of another Unix user may have closed it), and no link is followed. Of more than ``FILES_MAX`` files,
or deeper than ``DEEP_MAX`` directories, the rest is left out.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Collection
from typing import Final

from supervisor.model.records import clip
from supervisor.model.usage import DirectoryUse

FIRST_S: Final = 5.0
PERIOD_MAX_S: Final = 60.0
PAUSE_FACTOR: Final = 200.0
FILES_MAX: Final = 100_000
DEEP_MAX: Final = 64
NAMES_MAX: Final = 3
NAME_MAX_BYTES: Final = 40
PATH_MAX_BYTES: Final = 200
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SPARKS_OWN: Final = frozenset({"derby.log", "artifacts"})
"""What Spark puts there by itself, and nobody misses."""


def measure(directory: str, without: Collection[str] = ()) -> DirectoryUse | None:
    """Returns what is in ``directory``, but for its entries ``without`` and Spark's own; None if it can't be listed."""
    sizes: dict[str, int] = {}
    files = 0
    try:
        opened = os.open(directory, _LIST)
    except OSError:
        return None
    try:
        for name in sorted(set(os.listdir(opened)) - SPARKS_OWN - set(without)):
            for size_bytes in _sizes(opened, name, FILES_MAX - files):
                sizes[name] = sizes.get(name, 0) + size_bytes
                files += 1
    except OSError:
        return None
    finally:
        os.close(opened)
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:NAMES_MAX]
    return DirectoryUse(
        path=clip(directory, PATH_MAX_BYTES),
        bytes=sum(sizes.values()),
        files=files,
        names=tuple(clip(name, NAME_MAX_BYTES) for name in largest),
    )


def _sizes(directory: int, name: str, most: int, deep: int = DEEP_MAX) -> list[int]:
    """Returns the sizes of the regular files at and below ``name`` in an open directory, of so many at most. The job may
    exchange a directory for a link meanwhile: each is opened by its name in the one above, and no link is."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return [status.st_size]
        if not stat.S_ISDIR(status.st_mode) or deep == 0:
            return []
        opened = os.open(name, _LIST, dir_fd=directory)
    except OSError:
        return []
    found: list[int] = []
    try:
        for each in os.listdir(opened):
            if len(found) >= most:
                break
            found += _sizes(opened, each, most - len(found), deep - 1)
    except OSError:
        pass
    finally:
        os.close(opened)
    return found


class DirectorySampler(threading.Thread):
    """Measures from its start until ``stop``. ``newest`` is what was found last."""

    def __init__(self, directory: str, without: Collection[str] = ()) -> None:
        super().__init__(name="directory", daemon=True)
        self._directory, self._without = directory, without
        self._stopped = threading.Event()
        self.newest: DirectoryUse | None = None

    def run(self) -> None:
        pause_s = FIRST_S
        while not self._stopped.wait(pause_s):
            began_at_s = time.monotonic()
            self.newest = measure(self._directory, self._without)
            pause_s = max(min(PERIOD_MAX_S, 2 * pause_s), PAUSE_FACTOR * (time.monotonic() - began_at_s))

    def stop(self) -> None:
        """Makes this the end."""
        self._stopped.set()
