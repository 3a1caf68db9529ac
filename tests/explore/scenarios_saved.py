"""Scenarios with updates that are rolled back to a savepoint (``way_back``): before the hand-over, and after the failure."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

SAVED, SUBMIT_INSIDE = ("revise", "a", "savepoint"), ("submit", "within", "u1-within")
CANCEL, RESTART, REVISE = ("cancel", "a"), ("restart", "a"), ("revise", "a")
SUSPEND, RESUME, ROLL_BACK = ("suspend", "a"), ("resume", "a"), ("roll_back", "a")
PAUSE, UNPAUSE = ("pause", ""), ("unpause", "")

FAILED = (
    "user revise a",
    "user revise a: update",
    "keep_savepoint a",
    "drain a",
    "assign a: to be started again",
    "executes its driver",
    "driver u0-a.2 fails",
)
"""A savepoint was kept, the hand-over is done, and the target has failed."""

Before = partial(Scenario, prepares=1, max_states=700)
After = partial(
    Scenario,
    prepares=1,
    past=(SAVED,),
    script=FAILED,
    reasons=2,
    kinds=("fail driver",),
    max_states=500,
)

SAVEPOINTED: tuple[Scenario, ...] = (
    Before(
        "saved", "A savepoint is made and kept before the hand-over, or the update is given up.", ((SAVED,),)
    ),
    Before(
        "saved, the driver fails",
        "What runs fails at any step.",
        ((SAVED,),),
        kinds=("fail driver",),
        faults=2,
    ),
    Before("saved, cancelled", "A cancel at any step of it.", ((SAVED,), (CANCEL,)), faults=0),
    Before("saved, suspended", "Suspended and resumed at any step.", ((SAVED,), (SUSPEND, RESUME)), faults=0),
    Before("saved, restarted", "A restart at any step of it.", ((SAVED,), (RESTART,)), faults=0),
    Before(
        "saved, updated again", "The second update has a savepoint of its own.", ((SAVED, SAVED),), faults=0
    ),
    Before("saved, rolled back by hand", "At any step.", ((SAVED, ROLL_BACK),), kinds=("fail driver",)),
    Before("saved, paused", "A pause at any step of it.", ((SAVED,), (PAUSE, UNPAUSE)), faults=0),
    Before("saved, leader stopped", "The leader is stopped.", ((SAVED,),), kinds=("pause supervisor",)),
    Before("saved, supervisor killed", "Supervisors are killed.", ((SAVED,),), kinds=("kill supervisor",)),
    Before("saved, host lost", "Either host is lost.", ((SAVED,),), kinds=("lose host",)),
    Before("saved, a write lost", "Writes of the leader are lost.", ((SAVED,),), kinds=("lose action",)),
    Before("saved, a follower lags", "The leader reads an older state.", ((SAVED,),), kinds=("lag",)),
    Before(
        "saved, nowhere to go",
        "The only host that may have it loses its supervisor: the hand-over waits, and the savepoint goes.",
        ((("revise", "second", "savepoint"),),),
        running=("second",),
        kinds=("kill supervisor",),
        max_states=500,
    ),
    Before(
        "updated before it ever ran",
        "What is applied right after the submit fails: there is nothing to go back to.",
        ((("revise", "a", "continue"),),),
        settled=False,
        kinds=("fail driver",),
        faults=2,
        max_states=500,
    ),
    After(
        "back to a savepoint", "It is rolled back to the copy, or tried again where there is none.", faults=2
    ),
    After(
        "back to a savepoint, cancelled",
        "A cancel at any step: nothing is left of either place.",
        ((CANCEL,),),
    ),
    After("back to a savepoint, suspended", "Suspended and resumed at any step.", ((SUSPEND, RESUME),)),
    After("back to a savepoint, restarted", "A restart at any step: it is tried once more.", ((RESTART,),)),
    After(
        "back to a savepoint, updated again",
        "The next spec is applied at any step.",
        ((SAVED,),),
        max_states=1_000,
    ),
    After("back to a savepoint, rolled back by hand", "By the leader or by hand, but once.", ((ROLL_BACK,),)),
    After("back to a savepoint, paused", "A pause at any step of it.", ((PAUSE, UNPAUSE),)),
    After(
        "back to a savepoint, leader stopped",
        "The leader is stopped, and another one goes on.",
        kinds=("fail driver", "pause supervisor"),
        max_states=1_500,
    ),
    After(
        "back to a savepoint, supervisor killed",
        "Supervisors are killed.",
        kinds=("fail driver", "kill supervisor"),
    ),
    After("back to a savepoint, host lost", "Either host is lost.", kinds=("fail driver", "lose host")),
    After(
        "back to a savepoint, a write lost",
        "Writes of the leader are lost.",
        kinds=("fail driver", "lose action"),
    ),
    After(
        "back to a savepoint, a follower lags",
        "The leader reads an older state.",
        kinds=("fail driver", "lag"),
    ),
    After(
        "back to a savepoint, beside a submission",
        "Somebody submits a job whose place lies inside that of the copy.",
        ((SUBMIT_INSIDE,),),
        removes=True,
        max_states=1_500,
    ),
)
