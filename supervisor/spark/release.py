"""Reads which release of Spark a version is: the one place that says what is older than what. Pure."""

from __future__ import annotations

import re


def release_of(version: str | None) -> tuple[int, int] | None:
    """Returns ``(4, 1)`` for 4.1.1, or None for what names no release."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    return None if found is None else (int(found[1]), int(found[2]))


def is_before(version: str | None, release: tuple[int, int]) -> bool:
    """Returns whether a Spark is older than ``release``. One that names no release counts as older: what is not known of it
    is not claimed."""
    found = release_of(version)
    return found is None or found < release
