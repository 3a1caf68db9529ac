"""Processes that carry a marker in their environment: found, and killed, wherever they went in the process tree.

For ``demo`` and ``dev``: by the attempt marker they look for drivers, and by a marker of their own they end whatever they
started. Who is found was born with exactly ``variable=value``; a pid that changed hands is never hit. Standard library only.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId

_STEP_S = 0.02


def is_marked(pid: int, variable: str, value: str) -> bool:
    """False also for a process that is gone, a zombie, or not ours to look at."""
    try:
        return f"{variable}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def find_marked(variable: str, value: str) -> list[ProcessId]:
    """Living processes of this user with the marker, this one excepted. Not a snapshot."""
    boot_id = processes.boot_id()
    return [
        ProcessId(found.pid, found.start_ticks, boot_id)
        for found in processes.all_stats()
        if not found.dead and found.pid != os.getpid() and is_marked(found.pid, variable, value)
    ]


def kill_marked(variable: str, value: str, timeout_s: float) -> bool:
    """SIGKILL to all of them until two looks in a row find none. False: some still live after ``timeout_s``."""
    until_at_s = time.monotonic() + timeout_s
    clean = 0
    while clean < 2:  # once more after a clean look: /proc is no snapshot
        members = find_marked(variable, value)
        for member in members:
            processes.kill(member)
        clean = 0 if members else clean + 1
        if members and time.monotonic() >= until_at_s:
            return False
        time.sleep(_STEP_S)
    return True
