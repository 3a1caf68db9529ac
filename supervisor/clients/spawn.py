"""Starts processes that outlive this one: shims. The agent calls it; it knows nothing of attempts or
ZooKeeper.

The child gets a session of its own and no descriptor of this process, so the death of the supervisor, of its
terminal or of its log pipe does not touch it (I6). It stays a child of this process only to be reaped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

from supervisor.clients import processes, umask
from supervisor.clients.package_path import python_path
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import SHIM_LOG
from supervisor.errors import SupervisorError

_children: list[subprocess.Popen[bytes]] = []
_children_lock = threading.Lock()


def spawn_detached(argv: Sequence[str], env: Mapping[str, str], cwd: str, stdio_log: str | None) -> ProcessId:
    """Starts ``argv`` without a shell; its output is appended to ``stdio_log`` (discarded if that can't be
    opened).

    The child gets the umask that this process was started with, and must itself keep private what has to be
    private. Raises SupervisorError when it can't be started (no such file, no process, memory or descriptor
    left). Not idempotent. ``reap_finished`` has to be called now and then.
    """
    log = _open_log(stdio_log)
    try:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            close_fds=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            umask=umask.given(),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SupervisorError(f"{argv[0]} could not be started: {error}") from error
    finally:
        if log != subprocess.DEVNULL:
            os.close(log)
    with _children_lock:
        _children.append(child)
    try:
        started = processes.identify(child.pid)
    except OSError as error:
        raise SupervisorError(f"{argv[0]} was started, but can't be looked at: {error}") from error
    if started is None:  # cannot be: our child stays a zombie until we reap it
        raise SupervisorError(f"{argv[0]} vanished at its start")
    return started


def spawn_shim(run_dir: str, cgroup: str | None) -> ProcessId:
    """Starts the shim of the attempt that ``<run_dir>/launch.json`` describes, with the same ``cgroup`` as
    there.

    ``run_dir`` is what ``run_dir.create`` returned; its name is ``<uid>.<attempt>``. Raises as
    ``spawn_detached``.

    With ``-P`` nothing is imported from the run directory. glibc's arenas, one per thread, would cost each
    shim a megabyte; unwritten byte code would be compiled again by each, which costs four.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = python_path(env)
    env["MALLOC_ARENA_MAX"] = "1"
    argv = (sys.executable, "-P", "-m", "supervisor.shim", run_dir, *(() if cgroup is None else (cgroup,)))
    return spawn_detached(argv, env, "/", f"{run_dir}/{SHIM_LOG}")


def reap_finished() -> int:
    """Reaps those children of this process that have ended; returns how many still run."""
    with _children_lock:
        _children[:] = [child for child in _children if child.poll() is None]
        return len(_children)


@contextlib.contextmanager
def waiting_child() -> Iterator[int]:
    """Yields the pid of a process that does nothing but wait; it is killed and reaped at the end."""
    child = subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield child.pid
    finally:
        child.kill()
        child.communicate()


def _open_log(path: str | None) -> int:
    if path is not None:
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # a full disk stops no job (F56)
            pass
    return subprocess.DEVNULL
