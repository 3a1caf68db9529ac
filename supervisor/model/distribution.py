"""Counts numbers in buckets that grow by a constant factor, so that quantiles of any number of them are known to within
5 % while no more than some hundred counts are kept. Two of them can be merged without any loss.

It is pure, and used by ``shim.usage_sampler``. The buckets are those of DDSketch (Masson, Rim and Lee, 2019): bucket i has
the numbers above γ^(i−1) up to γ^i with γ = (1+α)/(1−α); the middle of its bucket is within α of each number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

ACCURACY: Final = 0.04
"""This is α: no quantile is further from the number that it stands for, as a share of it."""
HIGHEST: Final = 2.0**60
"""A larger number counts as this one: there are no more than ``BUCKETS_MAX`` buckets, whatever is counted."""
_GAMMA: Final = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA: Final = math.log(_GAMMA)
BUCKETS_MAX: Final = math.ceil(math.log(HIGHEST) / _LOG_GAMMA) + 2


class Distribution:
    """Holds what was counted. Numbers from 0 to 1 share one bucket, so the unit should be small beside what is counted."""

    __slots__ = ("_counts", "largest", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.total = 0
        self.largest = 0.0

    @property
    def counts(self) -> Mapping[int, int]:
        """Returns how many numbers are in which bucket; buckets without any are left out."""
        return self._counts

    def add(self, number: float) -> None:
        """Counts a number. A negative one counts as 0."""
        kept = min(max(0.0, number), HIGHEST)
        bucket = 0 if kept <= 1.0 else math.ceil(math.log(kept) / _LOG_GAMMA)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.total += 1
        self.largest = max(self.largest, kept)

    def merge(self, other: Distribution) -> None:
        """Counts everything that ``other`` has counted, too."""
        for bucket, count in other.counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def quantile(self, share: float) -> float:
        """Returns the smallest number that at least ``share`` (0 to 1) of the numbers do not exceed, to within
        ``ACCURACY``; the largest is exact. It returns 0.0 if nothing was counted."""
        rank, seen = max(1, math.ceil(share * self.total)), 0
        if rank >= self.total:
            return self.largest
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                break
        return min(self.largest, 2 * _GAMMA**bucket / (_GAMMA + 1)) if bucket else min(self.largest, 1.0)
