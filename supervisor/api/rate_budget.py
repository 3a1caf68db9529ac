"""Bounds how often something is done in the long run, and lets it be done often for a moment."""

from __future__ import annotations


class RateBudget:
    """Allows ``burst`` at once, and ``per_s`` a second in the long run. ``now_s`` is CLOCK_BOOTTIME, here and below. Whoever
    uses it from several threads needs a lock."""

    def __init__(self, burst: int, per_s: float, now_s: float) -> None:
        self._burst, self._per_s = float(burst), per_s
        self._left = float(burst)
        self._at_s = now_s

    def spend(self, now_s: float, *, is_forced: bool = False) -> bool:
        """Takes one, and returns whether there was one. If it ``is_forced`` it counts in any case."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1 and not is_forced:
            return False
        self._left = max(0.0, self._left - 1)
        return True
