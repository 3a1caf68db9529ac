"""The judgement of a driver's capacity: its limits are those of a query that is played through, batch by batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from supervisor.model.capacity import (
    HEADROOM,
    LEAST_RESERVED,
    OBSERVED_LEAST_S,
    ROUNDED_TO,
    batch_s,
    judge_capacity,
    judge_memory,
    judge_query,
)
from supervisor.model.driver_memory import LEAST_BYTES
from supervisor.model.usage import AttemptUsage, QueryUse, ResourceUse

GIB = 1024**3
USED = ResourceUse(
    source="cgroup",
    samples=1000,
    observed_s=3600.0,
    memory=1 * GIB,
    memory_p50=1 * GIB,
    memory_p95=int(1.3 * GIB),
    memory_p99=int(1.35 * GIB),
    memory_max=int(1.4 * GIB),
    cpu_s=1800.0,
    cores=0.5,
)
LINEAR = QueryUse(
    query="q",
    batches=64,
    batch_ms_p50=3000.0,
    batch_ms_p95=3500.0,
    batch_ms_max=4000.0,
    rows=1000.0,
    input_rows_per_s=100.0,
    trigger_s=10.0,
    fixed_ms=1000.0,
    row_ms=2.0,
)
ALIKE = replace(LINEAR, fixed_ms=None, row_ms=None)


def last_batch(fixed_s: float, row_s: float, rows_per_s: float, trigger_s: float | None) -> list[float]:
    """The times of batches, one after the other, as Spark takes them: at the interval of the trigger, or late at once."""
    times, began_at_s, read_until_at_s = [], 0.0, -(trigger_s or 1.0)
    for _ in range(2000):
        took_s = fixed_s + row_s * rows_per_s * (began_at_s - read_until_at_s)
        times.append(took_s)
        read_until_at_s = began_at_s
        ended_at_s = began_at_s + took_s
        began_at_s = max(ended_at_s, began_at_s + trigger_s) if trigger_s else ended_at_s
        if took_s > 1e6:
            break
    return times


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 20.0), st.floats(1e-5, 0.01), st.floats(1.0, 1e4), st.none() | st.floats(1.0, 30.0))
def test_it_keeps_up_below_the_limit_and_falls_behind_above_it(
    fixed_s: float, row_s: float, rows_per_s: float, trigger_s: float | None
) -> None:
    use = replace(
        LINEAR,
        fixed_ms=fixed_s * 1000,
        row_ms=row_s * 1000,
        input_rows_per_s=rows_per_s,
        trigger_s=trigger_s,
    )
    judged = judge_query(use)
    assert judged.falls_behind_at is not None
    assume(judged.falls_behind_at < 1e5)
    below = last_batch(fixed_s, row_s, 0.9 * judged.falls_behind_at * rows_per_s, trigger_s)
    assert below[-1] <= below[-2] * 1.001, "it has come to rest"
    expected = batch_s(fixed_s, row_s, 0.9 * judged.falls_behind_at * rows_per_s, trigger_s)
    assert expected is not None and math.isclose(below[-1], expected, rel_tol=1e-3)
    above = last_batch(fixed_s, row_s, 1.1 * judged.falls_behind_at * rows_per_s, trigger_s)
    assert above[-1] > above[len(above) // 2] > above[0], "each batch is larger than the one before"
    if judged.misses_trigger_at is not None and trigger_s is not None:
        assert judged.misses_trigger_at <= judged.falls_behind_at
        on_time = last_batch(fixed_s, row_s, 0.99 * judged.misses_trigger_at * rows_per_s, trigger_s)
        late = last_batch(fixed_s, row_s, 1.01 * judged.misses_trigger_at * rows_per_s + 1e-9, trigger_s)
        assert on_time[-1] <= trigger_s or judged.misses_trigger_at == 0.0
        assert late[-1] > trigger_s * 0.999


@given(st.floats(0.01, 1.0), st.floats(0.0, 0.99), st.floats(1.0, 1e3), st.floats(1.0, 30.0))
def test_what_is_said_without_a_line_is_a_lower_bound(
    busy: float, fixed: float, rows_per_s: float, trigger_s: float
) -> None:
    """A batch takes ``busy`` of its trigger, and ``fixed`` of that whatever its rows."""
    took_s = busy * trigger_s
    fixed_s, row_s = fixed * took_s, (1 - fixed) * took_s / (rows_per_s * trigger_s)
    alike = replace(
        ALIKE,
        batch_ms_p50=took_s * 1000,
        rows=rows_per_s * trigger_s,
        input_rows_per_s=rows_per_s,
        trigger_s=trigger_s,
    )
    known = replace(alike, fixed_ms=fixed_s * 1000, row_ms=row_s * 1000)
    bound, exact = judge_query(alike), judge_query(known)
    assert bound.at_least and not exact.at_least
    assert bound.misses_trigger_at is not None and exact.misses_trigger_at is not None
    assert bound.falls_behind_at is not None and exact.falls_behind_at is not None
    assert bound.misses_trigger_at <= exact.misses_trigger_at * 1.0001
    assert bound.falls_behind_at <= exact.falls_behind_at * 1.0001


def test_the_arithmetic_is_shown_and_comes_to_the_factors() -> None:
    judged = judge_query(LINEAR)
    assert judged.misses_trigger_at == pytest.approx((10.0 - 1.0) / (0.002 * 100 * 10))
    assert judged.falls_behind_at == pytest.approx(1 / (0.002 * 100))
    assert judged.share_of_trigger == 0.35
    assert judged.batch_s_at_twice == pytest.approx(1.0 + 0.002 * 200 * 10)
    assert judged.arithmetic == (
        "a batch takes 1 s + 2 ms for each row, by the latest 64",
        "misses its trigger at (10 s − 1 s) / (2 ms × 100 rows/s × 10 s) = 4.5 times",
        "falls behind where a row takes longer than the next needs to arrive: 1 / (2 ms × 100 rows/s) = 5 times",
    )


@pytest.mark.parametrize(
    "use",
    [
        replace(LINEAR, batches=2),
        replace(LINEAR, input_rows_per_s=None),
        replace(LINEAR, input_rows_per_s=0.0),
        replace(ALIKE, batch_ms_p50=0.0),
        replace(ALIKE, rows=0.0),
    ],
)
def test_what_can_not_be_known_is_not_said(use: QueryUse) -> None:
    judged = judge_query(use)
    assert judged.misses_trigger_at is judged.falls_behind_at is judged.batch_s_at_twice is None
    assert len(judged.arithmetic) == 1


SIZES = st.integers(0, 2**60)


@given(SIZES, SIZES, SIZES, st.floats(0.0, 1e6))
def test_what_it_could_run_with_holds_its_peak_and_starts(
    peak: int, p99: int, reserved: int, observed_s: float
) -> None:
    judged = judge_memory(replace(USED, memory_max=peak, memory_p99=p99, observed_s=observed_s), reserved)
    assert judged.could_run_with % ROUNDED_TO == 0
    assert judged.could_run_with >= LEAST_RESERVED > LEAST_BYTES
    assert judged.could_run_with * 1.0000001 >= max(peak, p99) * HEADROOM
    assert judged.could_run_with <= max(LEAST_RESERVED, max(peak, p99) * HEADROOM + ROUNDED_TO) * 1.0000001
    assert judged.is_early is (observed_s < OBSERVED_LEAST_S)
    more = judge_memory(replace(USED, memory_max=peak + GIB, memory_p99=p99), reserved)
    assert more.could_run_with >= judged.could_run_with


def test_a_driver_that_takes_little_of_what_is_reserved() -> None:
    judged = judge_capacity(AttemptUsage(resources=USED, queries=(LINEAR,)), 4 * GIB)
    assert judged.memory is not None
    assert judged.memory.share == pytest.approx(0.35, abs=0.01)
    assert judged.memory.could_run_with == 1792 * 1024**2
    assert judged.memory.arithmetic == "peak 1434 MiB × 1.25 = 1792 MiB, rounded up to 1792 MiB"
    assert (judged.cores, [query.query for query in judged.queries]) == (0.5, ["q"])


def test_nothing_known_is_nothing_said() -> None:
    judged = judge_capacity(AttemptUsage(), 0)
    assert (judged.memory, judged.cores, judged.queries) == (None, None, ())


NUMBERS = st.floats(0.0, 1e15)


@given(
    st.builds(
        QueryUse,
        query=st.just("q"),
        batches=st.integers(0, 64),
        batch_ms_p50=NUMBERS,
        batch_ms_p95=NUMBERS,
        batch_ms_max=NUMBERS,
        rows=NUMBERS,
        input_rows_per_s=st.none() | NUMBERS,
        trigger_s=st.none() | st.floats(0.0, 1e8),
        fixed_ms=st.none() | st.floats(-1e18, 1e18),
        row_ms=st.none() | st.floats(-1e18, 1e18),
    )
)
def test_no_record_of_a_driver_breaks_the_judgement(use: QueryUse) -> None:
    judged = judge_query(use)
    for factor in (judged.misses_trigger_at, judged.falls_behind_at, judged.share_of_trigger):
        assert factor is None or math.isfinite(factor)
