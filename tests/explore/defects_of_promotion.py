"""Blue/green (protocol §9.4), each rule undone, one at a time."""

from __future__ import annotations

from supervisor.operations import promoting
from supervisor.operations.jobs import JobOperations
from supervisor.operations.promoting import PromotionOperations
from supervisor.registry import promotion_writes
from tests.explore.planting import text

RUNS = "§9.4: a job takes a place only while an attempt of it is claimed, at the versions read"
MEANT = "§9.4: the intent names one job by its uid, and is what the write rests on"
UNDONE = "§9.4: an undo runs the one and suspends the other, at the versions read"
COPIED = "§9.4: a fork is not started before its copy is complete"

DEFECTS = (
    text(
        "promotion-of-what-runs-no-more",
        RUNS,
        (promotion_writes.promote, "Check(layout.own(job.name), own.version),", ""),
    ),
    text(
        "promotion-over-a-change-of-the-fork",
        RUNS,
        (promotion_writes.promote, "encode(changed), ref.version)", "encode(changed), -1)"),
    ),
    text(
        "promotion-over-a-change-of-the-other",
        "§9.4: the other job is suspended at the versions read",
        (
            promotion_writes.promote,
            "stopped.ops,",
            "[replace(op, version=-1) if isinstance(op, SetData) else op for op in stopped.ops],",
        ),
    ),
    text(
        "promotion-of-what-was-not-looked-at",
        RUNS,
        (PromotionOperations.promote, "require_running(ref.record, own)", "pass"),
    ),
    text(
        "withdrawn-promotion-comes-about",
        MEANT,
        (PromotionOperations.promote, "if not is_over(intent, pair):", "if intent is None:"),
    ),
    text(
        "intent-is-by-name-only",
        MEANT,
        (
            promoting.is_over,
            "(promotion.over, promotion.uid) == (pair.over, pair.over_uid)",
            "promotion.over == pair.over",
        ),
    ),
    text(
        "promotion-over-a-suspended-job",
        "§9.4: a promotion is done once",
        (PromotionOperations.promote, "if over.record.desired is Desired.SUSPENDED:", "if False:"),
    ),
    text(
        "promotion-without-its-mark",
        "§9.4: the promotion is recorded in the same write",
        (promotion_writes.promote, "done=True, ", ""),
    ),
    text(
        "undo-over-a-change-of-the-fork",
        UNDONE,
        (
            promotion_writes.undo_promotion,
            "Found(replace(job, promotion=None), ref.version)",
            "Found(replace(job, promotion=None), -1)",
        ),
    ),
    text(
        "undo-runs-nothing",
        UNDONE,
        (promotion_writes.undo_promotion, "(*stopped.ops, *resumed.ops)", "stopped.ops"),
    ),
    text(
        "undo-of-an-intent",
        "§9.4: an intent that has come to nothing is withdrawn, and stops nothing",
        (PromotionOperations.undo_promotion, "if not intent.done:", "if False:"),
    ),
    text(
        "undo-that-forgets-a-suspend",
        UNDONE,
        (promotion_writes.undo_promotion, "Check(layout.job(over.record.name), over.version),", ""),
    ),
    text(
        "fork-is-started-before-its-copy",
        COPIED,
        (JobOperations._run_again, "_require_copied(ref.record)", "pass"),
    ),
    text(
        "finished-fork-is-finished-again",
        "§9.4: a fork that is given again changes nothing",
        (
            PromotionOperations.finish_fork,
            "if ref.record.fork is None or not ref.record.fork.copying:",
            "if ref.record.fork is None:",
        ),
    ),
)
