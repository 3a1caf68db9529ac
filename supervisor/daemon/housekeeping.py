"""What may take its time, or hang on a disk, without harm to anybody: keeping the logs of shims, asking the store how it is.

One thread, not watched by the watchdog: nothing waits for it. A shim writes its log into its run directory (memory), so
that no disk can stop it; when the attempt is over the guardian puts that log aside (``ENDED``), and here it is moved to
``<log_dir>/<name>/<uid>.<attempt>.shim.log``, beside the output of the driver; logs of old attempts go then. The store is
asked every 30 s whether it can be used: a store that is down shows in no driver, only in the next start.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics

log = structlog.get_logger(__name__)

ENDED = "shim-logs"
PERIOD_S = 1.0
STORE_EVERY_S = 30.0
ATTEMPTS_KEPT = 20


class Housekeeper:
    """``ended``: ``<runtime_dir>/shim-logs``. ``check_store``: raises SupervisorError if the store can't be used."""

    def __init__(self, ended: Path, log_dir: Path, check_store: Callable[[], None], metrics: Metrics) -> None:
        self._ended = ended
        self._log_dir = log_dir
        self._check_store = check_store
        self._metrics = metrics
        self._stopping = threading.Event()
        self._asked_s = float("-inf")
        self._store_said = ""
        self._keep_said = ""
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Whatever it hangs on is left to it; what is not moved yet is moved by the next supervisor."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.keep_logs()
                if boottime_s() - self._asked_s >= STORE_EVERY_S:
                    self._asked_s = boottime_s()
                    self.ask_store()
            except Exception:  # the edge of the loop: nobody would start it again
                log.exception("loop_failed", loop="housekeeping")
            self._stopping.wait(PERIOD_S)

    def keep_logs(self) -> None:
        """Move what the guardian has put aside. Tried again later if there is no room."""
        try:
            for path in sorted(self._ended.iterdir()):
                job, _, key = path.stem.partition(".")
                directory = self._log_dir / job
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                shutil.move(path, directory / f"{key}.shim.log")
                prune(directory)
            self._keep_said = ""
        except FileNotFoundError:
            pass
        except OSError as error:
            if str(error) != self._keep_said:
                self._keep_said = str(error)
                log.warning("shim_logs_not_kept", why=str(error), next="tried again")

    def ask_store(self) -> None:
        """Is it usable now? Says so when that has changed."""
        try:
            self._check_store()
        except SupervisorError as error:
            self._metrics.store_checked(False)
            if not self._store_said:
                log.warning("store_unusable", why=str(error), next="drivers go on; nothing is started until it is back")
            self._store_said = str(error)
        else:
            self._metrics.store_checked(True)
            if self._store_said:
                log.info("store_usable_again", was=self._store_said)
            self._store_said = ""


def prune(directory: Path) -> None:
    """Keep the logs of a job's newest ``ATTEMPTS_KEPT`` attempts on this host: a crash loop must not fill the disk.

    The newest are those that were written to last; an attempt that runs began after all others of its job had ended.
    Raises OSError.
    """
    newest: dict[str, float] = {}
    files = [path for path in directory.iterdir() if path.is_file()]
    for path in files:
        attempt = _attempt_of(path)
        newest[attempt] = max(newest.get(attempt, 0.0), path.stat().st_mtime)
    kept = set(sorted(newest, key=lambda attempt: newest[attempt])[-ATTEMPTS_KEPT:])
    for path in files:
        if _attempt_of(path) not in kept:
            path.unlink(missing_ok=True)


def _attempt_of(path: Path) -> str:
    """``<uid>.<attempt>`` of ``<uid>.<attempt>.log``, ``….log.1``, ``….shim.log``."""
    return ".".join(path.name.split(".")[:2])


def put_aside(run_dir_log: Path, ended: Path, job: str, key: str) -> None:
    """The log of an attempt that is over, out of its run directory: a rename within one file system. Raises OSError."""
    ended.mkdir(mode=0o700, exist_ok=True)
    run_dir_log.rename(ended / f"{job}.{key}.log")
