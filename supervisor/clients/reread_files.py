"""Keeps what was read of a few small files, and reads them again when they have changed, so that a renewed certificate or a
new token needs no restart. The HTTP servers of the daemon use it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from supervisor.errors import InvalidInput
from supervisor.logs import get_logger

log = get_logger(__name__)

RECHECK_S: Final = 5.0
"""The files are looked at when they were last looked at this long ago."""

T = TypeVar("T")

_Stamp = tuple[tuple[int, int, int, int] | None, ...]


class RereadFiles(Generic[T]):
    """Holds what ``read`` returns of ``files``. Raises what ``read`` raises at first. What can't be read later
    (InvalidInput) is logged once, and what was read before stays in force: a half-written file neither opens nor closes
    anything. ``now_s`` is CLOCK_BOOTTIME. It may be used by many threads at once."""

    def __init__(self, files: Sequence[Path], read: Callable[[], T], now_s: Callable[[], float]) -> None:
        self._files = tuple(files)
        self._read = read
        self._now_s = now_s
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._checked_at_s = now_s()
        self._value = read()

    def get(self) -> T:
        """Returns what the files hold. It never waits for another thread that reads them."""
        if (
            self._files
            and self._now_s() - self._checked_at_s >= RECHECK_S
            and self._lock.acquire(blocking=False)
        ):
            try:
                self._read_again()
            finally:
                self._lock.release()
        return self._value

    def _read_again(self) -> None:
        self._checked_at_s = self._now_s()
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._value = self._read()
        except InvalidInput as error:
            log.warning("http_access_kept", why=str(error), next="the one from before stays in force")
            return
        log.info("http_access_read", files=[str(path) for path in self._files])

    def _stamp_now(self) -> _Stamp:
        return tuple(_stamp_of(path) for path in self._files)


def _stamp_of(path: Path) -> tuple[int, int, int, int] | None:
    """Returns what differs once the file was written, replaced, or given other permissions."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
