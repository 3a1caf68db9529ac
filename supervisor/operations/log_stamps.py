"""Finds the first line of a file that was written since an instant, by the time stamps of its lines.

``operations.log_parts`` calls it. What it searches was written by a job, which may be hostile: a file without a stamp, or
with nothing but text that looks like one and is no time, costs no more than ``SINCE_MAX_BYTES`` and ``STAMPS_MAX``. A file
of a driver takes a few blocks, and one stamp for each halving.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple

SINCE_MAX_BYTES: Final = 4 * 2**20
"""So much of one file is searched at most."""
STAMPS_MAX: Final = 2_000
"""So much text that looks like a time stamp is judged at most in one search."""
_BLOCK_BYTES: Final = 64 * 1024
_STAMP_MAX_BYTES: Final = 64
_STAMP: Final = re.compile(
    rb'^(?:\[|\{"ts":")?(?:(\d\d)/(\d\d)/(\d\d) |(\d{4})-(\d\d)-(\d\d)[ T])(\d\d):(\d\d):(\d\d)'
    rb"(?:[.,]\d{1,9})?(?:(Z)|([+-])(\d\d):?(\d\d))?",
    re.MULTILINE,
)
"""It is a time stamp at the begin of a line, as Spark and Python's logging write it."""

ReadAt = Callable[[int, int], bytes]
"""Returns what stands at an offset, at most so many bytes."""


class _Stamped(NamedTuple):
    """Is a line with a time stamp: where it begins, and when it was written."""

    begin: int
    at_s: float


@dataclass
class _SearchBudget:
    """Holds what one search may still read and judge."""

    bytes: int = SINCE_MAX_BYTES
    stamps: int = STAMPS_MAX

    @property
    def is_spent(self) -> bool:
        return self.bytes <= 0 or self.stamps <= 0


def first_line_since(read: ReadAt, size: int, at_s: float) -> int:
    """Returns where the first line with a time stamp that is not before ``at_s`` begins, in a file of ``size`` bytes. If no
    stamp is, it returns where the last line with a stamp begins, because something was written since; without any
    stamp, 0. Stamps are taken to grow. A search that takes too much ends with the last line that is known to be older: so
    there is rather too much than too little."""
    low, high, budget = 0, size, _SearchBudget(SINCE_MAX_BYTES, STAMPS_MAX)
    older, newer = 0, None
    while low < high and not budget.is_spent:
        middle = (low + high) // 2
        found = _stamp_in(read, middle, high, budget)
        if found is None:
            high = middle
        elif found.at_s < at_s:
            older, low = found.begin, found.begin + 1
        else:
            newer, high = found.begin, middle
    return older if newer is None or low < high else newer


def _stamp_in(read: ReadAt, begin: int, end: int, budget: _SearchBudget) -> _Stamped | None:
    """Returns the first line with a time stamp that begins in ``[begin, end)``, as far as ``budget`` allows."""
    at = max(0, begin - 1)
    while at < end and not budget.is_spent:
        block = read(at, min(_BLOCK_BYTES, end - at) + _STAMP_MAX_BYTES)
        budget.bytes -= len(block)
        for match in _STAMP.finditer(block):
            line = at + match.start()
            if line >= end:
                return None
            if line < begin or not (line == 0 or 0 < match.start() <= _BLOCK_BYTES):
                continue
            budget.stamps -= 1
            if (at_s := _instant(match)) is not None:
                return _Stamped(line, at_s)
            if budget.is_spent:
                return None
        if len(block) <= _BLOCK_BYTES:
            break
        at += _BLOCK_BYTES
    return None


def _instant(match: re.Match[bytes]) -> float | None:
    """Returns the instant of a time stamp, or None if it is none. Without a zone it is in the local time of this process."""
    short, full, time = match.group(1, 2, 3), match.group(4, 5, 6), match.group(7, 8, 9)
    year, month, day = map(int, short if short[0] else full)
    hour, minute, second = map(int, time)
    try:
        moment = datetime(
            year + (2000 if short[0] else 0), month, day, hour, minute, second, tzinfo=_zone(match)
        )
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _zone(match: re.Match[bytes]) -> tzinfo | None:
    """Returns the zone of a time stamp, or None if it has none. Raises ValueError."""
    utc, sign, hours, minutes = match.group(10, 11, 12, 13)
    if utc:
        return UTC
    if not sign:
        return None
    return timezone((1 if sign == b"+" else -1) * timedelta(hours=int(hours), minutes=int(minutes)))
