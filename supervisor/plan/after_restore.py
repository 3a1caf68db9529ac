"""Says what an accepted restore means for the plan: nothing is started before the drivers of the lost state
are dead. It is pure.

``plan.make`` and ``plan.check`` call it. ZooKeeper was restored to an older state and an operator has
accepted it. Jobs that this registry does not know, or knows otherwise, may still have drivers: attempts of
the state that was lost. Their shims can't renew (their version of /own, or the claim in it, is not the one
here), so each driver is killed at its deadline, at most its lease after a renewal that committed before the
restore. So a leader that waits the full wait W of the longest lease there can be, from when it first saw the
acceptance, starts nothing beside them (protocol §6).

Each new leader counts the wait anew (which only makes it longer), until one of them has recorded that it is
over. Before that no attempt is started; draining, revoking and cleaning go on, and an attempt that renews is
left alone (I6).
"""

from __future__ import annotations

from supervisor.model.acceptance import wait_of_s, why_held
from supervisor.model.actions import Alarm, Assign, Note, Plan
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import View


def may_start(view: View) -> bool:
    """Decides whether anything may be started: nothing is, between an acceptance and the note of a leader
    that it has waited."""
    return view.accepted is None or (
        isinstance(view.accepted.seen, Found) and view.accepted.seen.record.waited
    )


def wait_left_s(view: View, now_s: float) -> float | None:
    """Returns the seconds until the wait after an acceptance is over. They are 0 if it is over and can be
    recorded, and None if it never will be over by itself."""
    if view.accepted is None or isinstance(view.accepted.seen, Unreadable):
        return None
    return max(0.0, view.accepted.first_seen_at_s + wait_of_s(view.accepted.seen.record) - now_s)


def hold_starts(view: View, plan: Plan, now_s: float) -> Plan:
    """Returns ``plan`` without its starts, each with the reason, and with ``waited_out`` once the wait is
    over."""
    assert view.accepted is not None
    left_s = wait_left_s(view, now_s)
    why = why_held(view.accepted.seen)
    held = [action for action in plan.actions if isinstance(action, Assign)]
    notes = tuple(Note(action.name, why, left_s, pending=True) for action in held)
    actions = tuple(action for action in plan.actions if not isinstance(action, Assign))
    accepted = view.accepted.seen
    over = accepted if isinstance(accepted, Found) and left_s == 0.0 else None
    return Plan(actions, (*plan.notes, *notes), (*plan.alarms, Alarm(why)), waited_out=over)
