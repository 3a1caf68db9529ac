"""Makes a second job from a registered one, which goes on from a copy of its checkpoint, for ``fork``. It is called
by ``cli`` and defines the order of the steps.

The fork is registered first, suspended: that claims the place of its checkpoint before anything is copied there, and
says which savepoint it begins with. Then come the savepoint, the copy, and one write that lets it start
(``registry.promotion_writes.finish_fork``). Interrupted at any point, the command goes on where it was when it is
given again; until the copy is complete the fork cannot be started, and a cancel of it gives it up.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.checkpoint.handed import planned_in
from supervisor.clients.store.area import open_area
from supervisor.clock import wall_iso
from supervisor.errors import Conflict, InvalidInput, NotFound
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.going_back import NOTHING_SAID, GoingBack, Said
from supervisor.model.records import Desired, Fork, JobRef
from supervisor.model.seen import Found
from supervisor.operations.checkpoints import Located, located, tree_of
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import before_fork, opener
from supervisor.operations.jobs import Did, Done
from supervisor.operations.promoting import PromotionOperations
from supervisor.operations.signing import signed
from supervisor.operations.sink_grounds import grounds_of
from supervisor.operations.submit import Prepared, prepare_spec, require_allowed, store_prepared
from supervisor.records.ids import new_uid
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.savepoints.create import ReportProgress, boundaries, manifest_at
from supervisor.savepoints.manifest import Manifest, checked_id, new_id, seen_queries
from supervisor.savepoints.operations import access_for, create_savepoint, find_savepoint, restore_to
from supervisor.savepoints.restore import RestoredCopy, read_savepoint
from supervisor.savepoints.target import fork_location
from supervisor.spec.compose import changed
from supervisor.spec.job import JobSpec, from_canonical, spec_of, store_key, with_files
from supervisor.spec.moved import would_not_follow

TAG_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class ForkWish:
    """Holds what the user asks for: ``changes`` are ``KEY=VALUE``. ``savepoint`` is the id of one of ``name``, or
    None for a new one. With ``shared_sink`` the fork may write to where ``name`` writes; if ``suspended``, it is not
    started. ``sign_with`` is the private key that signs its spec. ``said`` is what is said of the sink."""

    name: str
    new: str
    changes: tuple[str, ...] = ()
    savepoint: str | None = None
    shared_sink: bool = False
    suspended: bool = False
    sign_with: Path | None = None
    said: Said = NOTHING_SAID


class PlannedFork(NamedTuple):
    """Describes a fork that is registered. ``location`` is that of its checkpoint."""

    new: str
    savepoint: str
    location: str


class Forked(NamedTuple):
    """Holds the outcome. ``manifest`` is None if the fork was there already."""

    done: Done
    planned: PlannedFork
    manifest: Manifest | None


def fork(
    context: CommandContext,
    wish: ForkWish,
    begun: Callable[[PlannedFork], None],
    report_progress: ReportProgress,
) -> Forked:
    """Forks a job. ``begun`` is called when the fork is registered, before anything is copied.

    Raises NotFound (no job, no savepoint), Conflict (the fork's name or place is taken, or it would write where the
    other job writes), InvalidInput, Corrupt (the savepoint is damaged), and what ZooKeeper and the store raise.
    """
    if wish.new == wish.name:
        raise InvalidInput(f"a fork needs a name of its own, which is not {wish.name}")
    operations = context.operations(PromotionOperations)
    source = located(context, wish.name)
    job = _registered(operations, wish.name)
    there = _there(operations, wish, job)
    if there is None:
        location = None
        savepoint = wish.savepoint if wish.savepoint is not None else new_id(wall_iso(), secrets.token_hex(2))
        _require_savable(context, source, wish)
    else:
        assert there.fork is not None
        location, savepoint = there.terms.checkpoint, there.fork.savepoint
    blobs = context.blobs()
    context.bootstrap_or_check(blobs)
    of_spec, body = _stored(blobs, job)
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-fork-") as folder:
        prepared = _prepared(blobs, job, of_spec, body, wish, location, Path(folder))
        require_allowed(prepared, context.settings)
        prepared = signed(context.settings, wish.sign_with, prepared)
        if there is None:
            saved = _saved_now(context, source, wish)
            _decided(context, wish, prepared.spec, of_spec, saved, source.location)
            there = _register(
                context,
                operations,
                blobs,
                prepared,
                wish,
                Fork(of=wish.name, uid=job.uid, savepoint=savepoint, copying=True),
            )
        elif there.spec.sha256 != prepared.sha256:
            raise Conflict(
                f"{wish.new} is a fork of {wish.name} with another spec than this command gives it",
                f"give the command that began it, or cancel {wish.new} and fork again",
            )
    planned = PlannedFork(wish.new, savepoint, prepared.spec.checkpoint or "")
    if there.fork is not None and not there.fork.copying:
        return Forked(Done(wish.new, there.uid, Did.UNCHANGED), planned, None)
    begun(planned)
    specs = prepared.spec, of_spec
    restored = _copy(context, operations, source, wish, planned, specs, report_progress)
    done = operations.finish_fork(wish.new, there.uid, restored.queries, suspended=wish.suspended)
    return Forked(done, planned, restored.manifest)


def _registered(operations: PromotionOperations, name: str) -> JobRef:
    ref = operations.job_records(name).ref
    if not isinstance(ref, Found):
        raise Conflict(f"{name} is not registered any more: only a registered job can be forked")
    if ref.record.fork is not None and ref.record.fork.copying:
        raise Conflict(f"{name} is a fork whose own checkpoint is still being copied")
    return ref.record


def _there(operations: PromotionOperations, wish: ForkWish, job: JobRef) -> JobRef | None:
    """Returns the fork if an earlier command registered it. Raises Conflict if the name is another job's."""
    try:
        ref = operations.job_records(wish.new).ref
    except NotFound:
        return None
    if ref is None:
        return None
    if not isinstance(ref, Found) or ref.record.fork is None:
        raise Conflict(f"{wish.new} is registered already: choose another name, or cancel it")
    fork = ref.record.fork
    if (fork.of, fork.uid) != (job.name, job.uid):
        raise Conflict(
            f"{wish.new} is registered already, as a fork of "
            + (f"an earlier submission of {fork.of}" if fork.of == job.name else fork.of),
            f"choose another name, or cancel {wish.new}",
        )
    if wish.savepoint is not None and wish.savepoint != fork.savepoint:
        raise Conflict(
            f"{wish.new} is a fork from savepoint {fork.savepoint} of {job.name}, not from {wish.savepoint}",
            f"choose another name, or cancel {wish.new}",
        )
    return ref.record


