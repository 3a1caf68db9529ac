"""One supervisor process of a ``Fleet``, and what it is started in."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_until


@dataclass
class FleetMember:
    """One supervisor of the fleet. ``hosts``: what its configuration names (a proxy's, to cut it).

    ``wrapper``: what its command line is put behind, e.g. to start it in a network namespace; its shims inherit that.
    """

    id: str
    directory: Path
    hosts: str
    process: subprocess.Popen[bytes] | None = None
    down: bool = False
    wrapper: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        return self.directory / "supervisor.yaml"

    @property
    def attempts_dir(self) -> Path:
        return self.directory / "run" / "attempts"

    @property
    def log(self) -> str:
        return (self.directory / "supervisor.log").read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


def hidden_cgroup() -> tuple[str, ...]:
    """A wrapper for argv: a mount namespace of its own, in which no cgroup v2 is mounted. The pid stays (all exec)."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4] for line in lines if line.partition(" - ")[2].startswith("cgroup2 ")]
    unmount = "".join(f"umount -l {mount} && " for mount in mounts)
    return ("unshare", "--mount", "sh", "-c", f'{unmount}exec "$@"', "sh")


def remove_group(group: Path) -> None:
    """Dead processes leave a cgroup a moment after their end."""

    def gone() -> bool:
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    with contextlib.suppress(AssertionError):
        wait_until(gone, 5, f"{group} to be empty")


def remove_groups(top: Path) -> None:
    """Kills what is in ``top`` and below it, and removes them."""
    (top / "cgroup.kill").write_text("1")
    for below in sorted(top.rglob("*/"), reverse=True):
        remove_group(below)
    remove_group(top)
