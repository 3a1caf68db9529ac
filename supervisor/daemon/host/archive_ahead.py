"""Makes the class-data archives of this host's Java and Spark while nobody waits for them (``spark.class_archive``).

One thread looks every 10 s whether the archive for the toolchain that drivers get is there, and makes it if
not; then it does the same for each of ``spark.versions``, in their order, as far as the shelf has room. It makes
one at a time, at nice 19, and never beside a start. It begins when no driver of this host has been
starting for half a minute. When a start begins meanwhile the training run is killed, not let run on: it has
two thirds of a gigabyte of memory, and its dump fills the page cache, which a nice value does not share out;
and a training run that is begun again costs nothing but idle time. On a host where drivers start all the time
(a crash loop with a short delay) there is never an archive.

At its first look it compares the archive that is there with its checksum. What failed is tried again after
six hours, or when Java or Spark has changed. ``daemon.process.supervisor`` starts and stops it. The watchdog
does not watch it, because nothing waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from supervisor.settings.file import Settings
from supervisor.spark.class_archive import shelf
from supervisor.spark.class_archive.assign import archives_dir
from supervisor.spark.class_archive.build import make_archive
from supervisor.spark.class_archive.key import ArchiveKey, archive_key
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain, find_toolchain

log = structlog.get_logger(__name__)

PERIOD_S = 10.0
QUIET_S = 30.0
AGAIN_S = 6 * 3600.0
STOP_S = 5.0


class ArchiveAhead:
    """Makes archives. ``is_starting`` says whether a driver of this host is on its way to its first batch, or about
    to be; ``environ`` is the supervisor's environment."""

    def __init__(
        self,
        settings: Settings,
        is_starting: Callable[[], bool],
        metrics: Metrics,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._is_starting = is_starting
        self._metrics = metrics
        self._environ = dict(os.environ) if environ is None else environ
        self._directory = archives_dir(settings)
        self._stopping = threading.Event()
        self._busy_at_s = boottime_s()
        self._failed: dict[str, float] = {}
        self._verified: set[str] = set()
        self._boundary = ErrorBoundary("class archives")
        self._thread = BackgroundThread("class-archive", self._run, ask=self._stopping.set)

    def start(self) -> None:
        if self._settings.spark.class_archive != "off":
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and the training run with it."""
        self._thread.stop(STOP_S)

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD_S):
            self._boundary.attempt("round", self.round, None)

    def round(self) -> None:
        """Looks once, and makes one archive that is missing if nobody is in a hurry."""
        wanted = self._wanted()
        missing = [name for name, (key, _) in wanted.items() if not self._is_ready(key)]
        self._metrics.class_archive_ready(bool(wanted) and not missing)
        if not missing or not self._is_quiet():
            return
        due = next((name for name in missing if self._is_due(wanted[name][0])), None)
        if due is not None:
            made = self._make(*wanted[due], frozenset(wanted))
            self._metrics.class_archive_ready(made and missing == [due])

    def _wanted(self) -> dict[str, tuple[ArchiveKey, Toolchain]]:
        """Returns the archives that drivers of this host may start with, by their names: that of the default Spark first.
        There are no more of them than the shelf keeps."""
        found: dict[str, tuple[ArchiveKey, Toolchain]] = {}
        for version in (None, *self._settings.spark.versions):
            try:
                toolchain = find_toolchain(
                    self._settings.spark, version=version, job_env={}, environ=self._environ
                )
            except (Refused, Unreachable):
                continue
            key = archive_key(toolchain, self._environ)
            if isinstance(key, ArchiveKey) and len(found) < shelf.KEPT:
                found.setdefault(key.name, (key, toolchain))
        return found

    def _is_ready(self, key: ArchiveKey) -> bool:
        """Says whether the archive is there; at the first look it is read, and removed if it is damaged."""
        found = shelf.find(self._directory, key)
        if isinstance(found, str):
            return False
        if key.name in self._verified:
            return True
        try:
            whole = shelf.is_whole(found)
            if not whole:
                shelf.remove(self._directory, key.name)
                log.warning("class_archive_damaged", archive=str(found.file), next="it is made anew")
        except OSError:
            return False
        if whole:
            self._verified.add(key.name)
        return whole

    def _is_quiet(self) -> bool:
        """Says whether no driver has been starting for ``QUIET_S``."""
        if self._is_starting():
            self._busy_at_s = boottime_s()
        return boottime_s() - self._busy_at_s >= QUIET_S

    def _is_due(self, key: ArchiveKey) -> bool:
        failed_at_s = self._failed.get(key.name)
        return failed_at_s is None or boottime_s() - failed_at_s >= AGAIN_S

    def _may_go_on(self) -> bool:
        return not (self._stopping.is_set() or self._is_starting())

    def _make(self, key: ArchiveKey, toolchain: Toolchain, wanted: frozenset[str]) -> bool:
        """Makes the archive of ``key``, and returns whether it is there. Those that are ``wanted`` stay on the shelf."""
        begun_at_s = boottime_s()
        self._tidy(wanted)
        self._failed = {name: at_s for name, at_s in self._failed.items() if name in wanted}
        made = make_archive(key, toolchain.python, self._directory, self._environ, self._may_go_on)
        took_s = round(boottime_s() - begun_at_s, 2)
        if made.interrupted:
            self._metrics.class_archive_made("given_up")
            self._busy_at_s = boottime_s()
            if not self._stopping.is_set():
                log.info("class_archive_given_up", s=took_s, next="begun again when no driver is starting")
        elif made.file is None:
            self._metrics.class_archive_made("failed")
            self._failed[key.name] = boottime_s()
            log.warning(
                "class_archive_not_made",
                why=made.why,
                next="drivers start without; tried again after six hours",
            )
        else:
            self._verified.add(key.name)
            self._metrics.class_archive_made("made")
            log.info("class_archive_made", archive=str(made.file), bytes=made.file.stat().st_size, s=took_s)
            self._tidy(wanted)
        return made.file is not None

    def _tidy(self, wanted: frozenset[str]) -> None:
        try:
            shelf.tidy(self._directory, wanted)
        except OSError as error:
            log.warning("class_archives_untidy", why=str(error), next="tried again with the next archive")
