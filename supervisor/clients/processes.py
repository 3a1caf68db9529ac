"""Processes of this host, named so that no signal ever reaches a stranger.

A bare pid is a number that the kernel hands out again. Here a process is pid + start time + boot id (F58), and signals
go through a pidfd, which stays with the process it was opened for. Called by the shim, its twin, the guardian and
``containment``; never decides whom to kill. Standard library and our clock only: the twin lives on what is imported here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple

from supervisor.clock import boottime_s

_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
_DEAD_STATES = "ZXx"


class ProcessId(NamedTuple):
    """``start_ticks``: field 22 of /proc/<pid>/stat, clock ticks since boot. Unique over reboots and pid reuse."""

    pid: int
    start_ticks: int
    boot_id: str


class ProcessStat(NamedTuple):
    """What the scan needs of /proc/<pid>/stat. ``state``: one letter; Z and X are dead."""

    pid: int
    state: str
    ppid: int
    session: int
    start_ticks: int

    @property
    def dead(self) -> bool:
        return self.state in _DEAD_STATES


def boot_id() -> str:
    """Identity of the running kernel; a new one after each boot."""
    with open(_BOOT_ID_PATH, encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> ProcessStat | None:
    """None if there is no such process. Raises OSError where nobody can tell: want of descriptors proves nothing (F56)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses, and may itself hold blanks and parentheses.
    fields = line[line.rindex(b")") + 2 :].split()
    return ProcessStat(pid, fields[0].decode("ascii"), int(fields[1]), int(fields[3]), int(fields[19]))


def all_stats() -> Iterator[ProcessStat]:
    """Every process of this pid namespace that can be looked at. Not a snapshot: processes come and go while this runs, so
    nobody takes what is not there for a proof."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                found = stat(int(entry))
                if found is not None:
                    yield found


def identify(pid: int) -> ProcessId | None:
    """The process that has ``pid`` now (a zombie counts), or None. Raises OSError, as ``stat``."""
    found = stat(pid)
    return None if found is None else ProcessId(pid, found.start_ticks, boot_id())


def alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs. A stopped process is alive, a zombie is not. Raises OSError, as ``stat``."""
    found = stat(process.pid)
    same = found is not None and found.start_ticks == process.start_ticks and process.boot_id == boot_id()
    return same and found is not None and not found.dead


def started_at_s(process: ProcessId) -> float:
    """CLOCK_BOOTTIME at which the process was forked; good to one clock tick (10 ms)."""
    return process.start_ticks / os.sysconf("SC_CLK_TCK")


def own_age_s() -> float:
    """For how long this process has existed. 0.0 where /proc does not tell."""
    me = identify(os.getpid())
    return 0.0 if me is None else max(0.0, boottime_s() - started_at_s(me))


def open_pidfd(process: ProcessId) -> int | None:
    """A pidfd (close it) of exactly this process, or None if it is gone. May raise OSError for want of descriptors.

    Opened first and compared afterwards: once the descriptor is there, the pid can't be handed out again unseen.
    """
    if process.boot_id != boot_id():
        return None
    try:
        pidfd = os.pidfd_open(process.pid)
    except (ProcessLookupError, ValueError):
        return None
    except OSError as error:
        if error.errno == 22:  # EINVAL: a thread has the number now, not a process
            return None
        raise
    try:
        found = stat(process.pid)
    except OSError:
        os.close(pidfd)
        raise
    if found is None or found.start_ticks != process.start_ticks:
        os.close(pidfd)
        return None
    return pidfd


def send_signal(pidfd: int, number: int) -> bool:
    """False if the process is gone (ESRCH)."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def kill(process: ProcessId) -> bool:
    """SIGKILL to exactly this process; False if it is gone. Raises OSError, as ``open_pidfd``."""
    pidfd = open_pidfd(process)
    if pidfd is None:
        return False
    try:
        return send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


def wait_dead(pidfd: int, timeout_s: float) -> bool:
    """Whether the process ended (a zombie counts) within ``timeout_s``; 0 just looks. Bounded, also when interrupted."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    until_at_s = time.monotonic() + timeout_s
    while True:
        left_s = max(0.0, until_at_s - time.monotonic())
        if poll.poll(left_s * 1000):
            return True
        if left_s == 0.0:
            return False
