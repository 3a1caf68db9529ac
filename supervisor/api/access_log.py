"""Writes down each request to the API as one event of the log: who asked, from where, for what, and what came of it.

A token is never in it, nor the query of an address. What clients send is bounded and escaped. So is how much they make the
supervisor write: beyond ``PER_S`` lines a second reads and refusals are only counted; writes are always logged. Called by
``daemon.process.api_server``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from supervisor.api.rate_budget import RateBudget
from supervisor.logs import get_logger

log = get_logger(__name__)

BURST: Final = 200
PER_S: Final = 20.0
PATH_MAX_CHARACTERS: Final = 200
METHOD_MAX_CHARACTERS: Final = 20


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """Describes a request that is over. ``token`` is the name of the file whose token was shown, or empty; ``status`` is
    None if nothing was answered. ``duration_s`` counts from when the whole header was read. ``is_whole`` says whether the
    client took the whole answer; ``is_write`` whether an operator posted a write."""

    token: str
    address: str
    method: str
    path: str
    status: int | None
    duration_s: float
    is_whole: bool
    is_write: bool


class AccessLog:
    """Logs requests. ``now_s`` is CLOCK_BOOTTIME. It may be used by many threads at once."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._budget = RateBudget(BURST, PER_S, now_s())
        self._omitted = 0

    def note(self, asked: AskedRequest) -> None:
        """Logs a request, or counts it."""
        with self._lock:
            if not self._budget.spend(self._now_s(), is_forced=asked.is_write):
                self._omitted += 1
                return
            omitted, self._omitted = self._omitted, 0
        if omitted:
            log.warning("api_requests_not_logged", count=omitted, next="they were answered all the same")
        log.info(
            "api_request",
            token=asked.token or None,
            address=asked.address,
            method=shown(asked.method, METHOD_MAX_CHARACTERS),
            path=shown(asked.path.partition("?")[0], PATH_MAX_CHARACTERS),
            status=asked.status,
            duration_s=round(asked.duration_s, 3),
            whole=asked.is_whole,
        )


def shown(text: str, characters_max: int) -> str:
    """Returns what a client has sent with all but visible ASCII escaped, and not longer than ``characters_max``."""
    escaped = ascii(text[:characters_max])[1:-1]
    return escaped if len(escaped) <= characters_max else f"{escaped[: characters_max - 1]}…"
