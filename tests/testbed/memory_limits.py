"""A cgroup with a memory limit, version 2 where it has the memory controller, else version 1: for real kills by the kernel."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from supervisor.clients.containment import find_own_cgroup, find_own_memory_cgroup


@contextlib.contextmanager
def limited_group(limit_bytes: int) -> Iterator[Path]:
    """Its directory; whatever is in it at the end is killed. Raises OSError where none can be made."""
    group = _made(limit_bytes)
    try:
        yield group
    finally:
        _remove(group)


@lru_cache(maxsize=1)
def missing() -> str | None:
    """Why there can be no such group here, or None."""
    try:
        with limited_group(64 * 1024**2):
            return None
    except OSError as error:
        return f"no cgroup with a memory limit can be made ({error})"


def run_in(group: Path, *argv: str) -> str:
    """Run a program inside of ``group`` from its first moment; returns its output."""
    enter = "import os, sys\nopen(sys.argv[1] + '/cgroup.procs', 'w').write('0')\nos.execvp(sys.argv[2], sys.argv[2:])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", enter, str(group), *argv], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _made(limit_bytes: int) -> Path:
    name = f"limited-{uuid.uuid4().hex[:8]}"
    v1 = find_own_memory_cgroup()
    if v1 is not None:
        group = Path(v1) / name
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
        with contextlib.suppress(OSError):  # no accounting of swap
            (group / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        return group
    own = find_own_cgroup()
    if own is None:
        raise FileNotFoundError("no cgroup file system")
    group = Path(own) / name
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(limit_bytes))
        with contextlib.suppress(OSError):
            (group / "memory.swap.max").write_text("0")
    except OSError:
        group.rmdir()
        raise
    return group


def _remove(group: Path) -> None:
    for _ in range(100):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        try:
            group.rmdir()
            return
        except OSError:
            subprocess.run(["sleep", "0.05"], check=False)
