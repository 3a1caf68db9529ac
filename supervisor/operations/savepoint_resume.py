"""Decides how a job goes on with another checkpoint: what a resume from a savepoint begins with, and which
revision it makes.

Called by ``operations.jobs`` (which commits) and ``savepoints.resume`` (which copies the savepoint first).
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.errors import Conflict
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.records import (
    DEAD,
    DETAIL_MAX_BYTES,
    BlobRef,
    Desired,
    HistoryEntry,
    JobRef,
    Ownership,
    Result,
    SchedulingSpec,
    clip,
    with_complete_copy,
)
from supervisor.model.seen import Found
from supervisor.model.state import JobState, shown_state
from supervisor.model.view import Row


@dataclass(frozen=True, slots=True)
class Basis:
    """Describes the newest revision of a job.

    ``running`` is why it may run, so that its checkpoint must be left alone, or else ``""``. ``recorded_detail`` is the
    detail text of its user's last change. ``next_revision`` is the number of the next one.
    """

    name: str
    uid: str
    revision: int
    spec: BlobRef
    checkpoint: str | None
    running: str
    recorded_detail: str = ""
    next_revision: int = 0


@dataclass(frozen=True, slots=True)
class Revision:
    """Describes the next revision. Its spec is in the store already, and its checkpoint (of ``scheduling``) holds
    the copy of ``savepoint``.

    ``queries`` are those of the savepoint, with the batch after which it was made. ``by`` is who asked for it, for people.
    """

    basis: Basis
    spec: BlobRef
    scheduling: SchedulingSpec
    savepoint: str
    queries: tuple[SeenQuery, ...]
    by: str = ""


def why_running(job: JobRef, own: Found[Ownership]) -> str:
    """Returns why ``job`` may have a driver, now or before long; ``""`` if it can have none until somebody
    resumes it.

    That it is suspended is not enough: its driver may be stopping. In back-off it starts by itself.
    """
    name, owner = job.name, own.record
    shown = shown_state(Row(name, Found(job, 0), own))
    if owner.state not in DEAD:
        suspended = job.desired is Desired.SUSPENDED
        now = "is suspended, but its driver may be alive still" if suspended else "runs, or is about to"
        return f"{name} {now}: suspend it first (suspend {name} --wait)"
    if shown.state not in (JobState.SUSPENDED, JobState.QUARANTINED):
        return f"{name} runs, or is about to ({shown.state.value}): suspend it first (suspend {name} --wait)"
    return ""


def require_basis(basis: Basis, now: JobRef | Result) -> None:
    """Raises Conflict if the job is not what ``basis`` was any more."""
    if (now.uid, now.revision) != (basis.uid, basis.revision):
        raise Conflict(f"{basis.name} was changed by somebody else meanwhile: try again")


def savepoint_detail(savepoint: str, checkpoint: str | None) -> str:
    """Returns what is written beside the change, for people, and for a command that is given again."""
    return clip(f"from savepoint {savepoint}, now at {checkpoint}", DETAIL_MAX_BYTES)


def moved_reference(job: JobRef, revision: Revision, event: str, op: str, at: str, by: str = "") -> JobRef:
    """Returns ``job`` as it will be registered: it runs with the new checkpoint, for which no fresh start was
    accepted and which no other job left."""
    detail = savepoint_detail(revision.savepoint, revision.scheduling.checkpoint)
    return replace(
        job,
        revision=max(revision.basis.revision + 1, revision.basis.next_revision, job.next_revision),
        last_revision=0,
        update=None,
        spec=revision.spec,
        terms=revision.scheduling,
        desired=Desired.RUNNING,
        restart_nonce=op,
        changed=HistoryEntry(at=at, event=event, attempt=job.changed.attempt, detail=detail, by=by),
        op=op,
        fresh_start="",
        begins_with=(),
        left_by="",
        fork=with_complete_copy(job.fork),
    )
