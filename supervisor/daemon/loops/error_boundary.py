"""Confines an error to the item of a loop in which it occurs (I9).

A loop that ends ends the process, and a record that ends one leader ends each of its successors. So every loop beside the
controller's pass, and every host's, takes its items one by one through ``attempt``. An item that raised is *skipped*: it is
never taken for absent, done or empty; whatever of it could be acted upon is left to the next round. Errors that a loop
handles itself are named by ``through`` and raised again. ``plan.check`` is no item: a defect there stops the pass.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from supervisor.clock import boottime_s

log = structlog.get_logger(__name__)

T = TypeVar("T")
AGAIN_S: Final = 600.0
KNOWN_MAX: Final = 1_000


class ErrorBoundary:
    """Handles the errors of one loop. It logs each cause of each item once in ten minutes, with its traceback. Several
    threads may use it at once; at worst something is logged twice."""

    def __init__(self, loop: str, clock: Callable[[], float] = boottime_s) -> None:
        self._loop = loop
        self._clock = clock
        self._logged_at_s: dict[tuple[str, str], float] = {}

    def attempt(
        self, item: str, work: Callable[[], T], otherwise: T, through: tuple[type[Exception], ...] = ()
    ) -> T:
        """Returns the result of ``work``, or ``otherwise`` if it raised anything but ``through``."""
        try:
            return work()
        except through:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of one item
            self.log_error(item, error)
            return otherwise

    def log_error(self, item: str, error: Exception) -> None:
        """Logs an error that is being handled. It never raises."""
        cause, now_s = f"{type(error).__name__} {_place(error)}", self._clock()
        if now_s - self._logged_at_s.get((item, cause), float("-inf")) < AGAIN_S:
            return
        if len(self._logged_at_s) >= KNOWN_MAX:
            self._logged_at_s.clear()
        self._logged_at_s[item, cause] = now_s
        log.exception(
            "item_failed",
            loop=self._loop,
            item=item,
            why=f"{type(error).__name__}: {str(error)[:500]}",
            next="it is left out and tried again; nothing else is affected",
        )


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
