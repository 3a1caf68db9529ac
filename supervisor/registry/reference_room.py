"""Says whether the reference of a job leaves room for whatever is written into it later. It is pure.

A record has at most ``MAX_RECORD_BYTES``. What a leader writes later nobody can make shorter: without room for that, its
action would fail in each pass, for ever. So a command that adds to the reference what stays there (a spec, a move, a
promotion, what a fork begins with) is accepted only if all else would fit at once, each at its longest: the reason of a roll
back, the place of a savepoint beside the one that the spec names, what is remembered for receivers, a suspension, a restart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from supervisor.errors import Conflict
from supervisor.model.records import (
    BY_MAX_BYTES,
    GIVEN_UP_MAX_BYTES,
    MOVED_DIGITS,
    QUARANTINED_KEPT,
    ROLLED_BACK_KEPT,
    SUSPENDED_WHY_MAX_BYTES,
    Desired,
    HistoryEntry,
    JobRef,
    RollbackRule,
    Update,
)
from supervisor.model.update_savepoint import savepoint_id
from supervisor.records.codec import MAX_RECORD_BYTES, encode

NUMBER_MAX: Final = 10**6 - 1
"""Numbers of revisions and attempts are reckoned with so many digits."""

ID: Final = "0" * 32
"""Is as long as the ids of writes, which are nonces of restarts, too."""

LONGEST_EVENT: Final = "update withdrawn"
COPY_TAG_BYTES: Final = len(".from--01234567")


def encode_with_room(job: JobRef, before: JobRef | None = None) -> bytes:
    """Returns the record of a reference to which a command adds what stays. Raises Conflict if it would leave no room for
    what is written later: then nothing of it is done. One that leaves no less than the reference ``before`` is allowed."""
    room = room_later(job)
    if room < 0 and (before is None or room < room_later(before)):
        raise Conflict(
            f"the record of {job.name} would have no room for what is written into it later, as the way back of an update: "
            "nothing was done",
            f"shorten its checkpoint, its labels or the keys of its store, or cancel {job.name} and submit it",
        )
    return encode(job)


def fits_later(job: JobRef) -> bool:
    """Says whether whatever is written into the reference ``job`` later has room there."""
    return room_later(job) >= 0


def room_later(job: JobRef) -> int:
    """Returns how many bytes are free once all else is written; it is negative if so many are missing."""
    return MAX_RECORD_BYTES - len(encode(largest_later(job), max_bytes=2**20))


def largest_later(job: JobRef) -> JobRef:
    """Returns ``job`` as large as writes without a new spec can make it."""
    terms, declared = job.terms, job.declared
    place = terms.checkpoint
    update = _largest(job.update, job) if job.update is not None else None
    if place is not None and update is not None and job.update is not None and _goes_back(job.update):
        declared = declared or place
        terms = replace(terms, checkpoint=f"{place}{'x' * (COPY_TAG_BYTES + len(update.savepoint))}")
    return replace(
        job,
        revision=NUMBER_MAX,
        last_revision=NUMBER_MAX,
        desired=Desired.SUSPENDED,
        restart_nonce=ID,
        cold_restart=ID,
        fresh_start=ID,
        op=ID,
        terms=terms,
        declared=declared,
        changed=HistoryEntry(
            at=job.changed.at,
            event=LONGEST_EVENT,
            attempt=NUMBER_MAX,
            detail=_escaped(SUSPENDED_WHY_MAX_BYTES),
            by=_escaped(BY_MAX_BYTES),
        ),
        update=update,
        promotion=replace(job.promotion, done=True) if job.promotion is not None else None,
        rolled_back=(NUMBER_MAX,) * ROLLED_BACK_KEPT,
        quarantined=(NUMBER_MAX,) * QUARANTINED_KEPT,
    )


def _largest(update: Update, job: JobRef) -> Update:
    return replace(
        update,
        rolled_back=_escaped(GIVEN_UP_MAX_BYTES),
        savepoint=savepoint_id(job.uid, NUMBER_MAX, 0, 0),
        moved_sha256="0" * MOVED_DIGITS,
    )


def _goes_back(update: Update) -> bool:
    if update.rolled_back or update.given_up or update.policy is None:
        return False  # an update is rolled back once
    return update.policy.rollback is RollbackRule.SAVEPOINT


def _escaped(max_bytes: int) -> str:
    """Returns a text of so many bytes, each of which JSON escapes."""
    return '"' * max_bytes
