"""Decides what receivers are told of a job, and what was told (the record /notifications/<uid>). It is pure.

An event is written down before it is sent, with the receivers that are to have it; a receiver leaves that list only after it
has accepted the event. So whoever leads next finds what is still to be sent, and sends it under the same id. Nothing is told
of an event that is written down already:

* What *happens* (failed, rolled back) is known by its occurrence: the attempt that has failed, the revision that was rolled
  back. These numbers only grow, and the newest of each kind is always kept here. So what only the history of a job shows
  (``JobEvent.past``) is known if its number is not above that one.
* What *lasts* (quarantined, falling behind) is told once until it is over. The end is written down, so that the next time
  counts as another one for every later leader, too. A later attempt that is quarantined says that an earlier one was over.
* A quarantine that only the record of the job shows (``JobRef.quarantined``) has begun and is over at once. It is known if
  an entry is about that attempt or a later one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from supervisor.model.records import Notification, Notifications, NotifiedEvent, clip
from supervisor.model.root_cause import cause_text

LASTING: Final = frozenset({NotifiedEvent.QUARANTINED, NotifiedEvent.FALLING_BEHIND})
"""These events are conditions, which begin and end."""

ENTRIES_MAX: Final = 6
"""So many entries are kept of a uid; beyond them the oldest goes, whether or not each receiver has it."""

REASON_MAX_BYTES: Final = 180
COMMAND_MAX_BYTES: Final = 120
"""With these bounds a record with ``ENTRIES_MAX`` entries stays under ``RECORD_MAX_BYTES``, whatever is in the texts."""

RECORD_MAX_BYTES: Final = 8192

EventKey = tuple[str, NotifiedEvent, int | None]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Is an event of a job as one View shows it. ``occurrence`` is None for what lasts, or lasted: that is counted. ``past``
    says that only the history of the job shows it: somebody has resumed, cancelled or updated the job since."""

    event: NotifiedEvent
    name: str
    uid: str
    attempt: int
    revision: int
    state: str
    reason: str
    cause: str = ""
    command: str = ""
    occurrence: int | None = None
    past: bool = False

    @property
    def key(self) -> EventKey:
        """Returns what tells it from other events, as far as they are known to be others."""
        return (
            self.uid,
            self.event,
            self.attempt if self.past and self.occurrence is None else self.occurrence,
        )

    @property
    def happened(self) -> bool:
        """Says whether it stays as it is, so that later views have no news of it."""
        return self.past or self.occurrence is not None


def notification_id(uid: str, entry: Notification) -> str:
    """Returns the id by which a receiver knows an event that it is sent again."""
    return f"{uid}.{entry.event.value}.{entry.occurrence}"


