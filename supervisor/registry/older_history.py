"""Moves older entries of a record's history from its plain list to its packed text (``model.history``).

The builders of multis that rewrite a whole record without haste call it: the leader's, and a cancel. Shims
and hosts only append: what they write must fit, whatever it is, and the next write of a leader puts it in
order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

from supervisor.model.history import put_aside
from supervisor.model.records import HISTORY_KEPT, Ownership, Result
from supervisor.model.root_cause import cause_text
from supervisor.records.codec import MAX_RECORD_BYTES, encode

EARLIER_MAX_BYTES: Final = 1536
SHORT_REASON_BYTES: Final = 80
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
    """Returns the record of a uid that ends now. What there is no room for is left out, the least needed first: the update
    of its job, which a roll back after a resume needs; then what people read; last the marks by which a fork and a promotion
    are known. A result that could not be written would keep its job from ever ending."""
    for shorter in _ever_shorter(result):
        try:
            return encode(older_aside(shorter))
        except ValueError:
            continue
    return encode(older_aside(replace(shorter, promotion=None, fork=None)))


def _ever_shorter(result: Result) -> Iterator[Result]:
    yield result
    without_update = replace(result, update=None)
    yield without_update
    told_briefly = replace(
        without_update,
        reason=cause_text(result.reason, SHORT_REASON_BYTES),
        history=result.history[-1:],
        earlier="",
        rolled_back=(),
        quarantined=(),
    )
    yield told_briefly
    yield replace(told_briefly, history=())
