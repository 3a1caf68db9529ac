"""The last verb of a pass: what happened goes to the log (one canonical line) and to the metrics.

Called by the controller. Reads the pass, changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import structlog

from supervisor.act.carry_out import Came, Carried
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.actions import Action, Assign, CleanUp, Plan
from supervisor.model.records import LEASED
from supervisor.model.seen import Found
from supervisor.model.state import state_of
from supervisor.model.view import Row, View
from supervisor.registry.leader_writes import next_attempt

log = structlog.get_logger("supervisor.pass")


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: instants in BOOTTIME seconds; ``broken``: why its plan was not carried out."""

    view: View
    plan: Plan
    broken: tuple[str, ...]
    carried: tuple[Carried, ...]
    begun_s: float
    ended_s: float


class Recorder:
    """Keeps what was said last, so that a standing alarm is a line when it comes and goes, not at every pass."""

    def __init__(self, metrics: Metrics, term_began_s: float) -> None:
        self._metrics = metrics
        self._term_began_s = term_began_s
        self._alarms: frozenset[str] = frozenset()
        self._first = True
        self._why_skipped = ""

    def record(self, done: Pass) -> None:
        """Metrics always; a line when anything was done, changed or is wrong."""
        by_name = {name: state_of_row(row) for name, row in done.view.rows.items() if row.ref is not None}
        states = Counter(by_name.values())
        unhosted = {name: state for name, state in by_name.items() if not _is_hosted(done.view.rows[name])}
        self._metrics.set_fleet(states, done.view.epoch, unhosted)
        self._metrics.observe_pass(done.ended_s - done.begun_s)
        for one in done.carried:
            self._metrics.count_action(type(one.action).__name__, one.came.value)
            if isinstance(one.action, Assign) and one.came is Came.DONE:
                row = done.view.rows.get(one.action.name)      # of an earlier pass, it may be gone by now
                due_s = row.own_seen_s + one.action.account.delay_s if row else done.ended_s
                self._metrics.job_started("queued", max(0.0, done.ended_s - due_s))
            self._say_action(done, one)
        if self._first:
            self._metrics.set_takeover(done.ended_s - self._term_began_s)
        self._say_alarms(frozenset(done.plan.alarms) | frozenset(done.broken), done.view.epoch)
        if done.carried or self._first or self._why_skipped:
            log.info(
                "pass", epoch=done.view.epoch, jobs=sum(states.values()), supervisors=len(done.view.members),
                actions=dict(Counter(f"{type(c.action).__name__}:{c.came}" for c in done.carried)),
                waiting=sum(1 for note in done.plan.notes if note.pending), alarms=len(self._alarms),
                ms=round((done.ended_s - done.begun_s) * 1000, 1), first=self._first,
            )
        else:
            log.debug("pass", epoch=done.view.epoch, jobs=sum(states.values()), supervisors=len(done.view.members))
        self._first = False
        self._why_skipped = ""

    def skipped(self, epoch: int, error: SupervisorError) -> None:
        """A pass without a view: said once per reason."""
        if str(error) != self._why_skipped:
            self._why_skipped = str(error)
            log.warning("pass_skipped", epoch=epoch, why=str(error), next="trying again; drivers go on meanwhile")

    def deposed(self, epoch: int, error: SupervisorError) -> None:
        log.warning("term_over", epoch=epoch, why=str(error), next="nothing more is done under this epoch")

    def _say_action(self, done: Pass, one: Carried) -> None:
        uid, attempt = _about(one.action)
        say = log.info if one.came is Came.DONE else log.warning
        say(
            "action", action=type(one.action).__name__, job=one.action.name, uid=uid, attempt=attempt,
            epoch=done.view.epoch, why=one.action.why, outcome=one.came.value, detail=one.why,
        )

    def _say_alarms(self, alarms: frozenset[str], epoch: int) -> None:
        for alarm in sorted(alarms - self._alarms):
            log.error("alarm", epoch=epoch, why=alarm)
        for alarm in sorted(self._alarms - alarms):
            log.info("alarm_over", epoch=epoch, why=alarm)
        self._alarms = alarms


def _about(action: Action) -> tuple[str, int]:
    """Uid and attempt that an action is about: of an assignment the new one."""
    own = action.own.record
    if isinstance(action, Assign):
        return action.ref.record.uid, next_attempt(action.ref.record, own)
    if isinstance(action, CleanUp):
        return action.leftover.result.record.uid, action.leftover.result.record.attempt
    return own.uid, own.attempt


def _is_hosted(row: Row) -> bool:
    """Some supervisor shows the series of this job."""
    return isinstance(row.own, Found) and row.own.record.state in LEASED


def state_of_row(row: Row) -> str:
    """The state of a registered name, from its row."""
    lease = row.lease.seen if row.lease else None
    if row.flaws:
        return "quarantined"
    return state_of(row.ref, row.own, lease if isinstance(lease, Found) else None).state.value
