"""Removes the working directories of drivers of other Unix users when their attempts are over.

The agent only puts them aside, by a rename, so that nothing that a driver has left there takes time in its round. A
thread for which nobody waits removes them (``housekeeping``), a bounded time in each of its rounds: first what the
driver's user could write, as that user, then the rest, which is the supervisor's own. What cannot be removed yet is
tried again, and said once.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from supervisor.clients.channel import CHANNEL, CWD, DRIVERS_OWN, let_pass, user_of
from supervisor.clients.emptying import empty_as, remove

log = structlog.get_logger(__name__)

LEFTOVERS: Final = ".leftovers"
LIMIT_S: Final = 5.0
PAUSE_MAX_S: Final = 300.0


class Leftovers:
    """Keeps what is to be removed below ``work_dir``."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._directory = work_dir / LEFTOVERS
        # by name: when it is tried again, and the pause then
        self._pauses: dict[str, tuple[float, float]] = {}

    def put_aside(self, directory: Path) -> bool:
        """Puts the working directory of an attempt aside if a driver of another user had it; returns whether it did.
        Raises OSError."""
        try:
            uid = user_of(str(directory))
        except ValueError:
            uid = None
        if uid is None:
            return False
        let_pass(str(self._directory))
        directory.rename(self._directory / f"{directory.name}.{secrets.token_hex(4)}")
        return True

    def remove(self) -> None:
        """Removes what is there, for some seconds at most. Raises OSError if it can't be listed."""
        now_s, until_at_s = time.monotonic(), time.monotonic() + LIMIT_S
        try:
            there = sorted(self._directory.iterdir())
        except FileNotFoundError:
            return
        self._pauses = {
            name: pause for name, pause in self._pauses.items() if self._directory / name in there
        }
        for directory in there:
            if time.monotonic() >= until_at_s:
                return
            at_s, pause_s = self._pauses.get(directory.name, (0.0, 0.0))
            if now_s < at_s or self._remove(directory, until_at_s - time.monotonic()):
                continue
            if not pause_s:
                log.warning("leftovers_not_removed", directory=str(directory), next="tried again")
            pause_s = min(PAUSE_MAX_S, max(1.0, 2 * pause_s))
            self._pauses[directory.name] = now_s + pause_s, pause_s

    def _remove(self, directory: Path, limit_s: float) -> bool:
        """Removes one; returns whether it is gone."""
        written = [directory / CWD, directory / CHANNEL / DRIVERS_OWN]
        with suppress(OSError, ValueError):
            uid = user_of(str(directory))
            if uid is not None and any(map(_has_something, written)):
                empty_as(uid, [str(path) for path in written], limit_s)
        try:
            for path in written:  # never gone through here
                if path.exists():
                    path.rmdir()
        except OSError:
            return False
        return remove(str(directory), limit_s)


def _has_something(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
