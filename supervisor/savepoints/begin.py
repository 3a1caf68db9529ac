"""Begins a job with a savepoint at its submission: the savepoint is copied to the checkpoint of the spec, where
nothing may be yet. ``cli.submit`` calls it; a job that is registered already has ``savepoints.resume``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.errors import InvalidInput
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.operations.submit import BeginsWith
from supervisor.savepoints.operations import find_savepoint, restore_to
from supervisor.savepoints.restore import read_savepoint

if TYPE_CHECKING:
    from supervisor.clients.store.area import Area
    from supervisor.savepoints.create import ReportProgress
    from supervisor.savepoints.manifest import Manifest
    from supervisor.settings.file import Settings
    from supervisor.spec.job import JobSpec


def begins_with(settings: Settings, spec: JobSpec, which: str) -> BeginsWith:
    """Returns what the job would begin with, and copies nothing. ``which`` is the id or location of a savepoint.

    Raises InvalidInput, NotFound, Corrupt, Unreachable, AccessDenied.
    """
    _checkpoint(spec)
    return _of(read_savepoint(_found(settings, spec, which))[0])


def restore_for(settings: Settings, spec: JobSpec, which: str, report_progress: ReportProgress) -> BeginsWith:
    """Copies the savepoint, and returns what the job begins with. An interrupted copy goes on. Raises as
    ``begins_with``, and the errors of ``savepoints.restore.restore``."""
    target = _checkpoint(spec)
    saved = _found(settings, spec, which)
    return _of(restore_to(settings, saved, target, spec.conf, report_progress).manifest)


def _checkpoint(spec: JobSpec) -> str:
    if spec.checkpoint is None:
        raise InvalidInput(
            f"checkpoint of {spec.name}: name the location to which the savepoint shall be copied"
        )
    return spec.checkpoint


def _found(settings: Settings, spec: JobSpec, which: str) -> Area:
    return find_savepoint(settings, spec.name, which, spec.conf)


def _of(manifest: Manifest) -> BeginsWith:
    return BeginsWith(manifest.id, tuple(SeenQuery(query.id, query.batch) for query in manifest.queries))
