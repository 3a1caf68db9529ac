"""Runs the daemon's life: everything is started in order, watched, and stopped in order. It contains no
policy.

``daemon.process.assemble`` makes it, and ``spark-supervisor run`` runs it. Stopping hands leadership over at
once and touches no driver: shims go on, and the next supervisor on this host adopts them. Only with
``supervisor.on_stop: stop_drivers`` are they stopped in order first, after this host has left the fleet.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import select
import signal
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

import structlog

from supervisor.clients import umask
from supervisor.clients.channel import TRAVERSED
from supervisor.clients.threads import BackgroundThread
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.contender import Contender
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.archive_ahead import ArchiveAhead
from supervisor.daemon.host.attempt_reporter import AttemptReporter
from supervisor.daemon.host.cluster_leftovers import ClusterLeftovers
from supervisor.daemon.host.fence_ahead import FenceAhead
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.housekeeping import Housekeeper
from supervisor.daemon.host.log_uploads import LogUploads
from supervisor.daemon.loops.notify import notify
from supervisor.daemon.loops.watchdog import EXIT_CODE, Loop, Watchdog
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.daemon.process.http import HttpServer
from supervisor.daemon.process.session_closer import SessionCloser
from supervisor.errors import Conflict, InvalidInput, SupervisorError
from supervisor.model.host_directories import StateDirectory

log = structlog.get_logger(__name__)
T = TypeVar("T")

LOOP_LIMIT_S = 60.0
"""A loop that has not come round for this long is stuck; each of its requests is bounded far below it."""

STOP_TIMEOUT_S = 20.0
LOCK = "supervisor.lock"
RUNTIME_DIR, STATE_DIR = "supervisor.runtime_dir", "supervisor.state_dir"
DISK_FAILS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO))


@dataclass
class SupervisorParts:
    """Holds everything that lives as long as the process. ``Supervisor`` starts the parts, in an order of its own."""

    id: str
    runtime_dir: Path
    watchdog: Watchdog
    server: HttpServer
    api_server: ApiHttpServer | None
    session_closer: SessionCloser
    agent: Agent
    guardian: Guardian
    reporter: AttemptReporter
    contender: Contender[ZooClient]
    housekeeper: Housekeeper
    fence_ahead: FenceAhead
    archive_ahead: ArchiveAhead
    cluster_leftovers: ClusterLeftovers
    log_uploads: LogUploads
    alone_timeout_s: float
    stop_drivers: Callable[[Callable[[], bool]], object] | None = None
    """It is set with ``supervisor.on_stop: stop_drivers``. Its argument returns True when there is no time
    left."""


class Supervisor:
    """Runs one daemon. ``assemble`` waits for ZooKeeper and checks the cluster; it returns the parts, which
    need to know it."""

    def __init__(
        self,
        runtime_dir: Path,
        state: StateDirectory,
        assemble: Callable[[Supervisor], SupervisorParts],
        *,
        passable: bool = False,
    ) -> None:
        self._runtime_dir = runtime_dir
        self._state = state
        self._passable = passable
        self._assemble = assemble
        self.stopping = threading.Event()
        self._failure: str | None = None
        self._signals = 0
        self._threads: list[BackgroundThread] = []

    def run(self) -> int:
        """Runs until a signal or a defect, and returns the exit code. Raises SupervisorError if it cannot
        start."""
        lock = take_lock(self._runtime_dir, passable=self._passable)
        state_lock = None
        try:
            state_lock = take_state_lock(self._state, passable=self._passable)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._on_signal)
            parts = self._assemble(self)
            if self.stopping.is_set():
                return 0
            self._start(parts)
            notify("READY=1")
            while not self.stopping.wait(1.0):
                parts.session_closer.check()
            notify("STOPPING=1")
            self._stop(parts)
        finally:
            for held in filter(None, (lock, state_lock)):
                os.close(held)
        return EXIT_CODE if self._failure else 0

    def failed(self, what: str, error: BaseException) -> None:
        """Ends the process after a loop ended by a defect, because it must not go on without that loop;
        systemd starts it anew."""
        log.error("loop_failed", loop=what, exc_info=error)
        log.error("supervisor_failed", loop=what, why=str(error), next="the process ends; drivers go on")
        self._failure = what
        self.stopping.set()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Ends this process in order at the first signal; after a second one it does not wait for drivers."""
        self._signals += 1
        self.stopping.set()

    def _start(self, parts: SupervisorParts) -> None:
        parts.watchdog.start()
        parts.session_closer.start()
        parts.server.start()
        if parts.api_server is not None:
            parts.api_server.start()
        self._spawn("guardian", lambda loop: guard(parts.guardian, self.stopping, loop), parts.watchdog)
        wait_for(
            "whether this id is used once",
            lambda: parts.agent.check_alone(parts.alone_timeout_s),
            self.stopping,
        )
        self._spawn("agent", lambda loop: parts.agent.run(loop.beat), parts.watchdog)
        self._spawn("hosting", lambda loop: parts.reporter.run(loop.beat), parts.watchdog)
        parts.housekeeper.start()
        parts.contender.start()
        parts.fence_ahead.start()
        parts.archive_ahead.start()
        parts.cluster_leftovers.start()
        parts.log_uploads.start()
        log.info(
            "supervisor_started", supervisor=parts.id, pid=os.getpid(), runtime_dir=str(parts.runtime_dir)
        )

    def _stop(self, parts: SupervisorParts) -> None:
        """Stops leadership first, so that it is handed over at once; then this host leaves; shims go on."""
        begun_at_s = boottime_s()
        parts.watchdog.stop()
        handed_over = parts.contender.stop(STOP_TIMEOUT_S)
        parts.agent.stop()
        parts.reporter.stop()
        parts.housekeeper.stop()
        parts.archive_ahead.stop()
        parts.cluster_leftovers.stop()
        parts.log_uploads.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)
        if parts.stop_drivers is not None:
            parts.stop_drivers(lambda: self._signals > 1)
        parts.session_closer.stop()
        if parts.api_server is not None:
            parts.api_server.stop()
        parts.server.stop()
        log.info(
            "supervisor_stopped",
            supervisor=parts.id,
            handed_over=handed_over,
            s=round(boottime_s() - begun_at_s, 2),
            next="drivers go on under their shims"
            if parts.stop_drivers is None
            else "the drivers were stopped in order",
        )

    def _spawn(self, name: str, loop: Callable[[Loop], None], watchdog: Watchdog) -> None:
        registered = watchdog.register(name, LOOP_LIMIT_S)

        def watched() -> None:
            try:
                loop(registered)
            finally:
                registered.done()

        self._threads.append(BackgroundThread(name, watched, failed=self.failed).start())


