"""Updates by the rule ``savepoint``: what a leader's pass finds of savepoint and copy, and what is judged of what comes of them.

The copying is not modelled: a savepoint is complete, and a copy is there, as soon as a plan waits for it; or it can't be made,
at any time. What the write of a roll back rests on is read by production (``read_for_move``), at the moment of the pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from supervisor.errors import Conflict
from supervisor.model.checkpoint_expectation import SeenQuery, place_of, queries_of
from supervisor.model.location import digest
from supervisor.model.records import (
    CheckpointClaim,
    Desired,
    JobRef,
    Ownership,
    OwnState,
    RollbackRule,
    SpecRevision,
    Update,
)
from supervisor.model.seen import Found
from supervisor.model.state import is_pending, revision_before, why_update_failed
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import Row, UpdateRestored, UpdateSaved, View
from supervisor.plan.update_savepoint import wants_savepoint
from supervisor.records.reading import seen
from supervisor.registry.update_savepoint_writes import read_for_move
from tests.explore.setting import LAYOUT, spec

if TYPE_CHECKING:
    from tests.explore.world import ExploredWorld, Sent

QUERIES = (SeenQuery("q", 1),)


def copy_location(job: JobRef) -> str:
    """Of the copy. That each term has a place of its own is left out, for nothing of it is in the registry."""
    return f"{job.terms.checkpoint}.from"


def answered(view: View, zoo: Any, now_s: float, *, made: bool = True) -> View:
    """With what the leader's way back has come to; if not ``made``, it can't be."""
    rows = {name: _answered(row, zoo, now_s, made) for name, row in view.rows.items()}
    return replace(view, rows=rows)


def _answered(row: Row, zoo: Any, now_s: float, made: bool) -> Row:
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return row
    job, own = row.ref.record, row.own.record
    if wants_savepoint(job, own):
        assert job.update is not None
        savepoint = savepoint_id(job.uid, job.update.target, row.own.version, row.ref.version)
        saved = UpdateSaved(now_s, savepoint=savepoint) if made else UpdateSaved(now_s, why="", for_good=True)
        return replace(row, saved=saved)
    waits = own.state is OwnState.EXITED and job.desired is Desired.RUNNING and why_update_failed(job, own)
    if waits and job.update is not None and job.update.savepoint:
        return replace(row, restored=_restored(zoo, job, job.update) if made else UpdateRestored(why=""))
    return row


def _restored(zoo: Any, job: JobRef, update: Update) -> UpdateRestored:
    place = copy_location(job)
    try:
        found = read_for_move(zoo, LAYOUT, job, place)
    except Conflict:
        return UpdateRestored(why="")
    before, number = revision_before(job, update), job.next_revision
    revision = SpecRevision(
        revision=number, spec=spec(job.name, job.uid, number), terms=replace(before.terms, checkpoint=place)
    )
    return replace(found, revision=revision, queries=QUERIES, moved_sha256="moved")


# -- what is judged -----------------------------------------------------------------------------------------------------


def committed(before: ExploredWorld, after: ExploredWorld, sent: Sent) -> ExploredWorld:
    """A multi of a leader has committed."""
    was, own = _records(before, sent.name)
    if was is None or own is None:
        return after
    if sent.tx.what == "drain":
        return saved_first(after, was, own)
    if sent.tx.what == "keep_savepoint":
        return kept_rightly(after, was, own, sent.name)
    if sent.tx.what == "roll_back_to_savepoint":
        return moved_whole(after, was, sent.name)
    return after


def saved_first(after: ExploredWorld, was: Found[JobRef], own: Found[Ownership]) -> ExploredWorld:
    """§9.2: no driver is stopped for an update by the rule ``savepoint`` before there is a savepoint."""
    job, update = was.record, was.record.update
    if update is None or not is_pending(job, own.record) or job.desired is not Desired.RUNNING:
        return after
    asked = update.policy is not None and update.policy.rollback is RollbackRule.SAVEPOINT
    if asked and not update.savepoint:
        return after.breaks(f"§9.2: {job.name} is stopped for its update, and no savepoint was made before")
    return after


def kept_rightly(after: ExploredWorld, was: Found[JobRef], own: Found[Ownership], name: str) -> ExploredWorld:
    """§9.2: a savepoint is kept while the very attempt runs of which it was made, and with the update for which it was."""
    ref, _ = _records(after, name)
    update, newest = was.record.update, ref.record.update if ref is not None else None
    if update is None or not is_pending(was.record, own.record):
        return after.breaks(
            f"§9.2: a savepoint of {name} is kept, and what was before its update does not run"
        )
    if newest is None or newest.target != update.target:
        return after.breaks(f"§9.2: a savepoint of {name} is kept with another update than the newest")
    if not newest.savepoint:
        return after  # it is dropped, since the hand-over waits; ``saved_first`` judges what follows
    if newest.savepoint != savepoint_id(was.record.uid, update.target, own.version, was.version):
        return after.breaks(f"§9.2: a savepoint of {name} is kept that was made of another attempt")
    return after


def moved_whole(after: ExploredWorld, was: Found[JobRef], name: str) -> ExploredWorld:
    """§9.2: a job that is rolled back to a savepoint has claimed its new place and given up the old one, and its next start has to
    find what was saved."""
    ref, own = _records(after, name)
    if ref is None or own is None:
        return after.breaks(f"§9.2: {name} is rolled back to a savepoint, and not registered")
    here, there = ref.record.terms.checkpoint or "", was.record.terms.checkpoint or ""
    claim = seen(CheckpointClaim, after.tree.read(LAYOUT.checkpoint(digest(here))), "")
    if here == there or not isinstance(claim, Found) or claim.record.uid != ref.record.uid:
        return after.breaks(f"§9.2: {name} is rolled back to a place that it has not claimed")
    if LAYOUT.checkpoint(digest(there)) in after.tree.nodes:
        return after.breaks(f"§9.2: {name} is rolled back to a savepoint, and claims its old place, too")
    if LAYOUT.lease(name) in after.tree.nodes:
        return after.breaks(f"§9.2: {name} is rolled back to a savepoint, and its lease is of the old place")
    expected = own.record.remembered
    if expected is None or (expected.place, queries_of(expected)) != (place_of(here), QUERIES):
        return after.breaks(f"§9.2: the next start of {name} need not find what was saved")
    if own.record.state is not OwnState.EXITED:
        return after.breaks(f"§9.2: {name} is rolled back to a savepoint, and its target has not ended")
    return after


def _records(world: ExploredWorld, name: str) -> tuple[Found[JobRef] | None, Found[Ownership] | None]:
    ref = seen(JobRef, world.tree.read(LAYOUT.job(name)), "")
    own = seen(Ownership, world.tree.read(LAYOUT.own(name)), "")
    return ref if isinstance(ref, Found) else None, own if isinstance(own, Found) else None
