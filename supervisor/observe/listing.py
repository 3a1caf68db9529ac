"""Makes the rows of ``list`` and ``show`` from the records, with the keys that scripts rely on, nulls
included.

``cli`` and ``status`` call it. It reads, never writes, and decides nothing: wall time is used here because
everything is for display. Rows of registered jobs come from the View of ``observer``, those of ended uids
from their results. A record that cannot be read is a row of its own, ``quarantined`` with the reason, and
disturbs no other row (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from supervisor.clock import wall_iso
from supervisor.model.job_row import JobRow
from supervisor.model.records import (
    DELAYABLE,
    LEASED,
    OCCUPYING,
    Cause,
    JobRef,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Result,
)
from supervisor.model.reported_sinks import sink_documents
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.state import (
    JobState,
    Shown,
    account_of,
    goes_back_in_any_case,
    shown_state,
    state_of_ended,
)
from supervisor.model.transaction import Node
from supervisor.model.view import Row, SeenAcceptance, SeenLease, SeenPreparation, View
from supervisor.observe.prepared import prepared_by_uid
from supervisor.records.ids import name_suffix
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader
from supervisor.records.reading import seen, seen_all

ENDINGS = frozenset(cause.value for cause in Cause)


# -- all jobs -----------------------------------------------------------------------------------------------------


def take_rows(
    zoo: ZkReader, layout: Layout, view: View, wall_now_s: float, *, every_uid: bool = False
) -> list[JobRow]:
    """Returns the rows of ``list``, by name: for each name the live uid, else the newest if it failed.

    With ``every_uid`` it returns all that is kept, cancelled and finished uids included.
    """
    rows = [_shown(row, view, wall_now_s) for row in view.rows.values() if row.is_listed]
    prepared = prepared_by_uid(view)
    if prepared:
        rows = [replace(row, prepared=prepared.get(row.uid or "", ())) for row in rows]
    live = {row.uid for row in rows}
    results = _all_results(zoo, layout) if every_uid else _newest_results(zoo, layout, view)
    names = {name_suffix(name): name for name in view.rows} if results else {}
    for uid, result in results.items():
        if uid not in live and (every_uid or not _is_hidden(result)):
            rows.append(_shown_result(uid, result, names.get(uid.rpartition("-")[2])))
    rows.sort(key=lambda row: row.uid or "", reverse=True)  # a uid begins with its time: the newest first
    rows.sort(key=lambda row: (row.name or "", row.uid not in live))
    return rows


def _shown(row: Row, view: View, wall_now_s: float) -> JobRow:
    """Returns the row of one name; what can't be shown of it, for whatever reason, hides no other (I9)."""
    try:
        return row_of(row, wall_now_s, host=_host_of(row, view.members))
    except Exception as error:  # noqa: BLE001 - the edge of one name
        return JobRow(row.name, reason=f"its records could not be shown ({type(error).__name__}: {error})")


def _shown_result(uid: str, result: Seen[Result], name: str | None) -> JobRow:
    try:
        return row_of_result(uid, result, name)
    except Exception as error:  # noqa: BLE001 - the edge of one result
        return JobRow(
            name, uid=uid, reason=f"its result could not be shown ({type(error).__name__}: {error})"
        )


def with_reasons(rows: list[JobRow], reasons: Callable[[], Mapping[str, Shown]]) -> list[JobRow]:
    """Returns ``rows`` with what the plan says of the pending ones. ``reasons`` returns that by name, and is
    called only if there is a pending one.
    """
    if all(row.state != JobState.PENDING for row in rows):
        return rows
    why = reasons()
    return [
        replace(row, state=why[row.name].state.value, reason=why[row.name].reason, trouble=None)
        if row.state == JobState.PENDING and row.name is not None and row.name in why
        else row
        for row in rows
    ]


def _is_hidden(result: Seen[Result]) -> bool:
    return isinstance(result, Found) and result.record.outcome is not Outcome.FAILED


def _all_results(zoo: ZkReader, layout: Layout) -> dict[str, Seen[Result]]:
    return _results(zoo, layout, zoo.children(layout.results) or ())


def _newest_results(zoo: ZkReader, layout: Layout, view: View) -> dict[str, Seen[Result]]:
    """Returns the newest results of names without a reference. Older failed uids are history: nothing can be
    done about them any more.
    """
    owns = [row.own.record for row in view.rows.values() if row.ref is None and isinstance(row.own, Found)]
    return _results(zoo, layout, [own.newest_uid or own.uid for own in owns if own.newest_uid or own.uid])


