"""For how long executors outlive their driver: what Spark is given, what follows, what is refused."""

from __future__ import annotations

import pytest

from supervisor.model.executors import (
    CHECKS,
    ENDING_S,
    FAILURES,
    INTERVAL,
    TIMEOUT,
    outlive_s,
    properties_for,
    why_impossible,
    why_long,
)


def test_without_a_word_of_the_job_it_is_a_minute_and_a_half() -> None:
    assert properties_for({}) == {INTERVAL: "2s", FAILURES: "4", TIMEOUT: "15s", CHECKS: "5s"}
    assert outlive_s({}) == 90.0
    assert why_impossible({}) is None
    assert why_long({}) is None


@pytest.mark.parametrize(
    "conf",
    [
        {INTERVAL: "20s"},
        {INTERVAL: "3000"},
        {TIMEOUT: "3"},
        {TIMEOUT: "600s"},
        {CHECKS: "1min"},
        {INTERVAL: "10s", FAILURES: "60"},
        {TIMEOUT: "4s", CHECKS: "4s"},
    ],
)
def test_what_is_added_fits_what_the_job_says(conf: dict[str, str]) -> None:
    added = properties_for(conf)
    assert not set(added) & set(conf)
    assert why_impossible(conf) is None
    assert why_impossible({**added, **conf}) is None
    assert outlive_s({**added, **conf}) == outlive_s(conf)


def test_the_jobs_own_values_win_and_lengthen_the_bound() -> None:
    assert outlive_s({INTERVAL: "10s"}) == 5 * 10 + ENDING_S
    assert outlive_s({FAILURES: "60"}) == 61 * 2 + ENDING_S
    said = why_long({INTERVAL: "10s", FAILURES: "60"})
    assert said is not None
    assert "by 690 s instead of 90 s" in said
    assert why_long({INTERVAL: "1s"}) is None


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({INTERVAL: "soon"}, "is no time, like 10s"),
        ({INTERVAL: "0"}, "is below 100ms"),
        ({INTERVAL: "50"}, "is below 100ms"),
        ({FAILURES: "many"}, "is no number of failures"),
        ({FAILURES: "0"}, "is no number of failures"),
        ({INTERVAL: "20s", TIMEOUT: "20s"}, f"{TIMEOUT} (20s) is not above {INTERVAL} (20s)"),
        ({CHECKS: "60s", TIMEOUT: "30s"}, f"{CHECKS} (60s) is above {TIMEOUT} (30s)"),
        ({INTERVAL: "60s", FAILURES: "60"}, "executors could outlive their driver by 3740 s"),
    ],
)
def test_what_spark_would_refuse_or_nobody_could_wait_for_is_refused(
    conf: dict[str, str], words: str
) -> None:
    said = why_impossible(conf)
    assert said is not None
    assert words in said


def test_a_value_that_is_no_time_counts_as_the_default() -> None:
    assert outlive_s({INTERVAL: "soon", FAILURES: "many"}) == 90.0
