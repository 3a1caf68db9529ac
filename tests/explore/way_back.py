"""Updates by the rule ``savepoint``: what a leader's pass finds of savepoint and copy, and what is judged of what comes of them.

The copying is not modelled: a savepoint is complete, and a copy is there, as soon as a plan waits for it; or it can't be made,
or waits for its turn, at any time. Of what is in a checkpoint so much is modelled: each attempt has committed one batch, whose
number is its own. What the write of a roll back rests on is read by production (``read_for_move``), at the moment of the pass.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from supervisor.daemon.leader.way_back import WayBack, WayBackTask
from supervisor.errors import Conflict
from supervisor.model.actions import Plan
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    SeenQuery,
    pairs_of,
    place_of,
    queries_of,
)
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
from supervisor.model.state import (
    is_pending,
    observed_update,
    revision_before,
    standing_update,
    why_update_failed,
)
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import Row, UpdateRestored, UpdateSaved, View
from supervisor.plan.make import make_plan
from supervisor.plan.update_savepoint import wants_savepoint
from supervisor.records.reading import seen
from supervisor.registry.update_savepoint_writes import read_for_move
from tests.explore.setting import LAYOUT, NEVER_S, POLICY, spec

if TYPE_CHECKING:
    from tests.explore.world import ExploredWorld, Sent

QUERIES = (SeenQuery("q", 1),)


def copy_location(job: JobRef) -> str:
    """Of the copy. That each term has a place of its own is left out, for nothing of it is in the registry."""
    return f"{job.terms.checkpoint}.from"


def answered(view: View, zoo: Any, now_s: float, *, made: bool = True, queued: bool = False) -> View:
    """With what the leader's way back has come to; if not ``made``, it can't be. With ``queued`` a savepoint was asked for long
    ago, and waits for its turn beside those of other jobs. One that no plan waits for is not made."""
    view = replace(view, rows={name: with_batches(row) for name, row in view.rows.items()})
    wanting = {name for name, row in view.rows.items() if _wants_savepoint(row)}
    if wanting:
        wanting = {note.name for note in make_plan(view, POLICY, now_s).notes if note.saves}
    rows = {}
    for name, row in view.rows.items():
        if name in wanting:
            rows[name] = _queued(row, now_s) if queued else _saved(row, now_s, made)
        else:
            rows[name] = _restoring(row, zoo, made)
    return replace(view, rows=rows)


def _wants_savepoint(row: Row) -> bool:
    found = isinstance(row.ref, Found) and isinstance(row.own, Found)
    return found and wants_savepoint(row.ref.record, row.own.record)  # type: ignore[union-attr]


def with_batches(row: Row) -> Row:
    """With what is known of the checkpoint of an update that is judged, once an attempt has ended."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return row
    job, own = row.ref.record, row.own.record
    if observed_update(job) is None or own.state is not OwnState.EXITED or own.uid != job.uid:
        return row
    known = CheckpointExpectation(
        place=place_of(job.terms.checkpoint or ""), queries=pairs_of([SeenQuery("q", own.attempt)])
    )
    return replace(row, own=replace(row.own, record=replace(own, remembered=known)))


def _queued(row: Row, now_s: float) -> Row:
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return row
    key = (row.ref.record.uid, row.ref.version, row.own.version)
    task = WayBackTask(key, row.ref, row.own, restores=False, saved=UpdateSaved(now_s - 2 * NEVER_S))
    leader: Any = SimpleNamespace(_clock=lambda: now_s)  # as much of a ``WayBack`` as answers for one job
    return WayBack._answer(leader, task, row)


def flaws(view: View, plan: Plan) -> tuple[str, ...]:
    """§9.2: what is wrong with a plan: a savepoint is of the hand-over for which it was made, and is kept over no wait."""
    if view.paused or view.distrust is not None or not view.recorded or view.accepted is not None:
        return ()
    acted = {action.name for action in plan.actions}
    return tuple(
        f"§9.2: the hand-over of {name} waits, and its savepoint is kept"
        for name, row in view.rows.items()
        if name not in acted and not row.flaws and not row.is_torn and _keeps(row)
    )


def _keeps(row: Row) -> bool:
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    update = observed_update(job)
    if update is None or not update.savepoint or job.desired is not Desired.RUNNING:
        return False
    return own.state is OwnState.CLAIMED and is_pending(job, own)


def _saved(row: Row, now_s: float, made: bool) -> Row:
    assert isinstance(row.ref, Found) and isinstance(row.own, Found)
    job, update = row.ref.record, row.ref.record.update
    assert update is not None
    savepoint = savepoint_id(job.uid, update.target, row.own.version, row.ref.version)
    saved = UpdateSaved(now_s, savepoint=savepoint) if made else UpdateSaved(now_s, why="", for_good=True)
    return replace(row, saved=saved)


def _restoring(row: Row, zoo: Any, made: bool) -> Row:
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return row
    job, own = row.ref.record, row.own.record
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
    if sent.tx.what == "assign":
        return measured_rightly(after, was, own, sent.name)
    if sent.tx.what == "give_update_up" and "no savepoint was made within" in sent.why:
        return after.breaks(f"§9.2: an update of {sent.name} is given up whose savepoint had no turn yet")
    if sent.tx.what in ("roll_update_back", "roll_back_to_savepoint"):
        after = back_to_what_ran(after, was)
    if sent.tx.what == "roll_back_to_savepoint":
        return moved_whole(after, was, sent.name)
    return after


def updated(before: ExploredWorld, after: ExploredWorld, name: str) -> ExploredWorld:
    """§9.2: a user's update has committed. One that replaces another whose target does not run hands its savepoint over, at
    whatever moment that is."""
    (was, own), (now, _) = _records(before, name), _records(after, name)
    newest = now.record.update if now is not None else None
    if was is None or own is None or newest is None or newest.rolls_back:
        return after
    standing = standing_update(was.record)
    if standing is None or own.record.state is OwnState.CLAIMED:
        return after
    replaced = newest.before.revision == standing.before.revision
    if replaced and newest.savepoint != standing.savepoint:
        return after.breaks(f"§9.2: an update of {name} replaces another, and loses its savepoint")
    return after


def measured_rightly(
    after: ExploredWorld, was: Found[JobRef], own: Found[Ownership], name: str
) -> ExploredWorld:
    """§9.2: what the target of an update has left is measured from the revision that would come back: the batch of an attempt
    of another one was not there before."""
    _, given = _records(after, name)
    judged = given.record.judged if given is not None else None
    if judged is None or own.record.uid != was.record.uid or own.record.revision == judged.before:
        return after
    batch = pairs_of([SeenQuery("q", own.record.attempt)])[0]
    if batch in judged.queries and own.record.revision != 0:
        return after.breaks(
            f"§9.2: what revision {own.record.revision} of {name} has left counts as there before"
        )
    return after


def back_to_what_ran(after: ExploredWorld, was: Found[JobRef]) -> ExploredWorld:
    """§9.2: the leader goes back by itself only to a revision of which an attempt was claimed."""
    job, update = was.record, was.record.update
    if update is not None and update.untried:
        return after.breaks(
            f"§9.2: {job.name} goes back to revision {update.before.revision}, which never ran"
        )
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
