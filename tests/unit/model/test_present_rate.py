"""A rate on a screen is that of now: a query that has caught up shows none."""

from __future__ import annotations

import pytest

from supervisor.model.present_rate import present_rate, present_rate_of
from supervisor.model.records import Progress, QueryProgress, QueryState


@pytest.mark.parametrize(
    ("age_s", "interval_s", "shown"),
    [
        (5, None, True),
        (61, None, False),
        (None, None, True),
        (61, 60, True),
        (179, 60, True),
        (181, 60, False),
    ],
)
def test_a_batch_of_long_ago_has_no_rate(age_s: float | None, interval_s: float | None, shown: bool) -> None:
    progress = Progress(input_rows_per_s=113.5, trigger_interval_s=interval_s)
    assert present_rate(progress, age_s) == (113.5 if shown else None)


@pytest.mark.parametrize(
    ("state", "interval_s", "shown"),
    [
        (QueryState.ACTIVE, 2.0, True),
        (QueryState.IDLE, 2.0, False),
        (QueryState.IDLE, None, False),
        (QueryState.IDLE, 600.0, True),
    ],
)
def test_a_query_that_has_caught_up_has_no_rate(
    state: QueryState, interval_s: float | None, shown: bool
) -> None:
    query = QueryProgress(state=state, input_rows_per_s=113.5, trigger_interval_s=interval_s)
    assert present_rate_of(query) == (113.5 if shown else None)
