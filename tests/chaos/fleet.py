"""The fleet under chaos: supervisors behind proxies, with disks that can be filled and a wall clock of their own, store on S3.

Each member has two ways to the ensemble, and takes the other one at each start: what it started before stays on the first.
So a cut can hit a supervisor and leave older shims of its host alone, or the other way round.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.records.layout import is_attempt, is_prepared
from tests.testbed.fleet import SHIM, Fleet, FleetMember
from tests.testbed.moto import AWS_ENV
from tests.testbed.proxy import Proxies

WAYS = 2
DISK_BYTES = 48 * 1024**2
CLOCK_SOURCE = Path(__file__).resolve().parents[1] / "testbed" / "wall_clock.c"


@dataclass(frozen=True)
class Attempt:
    """One that has a shim now. A prepared driver to which no attempt was handed is one of number 0."""

    job: str
    uid: str
    number: int
    host: str
    directory: Path
    cgroup: Path | None
    tree: str
    """The name of its run directory: that of an attempt which was handed over is the prepared driver's."""

    @property
    def key(self) -> str:
        return f"{self.uid}.{self.number}" if self.number else self.tree

    @property
    def title(self) -> str:
        return f"{self.job} {self.key}"

    def process(self, file: str = SHIM) -> ProcessId | None:
        """Shim, twin or driver's root, if it lives."""
        try:
            record = run_dir.read_process(str(self.directory / file))
        except (OSError, ValueError):
            return None
        return record.process if record is not None and processes.alive(record.process) else None


class WallClock:
    """A wall clock that processes started behind ``wrapper`` obey. Without a C compiler there is none."""

    def __init__(self, directory: Path, library: Path) -> None:
        file = directory / "wall_offset"
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.wrapper = (f"LD_PRELOAD={library}", f"WALL_OFFSET_FILE={file}")

    def set_off(self, offset_s: int) -> None:
        self._page[:] = struct.pack("q", offset_s)


def build_clock(directory: Path) -> Path | None:
    """The library that moves the wall clock; None: no C compiler here."""
    if shutil.which("cc") is None:
        return None
    library = directory / "wall_clock.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(CLOCK_SOURCE), "-ldl"], check=True
    )
    return library


@dataclass
class ChaosFleet(Fleet):
    """``links[i]``: the two ways of member ``i``. ``locks[i]``: who wants to kill, stop or start that supervisor takes it."""

    endpoint_url: str = ""
    links: list[list[Proxies]] = field(default_factory=list)
    clocks: list[WallClock] = field(default_factory=list)
    locks: list[threading.Lock] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._starts: dict[int, int] = {}
        self._disks: list[Path] = []
        self._library = build_clock(self.directory)
        self._found: dict[Path, Attempt] = {}

    # -- life ---------------------------------------------------------------------------------------------------------

    def start_member(self, i: int) -> FleetMember:
        turn = self._starts[i] = self._starts.get(i, -1) + 1
        self.members[i].hosts = self.links[i][turn % WAYS].hosts
        return super().start_member(i)

    def stop(self) -> None:
        super().stop()
        for ways in self.links:
            for proxies in ways:
                proxies.close()
        for disk in self._disks:
            shutil.copytree(
                disk,
                disk.with_name(f"{disk.name}-kept"),
                dirs_exist_ok=True,
                ignore_dangling_symlinks=True,
                ignore=lambda directory, names: [name for name in names if not _plain(Path(directory, name))],
            )
            subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)
        self._disks.clear()

    def _new_member(self, i: int) -> FleetMember:
        member = super()._new_member(i)
        self.locks.append(threading.Lock())
        self.links.append([Proxies(self.ensemble.hosts) for _ in range(WAYS)])
        environment = [f"WITNESS_HOST={member.id}"]
        if self._library is not None:
            self.clocks.append(WallClock(member.directory, self._library))
            environment += self.clocks[i].wrapper
        member.wrapper = ("env", *environment)
        for disk in disks_of(member):
            disk.mkdir()
            if os.geteuid() == 0:
                subprocess.run(
                    ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True
                )
                self._disks.append(disk)
        return member

    @property
    def has_disks(self) -> bool:
        """Whether the directories of the members are file systems of their own, which may be filled."""
        return bool(self._disks)

    # -- what is there ------------------------------------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """All whose shim lives, in a fixed order."""
        return self._living(is_attempt)

    def prepared(self) -> list[Attempt]:
        """The prepared drivers to which no attempt was handed, as ``attempts``."""
        return [one for one in self._living(is_prepared) if not (one.directory / run_dir.HANDED).exists()]

    def _living(self, is_one: Callable[[str], bool]) -> list[Attempt]:
        found = []
        for member in self.members:
            for directory in member.attempts_dir.glob("*.*"):
                attempt = self._attempt(member, directory) if is_one(directory.name) else None
                if attempt is not None and attempt.process() is not None:
                    found.append(attempt)
        return sorted(found, key=lambda attempt: attempt.title)

    def _attempt(self, member: FleetMember, directory: Path) -> Attempt | None:
        if directory not in self._found:
            uid, _, rest = directory.name.rpartition(".")
            number = 0 if is_prepared(directory.name) else int(rest)
            try:
                tree = directory.resolve().name
                launch = json.loads((directory / "launch.json").read_bytes())
            except (OSError, ValueError):
                return None
            group = Path(launch["cgroup"]) if launch["cgroup"] else None
            self._found[directory] = Attempt(
                launch["assignment"]["name"], uid, number, member.id, directory, group, tree
            )
        return self._found[directory]

    def groups(self) -> list[Path]:
        """The cgroups of all attempts that were seen, as far as they are there."""
        return [
            one.cgroup for one in list(self._found.values()) if one.cgroup is not None and one.cgroup.exists()
        ]

    def strays(self) -> list[str]:
        """Shims, twins and drivers that live, of attempts and of prepared drivers, wherever their directories are."""
        found = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(bytes(1))
                if b"supervisor.shim" in words or any(word.endswith(b"/spark-submit") for word in words):
                    found.append(f"process {process.pid}: {b' '.join(words)[:200].decode(errors='replace')}")
        return found

    # -- settings -------------------------------------------------------------------------------------------------------

    def _settings(self, hosts: str) -> dict[str, Any]:
        return super()._settings(hosts) | {"store": {"url": self.store, "endpoint_url": self.endpoint_url}}

    def _env(self) -> dict[str, str]:
        return {
            **{name: value for name, value in super()._env().items() if not name.startswith("AWS_")},
            **AWS_ENV,
        }


def _plain(path: Path) -> bool:
    """No socket or pipe."""
    return path.is_dir() or path.is_file()


def disks_of(member: FleetMember) -> tuple[Path, Path]:
    """``runtime_dir`` and ``log_dir``."""
    return member.directory / "run", member.directory / "log"
