"""Begins a job with a savepoint at its submission: the savepoint is copied to the checkpoint of the spec, where
nothing may be yet. ``cli.submit`` calls it; a job that is registered already has ``savepoints.resume``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.errors import InvalidInput
from supervisor.model.going_back import GoingBack, ReturnWay, Said
from supervisor.operations.going_back import before_copy, before_submission, opener, spec_of
from supervisor.operations.sink_grounds import grounds_of
from supervisor.operations.submit import BeginsWith
from supervisor.savepoints.manifest import seen_queries
from supervisor.savepoints.operations import find_savepoint, restore_to
from supervisor.savepoints.restore import read_savepoint

if TYPE_CHECKING:
    from supervisor.clients.store.area import Area
    from supervisor.operations.context import CommandContext
    from supervisor.savepoints.create import ReportProgress
    from supervisor.savepoints.manifest import Manifest
    from supervisor.settings.file import Settings
    from supervisor.spec.job import JobSpec


def begins_with(context: CommandContext, spec: JobSpec, which: str, said: Said) -> BeginsWith:
    """Returns what the job would begin with, and copies nothing. ``which`` is the id or location of a savepoint, ``said``
    what is said of the sink.

    Raises InvalidInput, NotFound, Corrupt, Unreachable, AccessDenied, and Conflict if the sink would lose rows.
    """
    _checkpoint(spec)
    manifest = read_savepoint(_found(context.settings, spec, which))[0]
    _decided(context, spec, manifest, said)
    return BeginsWith(manifest.id, seen_queries(manifest))


def restore_for(
    context: CommandContext, spec: JobSpec, which: str, said: Said, report_progress: ReportProgress
) -> BeginsWith:
    """Copies the savepoint, and returns what the job begins with. An interrupted copy goes on. Raises as
    ``begins_with``, and the errors of ``savepoints.restore.restore``."""
    target = _checkpoint(spec)
    saved = _found(context.settings, spec, which)
    back = _decided(context, spec, read_savepoint(saved)[0], said)
    restored = restore_to(context.settings, saved, target, spec.conf, back, report_progress)
    return BeginsWith(restored.manifest.id, restored.queries)


def back_of_copy(context: CommandContext, name: str | None, saved: Area, said: Said) -> GoingBack:
    """Returns the decision about a copy that no job is started with, for the job ``name``, or else for the one that the
    savepoint is of. Raises Conflict if the sink of who goes on from it would lose rows, and what ``read_savepoint``
    raises."""
    manifest = read_savepoint(saved)[0]
    writer = name or manifest.name
    spec, grounds = spec_of(context, writer), grounds_of(context, writer)
    opened, queries = opener(context.settings, spec), seen_queries(manifest)
    return before_copy(ReturnWay.RESTORE, queries, grounds, manifest.source, spec, said, opened).require()


def _decided(context: CommandContext, spec: JobSpec, manifest: Manifest, said: Said) -> GoingBack:
    """Asks about the sink of the job that the savepoint is of, and about that of an earlier job of this name."""
    of = grounds_of(context, manifest.name)
    own = grounds_of(context, spec.name) if spec.name != manifest.name else None
    opened, queries = opener(context.settings, spec), seen_queries(manifest)
    return before_submission(queries, own, of, manifest.source, spec, said, opened).require()


def _checkpoint(spec: JobSpec) -> str:
    if spec.checkpoint is None:
        raise InvalidInput(
            f"checkpoint of {spec.name}: name the location to which the savepoint shall be copied"
        )
    return spec.checkpoint


def _found(settings: Settings, spec: JobSpec, which: str) -> Area:
    return find_savepoint(settings, spec.name, which, spec.conf)
