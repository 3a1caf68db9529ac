"""Sweeps what is left of uids that are gone: assignments, leases, checkpoint claims, surplus results
(protocol §5, F25).

The leader calls this from time to time, a standby never. ``to_sweep`` is pure: it takes a listing and a view,
and returns guarded deletions. Each deletion checks the epoch, the ownership at the version seen (submit,
cancel and conclude always move it) and the version of what it deletes; what moved meanwhile stays. Nothing is
deleted on doubt: what is unreadable stays, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.model.records import (
    DEAD,
    Assignment,
    CheckpointClaim,
    Cleanliness,
    Lease,
    Notifications,
    Ownership,
    OwnState,
    Result,
    Revisions,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Check, Delete, Transaction
from supervisor.model.view import Row
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import children_of, seen_all
from supervisor.registry.leader_write_context import LeaderWriteContext

RESULTS_PER_NAME = 5
RESULTS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class RecordListing:
    """Holds what there is, by path, as read *before* the view by which it is judged."""

    assignments: Mapping[str, Seen[Assignment]]
    leases: Mapping[str, Seen[Lease]]
    claims: Mapping[str, Seen[CheckpointClaim]]
    results: Mapping[str, Seen[Result]]
    revisions: Mapping[str, Seen[Revisions]] = field(default_factory=dict)
    notifications: Mapping[str, Seen[Notifications]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletes ``path`` at ``version``, provided that /own/<name> is at ``own_version``."""

    what: str
    name: str
    path: str
    version: int
    own_version: int

    def transaction(self, context: LeaderWriteContext) -> Transaction:
        own = Check(context.layout.own(self.name), self.own_version)
        return context.transaction(f"sweep_{self.what}", own, Delete(self.path, self.version))


def take_listing(zoo: ZkSession, layout: Layout) -> RecordListing:
    """Reads everything that could be left over, pipelined. Raises Unreachable, and Conflict if a parent is
    missing."""
    entries = [
        f"{layout.assigned_to(host)}/{entry}"
        for host in children_of(zoo, layout.assigned)
        for entry in zoo.children(layout.assigned_to(host)) or ()
    ]

    def below(parent: str) -> list[str]:
        return [f"{parent}/{child}" for child in children_of(zoo, parent)]

    leases, claims, results = below(layout.leases), below(layout.checkpoints), below(layout.results)
    # a root of the version before has no such parent yet
    revisions = [layout.revisions_of(uid) for uid in zoo.children(layout.revisions) or ()]
    # only where leaders were ever told to tell somebody
    notified = [layout.notifications_of(uid) for uid in zoo.children(layout.notifications) or ()]
    return RecordListing(
        dict(zip(entries, seen_all(Assignment, entries, zoo.read_many(entries).nodes), strict=True)),
        dict(zip(leases, seen_all(Lease, leases, zoo.read_many(leases).nodes), strict=True)),
        dict(zip(claims, seen_all(CheckpointClaim, claims, zoo.read_many(claims).nodes), strict=True)),
        dict(zip(results, seen_all(Result, results, zoo.read_many(results).nodes), strict=True)),
        dict(zip(revisions, seen_all(Revisions, revisions, zoo.read_many(revisions).nodes), strict=True)),
        dict(zip(notified, seen_all(Notifications, notified, zoo.read_many(notified).nodes), strict=True)),
    )


def to_sweep(listing: RecordListing, rows: Mapping[str, Row]) -> tuple[Deletion, ...]:
    """Returns what may go. ``rows`` is from a full view that was taken after the listing."""
    with_result = frozenset(path.rpartition("/")[2] for path in listing.results)
    return (
        *_assignments(listing.assignments, rows),
        *_leases(listing.leases, rows),
        *_claims(listing, rows),
        *_results(listing.results, rows),
        *_about_uids("revisions", listing.revisions, with_result, rows),
        *_about_uids("notifications", listing.notifications, with_result, rows),
    )


def _deletion(what: str, path: str, record: Found[Any], row: Row) -> Iterable[Deletion]:
    if isinstance(row.own, Found):
        yield Deletion(what, row.name, path, record.version, row.own.version)


