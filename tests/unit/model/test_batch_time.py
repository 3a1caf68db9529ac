"""How long a batch takes by its rows: found where the batches tell it, and not claimed where they do not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.batch_time import FIT_LEAST, FIT_SPREAD, TimedBatch, fitted, load_of, query_use

ROWS = st.lists(st.integers(1, 10**7), min_size=FIT_LEAST, max_size=64)


@given(ROWS, st.floats(0.0, 1e5), st.floats(1e-3, 1e3))
def test_a_linear_time_is_found_again(rows: list[int], fixed_ms: float, row_ms: float) -> None:
    line = fitted([TimedBatch(count, fixed_ms + row_ms * count) for count in rows])
    if max(rows) < FIT_SPREAD * min(rows):
        assert line is None
    elif line is not None:
        for count in rows:
            assert math.isclose(line.fixed_ms + line.row_ms * count, fixed_ms + row_ms * count, rel_tol=1e-3)


@given(
    st.lists(
        st.builds(TimedBatch, st.floats(1.0, 1e15), st.floats(0.0, 1e12), st.none() | st.floats(0.0, 1e15)),
        max_size=64,
    )
)
def test_whatever_the_batches_are_the_line_rises_and_is_not_negative(batches: list[TimedBatch]) -> None:
    line = fitted(batches)
    assert line is None or (line.fixed_ms >= 0.0 and 0.0 < line.row_ms < 1e18)
    use = query_use("q", batches)
    if use is not None:
        assert use.batch_ms_p50 <= use.batch_ms_p95 <= use.batch_ms_max == max(batch.ms for batch in batches)
        assert math.isfinite(load_of(use))


def test_batches_that_are_alike_tell_nothing() -> None:
    assert fitted([TimedBatch(1000.0 + number, 300.0 + number) for number in range(20)]) is None


def test_times_that_do_not_depend_on_the_rows_are_no_line() -> None:
    times = [300.0, 900.0, 250.0, 800.0, 310.0, 870.0, 290.0, 820.0, 300.0, 850.0]
    assert fitted([TimedBatch(100.0 * (number + 1), ms) for number, ms in enumerate(times)]) is None


def test_a_negative_fixed_part_is_a_line_through_the_origin() -> None:
    line = fitted([TimedBatch(rows, 2.0 * rows - 100.0) for rows in (100.0, 200.0, 300.0, 400.0) * 3])
    assert line is not None and line.fixed_ms == 0.0 and line.row_ms == pytest.approx(1.6)


def test_a_query_is_loaded_by_its_trigger_or_else_by_what_arrives() -> None:
    batches = [TimedBatch(100.0, 500.0, 50.0)] * 10
    by_trigger, by_arrival = query_use("q", batches, 5.0), query_use("q", batches)
    assert by_trigger is not None and load_of(by_trigger) == pytest.approx(0.1)
    assert by_arrival is not None and load_of(by_arrival) == pytest.approx(0.25)
