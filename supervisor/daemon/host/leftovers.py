"""Removes what drivers could write to when it is over: directories of attempts and of jobs (``model.host_directories``).

They are only put aside, by a rename, so that nothing that a driver has left there takes time in anybody's round. A
thread for which nobody waits removes them (``housekeeping``), a bounded time in each of its rounds: first what the
driver's user could write, as that user, then the rest, which is the supervisor's own. What cannot be removed yet is
tried again, and said once.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Final

import structlog

from supervisor.clients.channel import CHANNEL, DRIVERS_OWN, let_pass, user_of
from supervisor.clients.emptying import empty_as, remove
from supervisor.growing_pause import GrowingPause
from supervisor.model.host_directories import CWD, LEFTOVERS, SCRATCH

log = structlog.get_logger(__name__)

WRITTEN: Final = (CWD, SCRATCH, f"{CHANNEL}/{DRIVERS_OWN}")
"""What the driver could write to, below a directory that is the supervisor's own. Versions before had the first one in
that of the attempt."""
LIMIT_S: Final = 5.0
PAUSE: Final = GrowingPause(first_s=1.0, longest_s=300.0)


class Leftovers:
    """Keeps what is to be removed below ``parent``, which has the directories."""

    def __init__(self, parent: Path) -> None:
        self._directory = parent / LEFTOVERS
        # by name: when it is tried again, and the pause then
        self._pauses: dict[str, tuple[float, int]] = {}

    def put_aside_of_users(self, directory: Path) -> bool:
        """Puts the directory aside if a driver of another user could write to it; returns whether it did. Raises
        OSError."""
        return _has_other_user(directory) and self.put_aside(directory)

    def put_aside(self, directory: Path) -> bool:
        """Puts the directory aside. Other users pass to what they have left, and only where there are such. Raises
        OSError."""
        if _has_other_user(directory):
            let_pass(str(self._directory))
        else:
            self._directory.mkdir(mode=0o700, exist_ok=True)
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
            at_s, failures = self._pauses.get(directory.name, (0.0, 0))
            if now_s < at_s or self._remove(directory, until_at_s - time.monotonic()):
                continue
            if not failures:
                log.warning("leftovers_not_removed", directory=str(directory), next="tried again")
            failures += 1
            self._pauses[directory.name] = now_s + PAUSE.after(failures), failures

    def _remove(self, directory: Path, limit_s: float) -> bool:
        """Removes one; returns whether it is gone."""
        written = [path for path in (directory / name for name in WRITTEN) if path.exists()]
        try:
            uid = user_of(str(directory))
        except (OSError, ValueError):
            return False
        if uid is None:
            return remove(str(directory), limit_s)
        if any(map(_has_something, written)):
            empty_as(uid, [str(path) for path in written], limit_s)
        try:
            for path in written:  # never gone through here
                path.rmdir()
        except OSError:
            return False
        return remove(str(directory), limit_s)


def _has_other_user(directory: Path) -> bool:
    """Says whether a driver of another user may have written there. Raises OSError."""
    try:
        return user_of(str(directory)) is not None
    except ValueError:  # of a mark that can't be read nobody knows whose it is: ``_remove`` leaves it then
        return True


def _has_something(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
