"""Finds in a View, and in the plan of it, what receivers are to be told of jobs (``notify`` of the settings). It is pure.

``daemon.leader.notifier`` asks for it after each pass. What is found is what ``list`` and ``explain`` show: the states
``failed`` and ``quarantined``, an update that the leader has rolled back, a query that falls behind its source. The
reason is the sentence of ``explain``, and the command its first remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from supervisor.model.actions import Note, Plan
from supervisor.model.notifications import JobEvent
from supervisor.model.records import JobRef, NotifiedEvent, Outcome, Ownership, Result
from supervisor.model.seen import Found
from supervisor.model.state import JobState, state_of_ended
from supervisor.model.view import Row, View
from supervisor.plan.falling_behind import LagVerdict
from supervisor.plan.remedies import PROGRAM, Remedy, remedies_of_ended, remedies_of_quarantined
from supervisor.plan.shown import shown_by


@dataclass(frozen=True, slots=True)
class SeenEvents:
    """Holds what one View shows. ``happened`` are events that stay as they are. ``lasting`` are those that are so now, and
    ``over`` says, by uid and event, what is certainly not so now."""

    happened: tuple[JobEvent, ...] = ()
    lasting: tuple[JobEvent, ...] = ()
    over: frozenset[tuple[str, NotifiedEvent]] = frozenset()


def events_of(view: View, plan: Plan, lag: LagVerdict) -> SeenEvents:
    """Returns the events of every row. A view that vouches for nothing shows none."""
    if view.distrust is not None:
        return SeenEvents()
    notes = {note.name: note for note in plan.notes}
    happened: list[JobEvent] = []
    lasting: list[JobEvent] = []
    over: list[tuple[str, NotifiedEvent]] = []
    for row in view.rows.values():
        happened.extend(_happened(row))
        uid = _uid_of(row)
        quarantined = _quarantined(row, notes, view)
        if quarantined is not None:
            lasting.append(quarantined)
        elif uid:
            over.append((uid, NotifiedEvent.QUARANTINED))
        if uid in lag.behind and isinstance(row.ref, Found):
            lasting.append(_falling_behind(row.ref.record, row, lag.behind[uid]))
    over.extend((uid, NotifiedEvent.FALLING_BEHIND) for uid in lag.caught_up)
    return SeenEvents(tuple(happened), tuple(lasting), frozenset(over))


def failed(result: Result) -> JobEvent | None:
    """Returns the event of a job that has failed for good, or None if ``result`` is another end."""
    if result.outcome is not Outcome.FAILED:
        return None
    checkpoint = result.terms.checkpoint if result.terms is not None else None
    return JobEvent(
        NotifiedEvent.FAILED,
        result.name,
        result.uid,
        result.attempt,
        result.revision,
        JobState.FAILED.value,
        state_of_ended(result).reason,
        command=_first_command(remedies_of_ended(result.name, JobState.FAILED, checkpoint), result.name),
        occurrence=result.attempt,
    )


def _happened(row: Row) -> Iterable[JobEvent]:
    for leftover in row.leftovers:
        event = failed(leftover.result.record)
        if event is not None:
            yield event
    job = row.ref.record if isinstance(row.ref, Found) else None
    update = job.update if job is not None else None
    if job is None or update is None or not update.rolled_back:
        return
    yield JobEvent(
        NotifiedEvent.ROLLED_BACK,
        job.name,
        job.uid,
        _attempt_of(row, job.uid),
        job.revision,
        job.desired.value,
        f"revision {update.target} was rolled back: {update.rolled_back}",
        command=f"{PROGRAM} revisions {job.name}",
        occurrence=update.target,
    )


def _quarantined(row: Row, notes: Mapping[str, Note], view: View) -> JobEvent | None:
    """Returns the event of a job that is quarantined. One whose records name no uid has none: nothing could be written down
    of it (the alert SparkJobQuarantined is about it, too)."""
    note, uid = notes.get(row.name), _uid_of(row)
    if not uid or not (row.flaws or (note is not None and note.quarantined)):
        return None
    shown = shown_by(row, note, view)
    own = row.own.record if isinstance(row.own, Found) else None
    job = row.ref.record if isinstance(row.ref, Found) else None
    cause = own.cause.value if own is not None and own.cause is not None and own.permanent else ""
    return JobEvent(
        NotifiedEvent.QUARANTINED,
        row.name,
        uid,
        _attempt_of(row, uid),
        job.revision if job is not None else 0,
        shown.state.value,
        shown.reason,
        cause,
        _first_command(remedies_of_quarantined(row.name, own, job), row.name),
    )


def _falling_behind(job: JobRef, row: Row, sentence: str) -> JobEvent:
    return JobEvent(
        NotifiedEvent.FALLING_BEHIND,
        job.name,
        job.uid,
        _attempt_of(row, job.uid),
        job.revision,
        JobState.RUNNING.value,
        sentence,
        command=f"{PROGRAM} show {job.name}",
    )


def _uid_of(row: Row) -> str:
    """Returns whom the row is about: the registered uid or, of a reference that can't be read, the one that owns the
    name."""
    if isinstance(row.ref, Found):
        return row.ref.record.uid
    own: Ownership | None = row.own.record if isinstance(row.own, Found) else None
    return (own.newest_uid or own.uid) if own is not None and row.ref is not None else ""


def _attempt_of(row: Row, uid: str) -> int:
    own = row.own.record if isinstance(row.own, Found) else None
    return own.attempt if own is not None and own.uid == uid else 0


def _first_command(remedies: Iterable[Remedy], name: str) -> str:
    commands = (each.command for each in remedies if each.command is not None)
    return next(commands, f"{PROGRAM} explain {name}")
