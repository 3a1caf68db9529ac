"""Runs a tool to its end and returns its output: ``java --list-modules``, ``spark-submit --version``.
``doctor`` calls it.

It is bounded: at the deadline the tool is killed with all that it started in its process group. It never
raises for what the tool does. ``run_unhurried`` runs one at the lowest priority, and gives it up when it is
in the way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from supervisor.clock import boottime_s

OUTPUT_MAX_CHARS = 200_000
ASKED_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Ran:
    """Holds the outcome of a tool. ``code`` is None when the tool could not be started or did not end in
    time; then ``error`` says why, else it is empty.

    If ``late``, it was killed at the deadline, and may be whole on a quieter host.
    """

    code: int | None
    out: str
    err: str
    error: str = ""
    late: bool = False

    @property
    def text(self) -> str:
        return f"{self.out}\n{self.err}"

    @property
    def last_line(self) -> str:
        """Returns the last line that it printed, for a message."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it said nothing"


def run_tool(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
    """Runs ``argv`` without a shell, in a session of its own, with an empty stdin."""
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _not_executed(argv, error)
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        return Ran(None, "", "", f"{argv[0]} did not end within {timeout_s:g} s", late=True)
    return Ran(process.returncode, _text(out), _text(err))


def run_shown(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
    """Runs ``argv`` like ``run_tool``, in the present directory; what it prints goes to this process's stderr as it
    comes, and is not kept. If this process is interrupted, it is killed first."""
    try:
        process = subprocess.Popen(
            list(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=2, stderr=2, start_new_session=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _not_executed(argv, error)
    try:
        return Ran(process.wait(timeout_s), "", "")
    except subprocess.TimeoutExpired:
        return Ran(None, "", "", f"did not end within {timeout_s:g} s", late=True)
    finally:
        if process.returncode is None:  # not reaped: the number is still its own
            _kill_group(process)


def run_unhurried(
    argv: Sequence[str], env: Mapping[str, str], timeout_s: float, go_on: Callable[[], bool], cwd: str
) -> Ran | None:
    """Runs ``argv`` as ``run_tool`` does, at nice 19. Returns None if it was killed because ``go_on`` returned
    False. Its output is kept in a file in ``cwd``, of which the end is returned."""
    until_at_s = boottime_s() + timeout_s
    try:
        with tempfile.TemporaryFile(dir=cwd) as output:
            process = subprocess.Popen(
                ["nice", "-n", "19", *argv],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
            )
            try:
                while process.poll() is None:
                    if not go_on():
                        return None
                    if boottime_s() > until_at_s:
                        return Ran(None, "", "", f"{argv[0]} did not end within {timeout_s:g} s", late=True)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(ASKED_EVERY_S)
            finally:
                if process.returncode is None:  # not reaped: the number is still its own
                    _kill_group(process)
            output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_MAX_CHARS))
            return Ran(process.returncode, _text(output.read()), "")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _not_executed(argv, error)


def _not_executed(argv: Sequence[str], error: Exception) -> Ran:
    why = getattr(error, "strerror", None) or error
    return Ran(None, "", "", f"{argv[0]} cannot be executed ({why})")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the tool's process group. The tool is not yet reaped, so its number is still that of its
    group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=2.0)


def _text(data: bytes) -> str:
    return data[:OUTPUT_MAX_CHARS].decode(errors="replace")
