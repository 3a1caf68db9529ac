"""Keeps which revisions a uid has had: ``/revisions/<uid>``, together with what the reference says itself.

The record is written by commands only, in the multi that makes a new revision; it has all up to that one. What becomes of
the newest one stands in the reference (``JobRef.update``): whether it was given up or rolled back, and to what the leader
went back. So the leader neither reads nor writes the record, and a job that was never changed has none. ``known`` puts both
together; the next command writes that down. A root or a job of the version before has no record: then what the reference
says is all that is known.

The record changes only with the reference, in a multi that sets or creates that at what was read, and it is read after the
reference: so it needs no version of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from supervisor.model.records import (
    BY_MAX_BYTES,
    PREPARED_WHY_MAX_BYTES,
    BlobRef,
    JobRef,
    KeptRevision,
    Result,
    RevisionFate,
    Revisions,
    clip,
)
from supervisor.model.root_cause import cause_text
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import ANY_VERSION, Create, Op, SetData
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader
from supervisor.records.reading import seen
from supervisor.registry.blobs import parse_key, spec_key

REVISIONS_MAX: Final = 20
REVISIONS_MAX_BYTES: Final = 8192
"""This record may be larger than others, for it is read by commands about one job, and never in bulk."""
LEADER: Final = "leader"
"""Is who has rolled back, if the reference does not say which supervisor it was."""
WITHDRAWN: Final = "withdrawn before it began"
"""Is why a revision has never run."""


class SeenRevisions(NamedTuple):
    """Holds a reading of the record. ``has_parent`` is False in a root of the version before, until a leader of this one
    makes the parent."""

    has_parent: bool
    record: Seen[Revisions]

    @property
    def kept(self) -> tuple[KeptRevision, ...]:
        """Returns what the record says; of one that can't be read, nothing."""
        return self.record.record.revisions if isinstance(self.record, Found) else ()


NO_RECORD: Final = SeenRevisions(has_parent=True, record=None)


@dataclass(frozen=True, slots=True)
class NewRevision:
    """Says of a revision that is being made who asked for it, and why, for people."""

    by: str = ""
    why: str = ""


def read_revisions(zoo: ZkReader, layout: Layout, uid: str) -> SeenRevisions:
    """Returns the record of ``uid``. It must be called after the reference was read. Raises Unreachable."""
    path = layout.revisions_of(uid)
    parent, node = zoo.read_many([layout.revisions, path]).nodes
    return SeenRevisions(parent is not None, seen(Revisions, node, path))


def known(job: JobRef | Result, kept: tuple[KeptRevision, ...]) -> tuple[KeptRevision, ...]:
    """Returns all that is known of the revisions of a uid, oldest first, with the present one; at most
    ``REVISIONS_MAX``."""
    entries = {each.revision: each for each in kept}
    update = job.update
    if update is not None:
        entries.setdefault(update.before.revision, _entry(update.before.revision, update.before.spec, job))
        if update.target != job.revision:
            unknown = KeptRevision(revision=update.target, sha256=update.sha256, at=update.at, by=update.by)
            entry = entries.get(update.target, unknown)
            fate = RevisionFate.ROLLED_BACK if update.rolled_back else RevisionFate.FAILED
            why = cause_text(update.rolled_back or update.given_up, PREPARED_WHY_MAX_BYTES)
            entries[update.target] = replace(entry, fate=fate, why=why)
    if job.revision not in entries and job.spec is not None:
        entries[job.revision] = _present(job, job.spec)
    return tuple(entries[number] for number in sorted(entries))[-REVISIONS_MAX:]


def _present(job: JobRef | Result, spec: BlobRef) -> KeptRevision:
    entry, update = _entry(job.revision, spec, job), job.update
    if update is None:
        return entry
    if update.rolled_back:
        at, by = _rolled_back(job)
        place = f", from savepoint {update.savepoint}" if update.moved_sha256 else ""
        return replace(entry, by=by, at=at, why=f"revision {update.before.revision} again{place}")
    return replace(entry, by=clip(update.by, BY_MAX_BYTES), at=update.at)


def _rolled_back(job: JobRef | Result) -> tuple[str, str]:
    """Returns when a leader has rolled the job back, if that is known, and who it was."""
    if isinstance(job, JobRef) and job.changed.event == "rolled back":
        return job.changed.at, job.changed.by or LEADER
    return "", LEADER


def _entry(revision: int, spec: BlobRef, job: JobRef | Result) -> KeptRevision:
    parsed = parse_key(spec.key)
    stored_as = parsed.revision if parsed is not None and parsed.revision != revision else 0
    at, by = (job.submitted_at, job.submitted_by) if revision == 1 else ("", "")
    return KeptRevision(
        revision=revision,
        sha256=spec.sha256,
        bytes=spec.bytes,
        at=at,
        by=by,
        stored_as=stored_as,
        signature=spec.signature,
    )


def spec_of(name: str, uid: str, entry: KeptRevision) -> BlobRef:
    """Returns where the spec of a kept revision lies."""
    key = spec_key(name, uid, entry.stored_as or entry.revision, entry.sha256)
    return BlobRef(key=key, sha256=entry.sha256, bytes=entry.bytes, signature=entry.signature)


def keep_revision(
    layout: Layout, before: JobRef | Result, after: JobRef, made: NewRevision, read: SeenRevisions
) -> tuple[Op, ...]:
    """Returns the ops that write down all revisions up to that of ``after``, which replaces ``before`` in the same multi."""
    entries = known(before, read.kept)
    if any(each.revision == after.revision for each in entries):
        entries = tuple(_withdrawn(each) if each.revision == before.revision else each for each in entries)
    else:
        entry = replace(
            _entry(after.revision, after.spec, after),
            at=after.changed.at,
            by=clip(made.by, BY_MAX_BYTES),
            why=cause_text(made.why, PREPARED_WHY_MAX_BYTES),
        )
        entries = (*entries, entry)
    path, data = layout.revisions_of(after.uid), _encoded(after, entries[-REVISIONS_MAX:], read)
    parent = () if read.has_parent else (Create(layout.revisions, b""),)
    if read.record is None:
        return (*parent, Create(path, data))
    return (SetData(path, data, ANY_VERSION),)


def _withdrawn(entry: KeptRevision) -> KeptRevision:
    return replace(entry, why=WITHDRAWN)


def _encoded(job: JobRef, entries: tuple[KeptRevision, ...], read: SeenRevisions) -> bytes:
    """Returns the record with as many of the newest revisions as there is room for."""
    extra = read.record.record.extra if isinstance(read.record, Found) else {}
    record = Revisions(name=job.name, uid=job.uid, revisions=entries, extra=extra)
    while True:
        try:
            return encode(record, REVISIONS_MAX_BYTES)
        except ValueError:
            if len(record.revisions) <= 1:
                raise
            record = replace(record, revisions=record.revisions[1:])
