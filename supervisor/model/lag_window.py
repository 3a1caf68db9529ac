"""Judges whether one query falls behind its source, from the lag that it reports. It is pure.

A query falls behind when its lag was above ``LAG_MIN`` for the whole of ``WINDOW_S`` and has grown within it, as the alert
SparkJobFallsBehind has it. Its shim judges it as long as the attempt lives (``shim.queries``) and says so in the lease
(``QueryProgress.behind``); where a shim of the version before does not, each leader does (``plan.falling_behind``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from supervisor.model.query_name import query_name
from supervisor.model.records import Lease, QueryProgress

WINDOW_S: Final = 900.0
SAMPLE_S: Final = 60.0
LAG_MIN: Final = 1000.0
"""So many records of lag, or fewer, are no trouble."""


@dataclass(frozen=True, slots=True)
class LagWindow:
    """Holds samples of the lag of one query, oldest first: (instant, records). Instants are of BOOTTIME."""

    samples: tuple[tuple[float, float], ...] = ()

    def after(self, lag: float | None, now_s: float) -> LagWindow:
        """Returns the window once the lag is ``lag``. A small lag, or one that is not known, begins it anew."""
        if lag is None or lag <= LAG_MIN:
            return EMPTY
        samples = self.samples
        if not samples or now_s - samples[-1][0] >= SAMPLE_S:
            samples = (*samples, (now_s, lag))
        while len(samples) > 1 and now_s - samples[1][0] >= WINDOW_S:
            samples = samples[1:]  # the first one is the newest that is as old as the window
        return self if samples is self.samples else LagWindow(samples)

    def falls_behind(self, lag: float | None, now_s: float) -> bool:
        """Says whether the query falls behind if its lag is ``lag`` now."""
        samples = self.after(lag, now_s).samples
        return bool(samples) and lag is not None and now_s - samples[0][0] >= WINDOW_S and lag > samples[0][1]


EMPTY: Final = LagWindow()


def behind_sentence(query: QueryProgress) -> str:
    """Returns that ``query`` falls behind, for people."""
    minutes, lag = round(WINDOW_S / 60), query.lag or 0.0
    return (
        f"query {query_name(query.query, query.id)} is {lag:.0f} records behind its source, and was falling behind for "
        f"{minutes} minutes"
    )


def query_behind(lease: Lease) -> QueryProgress | None:
    """Returns a query that falls behind its source by the word of its shim, or None."""
    return next((query for query in lease.queries if query.behind), None)
