"""Which of the two time-outs judges an application, and from when on (CONTRACT: ``health``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model.launch import Launch
from supervisor.model.records import Cause, Progress
from supervisor.shim import health
from supervisor.shim.state import Life, Reported
from tests.unit.shim.world import LAUNCH

QUICK_TO_STALL: Launch = replace(LAUNCH, start_timeout_s=300.0, stall_timeout_s=10.0)


def life(*signs: tuple[str, float]) -> Life:
    """``signs``: event and when it came; exec was at 0."""
    made = Life()
    for event, at_s in signs:
        made = health.after_report(made, Reported(event, progress=Progress("q", 0), query="q", id="1"), at_s)
    return made


@pytest.mark.parametrize(
    ("signs", "at_s", "cause"),
    [
        ((), 299.0, None),
        ((), 300.0, Cause.START_TIMED_OUT),
        ((("waiting", 2.0),), 299.0, None),
        ((("waiting", 2.0),), 300.0, Cause.NO_ACCESS),
        ((("waiting", 2.0), ("begun", 200.0), ("session", 201.0)), 499.0, None),
        ((("waiting", 2.0), ("begun", 200.0), ("session", 201.0)), 500.0, Cause.START_TIMED_OUT),
        ((("begun", 1.0),), 1e6, None),
        ((("begun", 1.0), ("session", 2.0)), 299.0, None),
        ((("begun", 1.0), ("session", 2.0)), 300.0, Cause.START_TIMED_OUT),
        ((("begun", 1.0), ("session", 280.0), ("query", 292.0)), 299.0, None),      # a slow start
        ((("begun", 1.0), ("session", 280.0), ("query", 292.0)), 300.0, Cause.START_TIMED_OUT),
        ((("begun", 1.0), ("session", 2.0), ("query", 3.0)), 299.0, None),          # also if the first batch is
        ((("query", 3.0), ("progress", 290.0)), 299.9, None),
        ((("query", 3.0), ("progress", 290.0)), 300.0, Cause.STALLED),
        ((("query", 3.0), ("idle", 20.0)), 29.9, None),
        ((("query", 3.0), ("idle", 20.0)), 30.0, Cause.STALLED),
        ((("query", 3.0), ("progress", 5.0), ("working", 14.0)), 23.9, None),
        ((("query", 3.0), ("progress", 5.0), ("working", 14.0)), 24.0, Cause.STALLED),
    ],
)
def test_who_judges(signs: tuple[tuple[str, float], ...], at_s: float, cause: Cause | None) -> None:
    verdict = health.overdue(life(*signs), QUICK_TO_STALL, 0.0, at_s)
    assert (verdict[0] if verdict else None) is cause