def guard(guardian: Guardian, stopping: threading.Event, loop: Loop) -> None:
    """Runs the guardian's loop, which is woken by the death of a shim, or in time for the next deadline."""
    try:
        while not stopping.is_set():
            loop.beat()
            wait_s = guardian.tick(boottime_s())
            poller = select.poll()
            for descriptor in guardian.fds():
                poller.register(descriptor, select.POLLIN)
            poller.poll(max(1, int(wait_s * 1000)))
    finally:
        guardian.close()


def take_lock(runtime_dir: Path, *, passable: bool = False) -> int:
    """Takes the lock that allows one supervisor per runtime directory, and returns its descriptor.

    If it is ``passable``, other users may pass the directory to what is granted to them below it. Raises Conflict while
    another supervisor lives, InvalidInput if the directory can't be used.
    """
    try:
        return _locked(runtime_dir, RUNTIME_DIR, passable=passable)
    except OSError as error:
        raise _unusable(RUNTIME_DIR, runtime_dir, error) from None


def take_state_lock(state: StateDirectory, *, passable: bool = False) -> int | None:
    """Takes the lock that allows one supervisor per state directory: it removes what drivers have left there, and knows of
    its own alone. Returns its descriptor, or None on a disk that is full or fails: living drivers are to be adopted all the
    same (F56). Raises as ``take_lock``."""
    try:
        make_private(state.tmp, STATE_DIR, passable=passable)
        return _locked(state.jobs, STATE_DIR, passable=passable)
    except OSError as error:
        if error.errno in DISK_FAILS:
            return None
        raise _unusable(STATE_DIR, state.path, error) from None


def _locked(directory: Path, key: str, *, passable: bool) -> int:
    make_private(directory, key, passable=passable)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(
            f"another supervisor is running with {key.rpartition('.')[2]} {directory}",
            "stop it, or choose another directory",
        ) from None
    return descriptor


def _unusable(key: str, directory: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"{key} {directory} cannot be used ({error.strerror})", "create it, or choose another"
    )


def make_private(directory: Path, key: str = RUNTIME_DIR, *, passable: bool = False) -> None:
    """Makes the directory, or makes sure that it is this user's alone: whoever may write there may exchange
    deadlines, locks and programs. Drivers of other users need it ``passable``: they get to what they know the name of and
    are granted, and see nothing.

    A link that root or this user has made is followed. Raises InvalidInput if it is another user's, OSError.
    """
    if not os.path.lexists(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    us, link, found = os.geteuid(), directory.lstat(), directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    by_link = stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, us)
    if by_link or found.st_uid != us:
        what = f"a link of {_user(link.st_uid)}" if by_link else f"a directory of {_user(found.st_uid)}"
        raise InvalidInput(
            f"{key} {directory} is {what} (mode {mode:04o}), and this supervisor runs as {_user(us)}: "
            f"chown it to {_user(us)}, or choose another, which is made if it does not exist"
        )
    wanted = TRAVERSED if passable else 0o700
    if mode & 0o077 & ~wanted:
        log.warning(
            "runtime_dir_tightened", runtime_dir=str(directory), was=f"{mode:04o}", now=f"{wanted:04o}"
        )
    if mode & 0o077 != wanted & 0o077:
        directory.chmod(wanted)


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"uid {uid}"


def check_log_dir(log_dir: Path) -> None:
    """Makes the directory. Raises InvalidInput if it can never be used: every job placed here would be
    refused, over and over.

    A full or failing disk is no reason to stay away: living drivers are to be adopted all the same (F56).
    """
    try:
        umask.make_shared_directories(str(log_dir), umask.GROUP)
        if not os.access(log_dir, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it cannot be written to")
    except OSError as error:
        if error.errno in DISK_FAILS:
            return
        raise InvalidInput(
            f"supervisor.log_dir {log_dir} cannot be used ({error.strerror})", "create it, or choose another"
        ) from None


def wait_for(
    what: str, attempt: Callable[[], T], stopping: threading.Event, pause_s: float = 2.0
) -> T | None:
    """Tries ``attempt`` until it works, and returns its result, or until ``stopping`` is set, and returns
    None: ZooKeeper may come up after this process. Conflicts are raised at once."""
    logged = ""
    while not stopping.is_set():
        try:
            return attempt()
        except Conflict:
            raise
        except SupervisorError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning(
                    "waiting", what=what, why=logged, next="tried again; drivers of this host go on meanwhile"
                )
        stopping.wait(pause_s)
    return None
