"""Packs the older part of a job's history: what no longer stands in ``history`` of its records, in one short
text (``earlier``).

A record has 4 KiB, and there may be 10,000 jobs: the newest entries stand in it plainly, for every version
and for the software's own decisions. The older ones are folded and packed here by the writer that moves them
out (the leader with its writes, ``registry.older_history``). Failures in a row that are alike become one
entry with their number, and their attempts are not listed one by one. What is packed is for people: no
decision uses it, and an entry that can't be read counts as none.

It is kept in the record itself, because it then moves with the record in the same multi. So it is as safe as
the record of the attempt's end, whoever leads; no request, guard or znode is added to the protocol; and an
older version keeps the field as one that it does not know, while it goes on with the plain entries. A znode
of its own would be a new write in every multi of the leader, and an object in the store would be lost when
that is down, which is when jobs fail.

The module is pure and imports the standard library only.
"""

from __future__ import annotations

import binascii
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from supervisor.model.records import BY_MAX_BYTES, DETAIL_MAX_BYTES, PLANNED_CAUSES, Cause, HistoryEntry, clip

FAILURES: Final = frozenset(cause.value for cause in Cause if cause not in PLANNED_CAUSES)
ENTRIES_KEPT: Final = 100
"""This many are kept even where their details have to be cut for it; up to ``ENTRIES_MAX`` are kept while
there is room.
"""

ENTRIES_MAX: Final = 200

_ROUTINE: Final = frozenset({"assigned", "claimed"})
_NEW_SERIES: Final = frozenset(
    {
        "submitted",
        "resumed",
        "restarted",
        "registered again",
        "suspended",
        "cancelled",
        *(cause.value for cause in PLANNED_CAUSES),
    }
)
"""After these events a failure is the first of another series."""

