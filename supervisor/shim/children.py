"""Reaping, and with it the exit status of the driver. Called by ``runner`` and, as proof, by the scan containment."""

from __future__ import annotations

import os


class Children:
    """This process's children: the driver's root, and as a child subreaper all orphans of its tree.

    ``watched``: the pid whose exit status is kept (exit code, or −signal) in ``ended``.
    """

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self.watched: int | None = None

    def reap(self) -> bool:
        """Reap what has ended; True if there is no child left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.watched:
                self.ended[pid] = os.waitstatus_to_exitcode(status)
