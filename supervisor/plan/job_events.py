"""Finds in a View, and in the plan of it, what receivers are to be told of jobs (``notify`` of the settings). It is pure.

``daemon.leader.notifier`` asks for it after each pass. What is found is what ``list`` and ``explain`` show: the states
``failed`` and ``quarantined``, an update that the leader has rolled back, a query that falls behind its source. The
reason is the sentence of ``explain``, and the command its first remedy.

A job that has failed may have been resumed, cancelled or updated before any leader saw it. The records keep that it
happened: the history in /own and in a result, the revisions that were rolled back, and the attempts by whose end the job was
quarantined until somebody wrote its reference. It comes before what the same record shows as present, so that events of one
kind come in their order. A quarantine that no such write ends (a record that can't be read, a policy) leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from supervisor.model.actions import Note, Plan
from supervisor.model.notifications import JobEvent
from supervisor.model.records import HistoryEntry, JobRef, NotifiedEvent, Outcome, Ownership, Result
from supervisor.model.seen import Found
from supervisor.model.state import JobState, last_exit_of, state_of_ended
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


def events_of_result(result: Result) -> Iterable[JobEvent]:
    """Yields what ``result`` shows to have happened to its uid."""
    yield from _past_failures(result.name, result.uid, result.history)
    yield from _past_roll_backs(result)
    yield from _past_quarantines(result, result.history)
    if result.update is not None and result.update.rolled_back:
        yield _rolled_back(result, result.attempt, result.outcome.value)
    if result.outcome is Outcome.FAILED:
        yield _failed(result)


def _past_failures(name: str, uid: str, history: Iterable[HistoryEntry]) -> Iterable[JobEvent]:
    for entry in history:
        if entry.event == Outcome.FAILED:
            yield JobEvent(
                NotifiedEvent.FAILED,
                name,
                uid,
                entry.attempt,
                0,
                JobState.FAILED.value,
                entry.detail,
                command=f"{PROGRAM} history {name}",
                occurrence=entry.attempt,
                past=True,
            )


def _past_roll_backs(job: JobRef | Result) -> Iterable[JobEvent]:
    for target in job.rolled_back:
        yield JobEvent(
            NotifiedEvent.ROLLED_BACK,
            job.name,
            job.uid,
            0,
            job.revision,
            job.desired.value if isinstance(job, JobRef) else job.outcome.value,
            f"revision {target} was rolled back",
            command=f"{PROGRAM} revisions {job.name}",
            occurrence=target,
            past=True,
        )


def _past_quarantines(job: JobRef | Result, history: tuple[HistoryEntry, ...]) -> Iterable[JobEvent]:
    """Yields the quarantines of ``job`` that are over. ``history`` says by which end each came about, if it reaches back."""
    for attempt in job.quarantined:
        end = last_exit_of(tuple(entry for entry in history if entry.attempt == attempt))
        what = f"it was quarantined by the end of attempt {attempt}"
        yield JobEvent(
            NotifiedEvent.QUARANTINED,
            job.name,
            job.uid,
            attempt,
            0,
            JobState.QUARANTINED.value,
            f"{what}: {end.detail}" if end is not None and end.detail else what,
            end.event if end is not None else "",
            command=f"{PROGRAM} history {job.name}",
            past=True,
        )


def _failed(result: Result) -> JobEvent:
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
    if isinstance(row.own, Found) and row.own.record.uid:
        yield from _past_failures(row.name, row.own.record.uid, row.own.record.history)
    for leftover in row.leftovers:
        yield from events_of_result(leftover.result.record)
    if isinstance(row.ref, Found):
        job, own = row.ref.record, row.own.record if isinstance(row.own, Found) else None
        yield from _past_roll_backs(job)
        yield from _past_quarantines(job, own.history if own is not None and own.uid == job.uid else ())
        if job.update is not None and job.update.rolled_back:
            yield _rolled_back(job, _attempt_of(row, job.uid), job.desired.value)


def _rolled_back(job: JobRef | Result, attempt: int, state: str) -> JobEvent:
    assert job.update is not None
    return JobEvent(
        NotifiedEvent.ROLLED_BACK,
        job.name,
        job.uid,
        attempt,
        job.revision,
        state,
        f"revision {job.update.target} was rolled back: {job.update.rolled_back}",
        command=f"{PROGRAM} revisions {job.name}",
        occurrence=job.update.target,
        past=isinstance(job, Result),
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
