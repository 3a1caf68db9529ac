"""Collects the diagnostics of a driver tree and writes them out piece by piece, the surest first.

What only reads files of the kernel comes first, then the threads, several times, and the heap histogram last: for that a JVM
stops all its threads, for seconds if its heap is large. Whoever reads keeps what was written when this is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from supervisor.clients.diagnostics import proc
from supervisor.clients.diagnostics.attach import AttachFailed, JavaProcess, ask_jvm
from supervisor.clients.diagnostics.connections import sockets_of
from supervisor.clients.diagnostics.memory import memory_of
from supervisor.clients.diagnostics.proc import ProcessView
from supervisor.clients.diagnostics.python_threads import ask_interpreter
from supervisor.model.diagnostics import COLLECT_S, EVERY_S, KINDS, PROCESSES_MAX, TIMES

_HISTOGRAM_LINES: Final = 60
_ANSWER_S: Final = 3.0
"""So long one JVM is waited for at each dump, so that the others have their turn."""

Write = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DiagnosticsTask:
    """Says what is to be collected. ``heading`` holds the first lines. ``pids`` are the processes of the tree, ``orders`` is
    the socket at which its bootstrap takes orders, ``kinds`` are those of ``proc.ProcessView`` whose threads are asked for.
    With ``only_threads`` there is nothing but them, without ``heap`` no histogram of it. ``within_s`` is for all of it."""

    pids: tuple[int, ...]
    heading: tuple[str, ...] = ()
    cgroup: str | None = None
    orders: str = ""
    within_s: float = COLLECT_S
    times: int = TIMES
    every_s: float = EVERY_S
    kinds: tuple[str, ...] = KINDS
    only_threads: bool = False
    heap: bool = True


def task_of(given: dict[str, Any]) -> DiagnosticsTask:
    """Returns the task of which ``given`` is the JSON."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return DiagnosticsTask(**values)


def collect(task: DiagnosticsTask, write: Write) -> None:
    """Writes what there is, within the time of the task."""
    until_at_s = time.monotonic() + task.within_s
    tree = [view for pid in task.pids[:PROCESSES_MAX] if (view := proc.view_of(pid)) is not None]
    _section(write, "", task.heading)
    if not task.only_threads:
        _section(write, "memory", memory_of(task.cgroup))
        _section(write, "processes", _processes(tree))
    began_at_s = time.monotonic()
    for number in range(task.times):
        wait_s = began_at_s + number * task.every_s - time.monotonic()
        if time.monotonic() + max(0.0, wait_s) >= until_at_s:
            break
        time.sleep(max(0.0, wait_s))
        _thread_dumps(task, tree, f"{number + 1} of {task.times}", until_at_s, write)
        if number == 0 and not task.only_threads:
            for view in tree:
                _section(write, f"sockets of {_name(view)}", sockets_of(view.process.pid))
    if task.heap and not task.only_threads:
        for view in tree:
            if view.kind == "jvm" and time.monotonic() < until_at_s:
                _section(write, f"heap histogram of {_name(view)}", _histogram(view, until_at_s))


def _thread_dumps(
    task: DiagnosticsTask, tree: list[ProcessView], which: str, until_at_s: float, write: Write
) -> None:
    for view in tree:
        if time.monotonic() >= until_at_s or view.kind not in task.kinds or not view.kind:
            continue
        within_at_s = min(until_at_s, time.monotonic() + _ANSWER_S)
        at = time.strftime("%H:%M:%S", time.gmtime())
        title = f"thread dump {which} of {_name(view)} at {at} UTC"
        if view.kind == "jvm":
            _section(write, title, [_of_jvm(view, within_at_s, "threaddump")])
        else:
            _section(write, title, _of_python(task, view, within_at_s))


def _of_jvm(view: ProcessView, until_at_s: float, command: str, *arguments: str) -> str:
    """Returns the answer of a JVM, or why there is none."""
    now = proc.view_of(view.process.pid)
    if now is None or now.process != view.process:
        return "it has ended"
    if now.is_stopped:
        return "it is stopped (SIGSTOP): it can be asked nothing"
    java = JavaProcess(view.process, view.uid, view.own_pid)
    try:
        return ask_jvm(java, command, *arguments, until_at_s=until_at_s)
    except AttachFailed as error:
        return f"not to be had: {error}"


def _of_python(task: DiagnosticsTask, view: ProcessView, until_at_s: float) -> Iterator[str]:
    """Yields the threads of an interpreter by itself if it answers, else as the kernel sees them. Only the driver's own
    interpreter takes orders; its answer says whose it is."""
    answer = ask_interpreter(task.orders, view.uid, until_at_s) if task.orders else None
    if answer is not None and answer.startswith(f"pid {view.own_pid}\n"):
        yield answer
        return
    if answer is None and task.orders and not view.is_stopped:
        yield "no interpreter has answered; as the kernel sees its threads (number, state, where it waits, name):"
    else:
        yield "as the kernel sees its threads (number, state, where it waits, name):"
    yield from proc.threads_of(view.process.pid)


def _histogram(view: ProcessView, until_at_s: float) -> Iterator[str]:
    """Yields the classes that take most of the heap, and the sum. ``-all``: without a collection of garbage before it, for
    that could take longer than there is."""
    lines = _of_jvm(view, until_at_s, "inspectheap", "-all").splitlines()
    yield from lines[:_HISTOGRAM_LINES]
    if len(lines) > _HISTOGRAM_LINES:
        yield f"… {len(lines) - _HISTOGRAM_LINES - 1} more"
        yield lines[-1]


def _processes(tree: list[ProcessView]) -> Iterator[str]:
    yield f"{'PID':>8} {'PPID':>8} S {'THREADS':>7} {'RSS MiB':>8} {'PSS MiB':>8} {'PEAK MiB':>8}  COMMAND"
    for view in tree:
        sizes = " ".join(f"{_mib(size):>8}" for size in (view.rss_bytes, view.pss_bytes, view.peak_bytes))
        limit = f"  ({view.heap_limit})" if view.heap_limit else ""
        yield f"{view.process.pid:>8} {view.ppid:>8} {view.state} {view.threads:>7} {sizes}  {view.command}{limit}"


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**20:.0f}"


def _name(view: ProcessView) -> str:
    return f"{view.command.partition(' ')[0]} {view.process.pid}"


def _section(write: Write, title: str, lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    if text or title:
        write(f"{f'== {title} ==' if title else ''}\n{text}\n".lstrip("\n") + "\n")
