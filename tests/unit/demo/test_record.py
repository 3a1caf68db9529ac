"""The demo's judgement of what the job wrote: it can fail."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisor.demo.record import BatchLine, flaw_of, is_replay, parse_record

ROWS = 10


def line(batch_id: int, attempt: int = 1, total: int | None = None) -> BatchLine:
    return BatchLine(
        batch_id, ROWS * (batch_id + 1) if total is None else total, attempt, 100 + attempt, float(batch_id)
    )


def test_an_undisturbed_record_has_no_flaw() -> None:
    assert flaw_of([], ROWS) is None
    assert flaw_of([line(0), line(1), line(2)], ROWS) is None


def test_the_next_attempt_goes_on_with_the_next_number() -> None:
    assert flaw_of([line(0), line(1), line(2, attempt=2), line(3, attempt=2)], ROWS) is None


def test_the_batch_that_was_not_committed_may_come_again() -> None:
    lines = [line(0), line(1), line(1, attempt=2), line(2, attempt=2)]
    assert flaw_of(lines, ROWS) is None
    assert [is_replay(*pair) for pair in zip(lines, lines[1:], strict=False)] == [False, True, False]
    assert flaw_of([line(0), line(0, attempt=2), line(0, attempt=3), line(1, attempt=3)], ROWS) is None


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([line(1)], "batch 1 came where batch 0 was due"),
        ([line(0), line(2)], "batch 2 came where batch 1 was due"),
        ([line(0), line(1), line(3, attempt=2)], "batch 3 came where batch 2 was due"),
        ([line(0), line(1), line(1)], "batch 1 came where batch 2 was due"),
        ([line(0), line(1), line(0, attempt=2)], "batch 0 came where batch 2 was due"),
        ([line(0), line(1, total=10)], "batch 1 says that 10 rows were counted, but 20 were generated"),
        (
            [line(0), line(0, attempt=2, total=20)],
            "batch 0 says that 20 rows were counted, but 10 were generated",
        ),
        ([line(0), replace(line(1), pid=7)], "attempt 1 wrote from two processes, 101 and 7"),
        (
            [line(0), line(1, attempt=2), line(2, attempt=1)],
            "attempt 1 wrote batch 2 after attempt 2 had begun",
        ),
    ],
)
def test_a_flaw_is_told(lines: list[BatchLine], says: str) -> None:
    assert flaw_of(lines, ROWS) == says


def test_a_line_that_is_being_written_is_left_out() -> None:
    text = '{"batch_id": 0, "total": 10, "attempt": 1, "pid": 7, "boottime": 1.5}\n'
    assert parse_record(text + '{"batch_id": 1, "to') == (BatchLine(0, 10, 1, 7, 1.5),)
    assert parse_record('{"bat') == parse_record("") == ()


@pytest.mark.parametrize("text", ["nonsense\n", "{}\n", "[]\n", "7\n", json.dumps({"batch_id": 0}) + "\n"])
def test_anything_else_is_no_record(text: str) -> None:
    with pytest.raises(ValueError):
        parse_record(text)


def test_the_time_does_not_matter() -> None:
    assert flaw_of([line(0), replace(line(1), boottime_s=-5.0)], ROWS) is None