def newest_results(zoo: ZkReader, layout: Layout, view: View) -> list[tuple[str, str, Seen[Result]]]:
    """Returns (name, uid, result) of names without a reference whose newest uid failed, or can't be read."""
    names = {name_suffix(name): name for name in view.rows}
    found = _newest_results(zoo, layout, view)
    return [
        (names.get(uid.rpartition("-")[2], uid), uid, result)
        for uid, result in found.items()
        if not _is_hidden(result)
    ]


def _results(zoo: ZkReader, layout: Layout, uids: Sequence[str]) -> dict[str, Seen[Result]]:
    paths = [layout.result(uid) for uid in uids]
    found: list[Seen[Result]] = seen_all(Result, paths, zoo.read_many(paths).nodes)
    return {uid: result for uid, result in zip(uids, found, strict=True) if result is not None}


# -- one job ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OneJob:
    """Holds the records behind ``show NAME``. ``uid`` is the live one, else the newest; it is empty if no
    record names one.

    ``host`` is the supervisor that has to start it, if it is assigned to one that is up.
    """

    row: Row
    result: Seen[Result]
    uid: str
    host: Member | None = None

    @property
    def ref(self) -> JobRef | None:
        return self.row.ref.record if isinstance(self.row.ref, Found) else None

    @property
    def own(self) -> Ownership | None:
        return self.row.own.record if isinstance(self.row.own, Found) else None


def read_job(zoo: ZkReader, layout: Layout, name: str) -> OneJob | None:
    """Reads the live uid of ``name``, else its newest. Returns None if there is no such name, or if nothing
    of it is kept. The caller calls ``sync`` before.
    """
    paths = [layout.job(name), layout.own(name), layout.lease(name)]
    reads = zoo.read_many(paths)
    ref: Seen[JobRef] = seen(JobRef, reads.nodes[0], paths[0])
    own: Seen[Ownership] = seen(Ownership, reads.nodes[1], paths[1])
    lease: Seen[Lease] = seen(Lease, reads.nodes[2], paths[2])
    row = Row(name, ref, own, lease=SeenLease(lease, reads.received_at_s, reads.sent_at_s))
    if isinstance(ref, Found):
        return OneJob(row, None, ref.record.uid, _read_host(zoo, layout, own))
    uid = (own.record.newest_uid or own.record.uid) if isinstance(own, Found) else ""
    if ref is not None or isinstance(own, Unreadable):
        return OneJob(row, None, uid)
    result: Seen[Result] = seen(Result, zoo.read(layout.result(uid)), layout.result(uid)) if uid else None
    return None if result is None else OneJob(row, result, uid)


def _read_host(zoo: ZkReader, layout: Layout, own: Seen[Ownership]) -> Member | None:
    if not isinstance(own, Found) or own.record.state not in DELAYABLE:
        return None
    path = layout.supervisor(own.record.supervisor)
    host: Seen[Member] = seen(Member, zoo.read(path), path)
    return host.record if isinstance(host, Found) else None


def read_ended(zoo: ZkReader, layout: Layout, row: Row) -> list[OneJob]:
    """Returns the ended uids of the name of ``row`` that are kept, oldest first (a uid begins with its
    time).
    """
    suffix = name_suffix(row.name)
    uids = sorted(uid for uid in zoo.children(layout.results) or () if uid.endswith(f"-{suffix}"))
    results = _results(zoo, layout, uids)
    return [
        OneJob(row, result, uid)
        for uid, result in results.items()
        if not isinstance(result, Found) or result.record.name == row.name
    ]


def job_row(job: OneJob, wall_now_s: float, why: Shown | None = None) -> JobRow:
    """Returns the row of ``show``; ``why`` is what the plan says of it if it is pending."""
    if job.result is not None:
        return row_of_result(job.uid, job.result, job.row.name)
    return row_of(job.row, wall_now_s, why, job.host)


# -- records to rows ----------------------------------------------------------------------------------------------


