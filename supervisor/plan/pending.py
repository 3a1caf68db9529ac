"""Says why each pending job is not started, from the plan that the leader makes.

``list`` and ``show`` ask it, by the same reading and the same settings as ``explain``. What keeps the leader
from acting counts in the order of ``plan.explain``: distrust, the pause, that nobody leads, and last that its
term is not recorded yet. It is pure.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.actions import Assign
from supervisor.model.state import JobState, Shown
from supervisor.model.view import View
from supervisor.plan.make import Policy, make_plan


def pending_reasons(
    view: View, policy: Policy, now_s: float, leader: str | None, *, pause_is_shown: bool = False
) -> dict[str, Shown]:
    """Returns by name the state that is shown of a job which its records alone show as pending: pending, or
    quarantined where only the plan can know it (the policy of the site), and why the plan does not start it,
    or that it is about to.

    ``leader`` is None if nobody leads. With ``pause_is_shown``, the pause is shown once, elsewhere; so the
    reasons are those that there are besides.
    """
    if view.paused or leader is None:
        view = replace(view, recorded=True)
    waits_for_unpause = view.paused and pause_is_shown
    if waits_for_unpause:
        view = replace(view, paused=False, pause=None)
    plan = make_plan(view, policy, now_s)
    states = {True: JobState.QUARANTINED, False: JobState.PENDING}
    reasons = {note.name: Shown(states[note.quarantined], note.why) for note in plan.notes}
    for action in plan.actions:
        if isinstance(action, Assign):
            wait = (
                "waiting for the leader to assign it"
                if leader is not None
                else "but no supervisor leads at the moment"
            )
            room = f"there is room on {action.host.id}, {wait}"
            reasons[action.name] = Shown(
                JobState.PENDING,
                f"starts on {action.host.id} when the pause ends" if waits_for_unpause else room,
            )
    return reasons
