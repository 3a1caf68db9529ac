"""Scenarios in which checkpoints of ended jobs are deleted, and others come to lie at, inside or around the same place."""

from __future__ import annotations

from functools import partial

from tests.explore.scenario import Scenario

CANCEL, SUBMIT, INSIDE, AROUND = (
    ("cancel", "wipe"),
    ("submit", "wipe", "u1-wipe"),
    ("submit", "wipe", "u2-wipe"),
    ("submit", "wipe", "u3-wipe"),
)
NEAR, INNER = ("submit", "near", "u1-near"), ("submit", "inner", "u1-inner")

Removed = partial(Scenario, removes=True, running=("wipe",), max_states=500)

SENT = ("user cancel", "cancel committed", "clean_up wipe: committed", "begin_deletion", "sends a deletion")
"""A deletion is under way."""

REMOVED: tuple[Scenario, ...] = (
    Removed(
        "deleted",
        "A job whose checkpoint is to be deleted is cancelled while it runs.",
        ((CANCEL,),),
        faults=0,
    ),
    Removed(
        "deleted, submitted anew",
        "The same name is submitted with the same place, at any moment of the deletion.",
        ((CANCEL, SUBMIT),),
        supervisors=1,
        faults=0,
    ),
    Removed(
        "deleted, submitted inside",
        "The same name is submitted with a place inside the one that is to be deleted.",
        ((CANCEL, INSIDE),),
        supervisors=1,
        faults=0,
    ),
    Removed(
        "deleted, submitted around",
        "The same name is submitted with a place around the one that is to be deleted, and around another job's.",
        ((CANCEL, AROUND),),
        running=("wipe", "near"),
        supervisors=1,
        faults=0,
    ),
    Removed(
        "deleted, another one inside",
        "Another job is submitted with a place inside it, at any moment.",
        ((CANCEL,), (INNER,)),
        supervisors=1,
        faults=0,
    ),
    Removed(
        "deleted again",
        "Deleted, submitted inside of where it was, and deleted again.",
        ((CANCEL, SUBMIT, CANCEL, INSIDE),),
        supervisors=1,
        faults=0,
    ),
    Removed(
        "deleted, shim cut off",
        "The driver lives on for its lease while its job is cancelled and submitted elsewhere.",
        ((CANCEL, INSIDE),),
        supervisors=1,
        kinds=("cut shim",),
    ),
    Removed(
        "deleted while paused",
        "The cluster is paused while a deletion is to be made.",
        ((("pause", ""), ("unpause", "")),),
        supervisors=1,
        past=(CANCEL,),
        faults=0,
        script=("user cancel", "cancel committed", "clean_up wipe: committed"),
    ),
    Removed(
        "deleted, leader stopped",
        "The leader is stopped after it has sent a deletion; another one leads, the place is claimed again.",
        ((CANCEL, SUBMIT),),
        kinds=("pause supervisor",),
        faults=0,
        script=("s1 is stopped",),
    ),
    Removed(
        "deletion sent, leader stopped",
        "Stopped with its deletion under way: that arrives when another one leads.",
        ((SUBMIT,),),
        past=(CANCEL,),
        kinds=("pause supervisor",),
        faults=0,
        script=(*SENT, "s1 is stopped"),
    ),
    Removed(
        "deletion sent, leader killed",
        "Killed with its deletion under way.",
        ((SUBMIT,),),
        past=(CANCEL,),
        kinds=("kill supervisor",),
        faults=0,
        script=(*SENT, "s1 is killed"),
    ),
    Removed(
        "deletion, two leaders",
        "/leader is removed by hand with a deletion under way: two remove.",
        ((SUBMIT,),),
        past=(CANCEL,),
        kinds=("remove leader",),
        faults=0,
        script=(*SENT, "/leader is removed"),
    ),
    Removed(
        "deleted from a directory, two leaders",
        "/leader is removed by hand while one has read what it is about to delete.",
        ((("submit", "wipe-local", "u1-wipe-local"),),),
        running=("wipe-local",),
        past=(("cancel", "wipe-local"),),
        kinds=("remove leader",),
        faults=0,
        script=(
            *SENT[:2],
            "clean_up wipe-local: committed",
            "begin_deletion: committed",
            "reads what there is",
            "/leader is removed",
        ),
        max_states=1_500,
    ),
    Removed(
        "places, two at once",
        "Two users submit jobs whose places are nested, reading at different moments.",
        ((("submit", "idle-wide", "u1-idle-wide"),), (("submit", "idle-deep", "u1-idle-deep"),)),
        running=(),
        supervisors=1,
        faults=0,
        slow_reads=True,
    ),
    Removed(
        "places, a claim kept",
        "A job is cancelled and submitted around its old place and another one's, whoever is listed last.",
        ((("cancel", "near"), ("submit", "near", "u2-near")),),
        running=("near", "idle-deep"),
        supervisors=1,
        faults=0,
    ),
)
