"""Finds the known word that a person most likely meant, for the hint beside an unknown key, unit or
choice.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that resembles ``word`` most, or None if none is near. Case does not matter."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(word.lower()[:100], by_lower, n=1, cutoff=0.55)
    return by_lower[found[0]] if found else None


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Returns ``; did you mean 'checkpoint'?``, or else the list of what is known. ``prefix`` is the path of
    the key's parent.
    """
    words = sorted(known)
    best = nearest(word, words)
    if best is not None:
        return f"; did you mean '{prefix}{best}'?"
    return f"; known here: {', '.join(words)}" if words else ""
