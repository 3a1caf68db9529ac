"""Says which jobs fall behind their sources, by what their leases say (``model.lag_window`` has the rule). It is pure.

A shim says of each query whether it falls behind, so that a change of leader changes nothing. Where a shim of the version
before does not, the leader judges by the lags that it has seen itself. A query has caught up when its lag is not above
``LAG_MIN``. In between nothing is known: neither does a job fall behind because it was restarted, nor has it caught up by
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from supervisor.model.lag_window import EMPTY, LAG_MIN, LagWindow, behind_sentence
from supervisor.model.records import QueryProgress, QueryState
from supervisor.model.view import Row, View


@dataclass(frozen=True, slots=True)
class LagVerdict:
    """Holds what is known of the lag of jobs, by uid. ``behind`` has a sentence for each that falls behind. ``caught_up``
    are those of which every query that reports a lag has a small one."""

    behind: dict[str, str] = field(default_factory=dict)
    caught_up: frozenset[str] = frozenset()


class LagWatch:
    """Keeps the windows of one term, of queries of which no shim judges. ``now_s`` is BOOTTIME of the leader."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, int, str], LagWindow] = {}

    def judge(self, view: View, now_s: float) -> LagVerdict:
        """Takes the lags of ``view`` in, and returns what is known now."""
        behind: dict[str, str] = {}
        caught_up: set[str] = set()
        windows: dict[tuple[str, int, str], LagWindow] = {}
        for row in view.rows.values():
            lease, queries = row.lease_of_owner, tuple(_lagging(row))
            if lease is None or not queries:
                continue
            for query in queries:
                falls_behind = query.behind
                if falls_behind is None:
                    key = (lease.uid, lease.attempt, query.query or query.id or "")
                    windows[key] = self._windows.get(key, EMPTY).after(query.lag, now_s)
                    falls_behind = windows[key].falls_behind(query.lag, now_s)
                if falls_behind:
                    behind[lease.uid] = behind_sentence(query)
            if all((query.lag or 0.0) <= LAG_MIN for query in queries):
                caught_up.add(lease.uid)
        self._windows = windows
        return LagVerdict(behind, frozenset(caught_up))


def _lagging(row: Row) -> Iterator[QueryProgress]:
    """Yields the queries of ``row`` that report a lag."""
    lease = row.lease_of_owner
    for query in lease.queries if lease is not None else ():
        if query.state is QueryState.ACTIVE and query.lag is not None:
            yield query
