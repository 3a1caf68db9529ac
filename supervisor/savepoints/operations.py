"""Defines where savepoints are, and how this host reaches them. It is called by ``cli`` and ``daemon`` and
has no policy.

Savepoints lie in the store, below ``savepoints/<name>/<id>``, in whatever bucket that is: a copy goes from
bucket to bucket within one S3 service. If the checkpoint is on another service than the store (``file://``
and S3, two endpoints), nothing could be copied there without passing through this host. Savepoints lie beside
the checkpoint then, at ``<checkpoint>.savepoints/<name>/<id>``; their entry is in the store all the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import supervisor
from supervisor.clients.store.area import Area, open_area
from supervisor.clients.store.base import DEADLINE_S
from supervisor.clock import wall_iso
from supervisor.errors import Conflict, InvalidInput, NotFound, SupervisorError
from supervisor.model.deletable import BESIDE
from supervisor.model.going_back import GoingBack
from supervisor.model.location import normalise, overlaps
from supervisor.model.records import DEAD, JobRef
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.update_savepoint import PREFIX as UPDATE_PREFIX
from supervisor.model.update_savepoint import target_of
from supervisor.operations.checkpoints import Located, is_location
from supervisor.operations.context import COMMAND_STORE_DEADLINE_S, CommandContext
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.savepoints.create import Creation, ReportProgress, boundaries
from supervisor.savepoints.manifest import SHELF, Begun, Manifest, SavepointStage, checked_id, new_id
from supervisor.savepoints.restore import RestoredCopy, restore
from supervisor.savepoints.schedule import PREFIX, began_at_s, newest_of, slot_of
from supervisor.savepoints.shelf import Shelf, ShelfEntry
from supervisor.spec.s3a import S3Access, access_of, access_of_store, allowed, bucket_of

if TYPE_CHECKING:
    from supervisor.settings.file import Settings


NEWEST_TRIED: Final = 5


class Home(NamedTuple):
    """Says where the copies of a new savepoint shall lie."""

    location: str
    access: S3Access


def shelf_of(settings: Settings, deadline_s: float = DEADLINE_S) -> Shelf:
    """Opens the shelf of the store. Does no I/O."""
    store = access_of_store(settings.store, settings.policy.endpoints)

    def opened(location: str, access: S3Access) -> Area:
        """Opens the location that a record in the store names, which is trusted no more than one that a job
        names."""
        access = allowed(access, store) if bucket_of(location) is not None else access
        return area_at(settings, Home(location, access))

    return Shelf(_shelf_area(settings, deadline_s), opened)


def area_at(settings: Settings, home: Home) -> Area:
    """Opens a place of savepoints, which may be in the store."""
    return open_area(home.location, home.access, store=_store_directory(settings))


def home_of(settings: Settings, source: Located, name: str, savepoint: str) -> Home:
    """Returns where a savepoint of ``source`` shall lie. Raises InvalidInput for a checkpoint that only Spark
    can reach."""
    shelf, access = _shelf_area(settings), access_for(settings, source.location, source.conf)
    checkpoint = open_area(source.location, access).location
    store = access_of_store(settings.store, settings.policy.endpoints)
    together = shelf.location.partition("://")[0] == checkpoint.partition("://")[0] and (
        checkpoint.startswith("file:") or _endpoint(access) == _endpoint(store)
    )
    if together:
        return Home(f"{shelf.location}/{name}/{savepoint}", store)
    return Home(f"{checkpoint}{BESIDE}/{name}/{savepoint}", access)


def access_for(settings: Settings, location: str, conf: Mapping[str, str]) -> S3Access:
    """Returns where the S3 of a location is, for a job with the properties ``conf``."""
    bucket = bucket_of(normalise(location))
    store = access_of_store(settings.store, settings.policy.endpoints)
    return store if bucket is None else access_of(conf, bucket, store)


def newest(shelf: Shelf, name: str, savepoint: str | None) -> ShelfEntry:
    """Returns the savepoint with the id ``savepoint``, or the newest complete one if that is None. Raises
    NotFound."""
    if savepoint is not None:
        return shelf.find(name, checked_id(savepoint))
    found = None
    for entry in shelf.entries(name):
        if entry.manifest is not None and (found is None or _age(entry.manifest) > _age(found.manifest)):
            found = entry
    if found is None:
        raise NotFound(f"{name} has no complete savepoint: see spark-supervisor savepoint list {name}")
    return found


def create_savepoint(
    settings: Settings,
    source: Located,
    name: str,
    uid: str,
    attempt: int,
    savepoint: str | None,
    begun: Callable[[Begun], None],
    report_progress: ReportProgress,
    every_s: float = 0.0,
    by_leader: bool = False,
) -> Manifest:
    """Creates a savepoint, or goes on with the one of that id. ``begun`` is called before the first copy.
    ``every_s`` is the period in seconds if it is made by schedule, else 0. ``by_leader`` says that the leader makes it by
    itself, and so may use the ids that are its own. Raises the errors of ``Creation.run``."""
    shelf = shelf_of(settings)
    what = _resumed(shelf, name, savepoint)
    area = open_area(source.location, access_for(settings, source.location, source.conf))
    if what is None:
        now = wall_iso()
        chosen = new_id(now, secrets.token_hex(2)) if savepoint is None else checked_id(savepoint)
        if not by_leader:
            _refuse_ids_of_the_leader(chosen)
        home = home_of(settings, source, name, chosen)
        what = Begun(
            id=chosen,
            name=name,
            uid=uid,
            attempt=attempt,
            source=area.location,
            location=home.location,
            access=home.access,
            at=now,
            software=supervisor.__version__,
            every_s=every_s,
        )
        boundaries(area)  # nothing is begun where there is nothing to save
        shelf.area_of(what).require_writable()
        shelf.begin(what)
    elif what.source != area.location:
        raise Conflict(f"savepoint {what.id} was begun from {what.source}: give another id, or delete it")
    begun(what)
    kept = what
    return Creation(
        area,
        shelf.area_of(what),
        what,
        wall_iso,
        still_wanted=lambda: shelf.require(kept),
        report_progress=report_progress,
        bounds=settings.policy.savepoints,
    ).run()


def _refuse_ids_of_the_leader(savepoint: str) -> None:
    if savepoint.startswith(PREFIX) or target_of(savepoint) is not None:
        form = PREFIX if savepoint.startswith(PREFIX) else UPDATE_PREFIX
        raise InvalidInput(
            f"ids that begin with {form} are those that the leader makes by itself: choose another"
        )


def schedule_of(
    settings: Settings, name: str, checkpoint: str, policy: SavepointPolicy
) -> tuple[str | None, str | None]:
    """Returns the id of the newest scheduled savepoint of this checkpoint, and when the next is due (None
    means now). Sends a few requests. Raises SupervisorError."""
    shelf = shelf_of(settings, COMMAND_STORE_DEADLINE_S)
    now_s, source = shelf.now_s(), normalise(checkpoint)
    newest_first = sorted(
        ((at_s, each) for each in shelf.ids(name) if (at_s := began_at_s(each)) is not None), reverse=True
    )
    for at_s, savepoint in newest_first[:NEWEST_TRIED]:
        found = shelf.find(name, savepoint).scheduled
        if found is not None and found.source == source and newest_of([found], now_s, policy.every_s):
            due_at_s = slot_of(name, policy.every_s, at_s) + policy.every_s
            return savepoint, wall_iso(due_at_s) if due_at_s > now_s else None
    return None, None


class ScheduleOfJob(NamedTuple):
    """Says what the leader makes by itself for a job (spec key ``savepoints``), the newest, and when the next
    is due: None means now. ``problem`` is why the store could not be asked."""

    policy: SavepointPolicy
    newest: str | None = None
    next_due_at: str | None = None
    problem: str | None = None


def schedule_of_job(context: CommandContext, job: JobRef) -> ScheduleOfJob | None:
    """Returns the schedule of ``job``, or None if it has none. Never raises for a store that does not
    answer."""
    policy, checkpoint = job.terms.savepoints, job.terms.checkpoint
    if policy is None or checkpoint is None:
        return None
    try:
        return ScheduleOfJob(policy, *schedule_of(context.settings, job.name, checkpoint, policy))
    except SupervisorError as error:
        return ScheduleOfJob(policy, problem=str(error))


def find_savepoint(settings: Settings, name: str | None, which: str | None, conf: Mapping[str, str]) -> Area:
    """Returns where a savepoint lies. ``which`` is its id, or its location, or None for the newest complete
    one of ``name``."""
    if which is not None and is_location(which):
        return area_at(settings, Home(which, access_for(settings, which, conf)))
    if name is None:
        raise InvalidInput("give the name of a job and the id of its savepoint, or a location")
    shelf = shelf_of(settings)
    entry = newest(shelf, name, which)
    if entry.begun is None or entry.stage is not SavepointStage.COMPLETE:
        raise NotFound(
            f"savepoint {entry.id} of {name} is incomplete: savepoint create {name} {entry.id} goes on"
        )
    return shelf.area_of(entry.begun)


def restore_to(
    settings: Settings,
    saved: Area,
    target: str,
    conf: Mapping[str, str],
    back: GoingBack,
    report_progress: ReportProgress,
) -> RestoredCopy:
    """Restores a savepoint; ``back`` is the decision about its queries (``operations.going_back``). Raises the errors of
    ``savepoints.restore.restore``."""
    area = open_area(target, access_for(settings, target, conf))
    return restore(saved, area, wall_iso(), back, report_progress)


def require_free(context: CommandContext, name: str | None, location: str) -> None:
    """Checks that nobody runs at ``location``, and that nobody else may. ``name`` is the job for which it is.
    Raises Conflict.

    A job that may be running, be it ``name`` itself, blocks no location that no claim overlaps. One that
    names no checkpoint could have it anywhere, and so could one whose records cannot be read: these are
    refused while they may run.
    """
    if context.check() is None:
        return
    zoo = context.zoo()  # in step with the leader: ``check`` has synced
    if name is None:
        CheckpointClaims.load(zoo, context.layout).reserve("", location)
        return
    context.commands.check_location(name, location)
    try:
        found = context.commands.job_records(name)
    except NotFound:
        return
    if not isinstance(found.own, Unreadable) and (found.own is None or found.own.record.state in DEAD):
        return
    of_savepoint = found.ref.record.terms.checkpoint if isinstance(found.ref, Found) else None
    if isinstance(found.own, Unreadable) or of_savepoint is None or overlaps(of_savepoint, location):
        raise Conflict(f"{name} may be running: suspend it first (suspend {name} --wait), then restore")
    # the driver of an older submission of the same name may still be stopping there
    CheckpointClaims.load(zoo, context.layout).reserve(name, location, may_take_over=False)


def _age(manifest: Manifest | None) -> str:
    return manifest.created_at if manifest is not None else ""


def _resumed(shelf: Shelf, name: str, savepoint: str | None) -> Begun | None:
    if savepoint is None:
        return None
    try:
        return shelf.find(name, checked_id(savepoint)).begun
    except NotFound:
        return None


def _shelf_area(settings: Settings, deadline_s: float = DEADLINE_S) -> Area:
    store = _store_directory(settings)
    url = f"file://{store}" if store else settings.store.url
    access = access_of_store(settings.store, settings.policy.endpoints)
    return open_area(f"{url}/{SHELF}", access, deadline_s, store)


def _store_directory(settings: Settings) -> str:
    """Returns the directory of the store, or nothing if it is on S3."""
    scheme, _, path = settings.store.url.partition("://")
    return os.path.normpath("/" + unquote(path).lstrip("/")) if scheme == "file" else ""


def _endpoint(access: S3Access) -> str:
    return (access.endpoint_url or "").rstrip("/").lower()
