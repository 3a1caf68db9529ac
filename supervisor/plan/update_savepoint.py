"""Decides what ``update.rollback: savepoint`` asks for: a savepoint before the hand-over of an update, and after the failure
of its target a copy of that, from which the revision before goes on (protocol §9.2). It is pure.

``plan.decide`` calls it, and turns a ``SavepointStep`` into its own decision. The leader makes savepoint and copy beside its
passes (``daemon.leader.way_back``), where a note of the plan asks for it; what has come of it stands in the row.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from supervisor.model.actions import KeepSavepoint
from supervisor.model.records import JobRef, Ownership, RollbackRule, Update
from supervisor.model.seen import Found
from supervisor.model.state import is_pending, observed_update
from supervisor.model.update_savepoint import restore_max_s, target_of
from supervisor.model.view import Row, UpdateRestored, View

NOT_IN_TIME: Final = "it was not complete"


@dataclass(frozen=True, slots=True)
class SavepointStep:
    """Says what comes before the stop of the present driver: ``keep`` is the savepoint that is to be written down,
    ``give_up`` says why the update is given up; if both are empty, the driver goes on for at most ``wait_s``, because of
    ``why``."""

    why: str = ""
    wait_s: float | None = None
    keep: str = ""
    give_up: str = ""


@dataclass(frozen=True, slots=True)
class WayBackStep:
    """Says how an update that has failed is rolled back: to the copy in ``restored``, or not at all, since ``failed``
    says why there is none; if both are empty, the job waits for at most ``wait_s``, because of ``why``."""

    why: str = ""
    wait_s: float | None = None
    restored: UpdateRestored | None = None
    failed: str = ""


def wants_savepoint(job: JobRef, own: Ownership) -> bool:
    """Says whether a savepoint is to be made before the driver of the revision before is stopped. ``restart --cold``
    waits for none."""
    update = observed_update(job)
    if update is None or update.policy is None or update.policy.rollback is not RollbackRule.SAVEPOINT:
        return False
    is_cold = own.restart_nonce != job.restart_nonce and job.cold_restart == job.restart_nonce
    return not update.savepoint and job.terms.checkpoint is not None and is_pending(job, own) and not is_cold


def before_hand_over(
    row: Row, job: JobRef, own: Ownership, known: tuple[str, ...], now_s: float
) -> SavepointStep | None:
    """Returns what comes before the present driver is stopped for an update; None if nothing does. ``known`` is what is
    known to be in the checkpoint: where nothing is, and nothing is found there, there is nothing to save."""
    if not wants_savepoint(job, own):
        return None
    saved, limit_s = row.saved, job.terms.start_timeout_s
    if saved is None:
        return SavepointStep(f"a savepoint is made before revision {job.revision} begins")
    if saved.savepoint:
        return SavepointStep(f"savepoint {saved.savepoint} was made", keep=saved.savepoint)
    if saved.nothing and not known:
        return None
    if saved.for_good:
        return SavepointStep(give_up=f"no savepoint can be made: {saved.why}")
    left_s = saved.since_at_s + limit_s - now_s
    if left_s <= 0:
        return SavepointStep(
            give_up=f"no savepoint was made within {limit_s:g} s: {saved.why or NOT_IN_TIME}"
        )
    so_far = f" (so far: {saved.why})" if saved.why else ""
    return SavepointStep(f"a savepoint is made before revision {job.revision} begins{so_far}", left_s)


def is_own_savepoint(update: Update) -> bool:
    """Says whether the savepoint was made for this very update. Else it was taken over from one that this has replaced,
    whose target may have left something behind it."""
    return target_of(update.savepoint) == update.target


def outdated(view: View, names: Container[str]) -> Iterator[KeepSavepoint]:
    """Yields the writes that drop savepoints which were made for a hand-over that does not come now. The present driver goes
    on, for hours if need be, and commits what is not in them: another is made when the hand-over comes. The jobs in
    ``names`` have another action."""
    for name, row in view.rows.items():
        if name in names or row.flaws or row.is_torn:
            continue
        if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
            continue
        job, own = row.ref.record, row.own.record
        update = observed_update(job)
        if update is None or not is_pending(job, own):
            continue
        if update.savepoint or (row.saved is not None and row.saved.savepoint):
            why = (
                f"the hand-over to revision {update.target} waits: its savepoint is made anew when that comes"
            )
            yield KeepSavepoint(name, why, row.ref, row.own, "")


def back_to_savepoint(row: Row, job: JobRef, update: Update, now_s: float, since_at_s: float) -> WayBackStep:
    """Returns how an update that has failed, and may have left something, is rolled back to its savepoint. ``since_at_s`` is
    from when the time of the copy counts."""
    restored = row.restored
    if restored is not None and restored.revision is not None:
        return WayBackStep(restored=restored)
    if restored is not None:
        return WayBackStep(failed=f"savepoint {update.savepoint} could not be restored: {restored.why}")
    limit_s = restore_max_s(job.terms.start_timeout_s)
    left_s = since_at_s + limit_s - now_s
    if left_s <= 0:
        return WayBackStep(failed=f"savepoint {update.savepoint} was not restored within {limit_s:g} s")
    why = f"savepoint {update.savepoint} is being restored: revision {update.before.revision} goes on from there"
    return WayBackStep(why, left_s)
