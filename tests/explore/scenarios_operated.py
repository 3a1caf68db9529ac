"""Scenarios of what an operator asks of the whole cluster: a pause, a hand-over, the acceptance of a restored registry."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.explore.scenario import Scenario

PAUSE, UNPAUSE, HAND_OVER = ("pause", ""), ("unpause", ""), ("switchover", "")
CANCEL, SUBMIT, SUSPEND, RESTART = (
    ("cancel", "a"),
    ("submit", "a", "u1-a"),
    ("suspend", "a"),
    ("restart", "a"),
)

ACCEPT = (("accept", ""),)
RESTORED: dict[str, Any] = {
    "settled": False,
    "replaceable": True,
    "faults": 0,
    "kinds": ("restore registry",),
}

Operated = partial(Scenario, max_states=400)
"""Where the quick bounds end: there are many, and most of what they show is near."""

OPERATED: tuple[Scenario, ...] = (
    # -- pause
    Operated(
        "paused",
        "The cluster is paused and goes on, while the driver fails.",
        ((PAUSE, UNPAUSE),),
        kinds=("fail driver",),
    ),
    Operated(
        "paused, leader stopped",
        "A stopped leader has plans from before the pause; a job is cancelled and submitted anew.",
        ((PAUSE, UNPAUSE), (CANCEL, SUBMIT)),
        kinds=("pause supervisor",),
    ),
    Operated(
        "paused at the start",
        "At any moment of a start: a claim is under way.",
        ((PAUSE, UNPAUSE),),
        settled=False,
        kinds=("pause shim",),
    ),
    Operated(
        "paused, unknown",
        "Outcomes of pauses stay unknown, two operators disagree.",
        ((PAUSE, UNPAUSE), (PAUSE, UNPAUSE)),
        kinds=("cut user", "lose reply", "lose request"),
    ),
    Operated(
        "paused again, unknown",
        "An unpause whose user is cut off arrives when another operator has paused anew.",
        ((PAUSE, UNPAUSE), (UNPAUSE, PAUSE)),
        kinds=("cut user",),
        faults=1,
    ),
    Operated(
        "paused, shim cut off",
        "An attempt falls silent while the cluster is paused: nobody waits it out.",
        ((PAUSE, UNPAUSE),),
        kinds=("cut shim",),
    ),
    Operated(
        "paused, leader killed",
        "The leader is killed while the cluster is paused: the next one acts on nothing.",
        ((PAUSE, UNPAUSE), (CANCEL,)),
        kinds=("kill supervisor",),
    ),
    Operated(
        "paused, restarted", "A restart, at any moment of a pause.", ((PAUSE, UNPAUSE), (RESTART,)), faults=0
    ),
    Operated(
        "paused at the start, restarted",
        "And while an assignment is under way.",
        ((PAUSE, UNPAUSE), (RESTART,)),
        settled=False,
        faults=0,
    ),
    Operated(
        "paused, finished",
        "A bounded job ends while the cluster is paused.",
        ((PAUSE, UNPAUSE),),
        running=("once",),
        kinds=("end driver",),
    ),
    Operated(
        "paused, worn out",
        "A budget is spent while the cluster is paused.",
        ((PAUSE, UNPAUSE),),
        running=("weary",),
        kinds=("fail driver",),
    ),
    Operated(
        "paused, cancelled",
        "A job is cancelled while the cluster is paused: its shim obeys, its leftovers wait.",
        ((PAUSE, UNPAUSE), (CANCEL,)),
        faults=0,
    ),
    Operated(
        "paused, suspended",
        "Suspended while the shim can't hear: nobody buries its attempt during the pause.",
        ((SUSPEND, PAUSE),),
        faults=0,
        kinds=("cut shim",),
        script=("shim u0-a.1 is cut off",),
    ),
    Operated(
        "paused, host lost",
        "A host loses power while the cluster is paused.",
        ((PAUSE, UNPAUSE),),
        kinds=("lose host",),
    ),
    # -- switchover
    Operated(
        "switchover",
        "The leader hands over, to anybody; answers and requests are lost.",
        ((HAND_OVER, HAND_OVER),),
        kinds=("lose reply", "lose request"),
    ),
    Operated(
        "switchover to one of three",
        "To one that is stopped, killed or lost just then.",
        ((("switchover", "", "s3"),),),
        supervisors=3,
        kinds=("pause supervisor", "kill supervisor", "lose host"),
    ),
    Operated(
        "switchover, leader cut off",
        "Asked for while the leader can't hear.",
        ((HAND_OVER, HAND_OVER),),
        kinds=("cut supervisor", "lose election"),
    ),
    Operated(
        "switchover, twice at once",
        "Two operators ask, one is cut off: a wish for a term that is over may arrive late.",
        ((HAND_OVER,), (("switchover", "", "s1"),)),
        kinds=("cut user",),
        faults=2,
    ),
    Operated(
        "switchover while paused",
        "And a job is cancelled.",
        ((PAUSE, HAND_OVER, UNPAUSE), (CANCEL,)),
        faults=0,
    ),
    # -- acceptance
    Operated(
        "accepted",
        "A restored registry is accepted while a driver of the lost state lives.",
        (ACCEPT,),
        **RESTORED,
        script=("the registry is saved", "shim u0-a.1: executes", "ZooKeeper is restored"),
    ),
    Operated(
        "accepted, an assignment restored",
        "What a dead host had been given is there again, and another one runs the job.",
        (ACCEPT,),
        **{**RESTORED, "kinds": ("restore registry", "kill supervisor")},
        script=(
            "assign a: committed",
            "the registry is saved",
            "s1 is killed",
            "shim u0-a.2: executes",
            "time goes on",
            "ZooKeeper is restored",
        ),
    ),
    Operated(
        "accepted twice",
        "By two operators, one of them cut off.",
        (ACCEPT, ACCEPT),
        **{**RESTORED, "faults": 1, "kinds": ("restore registry", "cut user")},
        script=("the registry is saved", "shim u0-a.1: executes", "ZooKeeper is restored"),
    ),
    Operated(
        "accepted, leader killed",
        "The leader is killed or stopped during the wait.",
        (ACCEPT,),
        **{**RESTORED, "faults": 1, "kinds": ("restore registry", "kill supervisor", "pause supervisor")},
        script=("the registry is saved", "shim u0-a.1: executes", "ZooKeeper is restored"),
    ),
    Operated(
        "accepted while paused",
        "The wait goes on during a pause, and is noted after it.",
        (ACCEPT, (PAUSE, UNPAUSE)),
        **RESTORED,
        script=("the registry is saved", "shim u0-a.1: executes", "ZooKeeper is restored"),
    ),
)
