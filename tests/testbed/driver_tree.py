"""A driver that a test starts by itself, with all that it starts: none of it outlives the test.

The JVM of PySpark leaves its Python behind when it is killed, and Spark's Python workers have a process group of their own.
All of them stay in the session of the one that was started, so that is what is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_until


@contextmanager
def driver_tree(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | str, log: Path | str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs ``argv`` in a session of its own, its output in the file ``log``. At the end all of it is gone."""
    with Path(log).open("wb") as out:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.wait()


def kill_session(session: int) -> None:
    """Kills the processes of a session, and returns when none of them runs. The id is that of the one that began it, which
    was not waited for yet or is gone."""
    wait_until(lambda: not _killed(session), 60, f"the end of session {session}")


def _killed(session: int) -> list[int]:
    """Kills what runs, and returns it."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    running = [pid for pid in found if _runs_in(pid, session)]
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return running


def _runs_in(pid: int, session: int) -> bool:
    try:
        state, _, _, its_session = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:4]
    except OSError:
        return False
    return int(its_session) == session and state not in (b"Z", b"X")
