"""Lets a stopped job go on from a copy of a savepoint, for ``resume --from-savepoint``. It is called by
``cli`` and defines the order of the steps.

The copy comes first, to a location where nothing is, then the spec of the new revision, then one multi that
makes both the job's (``registry.user_writes.resume_from``). If the command is interrupted before that, the
job is what it was; given again, the command goes on with the same copy. The old checkpoint is never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from supervisor.errors import Conflict, InvalidInput, NotFound
from supervisor.model.going_back import GOES_ON, NOTHING_SAID, GoingBack, ReturnWay, Said
from supervisor.model.location import normalise, overlaps
from supervisor.model.records import BlobRef
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import before_copy, opener, ran_instead_of
from supervisor.operations.jobs import Did, Done
from supervisor.operations.savepoint_resume import Basis, Revision, savepoint_detail
from supervisor.operations.signing import signature_for
from supervisor.operations.sink_grounds import grounds_of
from supervisor.savepoints.create import ReportProgress, manifest_at
from supervisor.savepoints.manifest import Manifest, seen_queries
from supervisor.savepoints.operations import find_savepoint, restore_to
from supervisor.savepoints.target import fresh_location
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, spec_sha256
from supervisor.spec.moved import moved_spec


class Planned(NamedTuple):
    """Describes a resume before it is done. ``old`` and ``new`` are the locations of the checkpoints.
    ``manifest`` is that of the savepoint, which may be another job's. ``back`` says whether its queries get new ids."""

    name: str
    manifest: Manifest
    old: str
    new: str
    back: GoingBack = GOES_ON


class Resumed(NamedTuple):
    done: Done
    planned: Planned


def resume_from(
    context: CommandContext,
    name: str,
    which: str | None,
    to: str | None,
    begun: Callable[[Planned], None],
    report_progress: ReportProgress,
    spec_of: Callable[[], BlobRef] | None = None,
    by: str = "",
    sign_with: Path | None = None,
    said: Said = NOTHING_SAID,
) -> Resumed:
    """Resumes a job from a savepoint. ``which`` is the id or location of the savepoint, or None for the
    newest. ``to`` is the location of the checkpoint from now on; if it is None, ``fresh_location`` chooses
    one. ``spec_of`` returns the spec of the new revision (``rollback --from-savepoint``); if it is None, it is the present
    one. ``by`` is who asked for it, for people, and ``sign_with`` the private key that signs the spec with its new
    checkpoint. ``said`` is what is said of the sink.

    ``begun`` is called before the first object is copied. Raises NotFound (no savepoint), Conflict (the job
    may run; the location is taken, not empty, or overlaps; its sink would lose rows), Corrupt (the savepoint
    is damaged), and what ZooKeeper and the store raise.
    """
    blobs = context.blobs()
    context.bootstrap_or_check(blobs)
    basis = context.commands.basis(name)
    wanted = basis.spec if spec_of is None else spec_of()
    spec = from_canonical(blobs.read_spec(wanted), wanted.key)
    here = basis.checkpoint or spec.checkpoint
    if spec.checkpoint is None or here is None:
        raise InvalidInput(f"the spec of {name} names no checkpoint: a savepoint can't take the place of any")
    saved = find_savepoint(context.settings, name, which, spec.conf)
    manifest = manifest_at(saved)
    if manifest is None:
        raise NotFound(f"there is no complete savepoint at {saved.location}: it has no manifest")
    if basis.running:
        planned = Planned(name, manifest, here, here)
        if _is_done(basis, here, manifest.id, to):
            return Resumed(Done(name, basis.uid, Did.ALREADY_RUNNING), planned)
        raise Conflict(basis.running)
    target = to if to is not None else fresh_location(here, manifest.id, basis.uid, basis.revision)
    if overlaps(target, here):
        raise Conflict(f"{target} overlaps {here}, the checkpoint that {name} has: choose another location")
    moved = moved_spec(spec, target, "--to")
    data = canonical_json(moved)
    signature = signature_for(context.settings, name, spec_sha256(moved), sign_with)
    context.commands.check_location(name, target)
    way = ReturnWay.RESUME if spec_of is None else ReturnWay.ROLLBACK
    back = _decided(context, way, name, manifest, spec, said)
    planned = Planned(name, manifest, here, target, back)
    begun(planned)
    restored = restore_to(context.settings, saved, target, spec.conf, back, report_progress)
    stored = blobs.put_spec(name, basis.uid, basis.next_revision, data)
    ref = replace(stored, signature=signature)
    revision = Revision(basis, ref, moved.scheduling(), manifest.id, restored.queries, by)
    done = context.commands.resume_from(revision)
    return Resumed(done, planned)


def _decided(
    context: CommandContext, way: ReturnWay, name: str, manifest: Manifest, spec: JobSpec, said: Said
) -> GoingBack:
    """Asks about the sink of the job. Raises Conflict if it would lose rows."""
    opened, queries = opener(context.settings, spec), seen_queries(manifest)
    grounds, other = grounds_of(context, name), ran_instead_of(context, name)
    return before_copy(way, queries, grounds, manifest.source, spec, said, opened, other).require()


def _is_done(basis: Basis, checkpoint: str, savepoint: str, to: str | None) -> bool:
    """Returns whether this very command was given before, and its answer lost."""
    return basis.recorded_detail == savepoint_detail(savepoint, checkpoint) and (
        to is None or normalise(to) == normalise(checkpoint)
    )
