"""Looks at what the failed target of an update has left in the checkpoint of its job (``update.rollback: clean``).

The leader calls it, by ``daemon.leader.left_behind``, and so does ``explain``, which says with it why an update is not
rolled back. What the leader has found it keeps for itself until the next attempt (``JudgedUpdate.left``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from supervisor.checkpoint.opening import open_checkpoint
from supervisor.checkpoint.preflight import left_behind
from supervisor.errors import SupervisorError
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.records import JobRef
from supervisor.model.seen import Found
from supervisor.model.state import known_before
from supervisor.model.view import Row
from supervisor.operations.context import CommandContext
from supervisor.plan.decide import asks_what_was_left
from supervisor.registry.blobs import Blobs
from supervisor.settings.file import Settings
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import access_of_store


def left_in_checkpoint(settings: Settings, blobs: Blobs, job: JobRef, known: Sequence[SeenQuery]) -> str:
    """Returns what is in the checkpoint of ``job`` beyond the batches of ``known``, as a phrase; it is empty if there is
    nothing. Raises SupervisorError."""
    conf = from_canonical(blobs.read_spec(job.spec), job.spec.key).conf
    store = access_of_store(settings.store, settings.policy.endpoints)
    tree = open_checkpoint(job.terms.checkpoint or "", conf, store)
    return "only Spark can read its checkpoint" if tree is None else left_behind(tree, known)


def with_what_was_left(context: CommandContext, row: Row) -> Row:
    """Returns ``row`` with what the target of a failed update has left, if a roll back depends on that and it can be seen
    from here."""
    if not asks_what_was_left(row):
        return row
    assert isinstance(row.ref, Found) and isinstance(row.own, Found)
    known = known_before(row.ref.record, row.own.record)
    if known is None:
        return row
    try:
        left = left_in_checkpoint(context.settings, context.blobs(), row.ref.record, known)
    except SupervisorError:
        return row  # the leader may see it
    return replace(row, left_behind=left)
