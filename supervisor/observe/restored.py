"""Finds out what an operator must know before a restored registry is accepted: what will run, and what this
registry can't know.

``operations.accept_registry`` calls it. It is pure: it works on a View, the uids of kept results, and a
listing of the specs in the store. The store was not restored, so it remembers submissions that the registry
has lost; it knows nothing of cancels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from supervisor.clients.store.base import StoreEntry
from supervisor.clock import wall_iso
from supervisor.model.records import Desired
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import shown_state
from supervisor.model.view import Row, View
from supervisor.registry.blobs import parse_key


@dataclass(frozen=True, slots=True)
class KnownJob:
    """Describes a registered job as the restored registry has it. ``attempt`` is the newest that it knows of;
    later numbers may have been used. ``spec_missing`` says that its spec is not in the store, so it can't be
    started. None means unreadable.
    """

    name: str
    uid: str | None
    revision: int | None
    desired: str | None
    state: str
    attempt: int | None
    checkpoint: str | None
    spec_missing: bool | None
    reason: str

    @property
    def will_run(self) -> bool:
        return self.desired == Desired.RUNNING.value


@dataclass(frozen=True, slots=True)
class LostSpec:
    """Names a spec in the store that the registry does not know: one of an unknown uid, or a later revision.
    ``at`` is when it was stored.
    """

    name: str
    uid: str
    revision: int
    at: str


def known_jobs(view: View, keys: frozenset[str]) -> tuple[KnownJob, ...]:
    """Returns every registered job by name, suspended and unreadable ones too. ``keys`` are those of the
    specs in the store.
    """
    rows = [
        row for _, row in sorted(view.rows.items()) if row.ref is not None or isinstance(row.own, Unreadable)
    ]
    return tuple(_known(row, keys) for row in rows)


def _known(row: Row, keys: frozenset[str]) -> KnownJob:
    shown = shown_state(row)
    if not isinstance(row.ref, Found):
        return KnownJob(row.name, None, None, None, shown.state.value, None, None, None, shown.reason)
    job = row.ref.record
    own = row.own.record if isinstance(row.own, Found) else None
    return KnownJob(
        row.name,
        job.uid,
        job.revision,
        job.desired.value,
        shown.state.value,
        own.attempt if own is not None and own.uid == job.uid else None,
        job.terms.checkpoint,
        job.spec.key not in keys,
        shown.reason,
    )


def lost_specs(view: View, result_uids: Iterable[str], listed: Iterable[StoreEntry]) -> tuple[LostSpec, ...]:
    """Returns what was most likely submitted after the restored state, newest first. A submit that never
    registered looks the same.
    """
    newest = _newest_revisions(view)
    known = {*newest, *result_uids, *_owned(view)}
    lost = []
    for entry in listed:
        key = parse_key(entry.key)
        if key is None or not key.revision:
            continue
        if key.uid not in known or key.revision > newest.get(key.uid, key.revision):
            lost.append(
                (
                    entry.modified_at_s,
                    LostSpec(key.name, key.uid, key.revision, wall_iso(entry.modified_at_s)),
                )
            )
    return tuple(spec for _, spec in sorted(lost, key=lambda each: -each[0]))


def _newest_revisions(view: View) -> dict[str, int]:
    refs = [row.ref.record for row in view.rows.values() if isinstance(row.ref, Found)]
    return {ref.uid: ref.revision for ref in refs}


def _owned(view: View) -> set[str]:
    owns = [row.own.record for row in view.rows.values() if isinstance(row.own, Found)]
    return {uid for own in owns for uid in (own.uid, own.newest_uid) if uid}
