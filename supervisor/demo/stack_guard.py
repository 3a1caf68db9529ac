"""Ends what ``demo`` or ``dev`` started if that process dies without doing so itself, for example by
``kill -9``.

Shims and drivers outlive supervisors by design, and supervisors outlive the process that started them; so a
companion watches the starter. When the starter is gone, the companion kills everything that carries the
stack's marker, removes the cgroups of its attempts and, unless it was started with ``keep``, the directory.
The ensemble has a guard of its own (``death_guard``). ``end_attempts`` and ``remove_cgroups`` are also used
by the orderly end, in ``demo.stack``.

It touches nothing that was not started by this stack: the marker is the stack's own, freshly made directory.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from supervisor.clients import processes, run_dir
from supervisor.clients.companion import Companion, last_message
from supervisor.clients.containment import CgroupContainment
from supervisor.clients.marked import kill_marked
from supervisor.clients.processes import ProcessId

MARKER = "SUPERVISOR_STACK"
"""Everything that a stack starts has this environment variable; its value is the stack's directory."""

KILL_TIMEOUT_S = 15.0
_STOP_TIMEOUT_S = 3.0


class StackGuard:
    """Starts the guard of a stack. ``directory`` is that of the stack, absolute, made for it alone; if
    ``keep`` is True, it is left there. Use from one thread."""

    def __init__(self, directory: Path, *, keep: bool) -> None:
        """Raises SupervisorError if the guard can't be started."""
        self._companion = Companion("supervisor.demo.stack_guard")
        self._companion.send(json.dumps({"directory": str(directory), "keep": keep}).encode())

    @property
    def pid(self) -> int:
        return self._companion.pid

    def dismiss(self) -> None:
        """Ends the guard, which then touches nothing, after the stack was ended in an orderly way. It is
        idempotent."""
        self._companion.dismiss(_STOP_TIMEOUT_S)


def living_shims(directory: Path) -> Iterator[ProcessId]:
    """Yields the shims that run files below ``directory`` name and that are alive."""
    for attempt in _run_dirs(directory):
        record = run_dir.read_process(str(attempt / run_dir.SHIM))
        if record is not None and processes.alive(record.process):
            yield record.process


def end_attempts(directory: Path) -> None:
    """Sends SIGKILL to every shim below ``directory``; its twin kills the driver tree at once."""
    for shim in living_shims(directory):
        processes.kill(shim)


def remove_cgroups(directory: Path) -> None:
    """Removes the cgroups of the attempts below ``directory``; what is still in one is killed first."""
    for attempt in _run_dirs(directory):
        try:
            cgroup = json.loads((attempt / run_dir.LAUNCH).read_bytes()).get("cgroup")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(cgroup, str):
            group = CgroupContainment(cgroup)
            group.kill(1.0)
            group.remove()


def remove_directory(directory: Path) -> None:
    """Removes ``directory`` with everything in it. Tries again for a moment, while a process that is about to
    die still writes there."""
    for _ in range(10):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.2)


def _run_dirs(directory: Path) -> Iterator[Path]:
    return directory.glob("*/run/attempts/*")


def main() -> None:
    """Runs the guard."""
    message = last_message()
    if message:
        given = json.loads(message)
        _end(Path(given["directory"]), keep=bool(given["keep"]))


def _end(directory: Path, *, keep: bool) -> None:
    kill_marked(MARKER, str(directory), KILL_TIMEOUT_S)
    remove_cgroups(directory)
    if not keep:
        remove_directory(directory)


if __name__ == "__main__":
    main()
