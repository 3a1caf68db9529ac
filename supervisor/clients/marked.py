"""Finds and kills processes that carry a marker in their environment, wherever they went in the process tree.

``demo`` and ``dev`` find drivers by the attempt marker, and by a marker of their own they end everything that
they started. A process that is found was born with exactly ``variable=value``; a pid that was reused is never
hit. Standard library only.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId

_STEP_S = 0.02


def is_marked(pid: int, variable: str, value: str) -> bool:
    """Returns whether the process carries the marker; False also for one that is gone, a zombie, or not
    readable for this user."""
    try:
        return f"{variable}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def find_marked(variable: str, value: str) -> list[ProcessId]:
    """Returns the living processes with the marker that this user may inspect, except this one. The result is
    not a snapshot."""
    boot_id = processes.boot_id()
    return [
        ProcessId(found.pid, found.start_ticks, boot_id)
        for found in processes.all_stats()
        if not found.dead and found.pid != os.getpid() and is_marked(found.pid, variable, value)
    ]


def kill_marked(variable: str, value: str, timeout_s: float) -> bool:
    """Sends SIGKILL to all of them until two scans in a row find none. Returns False if some still live, or none
    could be looked for, after ``timeout_s``. A process that cannot be signalled now, for want of descriptors,
    keeps none of the others alive."""
    until_at_s = time.monotonic() + timeout_s
    clean = 0
    while clean < 2:  # once more after a clean scan: /proc is no snapshot
        try:
            members: list[ProcessId] | None = find_marked(variable, value)
        except OSError:  # want of descriptors proves nothing
            members = None
        for member in members or ():
            with suppress(OSError):
                processes.kill(member)
        clean = clean + 1 if members == [] else 0
        if not clean and time.monotonic() >= until_at_s:
            return False
        time.sleep(_STEP_S)
    return True