def row_of(row: Row, wall_now_s: float, why: Shown | None = None, host: Member | None = None) -> JobRow:
    """Returns the row of a registered name, or of one whose records are corrupt. ``host`` is the supervisor
    that it is assigned to.
    """
    shown = shown_state(row, host=host)
    if not isinstance(row.ref, Found):
        return JobRow(row.name, state=shown.state.value, reason=shown.reason, trouble=shown.trouble)
    job = row.ref.record
    if not isinstance(row.own, Found):
        return _row_without_ownership(row.name, job, shown)
    own = row.own.record
    next_at_s = _next_attempt_at_s(job, own) if shown.state is JobState.BACKOFF else None
    if next_at_s is not None and next_at_s <= wall_now_s:
        shown = shown_state(row, host=host, backoff_is_over=True)
    if shown.state is JobState.PENDING and why is not None:
        shown = why
    owned = own.uid == job.uid  # else the ownership is still about an earlier submission of the name
    placed = owned and own.state in OCCUPYING
    lease = row.lease_of_owner if placed and own.state in LEASED else None
    return JobRow(
        name=row.name,
        uid=job.uid,
        revision=job.revision,
        desired=job.desired.value,
        state=shown.state.value,
        reason=shown.reason,
        attempt=(own.attempt or None) if owned else None,
        supervisor=(own.supervisor or None) if placed else None,
        host=(own.host or None) if placed else None,
        driver_pid=lease.driver.pid if lease is not None else None,
        shim_pid=lease.driver.shim_pid if lease is not None else None,
        started_at=lease.driver.started_at if lease is not None else None,
        since=_since(job, own, lease) if owned else job.changed.at,
        restarts=max(0, own.claims - 1) if owned else 0,
        failures=_failures(job, own) if owned else 0,
        next_attempt_at=wall_iso(next_at_s) if next_at_s is not None else None,
        checkpoint=job.terms.checkpoint,
        progress=lease.progress if lease is not None else None,
        labels=job.terms.labels,
        in_place_of=_in_place_of(job),
        sinks=sink_documents(job, lease) if lease is not None else (),
        trouble=shown.trouble,
    )


def _row_without_ownership(name: str, job: JobRef, shown: Shown) -> JobRow:
    return JobRow(
        name,
        job.uid,
        job.revision,
        job.desired.value,
        shown.state.value,
        shown.reason,
        since=job.changed.at,
        checkpoint=job.terms.checkpoint,
        labels=job.terms.labels,
        in_place_of=_in_place_of(job),
        trouble=shown.trouble,
    )


def _in_place_of(record: JobRef | Result) -> dict[str, str] | None:
    promotion = record.promotion
    return (
        {"name": promotion.over, "uid": promotion.uid} if promotion is not None and promotion.done else None
    )


def _host_of(row: Row, members: Mapping[str, Member]) -> Member | None:
    return members.get(row.own.record.supervisor) if isinstance(row.own, Found) else None


def _since(job: JobRef, own: Ownership, lease: Lease | None) -> str:
    """Returns when something last happened to the job: to its living attempt, else to its ownership or by a
    user.
    """
    if lease is not None and lease.since and own.state is OwnState.CLAIMED:
        return lease.since
    return max(job.changed.at, own.history[-1].at) if own.history else job.changed.at


def _failures(job: JobRef, own: Ownership) -> int:
    """Returns the consecutive failures since the last reset. A resume or restart that is not carried out yet
    counts as a reset.
    """
    if own.restart_nonce != job.restart_nonce:
        return 0
    return account_of(job, own).failures if own.state is OwnState.EXITED else own.failures


def _next_attempt_at_s(job: JobRef, own: Ownership) -> float | None:
    """Returns, for display, the wall time of the exit, plus the back-off. A job that goes back to an earlier revision waits
    for that, and not for the back-off."""
    exit_at_s = exited_at_s(own)
    if exit_at_s is None or goes_back_in_any_case(job, own):
        return None
    return exit_at_s + account_of(job, own).delay_s


def exited_at_s(own: Ownership) -> float | None:
    """Returns the wall time of the exit of the attempt in ``own``, by its own history, or None if the history
    does not have it.
    """
    for entry in reversed(own.history):
        if entry.attempt == own.attempt and entry.event in ENDINGS:
            return seconds_of(entry.at)
    return None


def seconds_of(iso: str) -> float | None:
    """Returns the seconds since the epoch of an ISO 8601 time, or None for anything else."""
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return None


def row_of_result(uid: str, result: Seen[Result], name: str | None) -> JobRow:
    """Returns the row of an ended uid. ``name`` is the name that the uid belongs to, as far as it is known
    without the record.
    """
    if not isinstance(result, Found):
        reason = result.reason if result is not None else "its result is gone"
        return JobRow(name, uid=uid, reason=f"its result is unreadable: {reason}")
    record, shown = result.record, state_of_ended(result.record)
    return JobRow(
        name=record.name,
        uid=record.uid,
        revision=record.revision or None,
        state=shown.state.value,
        reason=shown.reason,
        attempt=record.attempt or None,
        since=record.at,
        restarts=max(0, record.claims - 1),
        failures=record.failures,
        checkpoint=record.terms.checkpoint if record.terms else None,
        labels=record.terms.labels if record.terms else (),
        in_place_of=_in_place_of(record),
        trouble=shown.trouble,
    )


