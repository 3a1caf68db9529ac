"""Reads what the kernel says of processes, their threads and their memory, for diagnostics.

Any of it may be missing (another user's, or gone meanwhile), and says so by None or an empty value. Nothing is read that can
wait for the process itself, but for its command line and its memory map, which the kernel lets a reader be killed out of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from supervisor.clients import processes
from supervisor.model.diagnostics import heap_limit, shown_command

READ_MAX_BYTES: Final = 256 * 1024
_THREADS_MAX: Final = 60


class ProcessView(NamedTuple):
    """Describes a process. Sizes are in bytes, or None if not known. ``kind`` is ``jvm``, ``python`` or ``""``."""

    process: processes.ProcessId
    ppid: int
    state: str
    uid: int
    own_pid: int
    threads: int
    kind: str
    command: str
    heap_limit: str
    rss_bytes: int | None
    pss_bytes: int | None
    peak_bytes: int | None

    @property
    def is_stopped(self) -> bool:
        return self.state in processes.STOPPED_STATES


def view_of(pid: int, pss_max_bytes: int | None = None) -> ProcessView | None:
    """Returns the process, or None if there is none (any more). PSS is asked for only of a process that is not larger than
    ``pss_max_bytes``: the kernel takes 20 to 50 ms for each GiB, in which the process can't map memory."""
    try:
        found = processes.stat(pid)
        boot = processes.boot_id()
    except OSError:
        return None
    if found is None or found.dead:
        return None
    status = fields_of(f"/proc/{pid}/status")
    arguments = command_line(pid)
    rss = _kib(status.get("VmRSS"))
    is_asked = pss_max_bytes is None or (rss is not None and rss <= pss_max_bytes)
    return ProcessView(
        process=processes.ProcessId(pid, found.start_ticks, boot),
        ppid=found.ppid,
        state=found.state,
        uid=_number(status.get("Uid", "").split()[1:2]) or 0,
        own_pid=_number(status.get("NSpid", "").split()[-1:]) or pid,
        threads=_number([status.get("Threads", "")]) or 0,
        kind=kind_of(pid, status.get("Name", "")),
        command=shown_command(arguments),
        heap_limit=heap_limit(arguments),
        rss_bytes=rss,
        pss_bytes=_kib(fields_of(f"/proc/{pid}/smaps_rollup").get("Pss")) if is_asked else None,
        peak_bytes=_kib(status.get("VmHWM")),
    )


def kind_of(pid: int, name: str) -> str:
    """Says what runs in a process, by the program that it executes; by its name where that is not to be known."""
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        program = name
    if program.startswith("java"):
        return "jvm"
    return "python" if program.startswith(("python", "pypy")) else ""


def command_line(pid: int) -> list[str]:
    """Returns the arguments of a process, the program first; none if they are not to be known."""
    data = read(f"/proc/{pid}/cmdline")
    return [part.decode("utf-8", "replace") for part in data.split(b"\0")[:-1]]


def catches(pid: int, number: int) -> bool:
    """Returns whether a process has a handler for a signal; without one, SIGQUIT would end it."""
    try:
        mask = int(fields_of(f"/proc/{pid}/status").get("SigCgt", "0"), 16)
    except ValueError:
        return False
    return bool(mask >> (number - 1) & 1)


def threads_of(pid: int) -> Iterator[str]:
    """Yields a line for each thread: its name, its state and where in the kernel it waits."""
    try:
        numbers = sorted(int(each) for each in os.listdir(f"/proc/{pid}/task"))
    except (OSError, ValueError):
        return
    for number in numbers[:_THREADS_MAX]:
        task = f"/proc/{pid}/task/{number}"
        name = read(f"{task}/comm").decode("utf-8", "replace").strip()
        state = read(f"{task}/stat").rpartition(b") ")[2][:1].decode("ascii", "replace")
        waits = read(f"{task}/wchan").decode("ascii", "replace").strip() or "0"
        yield f"{number:>8} {state or '?'} {waits:<32} {name}"
    if len(numbers) > _THREADS_MAX:
        yield f"… and {len(numbers) - _THREADS_MAX} more"


def fields_of(path: str) -> dict[str, str]:
    """Returns the fields of a file that has ``name: value`` in its lines."""
    pairs = (line.split(":", 1) for line in read(path).decode("utf-8", "replace").splitlines() if ":" in line)
    return {name: value.strip() for name, value in pairs}


def read(path: str) -> bytes:
    """Returns the begin of a file of the kernel's, or nothing."""
    try:
        with open(path, "rb") as file:
            return file.read(READ_MAX_BYTES)
    except OSError:
        return b""


def _number(words: list[str]) -> int | None:
    return int(words[0]) if words and words[0].isdigit() else None


def _kib(value: str | None) -> int | None:
    number = _number((value or "").split()[:1])
    return None if number is None else number * 1024
