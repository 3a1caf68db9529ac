"""Reads the clocks. Decisions use ``boottime_s`` only; ``wall_iso`` is for display.

CLOCK_BOOTTIME advances while the host sleeps and is never set back; it is comparable between processes of one
host and one boot, and with nothing else (protocol §7.7). Everything that measures calls this module; ``plan``
and ``model`` get ``now`` as an argument instead.
"""

from __future__ import annotations

import time


def boottime_s() -> float:
    """Returns the seconds since boot, with suspended time included (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    """Returns the seconds since the Unix epoch. They are for display and for noticing jumps; no decision
    rests on them."""
    return time.time()


def wall_iso(at_s: float | None = None) -> str:
    """Returns ISO 8601 in UTC with milliseconds, such as ``2026-11-21T00:46:50.123Z``. ``at_s`` is in seconds
    since the epoch."""
    seconds, milliseconds = divmod(int((wall_s() if at_s is None else at_s) * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"
