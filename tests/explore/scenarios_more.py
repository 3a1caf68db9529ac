"""Scenarios that a defect of the gate asked for: no other one shows it."""

from __future__ import annotations

from tests.explore.scenario import Scenario

MORE: tuple[Scenario, ...] = (
    # -- labels: where a job may run, and what a prune cancels
    Scenario(
        "placed",
        "A job may run on one of two hosts only; its driver fails, and the host is lost.",
        ((("submit", "second", "u1-second"),),),
        running=(),
        kinds=("fail driver", "kill supervisor"),
    ),
    Scenario(
        "placed, changed",
        "A job that may run on one of two hosts only is restarted, and its spec is changed.",
        ((("restart", "second"),), (("revise", "second"),)),
        running=("second",),
        kinds=("kill supervisor",),
        prepares=1,
    ),
    Scenario(
        "pruned",
        "A prune has judged a job, which is cancelled and submitted anew before it is cancelled by the prune.",
        ((("prune", "a"),), (("cancel", "a"), ("submit", "a", "u1-a"))),
        faults=0,
        slow_reads=True,
    ),
    Scenario(
        "pruned, changed",
        "A prune has judged a job, which another user suspends; answers and requests are lost.",
        ((("prune", "a"),), (("suspend", "a"),)),
        kinds=("lose reply", "lose request"),
        slow_reads=True,
    ),
    Scenario(
        "pruned, unknown",
        "The outcome of a prune stays unknown, and it is given again; its request may arrive late.",
        ((("prune", "a"), ("prune", "a")), (("submit", "a", "u1-a"),)),
        kinds=("cut user",),
    ),
    Scenario(
        "two shims, one killed",
        "A restarted agent starts a second shim for one entry; one of them is killed.",
        settled=False,
        kinds=("second shim", "kill shim"),
        faults=2,
    ),
    Scenario(
        "two shims, a claim unanswered",
        "A restarted agent starts a second shim for one entry; a claim never arrives.",
        settled=False,
        kinds=("second shim", "lose request"),
        faults=2,
    ),
    Scenario(
        "submitted anew, calmly",
        "Cancelled, and the name submitted again; nothing goes wrong.",
        ((("cancel", "a"), ("submit", "a", "u1-a")),),
        faults=0,
    ),
    Scenario(
        "suspended, shim cut off",
        "Suspended while the shim cannot hear: its attempt is buried after the full wait.",
        ((("suspend", "a"),),),
        kinds=("cut shim",),
    ),
    # -- an attempt that stops for longer than the full wait: it renews, and /own does not move
    Scenario(
        "slow stop, cancelled",
        "A stop takes longer than the full wait; the leader reads from a follower that stands still.",
        ((("cancel", "slow"),),),
        running=("slow",),
        supervisors=1,
        kinds=("lag",),
    ),
    Scenario(
        "slow stop, suspended",
        "The same for a suspend.",
        ((("suspend", "slow"),),),
        running=("slow",),
        supervisors=1,
        kinds=("lag",),
    ),
    Scenario(
        "slow stop, restarted",
        "The same for a restart.",
        ((("restart", "slow"),),),
        running=("slow",),
        supervisors=1,
        kinds=("lag",),
    ),
    # -- answers that come late
    Scenario(
        "a lease read slowly",
        "The read that shows a renewal for the first time took long, and it was the last one.",
        supervisors=1,
        kinds=("cut shim",),
        split=True,
    ),
    # -- a budget that suspends
    Scenario(
        "worn out",
        "The budget is spent, and the job suspended; it is resumed.",
        ((("resume", "weary"),),),
        running=("weary",),
        kinds=("fail driver",),
    ),
    # -- trouble stays where it is (I9)
    Scenario(
        "one spoilt, the other fails",
        "An ownership becomes unreadable, and the driver of the other job fails: that is started again.",
        running=("a", "b"),
        supervisors=1,
        kinds=("spoil own", "spoil lease", "fail driver"),
        faults=2,
    ),
    # -- the registry itself (I10)
    Scenario(
        "restored",
        "ZooKeeper is restored to any earlier state, while a job is cancelled.",
        ((("cancel", "a"),),),
        replaceable=True,
        kinds=("restore registry",),
        max_states=1_000,
    ),
    Scenario(
        "restored at the start",
        "Restored at any moment of a start.",
        settled=False,
        replaceable=True,
        kinds=("restore registry",),
        max_states=1_000,
    ),
    Scenario(
        "restored, shim stopped",
        "A shim is stopped before its claim; the job is started anew; then comes the restore.",
        settled=False,
        replaceable=True,
        kinds=("restore registry", "pause shim"),
        max_states=1_000,
        script=(
            "starts a shim for u0-a.1",
            "shim u0-a.1 is stopped",
            "shim u0-a.1: reads",
            "the registry is saved",
            "shim u0-a.2: executes",
            "time goes on",
            "s1 probes",
            "s2 looks who leads",
        ),
    ),
    Scenario(
        "restored, leader killed",
        "Restored, and the leader is killed: who remembers nothing is told by the store.",
        replaceable=True,
        kinds=("restore registry", "kill supervisor"),
        faults=2,
        max_states=1_000,
    ),
    Scenario(
        "restored, disks lost",
        "Restored while nobody runs, and nobody remembers: only the store tells.",
        settled=False,
        replaceable=True,
        kinds=("restore registry", "lose disk"),
        faults=0,
        max_states=1_000,
        script=(
            "the registry is saved",
            "shim u0-a.1: executes",
            "s1 is killed and",
            "s2 records epoch 2",
            "s2 is killed and",
            "ZooKeeper is restored",
            "s1's session closer closes",
        ),
    ),
    Scenario(
        "restored, one follower knows",
        "Of a restore within one term only a follower knows; then it is killed, and the leader that "
        "comes back remembers nothing.",
        settled=False,
        replaceable=True,
        kinds=("restore registry", "lose disk", "kill supervisor"),
        max_states=1_000,
        script=(
            "the registry is saved",
            "shim u0-a.1: executes",
            "s2 looks who leads",
            "s1 is killed and",
            "ZooKeeper is restored",
            "s2 is connected again",
            "s2 looks who leads",
            "s2 leaves in the store",
        ),
    ),
    Scenario(
        "data lost", "ZooKeeper comes up empty.", replaceable=True, kinds=("lose registry",), max_states=1_000
    ),
    Scenario(
        "root spoilt", "/cluster or /epoch becomes unreadable.", replaceable=True, kinds=("spoil root",)
    ),
)
