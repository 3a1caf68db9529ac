"""Says whether the rate of a query's newest batch is what arrives now. It is pure, and for display.

A query that has caught up commits no batch, so the rate of its newest one would stand on a screen for ever.
"""

from __future__ import annotations

from typing import Final

from supervisor.model.records import Progress, QueryProgress, QueryState

PRESENT_S: Final = 60.0
TRIGGERS: Final = 3
"""The rate of a batch is taken for the present one for a minute, or so many intervals of the trigger if that is longer."""


def present_rate(progress: Progress, age_s: float | None) -> float | None:
    """Returns the rows that arrive per second by the newest batch, which was ``age_s`` ago; None if that is too long ago."""
    until_s = max(PRESENT_S, TRIGGERS * (progress.trigger_interval_s or 0.0))
    return None if age_s is not None and age_s > until_s else progress.input_rows_per_s


def present_rate_of(query: QueryProgress) -> float | None:
    """Returns the rows that arrive per second of one query; None if it says that it has caught up, unless that may be the
    wait for a trigger that comes seldom."""
    is_seldom = (query.trigger_interval_s or 0.0) > PRESENT_S
    return None if query.state is QueryState.IDLE and not is_seldom else query.input_rows_per_s
