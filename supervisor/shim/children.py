"""Reaps children, and with it gets the exit status of the driver. Called by ``runner`` and, as proof, by the
scan containment."""

from __future__ import annotations

import os


class Children:
    """Represents this process's children: the root process of the driver and, because the shim is a child
    subreaper, all orphans of its tree.

    ``watched`` is the pid whose exit status (exit code, or −signal) is kept in ``ended``. ``apart`` are those that are not
    of the driver, and ``apart_cpu_s`` is the processor time in seconds of those of them that have ended. One thread reaps;
    any may ask.
    """

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self.watched: int | None = None
        self.apart: set[int] = set()
        self.apart_cpu_s = 0.0

    def reap(self) -> bool:
        """Reaps what has ended. Returns True if no child is left at all."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.watched:
                self.ended[pid] = os.waitstatus_to_exitcode(status)
            if pid in self.apart:
                self.apart_cpu_s += usage.ru_utime + usage.ru_stime
                self.apart.discard(pid)
