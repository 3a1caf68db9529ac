"""Builds the jars of the storage fence, one for each Spark of this host, while nobody waits for them; otherwise the first
start on this host would, for 1 to 3 s.

One thread does it. It ends when that is done or has failed; then the first start tries for itself.
``daemon.process.supervisor`` starts it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.settings.file import Settings
from supervisor.spark.host_jars import make_fence_ahead

log = structlog.get_logger(__name__)


class FenceAhead:
    """Builds the jars once. ``environ`` is the supervisor's environment."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._environ = dict(os.environ) if environ is None else environ
        self._thread = BackgroundThread("fence", self.make)

    def start(self) -> None:
        self._thread.start()

    def make(self) -> None:
        """Builds the jar of the default Spark, then that of each of ``spark.versions``."""
        for version in (None, *self._settings.spark.versions):
            self._make(version)

    def _make(self, version: str | None) -> None:
        begun_at_s = boottime_s()
        built = make_fence_ahead(self._settings, self._environ, version)
        if built is None:
            return
        if built.jar is None:
            log.warning(
                "fence_not_made", why=built.why, next="the first start with a checkpoint on S3 tries again"
            )
        else:
            log.info("fence_made", jar=str(built.jar), s=round(boottime_s() - begun_at_s, 2))
