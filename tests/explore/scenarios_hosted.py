"""Scenarios of hosts that are cordoned and drained, and of jobs that are moved, beside whatever else users and faults do."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

CORDON, UNCORDON, DRAIN, DRAIN_2 = (
    ("cordon", "", "s1"),
    ("uncordon", "", "s1"),
    ("drain", "", "s1"),
    ("drain", "", "s2"),
)
MOVE, BACK = ("move", "a", "s2"), ("move", "a", "s1")
CANCEL, SUSPEND, RESUME, RESTART, REVISE, SUBMIT = (
    ("cancel", "a"),
    ("suspend", "a"),
    ("resume", "a"),
    ("restart", "a"),
    ("revise", "a"),
    ("submit", "a", "u1-a"),
)
PAUSE, UNPAUSE = ("pause", ""), ("unpause", "")

Hosted = partial(Scenario, max_states=500)

HOSTED: tuple[Scenario, ...] = (
    # -- cordon
    Hosted("cordoned, the driver fails", "It is started elsewhere.", ((CORDON,),), kinds=("fail driver",)),
    Hosted("cordoned at the start", "At any moment of a start.", ((CORDON, UNCORDON),), settled=False),
    Hosted(
        "all cordoned",
        "Nothing is started until a host takes jobs again, and nothing stops.",
        ((CORDON,), (("cordon", "", "s2"),)),
        kinds=("fail driver",),
    ),
    Hosted(
        "all cordoned, restarted",
        "A restart stops nothing that nobody could start.",
        ((CORDON, RESTART), (("cordon", "", "s2"),)),
        faults=0,
    ),
    Hosted(
        "all cordoned, a new revision",
        "An update stops nothing that nobody could start.",
        ((CORDON, REVISE), (("cordon", "", "s2"),)),
        faults=0,
    ),
    Hosted(
        "restarted, its supervisor gone",
        "The driver lives on; a restart or an update stops it only once a host could start it.",
        ((RESTART, REVISE), (("cordon", "", "s2"),)),
        kinds=("kill supervisor",),
    ),
    Hosted(
        "cordoned and uncordoned by two",
        "Answers are lost, operators are cut off: no late write undoes a newer one.",
        ((CORDON, UNCORDON), (CORDON, UNCORDON)),
        kinds=("cut user", "lose reply", "lose request"),
    ),
    # -- drain
    Hosted("drained", "The job goes on elsewhere, and the leader hands over.", ((DRAIN,),), faults=0),
    Hosted(
        "drained, three jobs",
        "Two of them run on the host: one goes after the other.",
        ((DRAIN,),),
        running=("a", "b", "c"),
        faults=0,
        max_states=1_000,
    ),
    Hosted("drained at the start", "While an assignment is under way.", ((DRAIN,),), settled=False),
    Hosted("drained and uncordoned", "At any moment of it.", ((DRAIN, UNCORDON),), faults=0),
    Hosted("drained, the only host", "The job goes on.", ((DRAIN,),), supervisors=1, faults=0),
    Hosted(
        "both drained",
        "Two drains, and one host takes jobs again.",
        ((DRAIN,), (DRAIN_2, UNCORDON)),
        faults=0,
    ),
    Hosted("drained, cancelled", "A cancel at any step of it.", ((DRAIN,), (CANCEL, SUBMIT)), faults=0),
    Hosted(
        "drained, suspended", "Suspended and resumed at any step.", ((DRAIN,), (SUSPEND, RESUME)), faults=0
    ),
    Hosted("drained, restarted", "A restart at any step of it.", ((DRAIN,), (RESTART,)), faults=0),
    Hosted("drained, a new revision", "An update at any step of it.", ((DRAIN,), (REVISE,)), faults=0),
    Hosted("drained, paused", "A pause at any step of it.", ((DRAIN,), (PAUSE, UNPAUSE)), faults=0),
    Hosted("drained, the driver fails", "What runs fails at any step.", ((DRAIN,),), kinds=("fail driver",)),
    Hosted(
        "drained, shim stopped",
        "Its shim is stopped, or cut off.",
        ((DRAIN,),),
        kinds=("pause shim", "cut shim"),
    ),
    Hosted("drained, leader stopped", "The leader is stopped.", ((DRAIN,),), kinds=("pause supervisor",)),
    Hosted("drained, supervisor killed", "Supervisors are killed.", ((DRAIN,),), kinds=("kill supervisor",)),
    Hosted("drained, host lost", "Either host is lost.", ((DRAIN,),), kinds=("lose host",)),
    Hosted("drained, a write lost", "Writes of the leader are lost.", ((DRAIN,),), kinds=("lose action",)),
    Hosted("drained, a follower lags", "The leader reads an older state.", ((DRAIN,),), kinds=("lag",)),
    Hosted(
        "drained, unknown",
        "The operator is cut off, and gives it again.",
        ((DRAIN, DRAIN), (UNCORDON,)),
        kinds=("cut user", "lose reply", "lose request"),
    ),
    # -- move
    Hosted("moved", "Once.", ((MOVE,),), kinds=("fail driver",)),
    Hosted("moved there and back", "A move to where it runs withdraws it.", ((MOVE, BACK),), faults=0),
    Hosted("moved by two", "Two at once.", ((MOVE,), (BACK,)), faults=0),
    Hosted("moved at the start", "While an assignment is under way.", ((MOVE,),), settled=False),
    Hosted("moved, cancelled", "A cancel at any step of it.", ((MOVE,), (CANCEL, SUBMIT)), faults=0),
    Hosted("moved, suspended", "Suspended and resumed at any step.", ((MOVE,), (SUSPEND, RESUME)), faults=0),
    Hosted("moved, restarted", "A restart at any step of it.", ((MOVE,), (RESTART,)), faults=0),
    Hosted("moved, a new revision", "An update at any step of it.", ((MOVE,), (REVISE,)), faults=0),
    Hosted(
        "moved, its host is cordoned",
        "It goes on where it is, or has gone before.",
        ((MOVE,), (("cordon", "", "s2"),)),
        faults=0,
    ),
    Hosted("moved, its own host is drained", "It leaves once.", ((MOVE,), (DRAIN,)), faults=0),
    Hosted(
        "moved, finished",
        "The driver of a bounded job ends while it is moved.",
        ((("move", "once", "s2"),),),
        running=("once",),
        kinds=("end driver",),
    ),
    Hosted("moved, host lost", "Either host is lost.", ((MOVE,),), kinds=("lose host",)),
    Hosted("moved, leader stopped", "The leader is stopped.", ((MOVE,),), kinds=("pause supervisor",)),
    Hosted("moved, a write lost", "Writes of the leader are lost.", ((MOVE,),), kinds=("lose action",)),
    Hosted("moved, a follower lags", "The leader reads an older state.", ((MOVE,),), kinds=("lag",)),
    Hosted(
        "moved, unknown",
        "The user is cut off.",
        ((MOVE, BACK),),
        kinds=("cut user", "lose reply", "lose request"),
    ),
)