def aged(
    view: View, now_s: float, wall_now_s: float, changed: Mapping[str, Changed] = MappingProxyType({})
) -> View:
    """Returns ``view`` of an observer that has just begun, as it would be if the observer had seen each exit
    when it happened.

    It is for ``list`` and ``explain`` only: a first reading would take every back-off for one that begins
    now. ``changed`` is what ``changes_of`` read, so that assignments and silent leases have their age too.
    """
    rows = {name: _aged(row, now_s, wall_now_s, changed.get(name)) for name, row in view.rows.items()}
    asked = tuple(_aged_preparation(each, now_s, wall_now_s, view.paused) for each in view.preparations)
    return replace(
        view,
        rows=MappingProxyType(rows),
        accepted=_aged_acceptance(view.accepted, now_s, wall_now_s),
        preparations=asked,
    )


def _aged_preparation(
    seen: SeenPreparation, now_s: float, wall_now_s: float, is_paused: bool
) -> SeenPreparation:
    """Returns ``seen`` as if the leader had seen the request when it was made. A pause that is over is not known here: only
    the leader has seen it."""
    at_s = seconds_of(seen.seen.record.at) if isinstance(seen.seen, Found) else None
    if at_s is None:
        return seen
    seen_at_s = now_s - max(0.0, wall_now_s - at_s)
    return replace(seen, first_seen_at_s=seen_at_s, due_from_at_s=now_s if is_paused else seen_at_s)


def _aged_acceptance(
    acceptance: SeenAcceptance | None, now_s: float, wall_now_s: float
) -> SeenAcceptance | None:
    """Returns ``acceptance`` as if the leader had seen it at once."""
    if acceptance is None or not isinstance(acceptance.seen, Found):
        return acceptance
    try:
        at_s = datetime.fromisoformat(acceptance.seen.record.at).timestamp()
    except ValueError:
        return acceptance
    return replace(acceptance, first_seen_at_s=now_s - max(0.0, wall_now_s - at_s))


@dataclass(frozen=True, slots=True)
class Changed:
    """Holds when ZooKeeper last changed ownership and lease of a name, by its own wall clock; None means not
    known.
    """

    own_at_s: float | None
    lease_at_s: float | None


def changes_of(zoo: ZkReader, layout: Layout, rows: Iterable[Row]) -> dict[str, Changed]:
    """Returns the changes by name, of attempts that may be alive or are to be started. What changed since the
    row was read is not known.
    """
    occupying = [row for row in rows if isinstance(row.own, Found) and row.own.record.state in OCCUPYING]
    paths = [path for row in occupying for path in (layout.own(row.name), layout.lease(row.name))]
    nodes = zoo.read_many(paths).nodes
    pairs = zip(occupying, nodes[::2], nodes[1::2], strict=True)
    return {
        row.name: Changed(
            _changed_at_s(row.own, own), _changed_at_s(row.lease.seen if row.lease else None, lease)
        )
        for row, own, lease in pairs
    }


def _changed_at_s(record: Seen[Any], node: Node | None) -> float | None:
    if record is None or node is None or node.stat.mzxid != record.mzxid:
        return None
    return node.stat.modified_at_s or None


def _aged(row: Row, now_s: float, wall_now_s: float, changed: Changed | None) -> Row:
    def seen_at_s(at_s: float | None, else_s: float) -> float:
        return else_s if at_s is None else now_s - max(0.0, wall_now_s - at_s)

    if isinstance(row.own, Found) and row.own.record.state is OwnState.EXITED:
        return replace(row, own_seen_at_s=seen_at_s(exited_at_s(row.own.record), row.own_seen_at_s))
    if changed is None:
        return row
    lease = row.lease
    if lease is not None:
        lease = replace(
            lease, first_seen_at_s=seen_at_s(changed.lease_at_s, lease.first_seen_at_s), read_sent_at_s=now_s
        )
    return replace(row, own_seen_at_s=seen_at_s(changed.own_at_s, row.own_seen_at_s), lease=lease)


def counted(rows: Iterable[JobRow]) -> dict[str, int]:
    """Returns how many rows are in each state that occurs."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.state] = counts.get(row.state, 0) + 1
    return dict(sorted(counts.items()))
