"""Stops every driver of this host in order: the host goes down, or its container ends, and nothing would
survive it.

``spark-supervisor stop-drivers`` calls it (the systemd unit of the drivers runs that at shutdown), and so
does a supervisor with ``supervisor.on_stop: stop_drivers``. It sends SIGTERM to each shim, which stops its
driver as for any orderly stop, renews the lease meanwhile and leaves a tombstone, so that the job starts
elsewhere at once instead of after the full wait. Prepared drivers are asked as well: they hold nothing, and end at once.

It kills nothing and writes nothing itself. What does not stop in time is left to the shims, which kill at the
end of ``stop_grace``, and to whatever ends the host.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from supervisor.clients import processes, run_dir
from supervisor.clock import boottime_s
from supervisor.daemon.host.hosted_attempts import read_handed
from supervisor.errors import Corrupt
from supervisor.model.launch import Launch
from supervisor.records.codec import decode
from supervisor.records.layout import about_key, is_prepared

log = structlog.get_logger(__name__)

SLICE_S = 0.2
UNBORN_S = 5.0
"""For this long a run directory may not say which process its shim is, because it may be starting right now;
after that, nobody is there."""

MARGIN_S = 10.0
"""This is added to the longest ``stop_grace``: it is the time to kill the trees and to write the
tombstones."""


@dataclass(frozen=True, slots=True)
class DrainedHost:
    """Lists attempts as ``<uid>.<attempt>``. The shims of those in ``left`` still ran when the time was
    over."""

    stopped: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass
class _Leaving:
    """Holds the state of one attempt that is to end. ``directory`` is the name of its run directory. ``pidfd`` is that of
    its shim, or None before it is known. A prepared driver without an attempt has no ``grace_s``."""

    directory: str
    key: str
    seen_at_s: float
    pidfd: int | None = None
    over: bool = False
    grace_s: float = field(default=0.0)


def stop_drivers(
    attempts_dir: Path,
    timeout_s: float | None = None,
    hurry: Callable[[], bool] = lambda: False,
) -> DrainedHost:
    """Sends a stop to every shim below ``attempts_dir``, and waits until all have ended.

    If ``timeout_s`` is None, the limit is the longest ``stop_grace`` of the attempts found, plus
    ``MARGIN_S``. ``hurry`` is called again and again; if it returns True, the wait ends. Attempts that appear
    meanwhile are stopped too. It is idempotent. Raises OSError when the directory exists and cannot be read.
    """
    begun_at_s = boottime_s()
    known: dict[str, _Leaving] = {}
    while True:
        _ask_new(attempts_dir, known)
        waiting = [one for one in known.values() if not one.over]
        limit_s = (
            timeout_s
            if timeout_s is not None
            else max((o.grace_s for o in known.values()), default=0.0) + MARGIN_S
        )
        if not waiting or hurry() or boottime_s() - begun_at_s >= limit_s:
            break
        _await_one(waiting)
    for one in waiting:
        if one.pidfd is not None:
            os.close(one.pidfd)
    departed = DrainedHost(
        tuple(sorted(one.key for one in known.values() if one.over and one.grace_s)),
        tuple(sorted(one.key for one in waiting)),
    )
    log.info(
        "drivers_stopped",
        stopped=len(departed.stopped),
        left=len(departed.left),
        s=round(boottime_s() - begun_at_s, 2),
        next="their jobs start again elsewhere, or here with the next supervisor",
    )
    return departed


def _ask_new(attempts_dir: Path, known: dict[str, _Leaving]) -> None:
    for name in run_dir.directories(str(attempts_dir)) - known.keys():
        known[name] = _Leaving(name, name, boottime_s())
    for one in known.values():
        if one.pidfd is None and not one.over:
            _ask(attempts_dir / one.directory, one)


def _ask(directory: Path, one: _Leaving) -> None:
    """Sends SIGTERM to exactly the shim that wrote ``shim.json``; a pid that was given to another process is
    never signalled."""
    shim = run_dir.read_process(str(directory / run_dir.SHIM))
    if shim is None:
        one.over = not directory.exists() or boottime_s() - one.seen_at_s >= UNBORN_S
        return
    try:
        one.pidfd = processes.open_pidfd(shim.process)
    except OSError as error:
        log.warning("driver_stop_not_requested", **about_key(one.key), why=str(error), next="asked again")
        return
    if one.pidfd is None:
        one.over = True
        return
    _describe(directory, one)
    processes.send_signal(one.pidfd, signal.SIGTERM)
    log.info(
        "driver_stop_requested", **about_key(one.key), shim_pid=shim.process.pid, stop_grace_s=one.grace_s
    )


def _describe(directory: Path, one: _Leaving) -> None:
    """Notes which attempt it is, and how long its stop may take."""
    path = str(directory / run_dir.LAUNCH)
    try:
        launch = decode(Launch, run_dir.read_file(path, run_dir.LAUNCH_MAX_BYTES) or b"", path)
        if is_prepared(one.directory):
            launch = read_handed(str(directory), one.directory) or launch
    except (OSError, Corrupt):
        one.grace_s = MARGIN_S
        return
    if launch.waits_for_assignment:
        return
    one.grace_s = max(0.001, launch.stop_grace_s)
    if launch.prepared:
        one.key = f"{launch.assignment.uid}.{launch.assignment.attempt}"


def _await_one(waiting: list[_Leaving]) -> None:
    """Waits until a shim ends, or for a moment."""
    poller = select.poll()
    by_fd = {one.pidfd: one for one in waiting if one.pidfd is not None}
    for descriptor in by_fd:
        poller.register(descriptor, select.POLLIN)
    for descriptor, _ in poller.poll(SLICE_S * 1000):
        os.close(descriptor)
        by_fd[descriptor].pidfd, by_fd[descriptor].over = None, True
