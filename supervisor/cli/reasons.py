"""Finds why a job is pending: what the leader's own plan says of it, made here from a fresh view.

Called by ``list`` and ``show``. The plan is pure, so anybody can ask it; nothing of it is carried out.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.clock import boottime_s, wall_s
from supervisor.model.actions import Assign
from supervisor.model.records import LeaderHint
from supervisor.model.seen import Found, Seen
from supervisor.model.view import View
from supervisor.observe.listing import aged
from supervisor.plan.make import Policy, make_plan
from supervisor.spec.site_policy import SitePolicy


def reasons_of(
    view: View, leader: Seen[LeaderHint], site: SitePolicy, *, pause_is_shown: bool = False
) -> dict[str, str]:
    """Returns by name why the plan does not start the job, or that it is about to.

    ``leader`` is what /leader says, None if nobody leads. ``site`` comes from this command's configuration.
    With ``pause_is_shown``, the pause is shown once, elsewhere; so the reasons are those that there are
    besides.
    """
    now_s, has_leader = boottime_s(), leader is not None
    waits_for_unpause = view.paused and pause_is_shown
    if waits_for_unpause:
        view = replace(view, paused=False, pause=None)
    if isinstance(leader, Found):
        view = replace(view, distrust=leader.record.distrust)
    plan = make_plan(aged(view, now_s, wall_s()), Policy(site=site), now_s)
    reasons = {note.name: note.why for note in plan.notes}
    for action in plan.actions:
        if isinstance(action, Assign):
            wait = (
                "waiting for the leader to assign it"
                if has_leader
                else "but no supervisor leads at the moment"
            )
            room = f"there is room on {action.host.id}, {wait}"
            reasons[action.name] = (
                f"starts on {action.host.id} when the pause ends" if waits_for_unpause else room
            )
    return reasons