def _require_savable(context: CommandContext, source: Located, wish: ForkWish) -> None:
    """Checks that there is something to begin with, before anything is registered."""
    if wish.savepoint is not None:
        _manifest(context, source, wish.name, checked_id(wish.savepoint))
        return
    boundaries(open_area(source.location, access_for(context.settings, source.location, source.conf)))


def _manifest(context: CommandContext, source: Located, name: str, savepoint: str) -> Manifest:
    manifest = manifest_at(find_savepoint(context.settings, name, savepoint, source.conf))
    if manifest is None:
        raise NotFound(f"savepoint {savepoint} of {name} is not complete: see savepoint list {name}")
    return manifest


# -- the spec -------------------------------------------------------------------------------------------------------


def _stored(blobs: Blobs, job: JobRef) -> tuple[JobSpec, dict[str, Any]]:
    """Returns the spec of ``job``, and its document as it is stored."""
    data = blobs.read_spec(job.spec)
    return from_canonical(data, job.spec.key), json.loads(data)


def _prepared(
    blobs: Blobs,
    job: JobRef,
    old: JobSpec,
    body: dict[str, Any],
    wish: ForkWish,
    location: str | None,
    folder: Path,
) -> Prepared:
    """Returns the spec of the fork, with the files of the other job fetched into ``folder``. ``old`` is the spec of that,
    and ``body`` as it is stored. ``location`` is where the fork's checkpoint is already, or None."""
    del body["v"]
    body, origins = changed(body, wish.changes)
    if body["name"] != job.name:
        raise InvalidInput(f"the name of a fork is the second argument of the command, {wish.new}")
    source, given = f"the spec of {wish.new}", body["checkpoint"]
    body = _fetched(blobs, job, body, folder)
    still = spec_of({**body, "checkpoint": old.checkpoint}, source, origins=origins)
    stays = would_not_follow(still)
    if stays is not None:
        raise Conflict(
            f"{stays} names {old.checkpoint} itself, and {wish.new} would write to the checkpoint of {job.name}",
            "write {checkpoint} there, or give it another value with --set",
        )
    if location is None:
        moved = given if given != old.checkpoint else None
        location = moved or fork_location(old.checkpoint or "", wish.new, secrets.token_hex(TAG_BYTES))
    spec = spec_of({**body, "name": wish.new, "checkpoint": location}, source, origins=origins)
    if not wish.shared_sink and writes_to(spec) == writes_to(old):
        raise Conflict(
            f"{wish.new} would have the very arguments of {job.name}, and so write to the same sink",
            "name the sink's place by {job} in args (apply), or give another one (--set 'args=[…]', --set env.NAME=…); "
            "--shared-sink is for a sink that takes both",
        )
    return prepare_spec(spec, Path.cwd() / wish.new)


