"""Scenarios with hosts whose policies differ, and with hosts that refuse for now (``refusing``)."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

SUBMIT, CANCEL, RESTART = ("submit", "a", "u1-a"), ("cancel", "a"), ("restart", "a")
SUSPEND, RESUME, REVISE = ("suspend", "a"), ("resume", "a"), ("revise", "a")

Mixed = partial(Scenario, policies=("strict", "open"), max_states=700)
"""s1 comes first in the choice of a host, and refuses."""

REFUSED: tuple[Scenario, ...] = (
    Mixed(
        "refused by one",
        "A host refuses a job by its policy, and another takes it; its driver fails.",
        kinds=("fail driver",),
        faults=2,
        max_states=1_500,
    ),
    Mixed(
        "refused by one, submitted", "From the submit on.", ((SUBMIT,),), running=(), kinds=("lose action",)
    ),
    Mixed(
        "refused by one, restarted",
        "A restart is asked of every host again.",
        ((RESTART,),),
        faults=1,
        kinds=("fail driver",),
    ),
    Mixed(
        "refused by one, suspended",
        "Suspended and resumed at any step.",
        ((SUSPEND, RESUME),),
        kinds=("fail driver",),
    ),
    Mixed(
        "refused by one, cancelled",
        "Cancelled and submitted anew at any step.",
        ((CANCEL, SUBMIT),),
        faults=0,
    ),
    Mixed(
        "refused by one, supervisor killed",
        "Agent and leader are killed and started again.",
        ((SUBMIT,),),
        running=(),
        kinds=("kill supervisor",),
    ),
    Mixed(
        "refused by one, leader stopped",
        "The leader is stopped at any step.",
        kinds=("fail driver", "pause supervisor"),
        faults=2,
    ),
    Mixed(
        "refused by one, a follower lags",
        "The leader reads an older state.",
        ((SUBMIT,),),
        running=(),
        kinds=("lag",),
    ),
    Mixed(
        "refused by one, the other host lost",
        "The host that allows it is lost: nobody may run it.",
        kinds=("lose host",),
    ),
    Mixed(
        "refused for now",
        "Hosts refuse for a reason that passes: they get the job again.",
        ((SUBMIT,),),
        policies=("open", "open"),
        running=(),
        kinds=("refuse for now",),
        faults=2,
    ),
    Mixed(
        "refused for now, and by the policy of the other",
        "The only host that allows the job refuses it for now.",
        ((SUBMIT,),),
        running=(),
        kinds=("refuse for now",),
        faults=2,
    ),
    Scenario(
        "refused by all",
        "Every host refuses; policies are changed, one after the other, at any step.",
        policies=("strict", "strict"),
        kinds=("policy changes",),
        faults=2,
    ),
    Scenario(
        "refused by all, submitted",
        "A policy is changed at any step from the submit on.",
        ((SUBMIT,),),
        running=(),
        policies=("strict", "until 2"),
        kinds=("policy changes", "fail driver"),
        faults=2,
    ),
    Scenario(
        "refused by all, updated",
        "Every host refuses the first revision, and allows the second.",
        ((REVISE,),),
        policies=("from 2", "from 2"),
        kinds=("fail driver",),
    ),
    Scenario(
        "refused by all, updated and rolled back",
        "The second revision is allowed, and the one after it, too.",
        ((REVISE, ("roll_back", "a")),),
        policies=("from 2", "strict"),
        faults=0,
    ),
    Scenario(
        "an update is refused by one",
        "The host that runs the job refuses its new revision.",
        ((REVISE,),),
        policies=("until 2", "open"),
        kinds=("fail driver",),
    ),
    Scenario(
        "refused by the only host",
        "It is changed, and the job runs.",
        supervisors=1,
        policies=("strict",),
        kinds=("policy changes", "kill supervisor"),
        faults=2,
    ),
)