_DETAIL_BYTES: Final = (48, 16, 0)
_WORD_BYTES: Final = 40
_PLAIN_MAX_BYTES: Final = 1 << 17
_NUMBER: Final = re.compile(r"\d+")
_BY: Final = re.compile(r"(?:^| )\(by ((?:(?!\(by ).)*)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(HistoryEntry):
    """Stands for failures that are alike, one attempt after the other; the entry itself is the first of them.

    ``omitted`` is the number of entries after it that found no room.
    """

    count: int = 1
    last_at: str = ""
    last_attempt: int = 0
    omitted: int = 0

    def covers(self, entry: HistoryEntry) -> bool:
        """Returns whether the entry is of an attempt after the first, which is not listed on its own."""
        return self.attempt < entry.attempt <= self.last_attempt and entry.event in {self.event, *_ROUTINE}


def same_words(detail: str) -> str:
    """Returns ``detail`` without what differs between failures that are alike: a pid, a port, a duration."""
    return _NUMBER.sub("#", detail)


def is_failure(entry: HistoryEntry) -> bool:
    return entry.attempt > 0 and entry.event in FAILURES


def first_failure(entries: Iterable[HistoryEntry]) -> HistoryEntry | None:
    """Returns the first failure of the newest series in ``entries``, which are oldest first, or None if that
    has no failure.
    """
    first: HistoryEntry | None = None
    for entry in entries:
        if entry.event in _NEW_SERIES:
            first = None
        elif first is None and is_failure(entry):
            first = entry
    return first


# -- what is packed -----------------------------------------------------------------------------------------------


def put_aside(entries: Iterable[HistoryEntry], earlier: str, uid: str, max_bytes: int) -> str:
    """Returns ``earlier`` of ``uid`` with ``entries`` after it, in at most ``max_bytes``. What another uid
    left in ``earlier`` is dropped.
    """
    items = _items(earlier, uid)
    for entry in entries:
        _add(items, entry)
    return _fitting(items, uid, max_bytes)


def opened(earlier: str, uid: str) -> tuple[HistoryEntry, ...]:
    """Returns the entries in ``earlier``, oldest first, if it is about ``uid``, else none. Never raises."""
    return tuple(
        item
        if item.count > 1 or item.omitted
        else HistoryEntry(at=item.at, event=item.event, attempt=item.attempt, detail=item.detail, by=item.by)
        for item in _items(earlier, uid)
    )


def _add(items: list[Series], entry: HistoryEntry) -> None:
    """Appends ``entry``, or counts it in the last of ``items`` if it is a failure like that one: the entries
    that led to it are dropped then.
    """
    new = Series(
        at=clip(entry.at, _WORD_BYTES),
        event=clip(entry.event, _WORD_BYTES),
        attempt=entry.attempt,
        detail=clip(entry.detail, DETAIL_MAX_BYTES),
        by=clip(entry.by, BY_MAX_BYTES),
    )
    if is_failure(entry):
        end = len(items)
        while end and items[end - 1].event in _ROUTINE and items[end - 1].attempt == entry.attempt:
            end -= 1
        before = items[end - 1] if end else None
        if before is not None and is_failure(before) and not before.omitted and _alike(before, new):
            items[end - 1 :] = [
                replace(before, count=before.count + 1, last_at=entry.at, last_attempt=entry.attempt)
            ]
            return
    items.append(new)


def _alike(before: Series, entry: HistoryEntry) -> bool:
    later = max(before.attempt, before.last_attempt) < entry.attempt
    is_same = (before.event, before.by) == (entry.event, entry.by)
    return later and is_same and same_words(before.detail) == same_words(entry.detail)


def _fitting(items: list[Series], uid: str, max_bytes: int) -> str:
    """Packs as much of ``items`` as fits: the oldest are dropped while there are enough, then details are
    cut, then the oldest are dropped again.
    """
    while len(items) > ENTRIES_MAX:
        _drop_one(items)
    text = _packed(items, uid)
    while len(text) > max_bytes and len(items) > ENTRIES_KEPT:
        _drop_one(items)
        text = _packed(items, uid)
    for most in _DETAIL_BYTES:
        if len(text) <= max_bytes:
            return text
        firsts = set(_firsts(items))
        items = [item if n in firsts else _cut(item, most) for n, item in enumerate(items)]
        text = _packed(items, uid)
    while len(text) > max_bytes:
        for _ in range(1 + len(items) // 20):
            _drop_one(items)
        text = _packed(items, uid)
    return text


def _cut(item: Series, most: int) -> Series:
    """Returns ``item`` with a detail of at most ``most`` bytes; where there is none, it does not say who asked either."""
    return replace(item, detail=clip(item.detail, most)) if most else replace(item, detail="", by="")


def _drop_one(items: list[Series]) -> None:
    """Drops the oldest, but the first failure of a series stays as long as anything after it does."""
    end = next((n for n, item in enumerate(items) if n and item.event in _NEW_SERIES), len(items))
    if end > 1 and next(_firsts(items[:end]), None) == 0:
        gone = items.pop(1)
        items[0] = replace(items[0], omitted=items[0].omitted + gone.count + gone.omitted)
    elif items:
        del items[0]


def _firsts(items: Sequence[HistoryEntry]) -> Iterator[int]:
    """Yields the position of the first failure of each series."""
    is_next = True
    for n, item in enumerate(items):
        if item.event in _NEW_SERIES:
            is_next = True
        elif is_next and is_failure(item):
            is_next = False
            yield n


# -- the text -----------------------------------------------------------------------------------------------------


def _packed(items: Sequence[Series], uid: str) -> str:
    """Packs ``items`` column by column, with times and attempts as differences: that compresses well."""
    if not items:
        return ""
    ats: list[int | str] = []
    before_ms = 0
    for item in items:
        at_ms = _milliseconds(item.at)
        ats.append(item.at if at_ms is None else at_ms - before_ms)
        before_ms = before_ms if at_ms is None else at_ms
    body = [
        uid,
        ats,
        [item.event for item in items],
        [
            item.attempt - before
            for item, before in zip(items, [0, *(item.attempt for item in items)], strict=False)
        ],
        [_with_by(item.detail, item.by) for item in items],
        [
            [n, item.count, item.last_at, item.last_attempt, item.omitted]
            for n, item in enumerate(items)
            if item.count > 1 or item.omitted
        ],
    ]
    plain = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    return binascii.b2a_base64(zlib.compress(plain, 9), newline=False).decode()


def _items(earlier: str, uid: str) -> list[Series]:
    """Unpacks a text that anybody may have written: whatever does not have exactly the form of ``_packed``
    yields nothing."""
    if not earlier:
        return []
    try:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(binascii.a2b_base64(earlier, strict_mode=True), _PLAIN_MAX_BYTES)
        if not unpacking.eof:
            return []
        whose, ats, events, attempts, details, folded = json.loads(plain)
        if whose != uid:
            return []
        items = []
        at_ms = attempt = 0
        for at, event, more, detail in zip(ats, events, attempts, details, strict=True):
            if type(at) is int:
                at_ms += at
                at = _iso(at_ms)
            attempt += _number(more)
            words, by = _without_by(_text(detail))
            items.append(
                Series(at=_text(at), event=_text(event), attempt=_count(attempt), detail=words, by=by)
            )
        for n, count, last_at, last_attempt, omitted in folded:
            items[_count(n)] = replace(
                items[n],
                count=_count(count),
                last_at=_text(last_at),
                last_attempt=_count(last_attempt),
                omitted=_count(omitted),
            )
    except (ValueError, TypeError, IndexError, OverflowError, OSError, RecursionError, zlib.error):
        return []
    return items


def _with_by(detail: str, by: str) -> str:
    """Returns ``detail`` with who asked for it at its end. So it is packed, because a version before takes no further
    column: words that end as if somebody had asked get nobody's name after them."""
    is_plain = not by and _BY.search(detail) is None
    return detail if is_plain else f"{detail} (by {by})".lstrip()


def _without_by(text: str) -> tuple[str, str]:
    """Returns the detail and who asked for it, of what ``_with_by`` returned."""
    found = _BY.search(text)
    return (text, "") if found is None else (text[: found.start()], found[1])


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("no number")
    return value


def _count(value: Any) -> int:
    if not 0 <= _number(value) < 1 << 53:
        raise ValueError("no count")
    return int(value)


def _milliseconds(at: str) -> int | None:
    """Returns the milliseconds since the epoch, if ``at`` has exactly the form that ``_iso`` makes."""
    try:
        found = datetime.fromisoformat(at)
        at_ms = int(found.replace(microsecond=0).timestamp()) * 1000 + found.microsecond // 1000
        return at_ms if _iso(at_ms) == at else None
    except (ValueError, OverflowError, OSError):
        return None


def _iso(at_ms: int) -> str:
    """Returns the text as ``clock.wall_iso`` does, from a whole number."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).strftime('%Y-%m-%dT%H:%M:%S')}.{milliseconds:03d}Z"
