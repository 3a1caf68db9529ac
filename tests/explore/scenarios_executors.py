"""Jobs whose executors are on a cluster (``executing``): no task of a lost attempt writes beside the next one."""

from __future__ import annotations

from dataclasses import dataclass

from tests.explore.scenario import Scenario

CANCEL, SUBMIT, RESTART = ("cancel", "far"), ("submit", "far", "u2-far"), ("restart", "far")


@dataclass(frozen=True)
class OnCluster(Scenario):
    running: tuple[str, ...] = ("far",)


EXECUTED: tuple[Scenario, ...] = (
    OnCluster("executors, host lost", "The leader's host loses power.", kinds=("lose host",)),
    OnCluster("executors, shim cut off", "The shim cannot hear.", kinds=("cut shim",)),
    OnCluster("executors, shim stopped", "The shim is stopped, and goes on.", kinds=("pause shim",)),
    OnCluster(
        "executors, shim and twin killed",
        "The shim is killed, and maybe its twin.",
        kinds=("kill shim", "kill twin"),
        faults=2,
    ),
    OnCluster(
        "executors, cancelled and submitted anew",
        "The host is lost, and a user submits the job anew.",
        ((CANCEL, SUBMIT),),
        kinds=("lose host",),
    ),
    OnCluster(
        "executors, restarted",
        "A user restarts the job while the shim cannot hear.",
        ((RESTART,),),
        kinds=("cut shim",),
    ),
    OnCluster(
        "executors, host lost at the start",
        "A host loses power at any moment of a start.",
        kinds=("lose host",),
        settled=False,
    ),
)
