"""Scenarios with prepared drivers (``preparing``): the opening of a barrier takes exec's place, in every order with what may go wrong."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

SUBMIT, CANCEL, RESTART = ("submit", "a", "u1-a"), ("cancel", "a"), ("restart", "a")
SUSPEND, RESUME, REVISE = ("suspend", "a"), ("resume", "a"), ("revise", "a")
ROLL_BACK, PAUSE, UNPAUSE = ("roll_back", "a"), ("pause", ""), ("unpause", "")
BROUGHT_UP = ("prepares a driver for u0-a",)
HANDED = (*BROUGHT_UP, "driver u0-a.1 fails", "hands u0-a.2")
"""A driver was prepared beside the one that runs, which fails; the next attempt is handed over."""

Prepared = partial(Scenario, prepares=1, script=BROUGHT_UP, kinds=("fail driver",), max_states=700)

Updated = partial(Scenario, prepares=1, max_states=1_000)

OBSERVED, CLEANLY = ("revise", "a", "continue"), ("revise", "a", "clean")
BEGUN = ("user revise a", "user revise a: update", "assign a: to be started again", "executes its driver")
"""The first attempt of the new revision has begun."""

FAILED = (*BEGUN[:-1], "driver u0-a.2 fails")
"""It has failed, while it was observed."""

Observed = partial(Scenario, prepares=1, past=(OBSERVED,), script=BEGUN, reasons=1, max_states=500)

Failed = partial(
    Scenario,
    prepares=1,
    past=(OBSERVED,),
    script=FAILED,
    reasons=2,
    kinds=("fail driver",),
    max_states=500,
)

PREPARED: tuple[Scenario, ...] = (
    Prepared(
        "prepared, first start",
        "A job is submitted, and its first attempt goes to a driver that was prepared for it.",
        ((SUBMIT,),),
        running=(),
        script=(),
        kinds=("pause shim", "fail driver"),
        max_states=2_000,
    ),
    Prepared(
        "prepared, restart",
        "The running driver is stopped, and the next attempt handed over.",
        ((RESTART,),),
        faults=0,
        max_states=3_000,
    ),
    Prepared(
        "prepared, failure", "The running driver fails; the prepared one may die at any time.", faults=2
    ),
    Prepared(
        "prepared, shim killed",
        "The shim of either is killed, and its twin.",
        ((RESTART,),),
        kinds=("fail driver", "kill shim", "kill twin"),
        faults=2,
    ),
    Prepared(
        "prepared, shim stopped",
        "The shim of either is stopped, at the opening too.",
        ((RESTART,),),
        kinds=("fail driver", "pause shim"),
        max_states=1_500,
    ),
    Prepared(
        "prepared, shim cut off",
        "The shim that was handed an attempt cannot hear.",
        ((RESTART,),),
        kinds=("fail driver", "cut shim"),
    ),
    Prepared(
        "prepared, answers lost",
        "Answers to its claim are lost.",
        ((RESTART,),),
        kinds=("fail driver", "lose reply", "lose request"),
        max_states=1_500,
    ),
    Prepared(
        "prepared, session ends",
        "Its session ends at any step.",
        ((RESTART,),),
        kinds=("fail driver", "expire shim"),
    ),
    Prepared(
        "prepared, cancelled", "Cancelled at any step.", ((RESTART, CANCEL),), faults=0, max_states=2_000
    ),
    Prepared(
        "prepared, cancelled, shim stopped",
        "Cancelled while the shim that was handed an attempt is stopped.",
        ((CANCEL,),),
        kinds=("fail driver", "pause shim"),
        script=HANDED,
    ),
    Prepared(
        "prepared, cancelled, shim killed",
        "Cancelled while the shim that was handed an attempt is killed.",
        ((CANCEL,),),
        kinds=("fail driver", "kill shim", "kill twin"),
        script=HANDED,
        faults=2,
    ),
    Prepared(
        "prepared, submitted anew",
        "Cancelled and submitted anew: the driver was prepared for the uid that is gone.",
        ((CANCEL, SUBMIT),),
        faults=0,
    ),
    Prepared(
        "prepared, suspended",
        "Suspended and resumed at any step.",
        ((SUSPEND, RESUME),),
        kinds=("fail driver", "pause shim"),
    ),
    Prepared(
        "prepared, a new revision",
        "The revision changes: a driver of the old one is never handed the new one.",
        ((REVISE,),),
        kinds=("fail driver",),
    ),
    Prepared(
        "prepared, leader stopped",
        "The leader, who is the agent too, is stopped at any step.",
        ((RESTART,),),
        kinds=("fail driver", "pause supervisor"),
    ),
    Prepared(
        "prepared, supervisor killed",
        "Agent and leader are killed and started again at any step.",
        ((RESTART,),),
        kinds=("fail driver", "kill supervisor"),
    ),
    Prepared(
        "prepared, host lost", "Either host is lost.", ((RESTART,),), kinds=("fail driver", "lose host")
    ),
    Prepared(
        "prepared, two of them",
        "Two were prepared for one job; the attempt goes to either, or to neither.",
        ((RESTART,),),
        prepares=2,
        kinds=("fail driver", "kill shim"),
        max_states=1_500,
    ),
    Prepared(
        "prepared, started cold",
        "The attempt is started cold all the same, twice by an agent that was started again.",
        ((RESTART,),),
        kinds=("fail driver", "second shim"),
        faults=2,
    ),
    Prepared(
        "prepared, a write lost",
        "Writes of the leader are lost.",
        ((RESTART,),),
        kinds=("fail driver", "lose action"),
    ),
    Prepared(
        "prepared, a follower lags",
        "The leader reads from a follower that stands still.",
        ((RESTART,),),
        kinds=("fail driver", "lag"),
    ),
    # -- updates: a driver of the new revision may be prepared, or the leader gives the update up
    Updated("updated", "Nothing is stopped, or the next attempt is of the new revision.", ((REVISE,),)),
    Updated("updated twice", "The second replaces the first.", ((REVISE, REVISE),), faults=0),
    Updated("updated by two", "Two at once: one is told to try again.", ((REVISE,), (REVISE,)), faults=0),
    Updated(
        "updated, rolled back",
        "At any step: before anything was stopped, or after.",
        ((REVISE, ROLL_BACK),),
        kinds=("fail driver",),
        max_states=2_000,
    ),
    Updated("updated, restarted", "A restart at any step of it.", ((REVISE,), (RESTART,)), faults=0),
    Updated("updated, cancelled", "A cancel at any step of it.", ((REVISE,), (CANCEL,)), faults=0),
    Updated(
        "updated, suspended", "Suspended and resumed at any step.", ((REVISE,), (SUSPEND, RESUME)), faults=0
    ),
    Updated(
        "updated, the driver fails", "What runs fails at any step.", ((REVISE,),), kinds=("fail driver",)
    ),
    Updated("updated, shim stopped", "Its shim is stopped.", ((REVISE,),), kinds=("pause shim",)),
    Updated("updated, leader stopped", "The leader is stopped.", ((REVISE,),), kinds=("pause supervisor",)),
    Updated(
        "updated, supervisor killed", "Supervisors are killed.", ((REVISE,),), kinds=("kill supervisor",)
    ),
    Updated("updated, host lost", "Either host is lost.", ((REVISE,),), kinds=("lose host",)),
    Updated("updated, a write lost", "Writes of the leader are lost.", ((REVISE,),), kinds=("lose action",)),
    Updated("updated, a follower lags", "The leader reads an older state.", ((REVISE,),), kinds=("lag",)),
    Updated("updated, paused", "A pause at any step of it.", ((REVISE,), (PAUSE, UNPAUSE)), faults=0),
    Updated(
        "updated, finished",
        "The driver of a bounded job ends while its spec is changed.",
        ((("revise", "once"),),),
        running=("once",),
        supervisors=1,
        kinds=("end driver",),
    ),
    # -- updates that are judged: what fails while it is observed is rolled back, once
    Observed("observed", "It runs for long enough, or fails, at any step.", kinds=("fail driver",)),
    Observed("observed, updated again", "The next spec is applied at any step.", ((OBSERVED,),), faults=0),
    Observed("observed, paused", "A pause at any step of it.", ((PAUSE, UNPAUSE),), faults=0),
    Observed(
        "observed, leader stopped",
        "The leader is stopped, and another one observes anew.",
        kinds=("pause supervisor",),
        max_states=1_000,
    ),
    Observed("observed, a write lost", "Writes of the leader are lost.", kinds=("lose action",)),
    Failed("failed", "It is rolled back; what it goes back to may fail, too.", faults=2),
    Failed("failed, cancelled", "A cancel at any step of it.", ((CANCEL,),)),
    Failed("failed, suspended", "Suspended and resumed at any step.", ((SUSPEND, RESUME),)),
    Failed("failed, restarted", "A restart at any step: it is tried once more.", ((RESTART,),)),
    Failed(
        "failed, updated again", "The next spec is applied at any step.", ((OBSERVED,),), max_states=1_000
    ),
    Failed("failed, rolled back by hand", "By the leader or by hand, but once.", ((ROLL_BACK,),)),
    Failed("failed, paused", "A pause at any step of it.", ((PAUSE, UNPAUSE),)),
    Failed(
        "failed, leader stopped",
        "The leader is stopped, and another one goes on.",
        kinds=("fail driver", "pause supervisor"),
        max_states=1_500,
    ),
    Failed("failed, supervisor killed", "Supervisors are killed.", kinds=("fail driver", "kill supervisor")),
    Failed("failed, host lost", "Either host is lost.", kinds=("fail driver", "lose host")),
    Failed("failed, a write lost", "Writes of the leader are lost.", kinds=("fail driver", "lose action")),
    Failed("failed, a follower lags", "The leader reads an older state.", kinds=("fail driver", "lag")),
    Failed(
        "failed, clean or not",
        "It is rolled back only where it has left nothing; else it is tried again.",
        past=(CLEANLY,),
        faults=2,
    ),
    # -- deep: an attempt was handed over; what follows, to its end
    Prepared(
        "handed over, stopped and killed",
        "The shim is stopped or killed at every step from the hand-over to the first batch.",
        kinds=("fail driver", "pause shim", "kill shim", "kill twin"),
        script=HANDED,
        faults=2,
        max_states=3_000,
    ),
    Prepared(
        "handed over, cut off",
        "It cannot hear, and late requests arrive.",
        kinds=("fail driver", "cut shim", "kill shim"),
        script=HANDED,
        faults=2,
        max_states=2_000,
    ),
    Prepared(
        "handed over, agent killed",
        "The agent is killed, or its host lost.",
        kinds=("fail driver", "kill supervisor", "lose host"),
        script=HANDED,
        faults=2,
    ),
)
