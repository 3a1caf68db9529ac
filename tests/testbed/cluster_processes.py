"""Daemons of a cluster that a test starts, as processes of their own, and the executors that they start, by the kernel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from supervisor.demo.death_guard import DeathGuard


def kill_all(pids: Iterable[int]) -> None:
    """kill -9 to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class ClusterProcesses:
    """``directory`` is where daemons log, and below which what they start works. ``address`` is theirs. With ``with`` all ends."""

    def __init__(self, directory: Path, address: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._address = directory, address
        self._guard = DeathGuard()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for name in reversed(list(self._processes)):
            self.kill(name)
        self._guard.dismiss()

    def kill(self, name: str) -> None:
        """kill -9, of the one process; what it has started is left to find that out."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait(30)

    def executors(self) -> list[int]:
        """The pids of executors that live, by the kernel."""
        raise NotImplementedError

    def kill_executors(self) -> None:
        kill_all(self.executors())

    def _start_process(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[name] = process
        self._guard.watch(process.pid)

    def _started_below(self, *words: bytes, place: str = "", is_java: bool = False) -> list[int]:
        """The pids of all that works below ``place`` in the directory and has each of ``words`` in its command line; with
        ``is_java`` only of Java itself, not of a shell that started it."""
        found, below = [], f"{self._directory}/{place}"
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                line = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
                if is_java and not line.split(b"\0")[0].endswith(b"/java"):
                    continue
                if all(word in line for word in words) and os.readlink(process / "cwd").startswith(below):
                    found.append(int(process.name))
        return found

    def _free_port(self) -> int:
        with socket.create_server((self._address, 0)) as server:
            return int(server.getsockname()[1])
