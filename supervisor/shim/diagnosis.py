"""Has the diagnostics of a driver tree collected, and keeps them in a file beside its output. Nothing waits for it.

The process that collects them (``clients.diagnostics``) is the driver's user, and writes into a pipe; a thread of the shim,
which alone may write where the logs are, copies that into the file. So a disk that hangs holds up this thread only, and a
driver's user gets nowhere. The thread ends when the process does, by itself or by a kill. A process that its driver has
stopped (SIGSTOP), so that its own alarm does not end it, is killed ``LATE_S`` after its time.

The file is made anew under a name of its own and gets its name when it is whole, or as whole as it got: no link is followed,
and diagnostics of the same attempt that were there before are replaced.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from supervisor.clients import processes, umask
from supervisor.clients.channel import orders_path
from supervisor.clients.diagnostics.child import LATE_S, DiagnosticsProcess
from supervisor.clients.diagnostics.collection import DiagnosticsTask
from supervisor.clock import wall_iso
from supervisor.model.diagnostics import FILE_MAX_BYTES, FILES_KEPT, PROCESSES_MAX, SUFFIX, path_of
from supervisor.model.launch import Launch
from supervisor.shim.state import Diagnose, Diagnosed

STOPPED_NAMED: Final = 5
_CHUNK_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[0-9A-Za-z-]+\.(?:\d+|p[0-9a-f]+)" + re.escape(SUFFIX))
_CUT: Final = b"\n[the rest was left out]\n"
LATE: Final = "what collects them did not end in time: its driver has stopped it, or it hangs"


def task_for(launch: Launch, directory: str, pids: Iterable[int], asked: Diagnose) -> DiagnosticsTask:
    """Returns what is to be collected of the tree that has ``pids``."""
    entry = launch.assignment
    heading = (
        f"diagnostics of attempt {entry.attempt} of {entry.name} ({entry.uid}) on {launch.host} at {wall_iso()}",
        f"why: {asked.why}",
        *asked.progress,
    )
    return DiagnosticsTask(
        tuple(pids)[:PROCESSES_MAX],
        heading,
        launch.cgroup,
        orders_path(launch.channel_in(directory), launch.user is not None),
        asked.within_s,
        heap=asked.heap,
    )


class Diagnosis(threading.Thread):
    """Is one collection: the process, and the thread that copies what it writes. ``post`` is given ``Diagnosed`` when it is
    over, ``log`` takes a line."""

    def __init__(
        self,
        task: DiagnosticsTask,
        launch: Launch,
        post: Callable[[Diagnosed], None],
        log: Callable[..., Any],
    ) -> None:
        """Starts the process. Raises OSError."""
        super().__init__(name="diagnosis", daemon=True)
        self._path = path_of(launch.log_path)
        self._pids = task.pids
        self._post = post
        self._log = log
        self._open = threading.Lock()
        self._process: DiagnosticsProcess | None = DiagnosticsProcess(task, launch.user)
        self.pid = self._process.pid
        self._read = self._process.read
        self._until_at_s = time.monotonic() + task.within_s + LATE_S
        self._is_late = False

    def kill(self) -> None:
        """Ends the process; what it has written so far is kept. Never raises."""
        with self._open:
            if self._process is not None:
                self._process.kill()

    def run(self) -> None:
        path = ""
        try:
            size = self._copy()
            if size:
                path = self._path
                self._log("shim_diagnosed", path=path, bytes=size)
            else:
                self._log(
                    "shim_not_diagnosed", "warning", why=LATE if self._is_late else "nothing was written"
                )
            remove_surplus(os.path.dirname(self._path))
        except OSError as error:
            self._log("shim_not_diagnosed", "warning", why=str(error))
        finally:
            with self._open:
                process, self._process = self._process, None
            if process is not None:
                process.kill()
                process.close()
            self._post(Diagnosed(path, stopped_of(self._pids)))

    def _copy(self) -> int:
        """Writes the file. Returns its size in bytes. Raises OSError."""
        umask.make_shared_directories(os.path.dirname(self._path), umask.GROUP)
        drawn = f"{self._path}.{os.urandom(4).hex()}"
        descriptor = os.open(drawn, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            umask.share(descriptor, umask.GROUP)
            size = self._copied(descriptor)
            if size:
                os.replace(drawn, self._path)
                drawn = ""
            return size
        finally:
            os.close(descriptor)
            if drawn:
                os.unlink(drawn)

    def _copied(self, descriptor: int) -> int:
        size = 0
        while data := self._read(_CHUNK_BYTES, self._until_at_s):
            if size >= FILE_MAX_BYTES:
                continue  # it is read to the end, for nobody is to wait for room
            size += len(data)
            _write(descriptor, data if size < FILE_MAX_BYTES else data + _CUT)
        if data is None:
            self._is_late = True
            self.kill()
            _write(descriptor, f"\n[{LATE}]\n".encode())
        return size


def stopped_of(pids: Iterable[int]) -> tuple[int, ...]:
    """Returns the first few of the processes that are stopped now."""
    found: list[int] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            known = processes.stat(pid)
            if known is not None and known.is_stopped:
                found.append(pid)
    return tuple(found[:STOPPED_NAMED])


def remove_surplus(directory: str) -> None:
    """Keeps the newest ``FILES_KEPT`` files of diagnostics in a job's directory. Raises OSError."""
    with os.scandir(directory) as entries:
        found = [entry for entry in entries if _NAME.fullmatch(entry.name)]
    by_age = sorted(found, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
    for entry in by_age[:-FILES_KEPT]:
        os.unlink(entry.path)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
