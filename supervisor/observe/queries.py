"""Makes the JSON of a running job's queries for ``show``, from its lease record. It is for display;
``shim/queries.py`` writes the record.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from supervisor.model.records import LEASED
from supervisor.model.seen import Found
from supervisor.observe.listing import OneJob, seconds_of


def queries_of(job: OneJob, wall_now_s: float) -> tuple[list[dict[str, Any]], int]:
    """Returns each query of the attempt that is alive, and how many more there are. ``age_s`` counts the
    seconds since a query's last sign of life.
    """
    own, lease = job.own, job.row.lease.seen if job.row.lease is not None else None
    if job.result is not None or own is None or own.state not in LEASED or not isinstance(lease, Found):
        return [], 0
    if (lease.record.uid, lease.record.claim) != (own.uid, own.claim) or own.uid != job.uid:
        return [], 0
    return [
        _document(dataclasses.asdict(query), wall_now_s) for query in lease.record.queries
    ], lease.record.more_queries


def _document(query: dict[str, Any], wall_now_s: float) -> dict[str, Any]:
    del query["extra"]
    at_s = seconds_of(query["at"] or "")
    return {**query, "age_s": None if at_s is None else round(max(0.0, wall_now_s - at_s), 1)}
