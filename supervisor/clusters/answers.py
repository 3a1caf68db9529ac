"""Reads what a cluster answers, of whatever form it is: what has another form than expected counts as not said. It is pure
but for the clock of ``shares``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supervisor.model.records import clip


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns ``value``, or an empty mapping if it is none."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the mappings in ``value``; none if it is no list."""
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def text(value: Any, max_bytes: int) -> str:
    """Returns ``value`` on one printable line of at most ``max_bytes``, or nothing if it is no text."""
    return clip(value, max_bytes) if isinstance(value, str) else ""


def count(value: Any) -> int:
    """Returns ``value``, or 0 if it is no number of things."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if is_count else 0


def shares(addresses: Sequence[str], timeout_s: float) -> Iterator[tuple[str, float]]:
    """Yields each address with how many seconds it may take: of what is left, the same for each that is still to be asked,
    so that one that hangs leaves time for the others. It ends early when no time is left."""
    until_at_s = time.monotonic() + timeout_s
    for number, address in enumerate(addresses):
        share_s = (until_at_s - time.monotonic()) / (len(addresses) - number)
        if share_s <= 0:
            return
        yield address, share_s
