"""Moves older entries of a record's history from its plain list to its packed text (``model.history``).

The builders of multis that rewrite a whole record without haste call it: the leader's, and a cancel. Shims
and hosts only append: what they write must fit, whatever it is, and the next write of a leader puts it in
order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from supervisor.model.history import put_aside
from supervisor.model.records import HISTORY_KEPT, Ownership, Result
from supervisor.records.codec import MAX_RECORD_BYTES, encode

EARLIER_MAX_BYTES: Final = 1536
TO_COME_BYTES: Final = 750
"""This is left free for those that append: an attempt's claim and the text of its end."""

Recorded = TypeVar("Recorded", Ownership, Result)


def older_aside(record: Recorded) -> Recorded:
    """Returns ``record`` with the newest entries as they are and the older ones packed, within its 4 KiB.

    ``HISTORY_KEPT`` entries stay as they are; in a record so full that something would be lost for that, half
    as many.
    """
    if len(record.history) <= HISTORY_KEPT and (not record.earlier or len(record.earlier) <= _room(record)):
        return record
    for kept in (HISTORY_KEPT, HISTORY_KEPT // 2):
        older, packed = record.history[:-kept], replace(record, history=record.history[-kept:])
        room = _room(packed)
        packed = replace(packed, earlier=put_aside(older, record.earlier, record.uid, EARLIER_MAX_BYTES))
        if len(packed.earlier) <= room:
            return packed
    return replace(packed, earlier=put_aside(older, record.earlier, record.uid, room))


def _room(record: Ownership | Result) -> int:
    """Returns the bytes that are free for ``earlier``, beside what else is in ``record``."""
    free = MAX_RECORD_BYTES - TO_COME_BYTES - len(encode(replace(record, earlier="")))
    return min(EARLIER_MAX_BYTES, max(0, free))


def encode_result(result: Result) -> bytes:
    """Returns the record of a uid that ends now: with the update of its job, which a roll back after a resume needs, its
    fork and its promotion; without all three if there is no room for them. A result that could not be written would keep
    its job from ever ending."""
    try:
        return encode(older_aside(result))
    except ValueError:
        return encode(older_aside(replace(result, update=None, fork=None, promotion=None)))
