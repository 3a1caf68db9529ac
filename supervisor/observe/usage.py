"""Makes the documents of what drivers take, for ``show``, ``explain --capacity`` and ``top``: from their leases while they
live, else from their tombstones. It is for display, and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from supervisor.model.capacity import judge_capacity
from supervisor.model.host_use import host_use
from supervisor.model.present_rate import present_rate_of
from supervisor.model.records import LEASED, OCCUPYING, Lease, Member, Ownership, QueryProgress, QueryState
from supervisor.model.seen import Found
from supervisor.model.state import shown_state
from supervisor.model.usage import AttemptUsage, QueryUse, ResourceUse
from supervisor.model.view import Row, View
from supervisor.model.working_directory import directory_of, said


@dataclass(frozen=True, slots=True)
class SeenUsage:
    """Holds what the attempt of an ownership takes, or took. ``reserved`` are the bytes that it occupies on its host."""

    attempt: int
    is_alive: bool
    reserved: int
    usage: AttemptUsage


def usage_of(row: Row, uid: str) -> SeenUsage | None:
    """Returns the usage of the present or latest attempt of ``uid``, or None if nothing is known of it."""
    if not isinstance(row.own, Found) or row.own.record.uid != uid:
        return None
    own, lease = row.own.record, row.lease_of_owner
    is_alive = own.state in LEASED
    usage = lease.usage if is_alive and lease is not None else own.usage
    return None if usage is None else SeenUsage(own.attempt, is_alive, own.memory, usage)


def usage_document(seen: SeenUsage | None, heap: int | None = None) -> dict[str, Any] | None:
    """Returns the document of the usage of one attempt, with the judgement of its capacity. ``heap`` is its
    spark.driver.memory in bytes, or None if that is not known."""
    if seen is None:
        return None
    used = seen.usage.resources
    return {
        "attempt": seen.attempt,
        "alive": seen.is_alive,
        "cpu_s": None if used is None else used.cpu_s,
        "samples": None if used is None else used.samples,
        "state_bytes": _total(query.state_bytes for query in seen.usage.queries),
        "directory": _directory(seen.usage),
        **asdict(judge_capacity(seen.usage, seen.reserved, heap)),
    }


def _directory(usage: AttemptUsage) -> dict[str, Any] | None:
    use = directory_of(usage)
    return (
        None
        if use is None
        else {
            "path": use.path,
            "bytes": use.bytes,
            "files": use.files,
            "names": list(use.names),
            "says": said(use),
        }
    )


# -- top ----------------------------------------------------------------------------------------------------------


def top_document(view: View) -> dict[str, Any]:
    """Returns the document of ``top``: every job that occupies a host, and every host that is up."""
    placed = [
        (row, row.own.record)
        for row in view.rows.values()
        if isinstance(row.own, Found) and row.own.record.state in OCCUPYING
    ]
    return {
        "jobs": [_job(row, own) for row, own in placed],
        "hosts": [
            _host(member, placed) for member in sorted(view.members.values(), key=lambda each: each.id)
        ],
    }


def _job(row: Row, own: Ownership) -> dict[str, Any]:
    seen = usage_of(row, own.uid)
    usage = AttemptUsage() if seen is None or not seen.is_alive else seen.usage
    used, lease = usage.resources, row.lease_of_owner
    live = _live_queries(lease)
    busiest = usage.queries[0] if usage.queries else None
    newest = next((one for one in live if busiest is not None and busiest.query in (one.query, one.id)), None)
    batch_ms = (
        newest.batch_ms if newest is not None else busiest.batch_ms_p50 if busiest is not None else None
    )
    return {
        "name": row.name,
        "state": shown_state(row).state.value,
        "attempt": own.attempt,
        "supervisor": own.supervisor,
        "cores": None if used is None else used.cores,
        "cpu_s": None if used is None else used.cpu_s,
        "memory": None if used is None else used.memory,
        "memory_max": None if used is None else used.memory_max,
        "memory_reserved": own.memory,
        "query": None if busiest is None else busiest.query,
        "batch_ms": batch_ms,
        "trigger_s": None if busiest is None else busiest.trigger_s,
        "share_of_trigger": _share(busiest, batch_ms),
        "input_rows_per_s": _total(present_rate_of(one) for one in live),
        "processed_rows_per_s": _total(one.processed_rows_per_s for one in live),
        "state_rows": _total(one.state_rows for one in live),
        "state_bytes": _total(query.state_bytes for query in usage.queries),
        "lag": _total(one.lag for one in live),
    }


def _host(member: Member, placed: list[tuple[Row, Ownership]]) -> dict[str, Any]:
    drivers = [(own.memory, _resources(row, own)) for row, own in placed if own.supervisor == member.id]
    use = host_use(member.id, member.memory, member.drivers, drivers)
    return {**asdict(use), "mark": None if use.mark is None else use.mark.value}


def _resources(row: Row, own: Ownership) -> ResourceUse | None:
    seen = usage_of(row, own.uid)
    return seen.usage.resources if seen is not None and seen.is_alive else None


def _live_queries(lease: Lease | None) -> list[QueryProgress]:
    """Returns the queries that have not ended."""
    ended = (QueryState.FAILED, QueryState.TERMINATED)
    return [] if lease is None else [query for query in lease.queries if query.state not in ended]


def _share(busiest: QueryUse | None, batch_ms: float | None) -> float | None:
    """Returns the newest batch of the busiest query beside its trigger."""
    if busiest is None or not busiest.trigger_s or batch_ms is None:
        return None
    return batch_ms / 1000 / busiest.trigger_s


def _total(numbers: Iterable[float | None]) -> float | None:
    """Returns the sum of what is known, or None if nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
