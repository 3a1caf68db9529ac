"""Decides what it takes to change the spec of a registered job (protocol §9.2). Pure.

Called by ``operations.jobs``, which reads and commits, and by ``operations.apply``, which stores the spec and its
files in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from supervisor.errors import Conflict
from supervisor.model.location import normalise
from supervisor.model.records import (
    Desired,
    JobRef,
    KeptRevision,
    Ownership,
    OwnState,
    RevisionFate,
    SpecRevision,
)
from supervisor.model.state import is_pending, revision_before, revision_of, standing_update
from supervisor.registry.revisions import known
from supervisor.registry.user_writes import UPDATE_WITHDRAWN, AskedRevision


class Change(StrEnum):
    """Says what a spec is to the job of its name."""

    CREATE = "create"
    UPDATE = "update"
    WITHDRAW = "withdraw"
    NONE = "none"


Basis: TypeAlias = "tuple[int, str, int]"
"""A job as it was judged: its revision, the sha256 of its spec, and the number of the next revision."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Holds what was judged of a name. ``now`` is what the job shall run at present, and ``keeps`` the revision that
    an update replaces or, if it is withdrawn, goes back to. ``why`` is a sentence for a person, where there is one.
    ``runs`` says whether an attempt of it is claimed, and shall run on; ``given_up``, that nothing is done because no driver
    of this spec could be prepared before."""

    change: Change
    uid: str = ""
    basis: Basis = (0, "", 0)
    now: SpecRevision | None = None
    keeps: SpecRevision | None = None
    why: str = ""
    runs: bool = True
    given_up: bool = False

    @property
    def revision(self) -> int:
        """Returns the number of the revision that the job would have, or has; 0 if there is none yet."""
        if self.change is Change.UPDATE:
            return self.basis[2]
        if self.change is Change.WITHDRAW and self.keeps is not None:
            return self.keeps.revision
        return self.basis[0]


class MovedPlace(NamedTuple):
    """Says which checkpoint the spec file of a job names, and where the leader has moved the job from there."""

    declared: str
    now: str


@dataclass(frozen=True, slots=True)
class Target:
    """Holds what is asked of the job ``name`` as it was judged."""

    name: str
    uid: str
    basis: Basis
    asked: AskedRevision


def judge_change(
    job: JobRef,
    own: Ownership,
    spec_sha256: str,
    checkpoint: str | None,
    revisions: Sequence[KeptRevision] | None = None,
    signature: str = "",
    *,
    again: bool,
) -> Judged:
    """Returns what it takes to make a spec that of ``job``. ``revisions`` are those that are known, oldest first (None: what
    the reference says). A ``signature`` that the spec does not have is a change, too. With ``again``, a spec that has
    failed is tried once more. Raises Conflict if the checkpoint is
    another one."""
    update, pending = job.update, is_pending(job, own)
    before = revision_before(job, update) if update is not None and pending else None
    now, basis = revision_of(job), (job.revision, job.spec.sha256, job.next_revision)
    if job.spec.sha256 == spec_sha256 and signature in ("", job.spec.signature):
        waiting = f"its update to revision {job.revision} is under way" if pending else ""
        return Judged(Change.NONE, job.uid, basis, now, now, waiting)
    if not is_same_checkpoint(checkpoint, job.terms.checkpoint):
        has = job.terms.checkpoint or "none"
        raise Conflict(
            f"{job.name} has its checkpoint at {has}, and its spec now says {checkpoint or 'none'}: an update keeps the "
            "checkpoint",
            f"write {has} into the spec; resume {job.name} --from-savepoint moves a job to another one",
        )
    is_before = before is not None and before.spec.sha256 == spec_sha256
    if before is not None and is_before and signature in ("", before.spec.signature):
        why = f"revision {before.revision} runs already, and the update to {job.revision} is withdrawn"
        return Judged(Change.WITHDRAW, job.uid, basis, now, before, why)
    why = _why_failed(job, spec_sha256, signature, known(job, ()) if revisions is None else revisions)
    if why and not again:
        said = f"{why}; apply --again tries it once more"
        return Judged(Change.NONE, job.uid, basis, now, now, said, given_up=True)
    runs = own.uid == job.uid and own.state is OwnState.CLAIMED and job.desired is Desired.RUNNING
    return Judged(Change.UPDATE, job.uid, basis, now, now, why, runs=runs)


def _why_failed(job: JobRef, spec_sha256: str, signature: str, revisions: Sequence[KeptRevision]) -> str:
    """Returns what became of the newest revision with this spec, if it has failed; else it is empty. A ``signature`` that it
    did not have may be what it lacked."""
    update = job.update
    moved = 0
    if update is not None and update.moved_sha256 and spec_sha256.startswith(update.moved_sha256):
        moved = update.target
    entry = next(
        (each for each in reversed(revisions) if each.sha256 == spec_sha256 or each.revision == moved), None
    )
    if entry is None or entry.fate not in FAILED or signature not in ("", entry.signature):
        return ""
    why = entry.why
    if update is not None and update.target == entry.revision:
        why = update.rolled_back or update.given_up or why  # the whole of it
    return f"revision {entry.revision} had this spec and {FAILED[entry.fate]}: {why}"


FAILED: Final = {RevisionFate.FAILED: "was given up", RevisionFate.ROLLED_BACK: "was rolled back"}


def is_rolled_back(job: JobRef) -> bool:
    """Says whether the newest update of ``job`` is a roll back already, was withdrawn, or was rolled back by the leader."""
    update = standing_update(job)
    if update is not None:
        return update.rolls_back
    if job.update is None:
        return job.changed.event == UPDATE_WITHDRAWN
    return bool(job.update.rolled_back)


def rolled_back(job: JobRef, own: Ownership) -> tuple[SpecRevision, bool]:
    """Returns the revision that a roll back leads to, and whether that only withdraws an update that has changed
    nothing yet. Raises Conflict if nothing is known to go back to."""
    update, newest = standing_update(job), job.update
    if update is None:
        none = (
            f"the update to revision {newest.target} was given up and has changed nothing: {job.name} runs revision "
            f"{job.revision} as before"
            if newest is not None and newest.given_up
            else f"{job.name} runs revision {job.revision}, and none is known to go back to"
        )
        raise Conflict(none, f"revisions {job.name} lists those that rollback {job.name} --to can name")
    before = revision_before(job, update)
    if is_pending(job, own):
        return before, True
    return replace(before, revision=job.next_revision), False


def is_same_checkpoint(one: str | None, other: str | None) -> bool:
    """Says whether two specs have the same checkpoint, or both none."""
    if one is None or other is None:
        return one is other
    return normalise(one) == normalise(other)
