"""Does what may take its time, or hang on a disk, without harm to anybody: it keeps the logs of shims and
probes the store.

It has one thread, which the watchdog does not watch, because nothing waits for it. A shim writes its log into
its run directory (memory), so that no disk can stop it. When the attempt is over the guardian puts that log
aside (``ENDED``), and this thread moves it to ``<log_dir>/<name>/<uid>.<attempt>.shim.log``, beside the
output of the driver. It removes logs of old attempts, and what is above the limits of a job and of the host
(``log_limits``). Of prepared drivers to which no attempt was handed it keeps the newest few logs, and those of the ones
that are still there. It removes what drivers have left (``leftovers``), the working directories of jobs that are gone
(``job_directories``), and Python environments that no attempt uses (``spark.python_environments``). It probes every 30 s
whether the store can be used: a store that is down shows in no driver, only in the next start.
"""

from __future__ import annotations

import shutil
import stat
import threading
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import structlog

from supervisor.clients import umask
from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.daemon.host.log_limits import LogLimit, attempt_of, remove_surplus
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics
from supervisor.records.layout import is_attempt, is_prepared

log = structlog.get_logger(__name__)

ENDED = "shim-logs"
PERIOD_S = 1.0
SELDOM_S = 30.0
ATTEMPTS_KEPT = 20
PREPARED_KEPT = 3
"""So many logs of prepared drivers of a job are kept that never had an attempt."""


class Housekeeper:
    """Runs the thread. ``ended`` is ``<runtime_dir>/shim-logs``. ``check_store`` raises SupervisorError if
    the store can't be used. ``remove_leftovers`` removes some of what drivers of other users have left;
    ``sweep_environments`` the Python environments that no attempt uses any more. ``limit`` is for the sum of the logs;
    ``sweep_job_directories`` removes the working directories of jobs that are gone."""

    def __init__(
        self,
        ended: Path,
        log_dir: Path,
        check_store: Callable[[], None],
        metrics: Metrics,
        remove_leftovers: Callable[[], None] = lambda: None,
        sweep_environments: Callable[[], None] = lambda: None,
        limit: LogLimit | None = None,
        sweep_job_directories: Callable[[], None] = lambda: None,
    ) -> None:
        self._sweep_job_directories = sweep_job_directories
        self._limit = limit
        self._attempts_dir = ended.parent / "attempts"
        self._sweep_environments = sweep_environments
        self._remove_leftovers = remove_leftovers
        self._ended = ended
        self._log_dir = log_dir
        self._check_store = check_store
        self._metrics = metrics
        self._stopping = threading.Event()
        self._seldom_at_s = float("-inf")
        self._store_logged = ""
        self._keep_logged = ""
        self._apart = ErrorBoundary("housekeeping")
        self._thread = BackgroundThread("housekeeping", self._run, ask=self._stopping.set)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, without waiting for what hangs. The next supervisor moves the logs that are not
        moved yet."""
        self._thread.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._apart.attempt("logs", self.keep_logs, None)
            self._apart.attempt("leftovers", self._remove_leftovers, None)
            if boottime_s() - self._seldom_at_s >= SELDOM_S:
                self._seldom_at_s = boottime_s()
                self._apart.attempt("store", self.ask_store, None)
                self._apart.attempt("environments", self._sweep_environments, None)
                self._apart.attempt("log limits", self.limit_logs, None)
                self._apart.attempt("job directories", self._sweep_job_directories, None)
            self._stopping.wait(PERIOD_S)

    def keep_logs(self) -> None:
        """Moves the logs that the guardian has put aside, each by itself. If there is no room, it is tried
        again later."""
        trouble = ""
        try:
            paths = sorted(self._ended.iterdir())
        except FileNotFoundError:
            paths = []
        except OSError as error:
            paths, trouble = [], str(error)
        for path in paths:
            try:
                self._apart.attempt(path.name, partial(self._keep_log, path), None, (OSError,))
            except OSError as error:
                trouble = trouble or str(error)
        if trouble and trouble != self._keep_logged:
            log.warning("shim_logs_not_kept", why=trouble, next="tried again")
        self._keep_logged = trouble

    def _keep_log(self, path: Path) -> None:
        job, _, key = path.stem.partition(".")
        is_known = is_attempt(key) or is_prepared(key)
        if path.suffix != ".log" or not job or not is_known or not stat.S_ISREG(path.lstat().st_mode):
            return  # somebody else's: left alone
        directory = self._log_dir / job
        umask.make_shared_directories(str(directory), umask.GROUP)
        shutil.move(path, directory / f"{key}.shim.log")
        prune(directory, self._there())

    def _there(self) -> frozenset[str]:
        """Returns the names of the attempts and prepared drivers of this host; one that was handed over has two. Raises
        OSError."""
        try:
            return frozenset(path.name for path in self._attempts_dir.iterdir())
        except FileNotFoundError:
            return frozenset()

    def limit_logs(self) -> None:
        """Removes the oldest logs that are above the limits. Raises OSError."""
        if self._limit is None:
            return
        for job, size_bytes in remove_surplus(self._log_dir, self._limit, self._there()).items():
            log.info("logs_removed", job=job, bytes=size_bytes, why="above supervisor.logs, the oldest first")

    def ask_store(self) -> None:
        """Probes whether the store is usable now, and logs when that has changed."""
        try:
            self._check_store()
        except SupervisorError as error:
            self._metrics.store_checked(False)
            if not self._store_logged:
                log.warning(
                    "store_unusable",
                    why=str(error),
                    next="drivers go on; nothing is started until it is back",
                )
            self._store_logged = str(error)
        else:
            self._metrics.store_checked(True)
            if self._store_logged:
                log.info("store_usable_again", was=self._store_logged)
            self._store_logged = ""


def prune(directory: Path, there: Collection[str] = ()) -> None:
    """Keeps the logs of a job's newest ``ATTEMPTS_KEPT`` attempts on this host, so that a crash loop does not
    fill the disk, and those of ``PREPARED_KEPT`` prepared drivers.

    The newest are those that were written to last; an attempt that runs began after all others of its job had
    ended. A prepared driver may wait for long without a word: what is ``there`` is kept. Raises OSError.
    """
    newest: dict[str, float] = {}
    files = [path for path in directory.iterdir() if path.is_file()]
    for path in files:
        attempt = attempt_of(path)
        newest[attempt] = max(newest.get(attempt, 0.0), path.stat().st_mtime)
    by_age = sorted(newest, key=lambda attempt: newest[attempt])
    kept = set([key for key in by_age if not is_prepared(key)][-ATTEMPTS_KEPT:])
    kept |= set([key for key in by_age if is_prepared(key) and key not in there][-PREPARED_KEPT:]) | set(
        there
    )
    for path in files:
        if attempt_of(path) not in kept:
            path.unlink(missing_ok=True)


def put_aside(run_dir_log: Path, ended: Path, job: str, key: str) -> None:
    """Moves the log of an attempt that is over out of its run directory, by a rename within one file system.
    Raises OSError."""
    ended.mkdir(mode=0o700, exist_ok=True)
    run_dir_log.rename(ended / f"{job}.{key}.log")
