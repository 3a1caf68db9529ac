"""Makes the savepoint of what a job left when it stopped, for ``suspend --savepoint``. It is called by
``cli``, before and after its wait.

The id of the savepoint depends on the suspension alone, so a command that was interrupted goes on when it is
given again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from supervisor.clients.store.area import open_area
from supervisor.errors import Conflict, Corrupt, NotFound
from supervisor.model.records import Desired, JobRef
from supervisor.model.seen import Found
from supervisor.operations.checkpoints import Located, located
from supervisor.operations.context import CommandContext
from supervisor.savepoints.create import ReportProgress, boundaries
from supervisor.savepoints.manifest import Begun, Manifest, checked_id, new_id
from supervisor.savepoints.operations import access_for, area_at, create_savepoint, home_of, shelf_of
from supervisor.savepoints.restore import verify
from supervisor.savepoints.shelf import ShelfEntry


class SuspendedSavepoint(NamedTuple):
    """Holds the savepoint of a suspension. If ``did`` is False, exactly that was there already."""

    manifest: Manifest
    did: bool


def check_before(context: CommandContext, name: str, savepoint: str | None) -> None:
    """Refuses what cannot lead to a savepoint, before the job is stopped for it. Raises NotFound, Conflict,
    InvalidInput and what ZooKeeper and the store raise."""
    found = located(context, name)
    home = home_of(context.settings, found, name, checked_id(savepoint or "one"))
    area_at(context.settings, home).require_writable()
    entry = _entry(context, name, savepoint) if savepoint is not None else None
    ref = context.commands.job_records(name).ref
    suspended = isinstance(ref, Found) and ref.record.desired is Desired.SUSPENDED
    if entry is not None and entry.manifest is not None and not suspended:
        raise Conflict(
            f"{name} has a savepoint {entry.id} already, from {entry.manifest.created_at}: choose another id"
        )


def id_after(context: CommandContext, name: str, savepoint: str | None) -> str:
    """Returns the id of the savepoint: ``savepoint``, or if that is None, one that this suspension of
    ``name`` determines. Raises Conflict if the job is not suspended (any more)."""
    job = _suspended(context, name)
    return savepoint if savepoint is not None else new_id(job.changed.at, job.op[:4])


def save(
    context: CommandContext,
    name: str,
    savepoint: str,
    begun: Callable[[Begun], None],
    report_progress: ReportProgress,
) -> SuspendedSavepoint:
    """Creates and verifies the savepoint, or goes on with it; the job's driver must have stopped. Raises
    Conflict if the savepoint of that id is of another state of the checkpoint, Corrupt if it is not whole,
    and the errors of ``create_savepoint``."""
    found, job_records = located(context, name), context.commands.job_records(name)
    own = job_records.own.record if isinstance(job_records.own, Found) else None
    entry = _entry(context, name, savepoint)
    if entry is not None and entry.manifest is not None:
        _require_same(context, found, entry.manifest)
        return SuspendedSavepoint(entry.manifest, False)
    uid, attempt = (own.newest_uid, own.attempt) if own is not None else ("", 0)
    manifest = create_savepoint(
        context.settings, found, name, uid, attempt, savepoint, begun, report_progress
    )
    made = _entry(context, name, savepoint)
    if made is None or made.begun is None:
        raise Conflict(f"savepoint {savepoint} of {name} was deleted while it was being verified")
    wrong = verify(shelf_of(context.settings).area_of(made.begun)).problems
    if wrong:
        raise Corrupt(f"savepoint {savepoint} of {name} is damaged: {wrong[0]}", "see savepoint verify")
    _suspended(context, name)
    return SuspendedSavepoint(manifest, True)


def _suspended(context: CommandContext, name: str) -> JobRef:
    ref = context.commands.job_records(name).ref
    if not isinstance(ref, Found) or ref.record.desired is not Desired.SUSPENDED:
        raise Conflict(
            f"{name} was resumed or cancelled meanwhile: see show {name} and savepoint list {name}"
        )
    return ref.record


def _entry(context: CommandContext, name: str, savepoint: str) -> ShelfEntry | None:
    try:
        return shelf_of(context.settings).find(name, savepoint)
    except NotFound:
        return None


def _require_same(context: CommandContext, located: Located, manifest: Manifest) -> None:
    area = open_area(
        located.location,
        access_for(context.settings, located.location, located.conf),
    )
    now, _ = boundaries(area)
    if manifest.source != area.location or {query.path: query.batch for query in manifest.queries} != now:
        raise Conflict(
            f"savepoint {manifest.id} of {manifest.name} is of an earlier state, of {manifest.created_at}: choose another id"
        )