def writes_to(spec: JobSpec) -> tuple[tuple[str, ...], dict[str, str]]:
    """Returns what of a spec may name the place of its sink: arguments and environment. ``{checkpoint}`` is no sink."""
    return spec.args_of_job(), dict(spec.env)


def _fetched(blobs: Blobs, job: JobRef, body: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns ``body`` with the stored files of ``job`` as local ones, which are the fork's own when it is stored."""

    def local(given: str) -> str:
        key = store_key(given)
        if key is None:
            return given
        sha256, _, filename = key.partition("/")
        return str(blobs.fetch_artifact(artifact_key(job.name, job.uid, sha256, filename), folder))

    return with_files(body, local)


def _saved_now(context: CommandContext, source: Located, wish: ForkWish) -> tuple[SeenQuery, ...]:
    """Returns the queries with which the fork would begin, before anything is made."""
    if wish.savepoint is not None:
        return seen_queries(_manifest(context, source, wish.name, wish.savepoint))
    return tuple(SeenQuery(each.id, each.batch) for each in planned_in(tree_of(context.settings, source)))


def _decided(
    context: CommandContext,
    wish: ForkWish,
    spec: JobSpec,
    of_spec: JobSpec,
    queries: tuple[SeenQuery, ...],
    source: str,
) -> GoingBack:
    """Asks whether the sink takes what the fork writes; ``of_spec`` is the spec of the job that it is of."""
    of, own = grounds_of(context, wish.name), grounds_of(context, wish.new)
    opened, shared = opener(context.settings, spec), wish.shared_sink
    return before_fork(queries, own, of, source, spec, of_spec, wish.said, opened, shared=shared).require()


# -- the steps ------------------------------------------------------------------------------------------------------


def _register(
    context: CommandContext,
    operations: PromotionOperations,
    blobs: Blobs,
    prepared: Prepared,
    wish: ForkWish,
    mark: Fork,
) -> JobRef:
    location = prepared.spec.checkpoint or ""
    operations.check_submit(wish.new, prepared.sha256, location)
    target = open_area(location, access_for(context.settings, location, prepared.spec.conf))
    if next(iter(target.items()), None) is not None:
        raise Conflict(f"{target.location} is not empty: choose a location where nothing is")
    target.require_writable()
    stored = store_prepared(blobs, prepared, new_uid(wish.new), Desired.SUSPENDED)
    done = operations.submit(replace(stored, fork=mark))  # what it begins with, finish_fork accepts
    ref = operations.job_records(wish.new).ref
    if done.did is not Did.SUBMITTED or not isinstance(ref, Found) or ref.record.fork != mark:
        raise Conflict(f"{wish.new} was registered by somebody else meanwhile", "choose another name")
    return ref.record


def _copy(
    context: CommandContext,
    operations: PromotionOperations,
    source: Located,
    wish: ForkWish,
    planned: PlannedFork,
    specs: tuple[JobSpec, JobSpec],
    report_progress: ReportProgress,
) -> RestoredCopy:
    """Makes the savepoint, if there is none yet, and restores it to the place of the fork. ``specs`` are those of the fork
    and of the job that it is of."""
    if wish.savepoint is None:
        own = operations.job_records(wish.name).own
        attempt = own.record.attempt if isinstance(own, Found) else 0
        uid = own.record.newest_uid if isinstance(own, Found) else ""
        create_savepoint(
            context.settings,
            source,
            wish.name,
            uid,
            attempt,
            planned.savepoint,
            lambda _begun: None,
            report_progress,
        )
    saved = find_savepoint(context.settings, wish.name, planned.savepoint, source.conf)
    manifest = read_savepoint(saved)[0]
    back = _decided(context, wish, *specs, seen_queries(manifest), manifest.source)
    return restore_to(context.settings, saved, planned.location, specs[0].conf, back, report_progress)
