"""Puts numbers into sentences. It is pure."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """Returns a text such as ``1 driver`` or ``2 drivers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def all_its(number: int, what: str) -> str:
    """Returns a text about something that is full, such as ``its 1 driver already`` or ``all its 2 drivers``."""
    return f"its {counted(number, what)} already" if number == 1 else f"all its {counted(number, what)}"


def first_few(texts: Sequence[str], most: int = 3) -> str:
    """Returns the first ``most`` of ``texts``, joined by semicolons, and how many more there are."""
    more = f" (and {len(texts) - most} more)" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
