"""Reads, checks and writes durations and sizes as people write them: ``500ms 10s 5m 2h 30d`` and ``512m
16g``.

Every key of ``supervisor.yaml`` and of a job spec that holds a time or an amount of memory uses it. A bare
number is refused, because nobody can tell later whether it meant seconds or milliseconds. A refusal raises
``ValueError`` with one sentence, which pydantic turns into an error that carries the key.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

DURATION_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""``d`` is read and never written: a version that does not know it must be able to read what this one stores."""
SIZE_UNITS_BYTES: Final = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
DIGITS_MAX: Final = 12

_DURATION = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})(ms|s|m|h|d)")
_SIZE = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})([bkmgt])")


def parse_duration_s(text: Any) -> float:
    """Returns seconds, exact to the millisecond. Raises ValueError."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        raise ValueError(f"is a number without a unit; write {text}s for seconds")
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"is not a duration{_shown(text)}; write one like 500ms, 10s, 5m, 2h or 30d")
    return int(match[1]) * DURATION_UNITS_MS[match[2]] / 1000


def format_duration(seconds: float) -> str:
    """Returns the shortest exact form: 90 → ``90s``, 300 → ``5m``, 0.5 → ``500ms``. Whatever is finer than 1
    ms is rounded.
    """
    millis = round(seconds * 1000)
    for unit in ("h", "m", "s"):
        if millis and millis % DURATION_UNITS_MS[unit] == 0:
            return f"{millis // DURATION_UNITS_MS[unit]}{unit}"
    return f"{millis}ms" if millis else "0s"


def parse_size_bytes(text: Any) -> int:
    """Returns bytes; units are powers of 1024, as Spark's are. Raises ValueError."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        raise ValueError(f"is a number without a unit; write {text}m for MiB or {text}g for GiB")
    match = _SIZE.fullmatch(text.lower()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"is not a size{_shown(text)}; write one like 512m or 16g")
    return int(match[1]) * SIZE_UNITS_BYTES[match[2]]


def format_size(size_bytes: int) -> str:
    """Returns the shortest exact form: 1073741824 → ``1g``, 1536 → ``1536b`` (not a whole number of KiB)."""
    for unit in ("t", "g", "m", "k"):
        if size_bytes and size_bytes % SIZE_UNITS_BYTES[unit] == 0:
            return f"{size_bytes // SIZE_UNITS_BYTES[unit]}{unit}"
    return f"{size_bytes}b"


def _shown(value: Any) -> str:
    """Returns the offending text, if it is short enough to help, else nothing."""
    return f" ({value!r})" if isinstance(value, str) and len(value) <= 40 else ""


DurationS = Annotated[
    float, BeforeValidator(parse_duration_s), PlainSerializer(format_duration, return_type=str)
]
"""It is in seconds in Python, and like ``30s`` in YAML and JSON."""

SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes), PlainSerializer(format_size, return_type=str)]
"""It is in bytes in Python, and like ``16g`` in YAML and JSON."""
