"""Records what happened, as the last step of a pass: in the log (one canonical line) and in the metrics.

The controller calls it. It reads the pass and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import structlog

from supervisor.act.carry_out import ActionOutcome, ActionResult
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import SupervisorError
from supervisor.metrics import Capacity, Metrics
from supervisor.model.actions import Action, Assign, CleanUp, Conclude, Note, Plan, Withdraw
from supervisor.model.load import Load, loads_of
from supervisor.model.records import LEASED, OCCUPYING, Outcome
from supervisor.model.seen import Found
from supervisor.model.state import JobState, next_attempt
from supervisor.model.view import Row, View
from supervisor.observe.prepared import ready_counts
from supervisor.plan.after_restore import may_start
from supervisor.plan.shown import shown_by
from supervisor.records.layout import about_key

log = structlog.get_logger("supervisor.pass")


@dataclass(frozen=True, slots=True)
class Pass:
    """Holds what one pass saw, planned and did. Its instants are in BOOTTIME seconds; ``broken`` says why its
    plan was not carried out."""

    view: View
    plan: Plan
    broken: tuple[str, ...]
    results: tuple[ActionResult, ...]
    begun_at_s: float
    ended_at_s: float


class Recorder:
    """Keeps what was logged last, so that a lasting alarm is logged when it comes and when it goes, not at
    every pass.

    ``vacant_at_s`` is the instant since which nobody had led before this term (BOOTTIME).
    """

    def __init__(self, metrics: Metrics, vacant_at_s: float) -> None:
        self._metrics = metrics
        self._vacant_at_s = vacant_at_s
        self._wanted_at_s: dict[str, float] = {}
        self._alarms: frozenset[str] = frozenset()
        self._first = True
        self._why_skipped = ""
        self._paused = False
        self._apart = ErrorBoundary("record")

    def record(self, done: Pass) -> None:
        """Sets the metrics always, and logs a line when anything was done, has changed or is wrong."""
        notes = {note.name: note for note in done.plan.notes}
        by_name = {
            name: self._state_of(row, notes.get(name), done.view)
            for name, row in done.view.rows.items()
            if row.ref is not None
        }
        states = Counter(by_name.values())
        unhosted = {name: state for name, state in by_name.items() if not _is_hosted(done.view.rows[name])}
        self._metrics.set_fleet(states, done.view.epoch, unhosted)
        self._metrics.set_capacity(_capacity_of(done.view))
        self._metrics.set_cordoned(done.view.cordoned)
        self._metrics.set_prepared(ready_counts(done.view.members.values()))
        self._metrics.jobs_registered(by_name)
        self._set_wanted_metrics(done)
        self._log_paused(done.view)
        self._metrics.observe_pass(done.ended_at_s - done.begun_at_s)
        for one in done.results:
            self._metrics.count_action(type(one.action).__name__, one.outcome.value)
            self._count_outcome(one, done)
            self._log_action(done, one)
        if self._first:
            self._metrics.set_takeover(done.ended_at_s - self._vacant_at_s)
        self._log_alarms(frozenset(map(str, (*done.plan.alarms, *done.broken))), done.view.epoch)
        if done.results or self._first or self._why_skipped:
            log.info(
                "pass",
                epoch=done.view.epoch,
                jobs=sum(states.values()),
                supervisors=len(done.view.members),
                actions=dict(Counter(f"{type(c.action).__name__}:{c.outcome}" for c in done.results)),
                waiting=sum(1 for note in done.plan.notes if note.pending),
                alarms=len(self._alarms),
                ms=round((done.ended_at_s - done.begun_at_s) * 1000, 1),
                first=self._first,
                starts_held=not may_start(done.view),
            )
        else:
            log.debug(
                "pass", epoch=done.view.epoch, jobs=sum(states.values()), supervisors=len(done.view.members)
            )
        self._first = False
        self._why_skipped = ""

    def _state_of(self, row: Row, note: Note | None, view: View) -> str:
        shown = self._apart.attempt(row.name, lambda: shown_by(row, note, view), None)
        return (shown.state if shown is not None else JobState.QUARANTINED).value

    def skipped(self, epoch: int, error: SupervisorError) -> None:
        """Logs that a pass had no view, once per reason."""
        if str(error) != self._why_skipped:
            self._why_skipped = str(error)
            log.warning(
                "pass_skipped", epoch=epoch, why=str(error), next="trying again; drivers go on meanwhile"
            )

    def deposed(self, epoch: int, error: SupervisorError) -> None:
        log.warning("term_over", epoch=epoch, why=str(error), next="nothing more is done under this epoch")

    def _log_action(self, done: Pass, one: ActionResult) -> None:
        uid, attempt = _about(one.action)
        log_outcome = log.info if one.outcome is ActionOutcome.DONE else log.warning
        log_outcome(
            "action",
            action=type(one.action).__name__,
            job=one.action.name,
            uid=uid,
            attempt=attempt,
            epoch=done.view.epoch,
            why=one.action.why,
            outcome=one.outcome.value,
            detail=one.why,
        )

    def _set_wanted_metrics(self, done: Pass) -> None:
        """Keeps since when each job could have been started, as far as this leader saw: neither back-off nor
        suspension counts."""
        wanted = {note.name for note in done.plan.notes if note.pending}
        wanted |= {action.name for action in done.plan.actions if isinstance(action, Assign)}
        waiting = {note.name for note in done.plan.notes if not note.pending}
        kept = {
            name: at_s
            for name, at_s in self._wanted_at_s.items()
            if name in wanted
            or (name in done.view.rows and name not in waiting and not _occupies(done.view.rows[name]))
        }
        self._wanted_at_s = {**dict.fromkeys(wanted, done.begun_at_s), **kept}

    def _count_outcome(self, one: ActionResult, done: Pass) -> None:
        if one.outcome is not ActionOutcome.DONE:
            return
        match one.action:
            case Assign(name=name):
                self._metrics.job_started(
                    "queued", max(0.0, done.ended_at_s - self._wanted_at_s.pop(name, done.begun_at_s))
                )
            case Conclude(name=name, outcome=outcome, own=own):
                self._metrics.job_ended(outcome.value)
                if outcome is Outcome.FAILED:
                    self._metrics.job_failed(
                        name, own.record.cause.value if own.record.cause is not None else "unknown"
                    )
            case CleanUp(leftover=leftover) if leftover.result.record.outcome is Outcome.CANCELLED:
                self._metrics.job_ended(Outcome.CANCELLED.value)

    def _log_paused(self, view: View) -> None:
        self._metrics.set_paused(view.paused)
        if view.paused == self._paused:
            return
        self._paused = view.paused
        if not view.paused:
            log.info("unpaused", epoch=view.epoch)
            return
        why = view.pause.sentence if view.pause is not None else "its record can't be read"
        log.warning(
            "paused",
            epoch=view.epoch,
            why=why,
            next="nothing is started or cleaned; a cancel or suspend is obeyed",
        )

    def _log_alarms(self, alarms: frozenset[str], epoch: int) -> None:
        for alarm in sorted(alarms - self._alarms):
            log.error("alarm", epoch=epoch, why=alarm)
        for alarm in sorted(self._alarms - alarms):
            log.info("alarm_over", epoch=epoch, why=alarm)
        self._alarms = alarms


def _about(action: Action) -> tuple[str, int]:
    """Returns the uid and the attempt that an action is about; those of an assignment are the new ones."""
    if isinstance(action, Withdraw):
        key = about_key(action.path.rpartition("/")[2])
        return str(key["uid"]), 0
    own = action.own.record
    if isinstance(action, Assign):
        return action.ref.record.uid, next_attempt(action.ref.record, own)
    if isinstance(action, CleanUp):
        return action.leftover.result.record.uid, action.leftover.result.record.attempt
    return own.uid, own.attempt


def _occupies(row: Row) -> bool:
    return isinstance(row.own, Found) and row.own.record.state in OCCUPYING


def _capacity_of(view: View) -> dict[str, Capacity]:
    loads = loads_of(view.rows.values())
    return {
        one.id: Capacity(
            one.memory, loads.get(one.id, Load()).memory, one.drivers, loads.get(one.id, Load()).drivers
        )
        for one in view.members.values()
    }


def _is_hosted(row: Row) -> bool:
    """Says whether some supervisor shows the metric series of this job."""
    return isinstance(row.own, Found) and row.own.record.state in LEASED