def message_of(cluster: str, link: str, record: Notifications, entry: Notification) -> bytes:
    """Returns the body of the message about ``entry``: JSON with the keys that docs/operate-alerts.md lists. ``link`` is the
    address of a page about the job, or empty."""
    message = {
        "v": 1,
        "id": notification_id(record.uid, entry),
        "event": entry.event.value,
        "at": entry.at,
        "cluster": cluster,
        "job": record.name,
        "uid": record.uid,
        "attempt": entry.attempt or None,
        "revision": entry.revision or None,
        "state": entry.state,
        "cause": entry.cause or None,
        "reason": entry.reason,
        "command": entry.command or None,
        "link": link or None,
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def recorded(record: Notifications, event: JobEvent, receivers: tuple[str, ...], at: str) -> Notifications:
    """Returns the record with ``event``, to be sent to ``receivers``; the record itself if it is known already."""
    if _is_known(record, event):
        return record
    newest, occurrence = newest_of(record, event.event), event.occurrence
    if occurrence is None:
        occurrence = 1 if newest is None else newest.occurrence + 1
        record = ended(record, event.event)
    entry = Notification(
        event=event.event,
        occurrence=occurrence,
        at=at,
        attempt=event.attempt,
        revision=event.revision,
        state=event.state,
        reason=cause_text(event.reason, REASON_MAX_BYTES),
        cause=event.cause,
        command=clip(event.command, COMMAND_MAX_BYTES),
        pending=receivers,
        over=event.past and event.occurrence is None,
    )
    return replace(record, entries=_pruned((*record.entries, entry)))


def _is_known(record: Notifications, event: JobEvent) -> bool:
    """Says whether ``event`` is written down in ``record``, or was and had to make room."""
    if event.occurrence is not None:
        known = [each.occurrence for each in record.entries if each.event == event.event]
        return event.occurrence in known or (event.past and event.occurrence < max(known, default=0))
    if event.past:
        attempts = [each.attempt for each in record.entries if each.event == event.event]
        return event.attempt <= max(attempts, default=-1)
    newest = newest_of(record, event.event)
    if newest is None or newest.over:
        return False
    # the attempt is 0 where it is not known; a job that goes on falling behind does so over a new attempt
    return event.event is not NotifiedEvent.QUARANTINED or not 0 < newest.attempt < event.attempt


def keep(known: dict[EventKey, JobEvent], events: Iterable[JobEvent]) -> None:
    """Adds ``events`` to ``known``. What only the history shows says less than what a view has shown before. What lasts
    comes after all that is known to have happened; what it takes the place of, if that was of an earlier attempt, lasts no
    more and stays as what has happened."""
    for event in events:
        if event.past:
            lasting = known.get((event.uid, event.event, None))
            if event.key in known or (lasting is not None and lasting.attempt == event.attempt):
                continue
        elif not event.happened:
            before = known.pop(event.key, None)
            known.pop((event.uid, event.event, event.attempt), None)
            if before is not None and _is_earlier_quarantine(before, event):
                over = replace(before, past=True)
                known[over.key] = over
        known[event.key] = event


def in_order(known: dict[EventKey, JobEvent]) -> list[tuple[EventKey, JobEvent]]:
    """Returns ``known`` in the order in which it is to be written down: of one job, the quarantines by their attempts. A
    record that has a later one takes an earlier one for known."""
    waiting: dict[str, list[tuple[EventKey, JobEvent]]] = {}
    for item in known.items():
        if item[1].event is NotifiedEvent.QUARANTINED:
            waiting.setdefault(item[1].uid, []).append(item)
    for items in waiting.values():
        items.sort(key=lambda item: item[1].attempt, reverse=True)
    return [
        waiting[event.uid].pop() if event.event is NotifiedEvent.QUARANTINED else (key, event)
        for key, event in known.items()
    ]


def _is_earlier_quarantine(event: JobEvent, later: JobEvent) -> bool:
    """Says whether both are quarantines, and known to be two: an attempt is 0 where it is not known."""
    return event.event is NotifiedEvent.QUARANTINED and 0 < event.attempt < later.attempt


def ended(record: Notifications, event: NotifiedEvent) -> Notifications:
    """Returns the record once ``event``, which lasts, is over. What was not yet sent of it is sent all the same."""
    newest = newest_of(record, event)
    if newest is None or newest.over:
        return record
    return _with(record, newest, replace(newest, over=True))


def accepted_by(record: Notifications, entry: Notification, receiver: str) -> Notifications:
    """Returns the record after ``receiver`` has accepted ``entry``."""
    for each in record.entries:
        if (each.event, each.occurrence) == (entry.event, entry.occurrence) and receiver in each.pending:
            left = tuple(name for name in each.pending if name != receiver)
            return _with(record, each, replace(each, pending=left))
    return record


def next_for(record: Notifications, receiver: str) -> Notification | None:
    """Returns what ``receiver`` is to be sent next of this job: the oldest entry that it lacks."""
    return next((each for each in record.entries if receiver in each.pending), None)


def newest_of(record: Notifications, event: NotifiedEvent) -> Notification | None:
    return next((each for each in reversed(record.entries) if each.event == event), None)


def lasts(record: Notifications, event: NotifiedEvent) -> bool:
    """Says whether ``event`` has begun, and its end is not written down."""
    newest = newest_of(record, event)
    return newest is not None and not newest.over


def _with(record: Notifications, old: Notification, new: Notification) -> Notifications:
    return replace(record, entries=tuple(new if each is old else each for each in record.entries))


def _pruned(entries: tuple[Notification, ...]) -> tuple[Notification, ...]:
    """Gives up entries beyond ``ENTRIES_MAX``: first the oldest that every receiver has, then the oldest. The newest of each
    kind stays, because the registry may show it still."""
    while len(entries) > ENTRIES_MAX:
        newest = {each.event: each for each in entries}
        older = [each for each in entries if newest[each.event] is not each]
        if not older:
            return entries
        gone = next((each for each in older if not each.pending), older[0])
        entries = tuple(each for each in entries if each is not gone)
    return entries
