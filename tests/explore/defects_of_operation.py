"""What an operator asks of the cluster (protocol §6), each rule undone, one at a time: pause, hand-over, acceptance."""

from __future__ import annotations

from supervisor.coord import election, leadership, trust
from supervisor.coord.start_doubt import StartDoubt
from supervisor.daemon.leader.controller import Controller
from supervisor.operations import accept_registry as accepting
from supervisor.plan import after_restore, decide, make
from tests.explore.planting import text

PAUSED = "§6 pause: the leader acts on nothing"
ONE_EPOCH = "§6 switchover: in force for the epoch that it names"
DONE = "§6 switchover: the leader of a later epoch takes the record away"
FALLS_BACK = "§6 switchover: falls back to any contender after the session time"

PAUSES = (text("plan-ignores-the-pause", PAUSED, (make.make_plan, "if view.paused", "if False")),)

HAND_OVERS = (
    text(
        "hand-over-of-another-epoch-is-obeyed",
        ONE_EPOCH,
        (election.gives_way, " or wish.epoch != seen.epoch.epoch", ""),
    ),
    text(
        "hand-over-is-not-handled",
        "§6: planned switchover",
        (leadership.still_ours, "if event.give_way:", "if False:"),
    ),
    text(
        "hand-over-is-never-concluded", DONE, (Controller._handle, "self._conclude_switchover(wish)", "pass")
    ),
    text(
        "hand-over-is-concluded-by-the-leader-it-names",
        DONE,
        (Controller._handle, "term.nudge()", "self._conclude_switchover(wish)"),
    ),
    text(
        "hand-over-waits-for-ever",
        FALLS_BACK,
        (leadership.decide, " and event.now_s < seen.yield_until_at_s:", ":"),
    ),
    text(
        "each-look-waits-anew",
        FALLS_BACK,
        (leadership.decide, "if event.give_way and seen.gave_way != event.epoch:", "if event.give_way:"),
    ),
)

WAITED = "§6: when the operator accepts it: wait max(lease)(1+2ρ)+K"
ACCEPTANCES = (
    text(
        "accepted-restore-is-not-waited-out",
        WAITED,
        (after_restore.may_start, "return view.accepted is None or", "return True or"),
    ),
    text(
        "wait-after-a-restore-is-over-at-once",
        WAITED,
        (after_restore.wait_left_s, "return max(0.0,", "return 0.0 * max(0.0,"),
    ),
    text(
        "wait-after-a-restore-has-no-end",
        WAITED,
        (
            Controller._set_waited,
            "self._executor.commit(lambda context: end_wait(context, accepted))",
            "pass",
        ),
    ),
    text(
        "assignment-of-the-lost-state-is-started",
        "§6: the agent asks of each start whether the registry is to be trusted",
        (StartDoubt.of, "if accepted is not None and assigned_zxid < accepted.stat.czxid:", "if False:"),
    ),
    text(
        "assignment-of-the-lost-state-stays",
        "§6: what was assigned before the acceptance is taken back",
        (decide._check_assignment, "if case.own.mzxid < case.accepted_zxid:", "if False:"),
    ),
    text(
        "acceptance-without-a-mark-in-the-store",
        "§6: epoch above all",
        (accepting.accept_registry, "marks.record_epoch(acceptance.epoch, ACCEPTER, acceptance.id)", "pass"),
    ),
    text(
        "acceptance-below-the-store",
        "§6: epoch above all",
        (
            accepting.accept_registry,
            "max(epoch.record.epoch, marks.newest_epoch_above(0) or 0) + 1",
            "epoch.record.epoch + 1",
        ),
    ),
    text(
        "acceptance-changes-nothing",
        "§6: when the operator accepts it",
        (trust._weighed, "if newest > known.last_accepted:", "if False:"),
    ),
)

OLDER = "I10, §6: an older registry is not acted upon: nothing is started, stopped or cleaned"
DISTRUSTS = (
    text(
        "another-past-is-not-noticed",
        OLDER,
        (trust._weighed, "elif _has_other_past(known, seen.doorbell):", "elif False:"),
    ),
    text(
        "older-zxid-is-not-noticed",
        "§6: a last zxid below one that this supervisor has on disk: not trusted",
        (trust._weighed, "elif seen.zxid < known.zxid:", "elif False:"),
    ),
    text(
        "terms-that-are-forgotten-are-not-noticed",
        "§6: an epoch in the store above ours: not trusted",
        (trust._unknown, "if newest is None or newest == epoch:", "if True:"),
    ),
    text(
        "agent-asks-not-what-its-host-remembers",
        OLDER,
        (
            StartDoubt.of,
            "doubt = self._trust.doubt(\n        layout, RegistryEvidence(cluster, accepted, doorbell, zoo.last_zxid), before\n    )",
            "doubt = None",
        ),
    ),
    text(
        "restore-is-not-left-in-the-store",
        OLDER,
        (trust.mark_restored, "if doubt is None:", "if False:"),
    ),
    text("agent-asks-not-the-store", OLDER, (StartDoubt.of, "if term != self._cleared:", "if False:")),
)

DEFECTS = (*PAUSES, *HAND_OVERS, *ACCEPTANCES, *DISTRUSTS)
