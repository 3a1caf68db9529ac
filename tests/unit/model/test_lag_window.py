"""Whether one query falls behind its source: pure. Lags are of one a minute, unless it is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.lag_window import (
    EMPTY,
    LAG_MIN,
    SAMPLE_S,
    WINDOW_S,
    LagWindow,
    behind_sentence,
    query_behind,
)
from supervisor.model.records import OwnState, QueryProgress
from supervisor.model.state import shown_state
from supervisor.model.view import Row
from tests.unit.plan.rows import job, lease, own

MINUTES = round(WINDOW_S / SAMPLE_S)
GROWS = [LAG_MIN + 10.0 * number for number in range(1, MINUTES + 2)]


def falls(lags: Iterable[float | None], every_s: float = SAMPLE_S) -> list[bool]:
    """What is said after each lag."""
    window, said = EMPTY, []
    for number, lag in enumerate(lags):
        window = window.after(lag, number * every_s)
        said.append(window.falls_behind(lag, number * every_s))
    return said


def test_it_falls_behind_when_the_lag_was_large_and_grew_for_the_whole_window() -> None:
    assert falls(GROWS) == [False] * MINUTES + [True]


def test_a_large_lag_that_does_not_grow_is_none() -> None:
    assert not any(falls(50_000.0 - number for number in range(2 * MINUTES)))


def test_a_small_or_unknown_lag_in_between_begins_the_window_anew() -> None:
    for between in (LAG_MIN, None):
        assert not any(falls([*GROWS[:-2], between, GROWS[-1]]))


def test_reports_that_are_rare_or_dense_say_the_same() -> None:
    assert falls([2000.0, 3000.0], WINDOW_S) == [False, True]
    dense = falls((LAG_MIN + 1.0 + number for number in range(2000)), 1.0)
    assert dense.index(True) == WINDOW_S and all(dense[int(WINDOW_S) :])


def test_during_a_long_batch_it_is_judged_by_the_newest_lag_that_is_known() -> None:
    window = EMPTY.after(2000.0, 0.0).after(3000.0, SAMPLE_S)
    assert not window.falls_behind(3000.0, WINDOW_S - 1)
    assert window.falls_behind(3000.0, WINDOW_S)
    assert not window.falls_behind(3000.0, WINDOW_S + SAMPLE_S), "it has not grown since"


@given(st.lists(st.tuples(st.floats(0, 5_000), st.floats(0, 400)), max_size=60))
def test_the_samples_are_bounded_and_tell_of_the_window_only(steps: list[tuple[float, float]]) -> None:
    window, now_s = EMPTY, 0.0
    for lag, seconds in steps:
        now_s += seconds
        window = window.after(lag, now_s)
        assert len(window.samples) <= MINUTES + 2
        assert all(now_s - at_s < WINDOW_S for at_s, _ in window.samples[1:])
        if window.falls_behind(lag, now_s):
            assert lag > LAG_MIN and all(each > LAG_MIN for _, each in window.samples)


def test_a_window_that_learns_nothing_is_the_same_one() -> None:
    window = LagWindow(((0.0, 2000.0),))
    assert window.after(2001.0, 1.0) is window


def test_a_lease_names_the_query_that_falls_behind() -> None:
    fine, behind = (
        QueryProgress(query="a", lag=1.0, behind=False),
        QueryProgress(query="b", lag=5000.0, behind=True),
    )
    record = lease(queries=(fine, behind)).seen.record
    assert query_behind(record) == behind
    assert query_behind(replace(record, queries=(fine, replace(behind, behind=None)))) is None
    assert behind_sentence(behind) == (
        "query b is 5000 records behind its source, and was falling behind for 15 minutes"
    )


def test_the_reason_of_a_job_that_runs_says_it() -> None:
    sentence = "query b is 5000 records behind its source, and was falling behind for 15 minutes"
    for word, says in ((True, True), (False, False), (None, False)):
        queries = (QueryProgress(query="b", lag=5000.0, behind=word),)
        shown = shown_state(Row("j", job(), own(OwnState.CLAIMED), lease=lease(queries=queries)))
        assert (sentence in shown.reason, sentence in (shown.trouble or "")) == (says, says)
