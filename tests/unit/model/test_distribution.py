"""Quantiles of any numbers are within 5 %, in bounded room, and merging loses nothing."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.distribution import BUCKETS_MAX, HIGHEST, Distribution

NUMBERS = st.lists(st.floats(1.0, HIGHEST), min_size=1, max_size=200)


def counted(numbers: list[float]) -> Distribution:
    distribution = Distribution()
    for number in numbers:
        distribution.add(number)
    return distribution


@given(NUMBERS, st.floats(0.0, 1.0))
def test_a_quantile_is_within_five_percent(numbers: list[float], share: float) -> None:
    rank = max(1, math.ceil(share * len(numbers)))
    exact = sorted(numbers)[rank - 1]
    assert abs(counted(numbers).quantile(share) - exact) <= 0.05 * exact


@given(NUMBERS, NUMBERS, st.floats(0.0, 1.0))
def test_what_was_merged_is_as_if_counted_in_one(one: list[float], other: list[float], share: float) -> None:
    merged, together = counted(one), counted(one + other)
    merged.merge(counted(other))
    assert merged.counts == together.counts
    assert (merged.total, merged.largest) == (together.total, together.largest)
    assert merged.quantile(share) == together.quantile(share)


@given(st.lists(st.floats(allow_nan=False), max_size=300))
def test_its_size_is_bounded_and_the_largest_is_exact(numbers: list[float]) -> None:
    distribution = counted(numbers)
    assert all(0 <= bucket < BUCKETS_MAX for bucket in distribution.counts)
    assert distribution.quantile(1.0) == max((min(max(0.0, n), HIGHEST) for n in numbers), default=0.0)


def test_of_nothing_there_is_no_quantile() -> None:
    assert Distribution().quantile(0.5) == 0.0
