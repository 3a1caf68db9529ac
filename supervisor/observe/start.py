"""Computes, for ``show``, where the time of a start went, phase by phase: from what the shim measured and the
job's own history.

``cli`` calls it. It is for display only: ``queued_s`` comes from wall times. The phases are those of the
metric ``job_start_seconds``.
"""

from __future__ import annotations

from datetime import datetime

from supervisor.model.history import FAILURES
from supervisor.model.records import LEASED, HistoryEntry, JobRef, Ownership
from supervisor.model.restart import delay_after
from supervisor.model.seen import Found
from supervisor.model.view import Row


def start_of(row: Row) -> dict[str, float] | None:
    """Returns seconds by phase (``queued_s spawn_s session_s cluster_s first_batch_s``) as far as they are known of the
    present attempt, or None if there is no attempt.
    """
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found) or row.own.record.state not in LEASED:
        return None
    lease = row.lease_of_owner
    phases = {"queued_s": _queued_s(row.ref.record, row.own.record)}
    if lease is not None and lease.start is not None:
        start = lease.start
        phases |= {
            "spawn_s": start.spawn_s,
            "session_s": start.session_s,
            "cluster_s": start.cluster_s,
            "first_batch_s": start.first_batch_s,
        }
    return {phase: seconds for phase, seconds in phases.items() if seconds is not None}


def _queued_s(job: JobRef, own: Ownership) -> float | None:
    """Returns the seconds from when it could have been started (the newest of the user's command, the end of the
    attempt before and the end of the back-off) to its assignment.

    The newest is found by time: the history has the user's command after all that happened before the
    assignment, also after the end of an attempt that was stopped for it.
    """
    before: HistoryEntry | None = None
    for entry in own.history:
        if entry.event == "assigned" and entry.attempt == own.attempt:
            waited_s = _between_s(before, entry)
            if waited_s is None or before is None:
                return None
            seed = f"{own.uid}.{own.attempt - 1}"
            back_off_s = (
                delay_after(job.terms.restart, own.failures, seed) if before.event in FAILURES else 0.0
            )
            return round(max(0.0, waited_s - back_off_s), 3)
        if entry.event != "memory raised" and (before is None or entry.at >= before.at):  # that one is noted
            before = entry  # together with the assignment
    return None


def _between_s(before: HistoryEntry | None, after: HistoryEntry) -> float | None:
    if before is None:
        return None
    try:
        return (datetime.fromisoformat(after.at) - datetime.fromisoformat(before.at)).total_seconds()
    except (ValueError, TypeError):
        return None
