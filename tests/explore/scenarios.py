"""The family of scenarios: each a small declaration, as data. Jobs run on s1 at the beginning, and s1 leads."""

from __future__ import annotations

from tests.explore.scenario import Scenario
from tests.explore.scenarios_executors import EXECUTED
from tests.explore.scenarios_hosted import HOSTED
from tests.explore.scenarios_more import MORE
from tests.explore.scenarios_operated import OPERATED
from tests.explore.scenarios_prepared import PREPARED
from tests.explore.scenarios_promoted import PROMOTED
from tests.explore.scenarios_refused import REFUSED
from tests.explore.scenarios_removed import REMOVED
from tests.explore.scenarios_saved import SAVEPOINTED
from tests.explore.scenarios_swept import SWEPT

SUBMIT, CANCEL, SUSPEND, RESUME = ("submit", "a", "u1-a"), ("cancel", "a"), ("suspend", "a"), ("resume", "a")
RESTART, REVISE = ("restart", "a"), ("revise", "a")
LOST = ("lose reply", "lose request")
WHOLE = 6_000
"""Bound of those that are worth their time in CI to the last state."""

SCENARIOS: tuple[Scenario, ...] = (
    # -- one user, and what the network does to his commands
    Scenario(
        "submit", "A job is submitted; an answer or a request is lost.", ((SUBMIT,),), running=(), kinds=LOST
    ),
    Scenario(
        "submit twice",
        "Two users submit the same spec at once; answers and requests are lost.",
        ((SUBMIT,), (("submit", "a", "u2-a"),)),
        running=(),
        kinds=LOST,
        max_states=WHOLE,
    ),
    Scenario(
        "submitted again, unknown",
        "A submit whose outcome is unknown is given again; the first one may still arrive.",
        ((SUBMIT, ("submit", "a", "u2-a")),),
        running=(),
        kinds=("cut user", *LOST),
        faults=2,
    ),
    Scenario(
        "the same submit again",
        "The very same submission, uid and all, is tried again, while another user cancels.",
        ((SUBMIT, SUBMIT), (CANCEL,)),
        running=(),
        kinds=("cut user",),
    ),
    Scenario(
        "commands unknown",
        "Whoever cancels and submits anew is told that the outcome is unknown; late requests arrive.",
        ((CANCEL, SUBMIT),),
        kinds=("cut user",),
        faults=2,
    ),
    Scenario(
        "suspend unknown",
        "Outcomes of suspend and resume stay unknown, another user cancels; late requests arrive.",
        ((SUSPEND, RESUME), (CANCEL,)),
        kinds=("cut user",),
    ),
    Scenario(
        "submit and cancel",
        "One submits, another one cancels, at any moment of the start.",
        ((SUBMIT,), (CANCEL,)),
        running=(),
        faults=0,
        kinds=LOST,
    ),
    Scenario(
        "cancel", "A running job is cancelled; answers and requests are lost.", ((CANCEL,),), kinds=LOST
    ),
    Scenario(
        "cancel twice",
        "Two users cancel at once, slowly.",
        ((CANCEL,), (CANCEL,)),
        kinds=LOST,
        slow_users=True,
        faults=0,
    ),
    Scenario(
        "slow cancel",
        "The cancel is under way for any time, while the driver fails and is started again.",
        ((CANCEL,),),
        kinds=("fail driver",),
        slow_users=True,
    ),
    # -- cancel, and what the host does
    Scenario(
        "cancel, shim stopped",
        "A cancel while the shim is stopped.",
        ((CANCEL,),),
        kinds=("pause shim",),
        max_states=WHOLE,
    ),
    Scenario(
        "cancel, shim killed",
        "A cancel while the shim, and maybe its twin, is killed.",
        ((CANCEL,),),
        kinds=("kill shim", "kill twin"),
        faults=2,
    ),
    Scenario(
        "cancel, shim cut off",
        "A cancel while the shim cannot hear; late requests arrive.",
        ((CANCEL,),),
        kinds=("cut shim",),
    ),
    Scenario(
        "cancel, leader stopped", "A cancel during a failover.", ((CANCEL,),), kinds=("pause supervisor",)
    ),
    Scenario(
        "cancel, leader killed",
        "A cancel while the leader is killed and started again.",
        ((CANCEL,),),
        kinds=("kill supervisor",),
    ),
    Scenario(
        "cancel without a supervisor",
        "The only supervisor is killed; shims obey a cancel all the same.",
        ((CANCEL,),),
        supervisors=1,
        kinds=("kill supervisor",),
        max_states=WHOLE,
    ),
    Scenario(
        "cancel at the start",
        "A cancel at any moment of the start, the shim stopped.",
        ((CANCEL,),),
        kinds=("pause shim",),
        settled=False,
    ),
    # -- the same name again
    Scenario(
        "submitted anew", "Cancelled, and the name submitted again at once.", ((CANCEL, SUBMIT),), kinds=LOST
    ),
    Scenario(
        "submitted anew, shim stopped",
        "The old shim is stopped meanwhile.",
        ((CANCEL, SUBMIT),),
        kinds=("pause shim",),
    ),
    Scenario(
        "submitted anew, shim killed",
        "The old shim is killed meanwhile.",
        ((CANCEL, SUBMIT),),
        kinds=("kill shim", "kill twin"),
    ),
    Scenario(
        "submitted anew, leader stopped",
        "A stale leader still has plans for the old one.",
        ((CANCEL, SUBMIT),),
        kinds=("pause supervisor",),
    ),
    Scenario(
        "submitted anew, two leaders",
        "/leader is removed by hand: two lead with living sessions.",
        ((CANCEL, SUBMIT),),
        kinds=("remove leader", "lose action"),
    ),
    # -- suspend, resume, restart, new revision
    Scenario(
        "suspend and resume",
        "Stopped and started by a user; the shim is stopped meanwhile.",
        ((SUSPEND, RESUME),),
        kinds=("pause shim",),
    ),
    Scenario(
        "suspend without a supervisor",
        "The only supervisor is killed; the shim obeys.",
        ((SUSPEND,),),
        supervisors=1,
        kinds=("kill supervisor",),
    ),
    Scenario(
        "suspend at the start",
        "At any moment of the start, and resumed.",
        ((SUSPEND, RESUME),),
        settled=False,
        faults=0,
        kinds=("pause shim",),
    ),
    Scenario("restart", "A restart while the shim is stopped.", ((RESTART,),), kinds=("pause shim",)),
    Scenario(
        "restart, leader stopped", "A restart during a failover.", ((RESTART,),), kinds=("pause supervisor",)
    ),
    Scenario(
        "new revision",
        "A new revision, and a cancel by another user.",
        ((REVISE,), (CANCEL,)),
        kinds=("lose action",),
        max_states=WHOLE,
    ),
    # -- shims and drivers
    Scenario(
        "shim stopped",
        "A shim is stopped for any time; its job starts elsewhere or goes on.",
        kinds=("pause shim",),
        faults=2,
    ),
    Scenario(
        "starting, shim stopped",
        "The shim is stopped at any moment: before its claim, before exec, after it.",
        kinds=("pause shim",),
        settled=False,
        max_states=WHOLE,
    ),
    Scenario(
        "starting, two shims",
        "Two shims for one entry.",
        kinds=("second shim", "pause shim"),
        settled=False,
        faults=1,
        max_states=WHOLE,
    ),
    Scenario(
        "starting, requests lost",
        "Requests and answers of the shim are lost during its start.",
        kinds=LOST,
        settled=False,
    ),
    Scenario(
        "starting, shim cut off",
        "The shim is cut off during its start.",
        kinds=("cut shim",),
        settled=False,
        max_states=WHOLE,
    ),
    Scenario(
        "starting, shim cut off twice",
        "Cut off during its start, and again.",
        kinds=("cut shim",),
        faults=2,
        settled=False,
    ),
    Scenario(
        "shim killed",
        "The shim, its twin or both are killed.",
        kinds=("kill shim", "kill twin"),
        faults=2,
        max_states=WHOLE,
    ),
    Scenario(
        "shim stopped, no guardian",
        "Its supervisor is killed: the twin is the one that remains.",
        kinds=("pause shim", "kill supervisor"),
        faults=2,
        supervisors=2,
    ),
    Scenario(
        "twin killed, shim stopped",
        "The guardian is the one that remains.",
        kinds=("pause shim", "kill twin"),
        faults=2,
    ),
    Scenario("shim cut off", "No renewal gets through; late ones do.", kinds=("cut shim",)),
    Scenario(
        "session of the shim",
        "Its session ends, once or twice: no reason to disturb the driver.",
        kinds=("expire shim",),
        faults=2,
    ),
    Scenario(
        "driver fails",
        "The driver fails, and answers of the shim are lost.",
        kinds=("fail driver", *LOST),
        faults=1,
    ),
    Scenario(
        "finished",
        "A bounded job ends by itself while leaders change (FLINK-2354).",
        running=("once",),
        kinds=("end driver", "pause supervisor"),
        faults=2,
    ),
    Scenario(
        "finished, changed",
        "A bounded job ends by itself while its user suspends and resumes it.",
        ((("suspend", "once"), ("resume", "once")),),
        running=("once",),
        supervisors=1,
        kinds=("end driver",),
    ),
    Scenario(
        "failed for good",
        "The budget is spent; the job is resumed and cancelled.",
        ((("resume", "brittle"),), (("cancel", "brittle"),)),
        running=("brittle",),
        kinds=("fail driver",),
        faults=2,
    ),
    # -- leaders and hosts
    Scenario(
        "leader stopped",
        "Stopped, deposed, and awake again: no driver is disturbed.",
        kinds=("pause supervisor",),
        faults=1,
        max_states=WHOLE,
    ),
    Scenario(
        "leader killed",
        "Killed and started again: no driver is disturbed.",
        kinds=("kill supervisor",),
        max_states=WHOLE,
    ),
    Scenario(
        "leader cut off",
        "Cut off and connected again: no driver is disturbed.",
        kinds=("cut supervisor",),
        max_states=WHOLE,
    ),
    Scenario(
        "elections lost", "Answers to elections are lost.", kinds=("remove leader", "lose election"), faults=2
    ),
    Scenario(
        "three supervisors",
        "Two changes of leader among three.",
        supervisors=3,
        kinds=("remove leader",),
        faults=2,
    ),
    Scenario(
        "late plans",
        "The leader is stopped between two reads, while the shim is cut off.",
        kinds=("pause supervisor", "cut shim"),
        faults=2,
        split=True,
    ),
    Scenario(
        "slow readings",
        "The leader's reads take long, while the shim is cut off.",
        kinds=("cut shim",),
        split=True,
    ),
    Scenario(
        "stale readings",
        "The leader reads from a follower that stands still, while the shim is stopped.",
        kinds=("lag", "pause shim"),
        faults=2,
    ),
    Scenario("host lost", "The leader's host loses power.", kinds=("lose host",)),
    Scenario(
        "host lost at the start",
        "A host loses power at any moment of a start.",
        kinds=("lose host",),
        settled=False,
    ),
    # -- spoilt records (I9, I10), two jobs
    Scenario(
        "records spoilt",
        "A lease or an ownership becomes unreadable: the other job does not notice.",
        running=("a", "b"),
        kinds=("spoil lease", "spoil own"),
    ),
    Scenario(
        "cancel of a spoilt job",
        "An ownership becomes unreadable, and the job is cancelled and submitted anew.",
        ((CANCEL, SUBMIT),),
        kinds=("spoil own", "spoil lease"),
    ),
    Scenario(
        "two jobs",
        "One is cancelled, the driver of either fails.",
        ((CANCEL,),),
        running=("a", "b"),
        kinds=("fail driver",),
    ),
    *MORE,
    *OPERATED,
    *SWEPT,
    *REMOVED,
    *PREPARED,
    *SAVEPOINTED,
    *PROMOTED,
    *EXECUTED,
    *HOSTED,
    *REFUSED,
)

BY_NAME = {one.name: one for one in SCENARIOS}
