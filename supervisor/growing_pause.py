"""The pause before what has failed is tried again: twice as long after each failure in a row, up to a longest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DOUBLINGS_MAX: Final = 40
"""Beyond it a float would lose nothing but could overflow; every pause has reached its longest by then."""


@dataclass(frozen=True, slots=True)
class GrowingPause:
    """A pause in seconds: ``first_s`` after the first failure in a row, twice as long after each more, at most
    ``longest_s``."""

    first_s: float
    longest_s: float

    def after(self, failures: int) -> float:
        """The pause in seconds after ``failures`` in a row; after none it is that after the first."""
        return min(self.longest_s, self.first_s * 2.0 ** min(max(failures, 1) - 1, DOUBLINGS_MAX))
