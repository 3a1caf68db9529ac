"""Judges which jobs fall behind their sources, from the lag that their queries report in the lease. It is pure.

A query falls behind when its lag was above ``LAG_MIN`` for the whole of ``WINDOW_S`` and has grown within it, as the alert
SparkJobFallsBehind has it. It has caught up when its lag is not above ``LAG_MIN``. In between nothing is known: neither does
a job fall behind because it was restarted, nor has it caught up by that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from supervisor.model.records import QueryProgress, QueryState
from supervisor.model.view import Row, View

WINDOW_S: Final = 900.0
SAMPLE_S: Final = 60.0
LAG_MIN: Final = 1000.0
"""So many records of lag, or fewer, are no trouble."""


@dataclass(frozen=True, slots=True)
class LagVerdict:
    """Holds what is known of the lag of jobs, by uid. ``behind`` has a sentence for each that falls behind. ``caught_up``
    are those of which every query that reports a lag has a small one."""

    behind: dict[str, str] = field(default_factory=dict)
    caught_up: frozenset[str] = frozenset()


class LagWatch:
    """Keeps the samples of one term. ``now_s`` is BOOTTIME of the leader."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, int, str], deque[tuple[float, float]]] = {}

    def judge(self, view: View, now_s: float) -> LagVerdict:
        """Takes the lags of ``view`` in, and returns what is known now."""
        behind: dict[str, str] = {}
        caught_up, alive = set(), set()
        for row in view.rows.values():
            lease = row.lease_of_owner
            lags = dict(_lags(row)) if lease is not None else {}
            if lease is None or not lags:
                continue
            for query, lag in lags.items():
                key = (lease.uid, lease.attempt, query)
                alive.add(key)
                if self._falls_behind(key, lag, now_s):
                    behind[lease.uid] = _sentence(query, lag)
            if all(lag <= LAG_MIN for lag in lags.values()):
                caught_up.add(lease.uid)
        self._samples = {key: samples for key, samples in self._samples.items() if key in alive}
        return LagVerdict(behind, frozenset(caught_up))

    def _falls_behind(self, key: tuple[str, int, str], lag: float, now_s: float) -> bool:
        samples = self._samples.setdefault(key, deque())
        if not samples or now_s - samples[-1][0] >= SAMPLE_S:
            samples.append((now_s, lag))
        while len(samples) > 1 and now_s - samples[1][0] >= WINDOW_S:
            samples.popleft()  # the one that is left is the newest that is as old as the window
        if lag <= LAG_MIN:
            samples.clear()
            return False
        return now_s - samples[0][0] >= WINDOW_S and lag > samples[0][1]


def _lags(row: Row) -> Iterator[tuple[str, float]]:
    lease = row.lease_of_owner
    for query in lease.queries if lease is not None else ():
        if query.state is QueryState.ACTIVE and query.lag is not None:
            yield _label(query), query.lag


def _label(query: QueryProgress) -> str:
    return query.query or query.id or ""


def _sentence(query: str, lag: float) -> str:
    minutes = round(WINDOW_S / 60)
    return (
        f"query {query} is {lag:.0f} records behind its source, and was falling behind for {minutes} minutes"
    )
