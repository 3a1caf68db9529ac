"""Numbers in a sentence. Pure."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """``1 driver``, ``2 drivers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def all_its(number: int, what: str) -> str:
    """Of something that is full: ``its 1 driver already``, ``all its 2 drivers``."""
    return f"its {counted(number, what)} already" if number == 1 else f"all its {counted(number, what)}"
