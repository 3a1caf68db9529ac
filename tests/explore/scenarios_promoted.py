"""Scenarios of blue/green (``promoting``): one job takes the place of another, in every order with what may happen to either."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

INTEND, PROMOTE, UNDO = ("intend", "b", "a"), ("promote", "b", "a"), ("undo", "b", "a")
BACK = (("intend", "a", "b"), ("promote", "a", "b"))
CANCEL, SUBMIT = ("cancel", "a"), ("submit", "a", "u1-a")
BEGIN, FINISH = ("begin_fork", "b", "u1-b"), ("finish_fork", "b", "u1-b")
INTENDED = ("user intend b", "intend b: set_promotion")
DONE = (*INTENDED, "user promote b", "promote b: promote")

Promoted = partial(Scenario, running=("a", "b"), past=(INTEND,), script=INTENDED, faults=0, max_states=500)
Forked = partial(Scenario, running=("a",), faults=0, max_states=700)

PROMOTED: tuple[Scenario, ...] = (
    Promoted("promoted", "From the intent on.", ((INTEND, PROMOTE),), script=(), past=(), max_states=700),
    Promoted(
        "promoted, changed before",
        "The one that is to take the place is suspended or updated before the intent is stored.",
        ((INTEND,), (("revise", "b"), ("suspend", "b"))),
        script=(),
        past=(),
    ),
    Promoted(
        "intended, submitted anew",
        "The one that is to take the place is cancelled and submitted anew before the intent is stored.",
        ((INTEND,), (("cancel", "b"), ("submit", "b", "u1-b"))),
        script=(),
        past=(),
    ),
    Promoted(
        "promoted, the driver fails",
        "The driver of either fails at any step: of the one that takes the place, too.",
        ((PROMOTE,),),
        kinds=("fail driver",),
        faults=1,
    ),
    Promoted(
        "promoted, cancelled",
        "The one that is to take the place is cancelled.",
        ((PROMOTE,), (("cancel", "b"),)),
    ),
    Promoted(
        "promoted, suspended",
        "It is suspended, and resumed.",
        ((PROMOTE,), (("suspend", "b"), ("resume", "b"))),
    ),
    Promoted(
        "promoted, restarted", "Either is restarted.", ((PROMOTE,), (("restart", "b"), ("restart", "a")))
    ),
    Promoted("promoted, updated", "Either is updated.", ((PROMOTE,), (("revise", "b"), ("revise", "a")))),
    Promoted(
        "promoted, the other submitted anew",
        "The one whose place is taken is cancelled, and submitted anew.",
        ((PROMOTE,), (CANCEL, SUBMIT)),
    ),
    Promoted(
        "promoted, submitted anew itself",
        "The one that takes the place is cancelled, and submitted anew.",
        ((PROMOTE,), (("cancel", "b"), ("submit", "b", "u1-b"))),
    ),
    Promoted(
        "promoted, the other suspended",
        "The one whose place is taken is suspended by somebody else, and resumed.",
        ((PROMOTE,), (("suspend", "a"), ("resume", "a"))),
    ),
    Promoted(
        "promoted, withdrawn", "The intent is withdrawn, and given again.", ((PROMOTE,), (UNDO, INTEND))
    ),
    Promoted("promoted by two", "The same command twice.", ((PROMOTE,), (PROMOTE,))),
    Promoted(
        "promoted over each other",
        "Each is to take the place of the other: one of them does.",
        ((PROMOTE,), BACK),
        max_states=700,
    ),
    Promoted(
        "promoted, paused", "While the cluster is paused.", ((PROMOTE,), (("pause", ""), ("unpause", "")))
    ),
    Promoted(
        "promoted, a late answer",
        "The user is cut off, and what he sent arrives later.",
        ((PROMOTE,), (("suspend", "b"),)),
        kinds=("cut user",),
        faults=1,
    ),
    Promoted(
        "promoted, failover",
        "Supervisors are killed, one of them the leader.",
        ((PROMOTE,),),
        kinds=("kill supervisor",),
        faults=1,
    ),
    Promoted("promoted, host lost", "Either host is lost.", ((PROMOTE,),), kinds=("lose host",), faults=1),
    Promoted(
        "promoted, finished",
        "The driver of a bounded job ends while it takes a place.",
        ((("promote", "once", "a"),),),
        running=("a", "once"),
        past=(("intend", "once", "a"),),
        script=("user intend once", "intend once: set_promotion"),
        kinds=("end driver",),
        faults=1,
    ),
    Promoted(
        "undone",
        "A promotion is undone at any time after it.",
        ((UNDO,),),
        past=(INTEND, PROMOTE),
        script=DONE,
        kinds=("fail driver",),
        faults=1,
    ),
    Promoted(
        "undone by two",
        "Twice, and beside commands for both.",
        ((UNDO,), (UNDO, ("resume", "b"))),
        past=(INTEND, PROMOTE),
        script=DONE,
    ),
    Promoted(
        "undone, changed",
        "Either is changed meanwhile.",
        ((UNDO,), (("revise", "b"), ("revise", "a"))),
        past=(INTEND, PROMOTE),
        script=DONE,
    ),
    Promoted(
        "undone, starting",
        "The one that took the place is being started anew.",
        ((("restart", "b"), UNDO),),
        past=(INTEND, PROMOTE),
        script=DONE,
        kinds=("fail driver",),
        faults=1,
        max_states=1_500,
    ),
    Promoted(
        "undone, the other resumed",
        "It runs again already, and is suspended once more.",
        ((UNDO,), (("resume", "a"), ("suspend", "a"))),
        past=(INTEND, PROMOTE),
        script=DONE,
    ),
    Promoted(
        "undone, submitted anew",
        "Either is cancelled and submitted anew.",
        ((UNDO,), (CANCEL, SUBMIT, ("cancel", "b"), ("submit", "b", "u1-b"))),
        past=(INTEND, PROMOTE),
        script=DONE,
    ),
    # -- forks
    Forked("forked, updated", "Its spec is changed before.", ((BEGIN, FINISH), (("revise", "b"),))),
    # registered, and not started before the copy is complete
    Forked("forked", "By two at once.", ((BEGIN, FINISH), (FINISH, FINISH))),
    Forked(
        "forked, resumed",
        "Somebody resumes it before.",
        ((BEGIN, FINISH), (("resume", "b"), ("restart", "b"))),
    ),
    Forked(
        "forked, suspended",
        "It is suspended, and the command given again.",
        ((BEGIN, FINISH, ("suspend", "b")), (FINISH,)),
    ),
    Forked(
        "forked, cancelled",
        "It is cancelled, and the name submitted anew.",
        ((BEGIN, FINISH), (("cancel", "b"), ("submit", "b", "u2-b"))),
    ),
)
