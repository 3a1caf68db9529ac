"""Takes thread dumps of the running driver of a job, on the host where it runs. ``stacks``, ``debug bundle`` and the API
call it.

Which processes there are is said by the run directory of the attempt, which only the supervisor's own user may read. They
are asked by a process that becomes the driver's user (``clients.diagnostics``); nothing is written, and nothing is
stopped: a JVM is held for the milliseconds that its own dump takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.clients import run_dir
from supervisor.clients.channel import orders_path
from supervisor.clients.containment import CgroupContainment, Containment, ScanContainment
from supervisor.clients.diagnostics.child import LATE_S, DiagnosticsProcess
from supervisor.clients.diagnostics.collection import DiagnosticsTask
from supervisor.clients.processes import ProcessId
from supervisor.errors import Corrupt, NotFound, SupervisorError
from supervisor.model.diagnostics import PROCESSES_MAX
from supervisor.model.driver_user import ROOT, DriverUser
from supervisor.model.launch import Launch
from supervisor.model.records import LEASED
from supervisor.operations.context import CommandContext
from supervisor.operations.history import find_job
from supervisor.operations.logs import OutputElsewhere, own_output
from supervisor.records.codec import decode

ANSWER_S: Final = 10.0
"""So long one dump of all processes may take."""
DUMP_MAX_BYTES: Final = 8 * 2**20
_CHUNK_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class RunningDriver:
    """Is a driver that runs under this supervisor. ``directory`` is its run directory."""

    name: str
    uid: str
    attempt: int
    directory: Path


def running_driver(context: CommandContext, name: str) -> RunningDriver:
    """Returns the running driver of a job. Raises NotFound if there is none, and OutputElsewhere if it is not here."""
    job = find_job(context, name)
    own = job.own
    if own is None or own.uid != job.uid or own.state not in LEASED:
        raise NotFound(f"{name} has no driver now", f"see spark-supervisor explain {name}")
    found = own_output(context, job, own.attempt)
    if not found.place.is_here:
        place = found.place
        ways = place.ways_of(f"spark-supervisor stacks {name}")
        what = f"attempt {own.attempt} of {name} runs on {place.name}"
        raise OutputElsewhere(f"{what}: {', or '.join(ways)}" if ways else what, "", place)
    attempts = context.settings.supervisor.runtime_dir / "attempts"
    return RunningDriver(name, job.uid, own.attempt, attempts / f"{job.uid}.{own.attempt}")


def thread_dumps(
    driver: RunningDriver, times: int, every_s: float, kinds: tuple[str, ...]
) -> Iterator[bytes]:
    """Yields the text of thread dumps as they come. ``kinds`` are ``jvm`` and ``python``. Raises SupervisorError."""
    launch = _launch_of(driver)
    pids = _tree_of(driver, launch).pids()[:PROCESSES_MAX]
    if not pids:
        raise NotFound(f"nothing of the driver of {driver.name} is seen here now", "it may just be ending")
    task = DiagnosticsTask(
        tuple(pids),
        orders=orders_path(launch.channel_in(str(driver.directory)), launch.user is not None),
        within_s=ANSWER_S + (times - 1) * every_s,
        times=times,
        every_s=every_s,
        kinds=kinds,
        only_threads=True,
    )
    return _collected(task, _user_of(driver, launch))


def _collected(task: DiagnosticsTask, user: DriverUser | None) -> Iterator[bytes]:
    try:
        process = DiagnosticsProcess(task, user)
    except OSError as error:
        raise SupervisorError(f"no process could be started ({error.strerror or error})") from None
    left, until_at_s = DUMP_MAX_BYTES, time.monotonic() + task.within_s + LATE_S
    try:
        while left > 0 and (piece := process.read(min(left, _CHUNK_BYTES), until_at_s)):
            left -= len(piece)
            yield piece
        if left == DUMP_MAX_BYTES:
            what = "the process that asks for the threads has ended without a word"
            raise SupervisorError(what, "it becomes the user of the driver: ask as root, or with --server")
    finally:
        process.kill()
        process.reap()
        process.close()


def _launch_of(driver: RunningDriver) -> Launch:
    path = str(driver.directory / run_dir.LAUNCH)
    try:
        data = run_dir.read_file(path, run_dir.LAUNCH_MAX_BYTES)
        if data is None:
            raise NotFound(f"{path} does not exist", "the attempt may just be ending")
        return decode(Launch, data, path)
    except PermissionError:
        raise SupervisorError(f"this user may not read {path}", "ask as the user of the supervisor") from None
    except (OSError, Corrupt) as error:
        raise SupervisorError(f"{path} can't be read ({error})") from None


def _tree_of(driver: RunningDriver, launch: Launch) -> Containment:
    if launch.cgroup is not None:
        return CgroupContainment(launch.cgroup)
    shim = run_dir.read_process(str(driver.directory / run_dir.SHIM))

    def root() -> ProcessId | None:
        record = run_dir.read_process(str(driver.directory / run_dir.DRIVER))
        return None if record is None else record.process

    return ScanContainment("" if shim is None else shim.claim, root)


def _user_of(driver: RunningDriver, launch: Launch) -> DriverUser | None:
    """Returns the user of the driver, if it is another one than this process's: its own, or that of its supervisor where
    root has asked."""
    if launch.user is not None:
        return launch.user
    try:
        owner = driver.directory.stat()
    except OSError:
        return None
    if os.geteuid() != ROOT or ROOT in (owner.st_uid, owner.st_gid):
        return None
    return DriverUser(name=str(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid)
