"""Says what has changed in the cluster between two readings of it, as events of ``api.events``. It is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from supervisor.api.event_ring import MANY, ServerEvent
from supervisor.api.paths import PREFIX
from supervisor.model.job_row import JobRow

NAMED_JOBS_MAX: Final = 100
"""Of so many jobs a change names the documents; of more it says that any may have changed."""
JOB_EVENTS_MAX: Final = 500
"""When more jobs than this change their state between two readings, there is one ``reset`` in place of their events."""


@dataclass(frozen=True)
class ClusterReading:
    """Holds what was read: the rows of the list by name, and the document of the status; None could not be read."""

    jobs: Mapping[str, JobRow] | None
    status: Mapping[str, Any] | None


@dataclass(frozen=True)
class ClusterKnown:
    """Holds what is known from the readings so far: the newest ``jobs`` and ``status`` that could be read, and whether the
    latest reading could."""

    jobs: Mapping[str, JobRow] | None = None
    status: Mapping[str, Any] | None = None
    jobs_failed: bool = False
    status_failed: bool = False

    def after(self, seen: ClusterReading) -> ClusterKnown:
        """Returns what is known after one more reading."""
        return ClusterKnown(
            self.jobs if seen.jobs is None else seen.jobs,
            self.status if seen.status is None else seen.status,
            jobs_failed=seen.jobs is None,
            status_failed=seen.status is None,
        )


def rows_by_name(rows: Iterable[JobRow]) -> dict[str, JobRow]:
    """Returns the rows of a list by their names; a record whose name can't be read has none."""
    return {row.name: row for row in rows if row.name is not None}


def changes(known: ClusterKnown, seen: ClusterReading, at: str) -> list[ServerEvent]:
    """Returns what has changed since ``known``; ``at`` is when that was noticed. A document that can't be read any
    more, or can be read again, counts as changed: who shows it has to know."""
    documents: list[str] = []
    events: list[ServerEvent] = []
    every_job = False
    now = known.after(seen)
    if seen.jobs is not None and known.jobs is not None:
        names = sorted(
            name
            for name in seen.jobs.keys() | known.jobs.keys()
            if seen.jobs.get(name) != known.jobs.get(name)
        )
        events = _job_events(names, known.jobs, seen.jobs, at)
        every_job = len(names) > NAMED_JOBS_MAX
        if names:
            documents.append(f"{PREFIX}/jobs")
            documents += [] if every_job else [f"{PREFIX}/jobs/{name}" for name in names]
    if known.jobs_failed != now.jobs_failed or (known.jobs is None) != (now.jobs is None):
        every_job = True
        documents = [f"{PREFIX}/jobs"]
    documents += _changed_status(known, now)
    if documents:
        events.append(ServerEvent("changed", {"documents": documents, "every_job": every_job}))
    return events


def _changed_status(known: ClusterKnown, now: ClusterKnown) -> list[str]:
    if known.status == now.status and known.status_failed == now.status_failed:
        return []
    hosts = [(each or {}).get("supervisors") for each in (known.status, now.status)]
    return [f"{PREFIX}/status", *([] if hosts[0] == hosts[1] else [f"{PREFIX}/hosts"])]


def _job_events(
    names: list[str], before: Mapping[str, JobRow], after: Mapping[str, JobRow], at: str
) -> list[ServerEvent]:
    """Returns an event for each job whose state or submission is another one."""
    found = []
    for name in names:
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and (old.uid, old.state) == (new.uid, new.state):
            continue
        row = new or old
        assert row is not None
        data = {
            "name": name,
            "uid": row.uid,
            "state": new.state if new is not None else None,
            "before": old.state if old is not None else None,
            "reason": new.reason if new is not None else "",
            "at": at,
        }
        found.append(ServerEvent("job", data))
    return found if len(found) <= JOB_EVENTS_MAX else [ServerEvent("reset", {"why": MANY})]
