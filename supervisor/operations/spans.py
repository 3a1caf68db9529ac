"""Puts times into words for people: how long ago, and for how long. ``cli.output`` and ``operations.explain_words`` use
it."""

from __future__ import annotations

import time
from datetime import datetime


def age(iso: str | None, now_s: float | None = None) -> str:
    """Returns how long ago (or until) an ISO 8601 time is, in its largest unit, like ``42s`` or ``2d``."""
    since_s = seconds_since(iso, now_s)
    if since_s is None:
        return "-"
    passed_s = abs(since_s)
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if passed_s >= 2 * length_s:
            return f"{int(passed_s // length_s)}{unit}"
    return f"{int(passed_s)}s"


def seconds_since(iso: str | None, now_s: float | None = None) -> float | None:
    """Returns how many seconds ago an ISO 8601 time was, or None for what is no time."""
    try:
        return (time.time() if now_s is None else now_s) - datetime.fromisoformat(iso or "").timestamp()
    except (ValueError, OverflowError):
        return None


def span(seconds: float) -> str:
    """Returns a time to wait for, in its two largest units: ``24s``, ``3m 24s``, ``2h 5m``, ``3d 4h``."""
    left = max(0, round(seconds))
    parts = []
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length_s)
        parts.append(f"{count}{unit}" if count else "")
    first = next((n for n, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join(part for part in parts[first : first + 2] if part) or "0s"