def _assignments(entries: Mapping[str, Seen[Assignment]], rows: Mapping[str, Row]) -> Iterable[Deletion]:
    """Yields the entries that the ownership no longer mentions: no claim could come of them."""
    for path, entry in entries.items():
        row = rows.get(entry.record.name) if isinstance(entry, Found) else None
        if row is None or not isinstance(entry, Found) or not isinstance(row.own, Found):
            continue
        own, given = row.own.record, entry.record
        if own.state is not OwnState.ASSIGNED or (own.uid, own.attempt) != (given.uid, given.attempt):
            yield from _deletion("assignment", path, entry, row)


def _leases(leases: Mapping[str, Seen[Lease]], rows: Mapping[str, Row]) -> Iterable[Deletion]:
    """Yields the leases of names that nobody owns or wants; a clean-up deletes the lease of its name
    itself."""
    for path, lease in leases.items():
        row = rows.get(lease.record.name) if isinstance(lease, Found) else None
        if row is None or not isinstance(lease, Found) or not isinstance(row.own, Found):
            continue
        if row.ref is None and not row.leftovers and row.own.record.state is OwnState.VACANT:
            yield from _deletion("lease", path, lease, row)


def _claims(listing: RecordListing, rows: Mapping[str, Row]) -> Iterable[Deletion]:
    """Yields the checkpoint claims of uids that neither are registered, nor wait to be cleaned, nor may have
    a driver.

    If the result of a uid cannot be read, nobody knows whether the uid was cleaned: its claim stays.
    """
    doubtful = {
        path.rpartition("/")[2] for path, result in listing.results.items() if isinstance(result, Unreadable)
    }
    for path, claim in listing.claims.items():
        row = rows.get(claim.record.name) if isinstance(claim, Found) else None
        if row is None or not isinstance(claim, Found) or not isinstance(row.own, Found):
            continue
        uid, own = claim.record.uid, row.own.record
        registered, dirty = _is_registered(row, uid), _is_dirty(row, uid)
        if not registered and not dirty and uid not in doubtful and not _may_run(own, uid):
            yield from _deletion("claim", path, claim, row)


def _about_uids(
    what: str,
    records: Mapping[str, Seen[Revisions]] | Mapping[str, Seen[Notifications]],
    with_result: frozenset[str],
    rows: Mapping[str, Row],
) -> Iterable[Deletion]:
    """Yields the records about uids that neither are registered, nor own their name, nor have a result: nobody can go back
    to their revisions any more, and nothing happens to them."""
    for path, seen in records.items():
        row = rows.get(seen.record.name) if isinstance(seen, Found) else None
        if row is None or not isinstance(seen, Found) or not isinstance(row.own, Found):
            continue
        uid, own = seen.record.uid, row.own.record
        registered, dirty = _is_registered(row, uid), _is_dirty(row, uid)
        if not registered and uid not in with_result and not dirty and uid not in (own.uid, own.newest_uid):
            yield from _deletion(what, path, seen, row)


def _is_registered(row: Row, uid: str) -> bool:
    """Says whether ``uid`` may be that of the reference. One that can't be read may be of any uid."""
    return row.ref is not None and not (isinstance(row.ref, Found) and row.ref.record.uid != uid)


def _is_dirty(row: Row, uid: str) -> bool:
    """Says whether ``uid`` has ended, and what it left behind waits to be cleaned."""
    return any(left.result.record.uid == uid for left in row.leftovers)


def _may_run(own: Ownership, uid: str) -> bool:
    return own.uid == uid and own.state not in DEAD


def _results(results: Mapping[str, Seen[Result]], rows: Mapping[str, Row]) -> Iterable[Deletion]:
    """Yields the clean results beyond the newest five of a name, and beyond 5,000 in all, oldest first."""
    by_name: dict[str, list[tuple[str, Found[Result]]]] = defaultdict(list)
    for path, result in sorted(results.items()):
        if isinstance(result, Found):
            by_name[result.record.name].append((path, result))
    surplus = [one for kept in by_name.values() for one in kept[:-RESULTS_PER_NAME]]
    rest = sorted(
        (one for kept in by_name.values() for one in kept[-RESULTS_PER_NAME:]), key=lambda one: one[0]
    )
    surplus += rest[: max(0, len(rest) - RESULTS_MAX)]
    for path, result in surplus:
        row = rows.get(result.record.name)
        if row is not None and result.record.state is Cleanliness.CLEAN:
            yield from _deletion("result", path, result, row)
