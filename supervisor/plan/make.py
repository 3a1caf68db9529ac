"""View → Plan: the pure heart. Every row is decided by the table, candidates are placed, the rest is explained.

``make_plan(view, now)`` twice gives the same plan; after any prefix of its actions has been carried out, the plan from
the new view is the remainder (a crash may happen anywhere). Called by the controller, by ``list`` for the reasons of
what is pending, and by tests, which compare plans with ``==``.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.model.actions import Action, Drain, Note, Plan, Revoke
from supervisor.model.view import View
from supervisor.plan.decide import Candidate, Decision, decide
from supervisor.plan.place import loads_of, place


@dataclass(frozen=True, slots=True)
class Policy:
    """``claim_timeout_s``: an assignment that no shim has claimed for so long is taken back."""

    claim_timeout_s: float = 120.0


def make_plan(view: View, policy: Policy, now_s: float) -> Plan:
    """What to do now. ``now_s``: CLOCK_BOOTTIME of the observer of ``view``."""
    if view.distrust is not None:
        return Plan((), alarms=(view.distrust,))
    if view.paused:
        return Plan((), notes=tuple(Note(name, "the cluster is paused") for name in sorted(view.rows)))
    actions: list[Action] = []
    candidates: list[Candidate] = []
    notes: list[Note] = []
    alarms: list[str] = []
    for name in sorted(view.rows):
        decision = _decided(view, name, now_s, policy)
        if decision.action is not None:
            actions.append(decision.action)
        if decision.candidate is not None:
            candidates.append(decision.candidate)
        if decision.note is not None:
            notes.append(decision.note)
        if decision.alarm is not None:
            alarms.append(decision.alarm)
    placed, pending = place(candidates, view.members, loads_of(view.rows.values()))
    waiting = {note.name for note in pending}
    meanwhile = [c.meanwhile for c in candidates if c.meanwhile is not None and c.name in waiting]
    plan = Plan((*actions, *meanwhile, *placed), (*notes, *pending), (*view.errors, *alarms))
    return plan if view.recorded else _unrecorded(plan)


def _decided(view: View, name: str, now_s: float, policy: Policy) -> Decision:
    """One name's trouble stays its own (I9): what cannot be decided, for whatever reason, is left alone and said."""
    try:
        return decide(view.rows[name], view.members, now_s, policy.claim_timeout_s)
    except Exception as error:  # noqa: BLE001 - the edge of one job within the plan
        why = f"its records could not be judged ({type(error).__name__}: {error}); nothing is done about it"
        return Decision(note=Note(name, why, quarantined=True), alarm=f"{name}: {why}")


def _unrecorded(plan: Plan) -> Plan:
    """Until its epoch is recorded in the store a leader adopts, drains and revokes, but starts and cleans nothing."""
    allowed = tuple(action for action in plan.actions if isinstance(action, Drain | Revoke))
    held = tuple(
        Note(action.name, "waiting until this epoch is recorded in the store", pending=True)
        for action in plan.actions if action not in allowed
    )
    return Plan(allowed, (*plan.notes, *held), plan.alarms)
