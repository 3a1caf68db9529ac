"""Scenarios in which leaders sweep: the store's blobs, and what is left in the registry of uids that are gone."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.explore.scenario import Scenario

SUBMIT, CANCEL, AGAIN = ("submit", "idle", "u1-idle"), ("cancel", "idle"), ("submit", "idle", "u2-idle")

PAST: dict[str, Any] = {"running": ("b",), "past": (("cancel", "b"),)}
"""A job that was cancelled: a registry that knows no uid at all is not swept."""

READ = ("sweeps: lists the store", "sweeps: reads what", "sweeps: lists the store", "sweeps: reads what")
"""What it begins with has been seen twice, a grace apart, and is about to be deleted."""

Swept = partial(Scenario, sweeps=True, max_states=500)

SWEPT: tuple[Scenario, ...] = (
    Swept(
        "swept beside a submit",
        "A submit is slow, cut off, or killed after its put: what it has stored is swept, or stays.",
        ((SUBMIT,),),
        kinds=("kill user", "cut user"),
        supervisors=1,
        **PAST,
    ),
    Swept(
        "swept, submitted twice",
        "Two users submit the same: one of them has stored in vain.",
        ((SUBMIT,), (AGAIN,)),
        supervisors=1,
        faults=0,
        **PAST,
    ),
    Swept(
        "swept, a follower lags",
        "The leader reads from a follower that stands still, while a job is submitted.",
        ((SUBMIT,),),
        kinds=("lag",),
        supervisors=1,
        **PAST,
    ),
    Swept(
        "swept, submitted anew",
        "Cancelled and submitted anew, twice: of the first one nothing is left.",
        ((CANCEL, SUBMIT, CANCEL, AGAIN),),
        running=("idle",),
        supervisors=1,
        faults=0,
    ),
    Swept(
        "swept, a new revision",
        "The blob of a new revision waits for its multi, as long as it likes.",
        ((("revise", "idle"),), (CANCEL,)),
        running=("idle",),
        supervisors=1,
        faults=0,
    ),
    Swept(
        "swept, cancelled",
        "A running job is cancelled and submitted anew while the leader sweeps.",
        ((("cancel", "a"), ("submit", "a", "u1-a")),),
        orphans=("u8-a",),
        supervisors=1,
        faults=0,
    ),
    Swept(
        "swept, leader stopped",
        "Stopped between what it has read and its deletions; another one leads, the name is submitted again.",
        ((CANCEL, SUBMIT),),
        running=("idle",),
        orphans=("u8-idle", "u9-idle"),
        kinds=("pause supervisor",),
        faults=0,
        script=(*READ, "s1 is stopped"),
    ),
    Swept(
        "swept, two leaders",
        "/leader is removed by hand: two sweep, one of them what it read before.",
        ((CANCEL, SUBMIT),),
        running=("idle",),
        orphans=("u8-idle", "u9-idle"),
        kinds=("remove leader",),
        faults=0,
        script=(*READ, "/leader is removed"),
    ),
    Swept(
        "swept, ownership spoilt",
        "An ownership becomes unreadable at any moment of a start, and the job is cancelled.",
        ((("cancel", "a"),),),
        settled=False,
        supervisors=1,
        kinds=("spoil own",),
    ),
    Swept(
        "swept while paused",
        "The cluster is paused while there is something to sweep.",
        ((("pause", ""), ("unpause", "")),),
        running=("idle",),
        past=(CANCEL, SUBMIT, CANCEL),
        settled=False,
        supervisors=1,
        faults=0,
        max_states=600,
    ),
    Swept(
        "swept, restored",
        "ZooKeeper is restored between what a sweeper has read and its deletions.",
        settled=False,
        replaceable=True,
        orphans=("u8-a", "u9-a"),
        kinds=("restore registry",),
        faults=0,
        max_states=300,
        script=("the registry is saved", "shim u0-a.1: executes", *READ, "ZooKeeper is restored"),
    ),
    Swept(
        "swept, restored to what was swept",
        "Restored to a state that names what the sweeper is about to delete.",
        replaceable=True,
        running=("idle",),
        past=(CANCEL, SUBMIT, CANCEL),
        supervisors=1,
        kinds=("restore registry",),
        max_states=300,
        script=(
            "the registry is saved",
            "user cancel",
            "cancel committed",
            "clean_up idle: committed",
            "user submit",
            "goes on",
            "submit committed",
            "user cancel",
            "cancel committed",
            "clean_up idle: committed",
            "; sweep_result idle",
            "sweep_result idle: committed",
            *READ,
        ),
    ),
)
