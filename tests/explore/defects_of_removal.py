"""Who has which checkpoint, and the leader's remover (§4, §5), each rule undone, one at a time."""

from __future__ import annotations

from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.term_loop import TermPermission
from supervisor.operations import jobs
from supervisor.registry import leader_writes, pending_deletions
from supervisor.registry.checkpoint_claims import CheckpointClaims, Index
from supervisor.savepoints import create
from supervisor.savepoints import restore as savepoint_restore
from supervisor.shim import twin
from supervisor.shim.runner import Runner
from tests.explore.planting import text

APART = "§4: equal or nested locations are refused at submit"
HELD = "§4: the claim of a checkpoint is held from the submit until every request to delete is over"
LATE = "§5: a leader gives a claim up only when every request that anybody can have sent is over"
READ_BEFORE_BATCHES = (
    "§5: no batch goes out but under the epoch and the claim that were read, as ZooKeeper says now"
)
ACKNOWLEDGED = "I8: what is acknowledged is in effect"

PLACES = (
    text(
        "claims-listed-before-their-version",
        APART,
        (
            CheckpointClaims.load,
            "    parent = zoo.read(layout.checkpoints)\n",
            "    children = children_of(zoo, layout.checkpoints)\n"
            "    parent = zoo.read(layout.checkpoints)\n",
        ),
        (
            CheckpointClaims.load,
            "for child in children_of(zoo, layout.checkpoints)]",
            "for child in children]",
        ),
    ),
    text(
        "own-claims-are-overlooked",
        APART,
        (CheckpointClaims.reserve, "(each.name, each.location) != (name, location)", "each.name != name"),
    ),
    text(
        "claims-inside-are-overlooked",
        APART,
        (Index.overlapping, "set(self._inside.get(location, ()))", "set()"),
    ),
    text(
        "claims-around-are-overlooked",
        APART,
        (Index.overlapping, "(location, *_ancestors(location))", "(location,)"),
    ),
    text(
        "pending-deletion-is-taken-over",
        HELD,
        (CheckpointClaims.reserve, " or each.doom is not None", ""),
        (
            pending_deletions.pending_deletion,
            'name = f"{claim.name} (its checkpoint is being deleted)"',
            "name = claim.name",
        ),
    ),
    text(
        "claim-is-given-up-by-the-clean-up",
        HELD,
        (
            leader_writes.clean_up,
            "SetData(\n                claim[0],\n"
            "                encode(pending_deletion(claim[1].record, result.record, context.at)),\n"
            "                claim[1].version,\n            )",
            "Delete(claim[0], claim[1].version)",
        ),
    ),
)

REMOVER = (
    text("claim-is-given-up-early", LATE, (Remover._finish, "not alone and left_s > 0", "False")),
    text("deletes-before-it-says-so", LATE, (Remover._carry_on, "if now.deletion.epoch == 0:", "if False:")),
    text(
        "deletes-under-any-epoch",
        READ_BEFORE_BATCHES,
        (Remover._still, "epoch is None or epoch.stat.version != self._term.fence_version", "False"),
    ),
    text(
        "deletes-whatever-became-of-the-claim",
        READ_BEFORE_BATCHES,
        (Remover._still, "claim is None or claim.stat.version != now.claim.version or", ""),
    ),
    text(
        "deletes-as-it-was-once-read",
        READ_BEFORE_BATCHES,
        (Remover._still, "epoch is None or epoch.stat.version != self._term.fence_version", "False"),
        (Remover._still, "claim is None or claim.stat.version != now.claim.version or", ""),
    ),
    text(
        "remover-overlooks-other-claims",
        APART,
        (Remover._carry_on, "if others.claim is not None:", "if False:"),
        (Remover._still, "others.claim is not None or others.doubtful is not None", "False"),
    ),
    text(
        "remover-never-begins",
        "§5: the objects of a pending deletion are deleted",
        (Remover._find_deletions, "claim.record.doom is not None", "False"),
    ),
    text(
        "deletes-while-paused",
        "§6 pause: the leader acts on nothing",
        (TermPermission.may_begin, " and not self.is_paused()", ""),
        (Remover._still, " or pause is not None", ""),
    ),
)

COMMANDS = (
    text(
        "finished-job-is-changed",
        ACKNOWLEDGED,
        (
            jobs._live,
            "isinstance(found.own, Found) and has_finished(found.ref.record, found.own.record)",
            "False",
        ),
    ),
)

STEPS = (
    text(
        "restore-reads-before-its-mark",
        "§4: a delete looks for marks of restores before it removes the manifest",
        (
            savepoint_restore.restore,
            "    area.write(mark, note) ",
            "    read_savepoint(area); area.write(mark, note) ",
        ),
    ),
    text(
        "restore-ends-before-it-is-compared",
        "§4: a restore that was cut short is told from a checkpoint by its mark",
        (
            savepoint_restore._restore,
            "        target.flush()\n        target.remove(MARK)",
            "        target.remove(MARK)\n        target.flush()",
        ),
    ),
    text(
        "savepoint-is-complete-before-it-is-wanted",
        "§4: no manifest of a savepoint that was deleted meanwhile",
        (create.Creation._finish, "self._still_wanted()", "pass"),
        (
            create.Creation._finish,
            "self._target.create(MANIFEST, encode_manifest(manifest))",
            "self._target.create(MANIFEST, encode_manifest(manifest)); self._still_wanted()",
        ),
    ),
    text(
        "exec-although-no-deadline-is-written",
        "§7.4: the second killers know the deadline before exec",
        (
            Runner._perform,
            "if not self._write_deadline(deadline_at_s) and",
            "if not self._write_deadline(deadline_at_s) and False and",
        ),
    ),
    text(
        "directory-of-another-host-is-deleted",
        "§5: only what an attempt of that uid was seen to write is deleted",
        (Remover._may_delete, "not job.recognised and not _is_its(removal, now)", "False"),
    ),
    text(
        "torn-deadline-read-as-none",
        "§7.4: the twin reads the deadline from a file",
        (twin._probe, ", readable=False", ""),
    ),
)
"""What the adapters of the pure state machines do, and an order of two steps that only a store sees: an ordinary test each."""

DEFECTS = (*PLACES, *REMOVER, *COMMANDS, *STEPS)
