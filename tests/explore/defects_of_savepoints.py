"""Defects of updates that are rolled back to a savepoint: what comes before the hand-over, and what the roll back moves."""

from __future__ import annotations

from supervisor.daemon.leader import update_savepoint_task, way_back
from supervisor.model import update_savepoint as names
from supervisor.operations import updating
from supervisor.plan import decide, update_savepoint
from supervisor.registry import leader_writes, location_ops, user_writes
from supervisor.registry import update_savepoint_writes as writes
from supervisor.savepoints import target
from tests.explore.planting import text

BEFORE = "§9.2: a savepoint is made and written down before the driver is stopped"
MOVES = "§9.2: the new place is claimed, the lease deleted, and the expectation moved, in one write"

DEFECTS = (
    text(
        "a-hand-over-waits-for-no-savepoint",
        BEFORE,
        (update_savepoint.wants_savepoint, "is_pending(job, own) and not is_cold", "False"),
    ),
    text(
        "a-savepoint-that-can-not-be-made-is-done-without",
        "§9.2: an update of which no savepoint can be made is given up, and stops nothing",
        (
            decide._hand_over,
            "if step.give_up:",
            "if step.give_up:\n        return _drain(case, why)\n    if False:",
        ),
    ),
    text(
        "a-savepoint-that-is-slow-is-done-without",
        "§9.2: an update of which no savepoint can be made is given up, and stops nothing",
        (
            update_savepoint.before_hand_over,
            "if saved is None:",
            "if saved is None:\n        return None\n    if False:",
        ),
    ),
    text(
        "a-checkpoint-that-is-not-seen-has-nothing-to-save",
        "§9.2: there is nothing to save only where nobody knows of a batch",
        (update_savepoint.before_hand_over, "if saved.nothing and not known:", "if saved.nothing:"),
    ),
    text(
        "the-savepoint-of-another-attempt-will-do",
        "§9.2: nothing is in the savepoint that another attempt has committed",
        (names.savepoint_id, 'f"{uid} {own_version} {job_version} {epoch}"', 'f"{uid}"'),
    ),
    text(
        "rolled-back-to-a-place-that-is-not-claimed",
        MOVES,
        (writes.roll_back_to_savepoint, "*location_ops.take(layout, context.op_id, job, claimed),", ""),
    ),
    text(
        "rolled-back-and-the-old-claim-stays",
        MOVES,
        (location_ops.leave, "if left is not None else ()", "if False else ()"),
    ),
    text(
        "rolled-back-and-the-old-lease-stays",
        MOVES,
        (location_ops.leave, "if lease is not None else ()", "if False else ()"),
    ),
    text(
        "rolled-back-and-nothing-is-expected",
        MOVES,
        (
            writes.roll_back_to_savepoint,
            "replace(own.record, remembered=_remembered(own, restored))",
            "own.record",
        ),
    ),
    text(
        "rolled-back-with-the-spec-that-has-failed",
        "§9.2: the spec of before becomes a new revision",
        (writes.roll_back_to_savepoint, "spec=revision.spec,", "spec=job.spec,"),
    ),
    text(
        "a-copy-that-can-not-be-made-is-waited-for",
        "§9.2: without a copy the job goes on as any other",
        (decide._back_to_savepoint, "if step.failed:", "if False:"),
    ),
    text(
        "a-copy-is-waited-for-without-end",
        "§9.2: without a copy the job goes on as any other",
        (update_savepoint.back_to_savepoint, "if left_s <= 0:", "if False:"),
    ),
    text(
        "what-a-replaced-update-has-left-counts-as-nothing",
        "§9.2: with a savepoint that was taken over nothing is looked at",
        (
            decide.asks_what_was_left,
            "if update.savepoint and not is_own_savepoint(update) and queries_before(job, own) is None:",
            "if False:",
        ),
    ),
    text(
        "an-update-of-one-that-has-failed-loses-its-way-back",
        "§9.2: an update of one that has no driver any more keeps its savepoint",
        (user_writes.with_update, "if standing is not None and is_last else", "if False else"),
    ),
    text(
        "the-way-back-depends-on-the-moment-of-an-update",
        "§9.2: an update that is replaced hands its savepoint over, at whatever moment",
        (
            user_writes.with_update,
            "is_last = replaced and not runs",
            "is_last = replaced and own.record.state in (OwnState.VACANT, OwnState.EXITED)",
        ),
    ),
    text(
        "what-a-replaced-target-has-left-was-there-before",
        "§9.2: what counts as left is measured from the revision that would come back",
        (
            leader_writes._judged_first,
            "return replace(replaced, target=update.target, failures=0)",
            "return JudgedUpdate(target=update.target, queries=queries, before=before)",
        ),
    ),
    text(
        "a-savepoint-outlives-the-wait-of-its-hand-over",
        "§9.2: a savepoint is of the hand-over for which it was made",
        (update_savepoint.outdated, "if update is None or not is_pending(job, own):", "if True:"),
    ),
    text(
        "the-queue-counts-against-a-savepoint",
        "§9.2: the time of a savepoint counts from when its turn comes",
        (
            way_back.WayBack._answer,
            "wanted.begun_at_s if wanted.begun_at_s is not None else self._clock()",
            "wanted.saved.since_at_s",
        ),
    ),
    text(
        "back-to-what-never-ran",
        "§9.2: the leader does not go back to a revision of which no attempt was claimed",
        (decide._after_failed_update, "if update.untried:", "if False:"),
    ),
    text(
        "all-terms-copy-to-one-place",
        "§9.2: each term copies to a place of its own",
        (
            target.fresh_location,
            'f"{uid} {revision} {epoch}" if epoch else',
            'f"{uid} {revision}" if epoch else',
        ),
    ),
    text(
        "a-savepoint-outlives-a-change-of-the-records",
        "§9.2: what was made is for the records for which it was",
        (way_back.WayBack.answered, "if keys[name] == each.key", ""),
    ),
    text(
        "a-signed-spec-is-moved",
        "§9.2: a signed spec is not moved",
        (
            update_savepoint_task.UpdateSavepointTasks._movable,
            "if update.before.spec.signature:",
            "if False:",
        ),
    ),
    text(
        "the-spec-that-has-failed-is-not-known-at-the-new-place",
        "§9.2: the spec that has failed is known at the new place",
        (updating._why_failed, "or each.revision == moved", ""),
    ),
)
