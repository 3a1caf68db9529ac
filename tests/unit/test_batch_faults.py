"""The judge of real Spark's batches is judged: each defect that it is there to find is injected."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.testbed.spark_fleet import SinkBatch, batch_faults, expected_counts


def run(attempt: int, ids: Sequence[int], uid: str = "u1") -> list[SinkBatch]:
    return [SinkBatch("job", uid, attempt, 100 + attempt, float(i), i, expected_counts(i)) for i in ids]


def test_what_a_batch_must_show_by_hand() -> None:
    assert expected_counts(0) == {"0": [10, 135], "1": [10, 145], "2": [10, 155]}
    assert expected_counts(1)["0"] == [20, sum(range(0, 60, 3))]


@pytest.mark.parametrize(
    "second",
    [
        run(2, [4, 5]),
        run(2, [3, 4]),
        run(1, [4, 5], uid="u2"),
        run(2, [3]) + run(3, [3, 4]),
    ],
    ids=["next", "replayed", "submitted again", "replayed twice"],
)
def test_a_healthy_run_is_let_pass(second: list[SinkBatch]) -> None:
    assert batch_faults(run(1, range(4)) + second) == []


@pytest.mark.parametrize(
    "batches",
    [
        run(1, [1, 2]),
        run(1, [0, 2]),
        run(1, [0, 1, 1, 2]),
        run(1, range(4)) + run(2, [5]),
        run(1, range(4)) + run(2, [2, 3]),
        run(1, range(4)) + run(2, [0, 1]),
        run(1, range(4)) + run(1, [0], uid="u2"),
    ],
    ids=[
        "no first",
        "hole",
        "repeat while it runs",
        "hole at a restart",
        "two repeated",
        "from the start",
        "fresh checkpoint",
    ],
)
def test_a_hole_or_a_wrong_repeat_is_found(batches: list[SinkBatch]) -> None:
    assert batch_faults(batches)


def test_another_content_is_found() -> None:
    """State that was lost, and rows that were counted twice."""
    first = run(1, range(4))
    lost = SinkBatch("job", "u1", 2, 102, 9.0, 4, expected_counts(0))
    twice = SinkBatch("job", "u1", 2, 102, 9.0, 3, expected_counts(4))
    assert "shows" in batch_faults([*first, lost])[0]
    assert "shows" in batch_faults([*first, twice])[0]
