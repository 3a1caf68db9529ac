"""Names processes of this host in such a way that no signal ever reaches another process.

The kernel reuses a bare pid. Here a process is pid + start time + boot id (F58), and signals go through a
pidfd, which stays with the process it was opened for. The shim, its twin, the guardian and ``containment``
call this module; it never decides which process to kill. It imports the standard library and ``clock`` only:
the twin carries for life what is imported here.
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
STOPPED_STATES = "Tt"
"""By a signal (SIGSTOP), or by a debugger."""


class ProcessId(NamedTuple):
    """Identifies a process, uniquely over reboots and pid reuse. ``start_ticks`` is field 22 of
    /proc/<pid>/stat, in clock ticks since boot."""

    pid: int
    start_ticks: int
    boot_id: str


class ProcessStat(NamedTuple):
    """Holds what the scan needs of /proc/<pid>/stat. ``state`` is one letter; Z and X are dead."""

    pid: int
    state: str
    ppid: int
    session: int
    start_ticks: int

    @property
    def dead(self) -> bool:
        return self.state in _DEAD_STATES

    @property
    def is_stopped(self) -> bool:
        return self.state in STOPPED_STATES


def boot_id() -> str:
    """Returns the identity of the running kernel; each boot has a new one."""
    with open(_BOOT_ID_PATH, encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> ProcessStat | None:
    """Returns the status of ``pid``, or None if there is no such process. Raises OSError where that cannot be
    known: want of descriptors proves nothing (F56)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses, and may itself hold blanks and parentheses.
    fields = line[line.rindex(b")") + 2 :].split()
    return ProcessStat(pid, fields[0].decode("ascii"), int(fields[1]), int(fields[3]), int(fields[19]))


def all_stats() -> Iterator[ProcessStat]:
    """Yields every process of this pid namespace whose status can be read. This is not a snapshot: processes
    come and go while it runs, so the absence of a process proves nothing."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                found = stat(int(entry))
                if found is not None:
                    yield found


def identify(pid: int) -> ProcessId | None:
    """Returns the process that has ``pid`` now (a zombie counts), or None. Raises OSError, as ``stat``."""
    found = stat(pid)
    return None if found is None else ProcessId(pid, found.start_ticks, boot_id())


def alive(process: ProcessId) -> bool:
    """Returns whether exactly this process still runs. A stopped process is alive, a zombie is not. Raises
    OSError, as ``stat``."""
    found = stat(process.pid)
    same = found is not None and found.start_ticks == process.start_ticks and process.boot_id == boot_id()
    return same and found is not None and not found.dead


def started_at_s(process: ProcessId) -> float:
    """Returns the CLOCK_BOOTTIME at which the process was forked, exact to one clock tick (10 ms)."""
    return process.start_ticks / os.sysconf("SC_CLK_TCK")


def own_age_s() -> float:
    """Returns for how many seconds this process has existed; 0.0 if /proc does not say."""
    try:
        me = identify(os.getpid())
    except OSError:  # want of descriptors: what needs one will say so
        return 0.0
    return 0.0 if me is None else max(0.0, boottime_s() - started_at_s(me))


def open_pidfd(process: ProcessId) -> int | None:
    """Returns a pidfd of exactly this process, which the caller must close, or None if the process is gone.
    Raises OSError for want of descriptors.

    The pidfd is opened first and compared afterwards: once the descriptor is there, the pid can't be reused
    unnoticed.
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
    """Sends signal ``number``; returns False if the process is gone (ESRCH)."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def kill(process: ProcessId) -> bool:
    """Sends SIGKILL to exactly this process; returns False if it is gone. Raises OSError, as
    ``open_pidfd``."""
    pidfd = open_pidfd(process)
    if pidfd is None:
        return False
    try:
        return send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


def wait_dead(pidfd: int, timeout_s: float) -> bool:
    """Returns whether the process ended (a zombie counts) within ``timeout_s``; 0 only checks. It is bounded,
    also when interrupted."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    until_at_s = time.monotonic() + timeout_s
    while True:
        left_s = max(0.0, until_at_s - time.monotonic())
        if poll.poll(left_s * 1000):
            return True
        if left_s == 0.0:
            return False
