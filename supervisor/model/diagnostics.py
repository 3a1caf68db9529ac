"""Says what belongs to the diagnostics of a driver: the bounds, the window before a kill, the name of the file, and what of
a command line is shown.

Diagnostics are collected from a driver that is silent, before it is killed for that (``shim.diagnosing``), and at any time
by ``stacks`` (``operations.stacks``). The module is pure and of the standard library only, because the shim imports it.
"""

from __future__ import annotations

from typing import Final

from supervisor.model.records import Cause

DIAGNOSED_CAUSES: Final = frozenset({Cause.STALLED, Cause.START_TIMED_OUT})
"""Before a kill for one of these a running driver is given ``COLLECT_S`` more: it is silent, its lease is renewed, and a
moment more or less changes nothing. Whatever else kills it (a deadline, a revocation) waits for nothing."""

COLLECT_S: Final = 12.0
"""So long a collection takes at most; then its process ends."""

STOP_SHARE: Final = 0.6
"""This share of the time between SIGTERM and SIGKILL is for the diagnostics of a driver that does not stop: most drivers
have ended before it begins."""

STOP_LEAST_S: Final = 1.0
"""A shorter window would show nothing."""

FILE_MAX_BYTES: Final = 4 * 2**20
FILES_KEPT: Final = 5
"""So many files of diagnostics of one job are kept on a host: the newest."""

SUFFIX: Final = ".diagnostics.txt"
PROCESSES_MAX: Final = 64
KINDS: Final = ("jvm", "python")
TIMES: Final = 3
EVERY_S: Final = 2.0
TIMES_MAX: Final = 10
EVERY_MAX_S: Final = 30.0

_JAVA_VALUES: Final = frozenset(
    {
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--add-opens",
        "--add-exports",
        "--add-reads",
    }
)
_PYTHON_VALUES: Final = frozenset({"-W", "-X"})
_NOT_NAMED: Final = frozenset({"-c", "-"})


def path_of(log_path: str) -> str:
    """Returns the file of diagnostics that belongs to the output of an attempt, ``<log_dir>/<name>/<uid>.<attempt>.log``. It
    is removed with that (``daemon.host.housekeeping``)."""
    return log_path.removesuffix(".log") + SUFFIX


def stop_window_s(terminate_at_s: float, kill_at_s: float) -> float:
    """Returns how long before SIGKILL the diagnostics of a driver that does not stop begin; 0.0 if there is no time."""
    window_s = min(COLLECT_S, (kill_at_s - terminate_at_s) * STOP_SHARE)
    return window_s if window_s >= STOP_LEAST_S else 0.0


def shown_command(arguments: list[str]) -> str:
    """Returns the program of a command line and, of a JVM or an interpreter of Python, what it runs: a module, a script, a
    class. No other argument is shown, because any of them may be a secret."""
    if not arguments or not arguments[0]:
        return "?"
    program = arguments[0].rpartition("/")[2][:200]
    if not program.startswith(("java", "python", "pypy")):
        return program
    values = _JAVA_VALUES if program.startswith("java") else _PYTHON_VALUES
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "-m":
            return f"{program} -m {next(rest, '?')[:200]}"
        if argument in _NOT_NAMED:
            break
        if argument in values:
            next(rest, "")
        elif not argument.startswith("-"):
            return f"{program} {argument.rpartition('/')[2][:200]}"
    return program


def heap_limit(arguments: list[str]) -> str:
    """Returns what limits the heap of a JVM by its command line, such as ``-Xmx2g``, or an empty text. The last counts."""
    limits = [
        each for each in arguments if each.startswith(("-Xmx", "-XX:MaxHeapSize=", "-XX:MaxRAMPercentage="))
    ]
    return limits[-1][:60] if limits else ""
