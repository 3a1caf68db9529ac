"""Each guard of protocol §5 dropped, one at a time, and each write that is a guard for others left out."""

from __future__ import annotations

from functools import partial
from typing import Any

from supervisor.coord import election
from supervisor.registry import (
    attempt_writes,
    leader_writes,
    notification_writes,
    operator_writes,
    pending_deletions,
    promotion_writes,
    update_savepoint_writes,
    user_writes,
)
from supervisor.registry.record_sweep import Deletion
from tests.explore.defect import Defect
from tests.explore.guards import dropped, unwritten
from tests.explore.planting import planted

GUARDED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (election.take_leadership, ("epoch",)),
    (election.publish_distrust, ("epoch",)),
    (election.accept, ("cluster", "epoch", "accepted")),
    (user_writes.submit, ("own", "result", "claim", "checkpoints")),
    (user_writes.register_again, ("result", "own", "claim", "checkpoints", "lease")),
    (user_writes.cancel, ("job", "own", "result")),
    (user_writes.cancel_failed, ("result", "own")),
    (user_writes.suspend, ("job", "own")),
    (user_writes.run_again, ("job", "own")),
    (user_writes.move, ("job", "own")),
    (user_writes.update, ("job", "own")),
    (user_writes.resume_from, ("job", "own", "claim", "checkpoints", "lease")),
    (promotion_writes.finish_fork, ("job", "own")),
    (promotion_writes.set_promotion, ("job", "own")),
    (promotion_writes.promote, ("job", "own")),
    (promotion_writes.undo_promotion, ("job", "own")),
    (leader_writes.assign, ("epoch", "pause", "job", "own", "lease")),
    (leader_writes.unassign, ("epoch", "pause", "own")),
    (leader_writes.drain, ("epoch", "pause", "job", "own")),
    (leader_writes.give_update_up, ("epoch", "pause", "job", "own")),
    (leader_writes.roll_update_back, ("epoch", "pause", "job", "own")),
    (leader_writes.finish_update, ("epoch", "pause", "job", "own")),
    (update_savepoint_writes.keep_savepoint, ("epoch", "pause", "job", "own")),
    (
        update_savepoint_writes.roll_back_to_savepoint,
        ("epoch", "pause", "job", "own", "claim", "checkpoints", "lease"),
    ),
    (leader_writes.prepare, ("epoch", "pause", "job")),
    (leader_writes.withdraw, ("epoch", "pause", "request")),
    (leader_writes.suspend_exhausted, ("epoch", "pause", "job", "own")),
    (leader_writes.revoke, ("epoch", "pause", "lease", "own")),
    (leader_writes.bury, ("epoch", "pause", "lease", "own")),
    (leader_writes.conclude, ("epoch", "pause", "job", "own")),
    (leader_writes.clean_up, ("epoch", "pause", "own", "lease", "claim", "result")),
    (leader_writes.end_wait, ("epoch", "pause", "accepted")),
    (attempt_writes.claim, ("job", "own", "lease", "pause")),
    (attempt_writes.renew, ("own",)),
    (attempt_writes.announce, ("own",)),
    (attempt_writes.tombstone, ("own",)),
    (attempt_writes.refuse, ("own",)),
    (
        Deletion.transaction,
        ("epoch", "pause", "own", "entry", "lease", "claim", "result", "revisions", "notifications"),
    ),
    (notification_writes.write_notifications, ("epoch", "pause", "notifications")),
    (notification_writes.switch_notifying, ("epoch", "pause", "notifications")),
    (pending_deletions.begin_deletion, ("epoch", "pause", "own", "claim", "checkpoints")),
    (pending_deletions.publish_waiting, ("epoch", "pause", "claim", "result")),
    (pending_deletions.give_up_claim, ("epoch", "pause", "own", "claim", "result")),
    (operator_writes.unpause, ("pause", "doorbell")),
    (operator_writes.cordon, ("host",)),
    (operator_writes.switchover, ("epoch", "switchover")),
    (operator_writes.switched_over, ("epoch", "switchover")),
)
"""Every multi, and what it asks of which znodes. A test compares this with the multis themselves."""

UNWRITTEN: tuple[tuple[Any, str, str], ...] = (
    (user_writes.submit, "own", "§5 submit: else set it unchanged at the version read (a bump)"),
    (user_writes.cancel, "own", "§4: submit, cancel and conclude always bump it, whatever uid it carries"),
    (user_writes.cancel, "result", "§5 cancel: create /results/uid (dirty, cancelled)"),
    (
        user_writes.cancel_failed,
        "own",
        "§5 cancel: of a failed uid: its result becomes cancelled, always a bump",
    ),
    (
        user_writes.suspend,
        "own",
        "§5 suspend: /own/J set as cancel does, so that shims obey without a supervisor",
    ),
    (user_writes.register_again, "own", "§5 re-register: set /own/J at version (failures 0, attempt kept)"),
    (leader_writes.conclude, "own", "§5 conclude: set /own/J at version (a bump)"),
    (leader_writes.conclude, "result", "§5 conclude: create /results/uid"),
    (leader_writes.clean_up, "lease", "§5 clean up: delete /lease/J"),
    (leader_writes.unassign, "entry", "§5 un-assign: delete the entry"),
    (attempt_writes.claim, "lease", "§5 claim: create or set /lease/J (the first renewal)"),
    (attempt_writes.claim, "own", "§5 claim: set /own/J to claimed at the assignment's version"),
)


def named(builder: Any) -> str:
    """``clean_up`` → ``clean-up``; a deletion of the sweeper is a ``sweep``."""
    return "sweep" if builder is Deletion.transaction else builder.__name__.replace("_", "-")


def _dropped(builder: Any, kind: str) -> Defect:
    name = f"{named(builder)}-unguarded-by-{kind}"
    of = f"§5: every multi is guarded; {named(builder)} checks or sets the version of {kind} that was read"
    return planted(name, of, partial(dropped, builder, kind))


def _unwritten(builder: Any, kind: str, of: str) -> Defect:
    name = f"{named(builder)}-does-not-write-{kind}"
    return planted(name, of, partial(unwritten, builder, kind))


DEFECTS = (
    *(_dropped(builder, kind) for builder, kinds in GUARDED for kind in kinds),
    *(_unwritten(*one) for one in UNWRITTEN),
)
