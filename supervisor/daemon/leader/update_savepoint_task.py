"""Makes the savepoint of one update, and its copy after the target has failed (``update.rollback: savepoint``).

``daemon.leader.way_back`` calls both in threads of its own; the copying is done by child processes
(``daemon.leader.savepoint_task``). Neither changes the registry: what is made is nothing until the leader has written it
down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from supervisor.clients.task_child import GoOn, TaskEnded
from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.leader.savepoint_task import SavepointTasks, WantedSavepoint
from supervisor.errors import Conflict, InvalidInput, NotFound, SupervisorError
from supervisor.model.location import normalise
from supervisor.model.records import MOVED_DIGITS, BlobRef, JobRef, Ownership, SpecRevision, Update
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.seen import Found, Seen
from supervisor.model.state import revision_before
from supervisor.model.update_savepoint import restore_max_s, savepoint_id, target_of
from supervisor.model.view import UpdateRestored
from supervisor.operations.sink_grounds import Grounds, remembered_grounds
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from supervisor.registry.blobs import Blobs
from supervisor.registry.reference_room import fits_later
from supervisor.registry.update_savepoint_writes import read_for_move
from supervisor.savepoints.shelf import ShelfEntry
from supervisor.savepoints.target import fresh_location
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, spec_sha256
from supervisor.spec.moved import moved_spec
from supervisor.spec.site_policy import SitePolicy

log = structlog.get_logger(__name__)

NO_SCHEDULE = SavepointPolicy(every_s=0.0, keep=1)
"""Is for a savepoint that no schedule has asked for."""
KEPT = 2
"""So many savepoints of updates of a uid are kept: that of the newest update, and that of the one before."""


@dataclass(frozen=True, slots=True)
class UpdateSavepointTasks:
    """Works for one term, whose number is ``epoch`` and whose client is ``zoo``. ``site`` is what the operator of this host
    allows. All methods raise SupervisorError; ``go_on`` is as for ``SavepointTasks``."""

    tasks: SavepointTasks
    blobs: Blobs
    zoo: ZooClient
    layout: Layout
    site: SitePolicy
    epoch: int

    def save(self, ref: Found[JobRef], owned: Found[Ownership], go_on: GoOn) -> str:
        """Makes the savepoint, or finds it complete, and returns its id. Raises InvalidInput if the job could not go on
        from a copy, and NotYet if there is nothing to save."""
        job, own = ref.record, owned.record
        update = _update_of(job)
        self._movable(job, update)
        savepoint = savepoint_id(job.uid, update.target, owned.version, ref.version, self.epoch)
        checkpoint = job.terms.checkpoint or ""
        spec = update.before.spec
        wanted = WantedSavepoint(
            job.name, job.uid, own.attempt, checkpoint, normalise(checkpoint), spec, NO_SCHEDULE, True
        )
        made = self.tasks.create(wanted, savepoint, job.terms.start_timeout_s, go_on)
        log.info(
            "update_savepoint_made",
            job=job.name,
            uid=job.uid,
            attempt=own.attempt,
            savepoint=savepoint,
            batches=list(made.batches),
            objects=made.objects,
            bytes=made.bytes,
        )
        return savepoint

    def restore(self, job: JobRef, go_on: GoOn) -> UpdateRestored:
        """Copies the savepoint to a place of its own, and stores the spec of before with that as its checkpoint. Raises
        Conflict, Corrupt, InvalidInput and NotFound where no other try would help."""
        update = _update_of(job)
        spec = self._movable(job, update)
        here, before = job.terms.checkpoint or "", revision_before(job, update)
        place = fresh_location(here, update.savepoint, job.uid, job.revision, self.epoch)
        forbidden = self.site.why_no_checkpoint(normalise(place))
        if forbidden is not None:
            raise InvalidInput(forbidden)
        # is it somebody's? Then nothing is copied there
        found = read_for_move(self.zoo, self.layout, job, place)
        grounds = self._grounds(job, found)
        limit_s = restore_max_s(job.terms.start_timeout_s)
        queries = self.tasks.restore(job.name, update.savepoint, place, before.spec, grounds, limit_s, go_on)
        moved = moved_spec(spec, place)
        stored = self.blobs.put_spec(job.name, job.uid, job.next_revision, canonical_json(moved))
        failed = moved_sha256(self._spec(job.spec), place)
        revision = SpecRevision(
            revision=job.next_revision, spec=stored, terms=replace(before.terms, checkpoint=place)
        )
        log.info("update_savepoint_restored", job=job.name, uid=job.uid, savepoint=update.savepoint, to=place)
        return self.read(job, UpdateRestored(revision=revision, queries=queries, moved_sha256=failed))

    def _grounds(self, job: JobRef, found: UpdateRestored) -> Grounds:
        """Returns what the registry knows of the sinks and the batches of the job."""
        path = self.layout.own(job.name)
        own: Seen[Ownership] = seen(Ownership, self.zoo.read(path), path)
        newest = found.lease.record.remembered if isinstance(found.lease, Found) else None
        older = own.record.remembered if isinstance(own, Found) else None
        return remembered_grounds(job.terms.checkpoint, newest, older)

    def read(self, job: JobRef, copied: UpdateRestored) -> UpdateRestored:
        """Returns ``copied`` with what its write rests on, as it is now. Raises Conflict if the place is somebody's."""
        assert copied.revision is not None
        found = read_for_move(self.zoo, self.layout, job, copied.revision.terms.checkpoint or "")
        return replace(
            found, revision=copied.revision, queries=copied.queries, moved_sha256=copied.moved_sha256
        )

    def remove_surplus(self, job: JobRef, but: str, go_on: GoOn) -> None:
        """Removes savepoints that were made for older updates of this uid. Any doubt keeps one."""
        update = _update_of(job)
        try:
            entries = list(self.tasks.shelf.entries(job.name))
            surplus = surplus_of(entries, job.uid, {but, update.savepoint})
            in_use = self.tasks.in_use() if surplus else None
            for entry in surplus:
                if entry.begun is not None and in_use is not None and in_use(entry.begun.location) is None:
                    self._delete(job, entry.id, go_on)
        except TaskEnded:
            raise
        except SupervisorError as error:
            log.warning(
                "savepoints_not_removed", job=job.name, why=str(error), next="tried again with the next"
            )

    def _delete(self, job: JobRef, savepoint: str, go_on: GoOn) -> None:
        try:
            self.tasks.delete(job.name, savepoint, restore_max_s(job.terms.start_timeout_s), go_on)
        except (Conflict, NotFound) as error:
            log.info(
                "savepoint_kept",
                job=job.name,
                savepoint=savepoint,
                why=str(error),
                next="tried again with the next",
            )
        else:
            log.info(
                "savepoint_removed", job=job.name, savepoint=savepoint, why="it was made for an older update"
            )

    def _movable(self, job: JobRef, update: Update) -> JobSpec:
        """Returns the spec of before. Raises InvalidInput if the leader can't give it another checkpoint."""
        spec = self._spec(update.before.spec)
        if not fits_later(job):
            raise InvalidInput(f"the record of {job.name} has no room for the place of a copy")
        if update.before.spec.signature:
            raise InvalidInput(
                f"the spec of revision {update.before.revision} is signed, and the leader can't sign it with another "
                "checkpoint"
            )
        user = self.site.user_of(spec.run_as)
        if user is not None and normalise(job.terms.checkpoint or "").startswith("file:"):
            raise InvalidInput(f"a copy on a file system would not belong to {user}, as whom the job runs")
        moved_spec(spec, spec.checkpoint or "")
        return spec

    def _spec(self, ref: BlobRef) -> JobSpec:
        return from_canonical(self.blobs.read_spec(ref), ref.key)


def moved_sha256(spec: JobSpec, place: str) -> str:
    """Returns the first digits of the sha256 of ``spec`` with the checkpoint ``place``, or something that no sha256 begins
    with, if it can't have it."""
    try:
        return spec_sha256(moved_spec(spec, place))[:MOVED_DIGITS]
    except InvalidInput:
        return "none"


def surplus_of(entries: list[ShelfEntry], uid: str, but: set[str]) -> list[ShelfEntry]:
    """Returns the savepoints that were made for updates of ``uid`` and may go: all but the newest ``KEPT``, and those in
    ``but``."""
    mine = [
        each
        for each in entries
        if target_of(each.id) is not None and each.begun is not None and each.begun.uid == uid
    ]
    complete = sorted((target_of(each.id) or 0, each.id) for each in mine if each.manifest is not None)
    keep = {savepoint for _, savepoint in complete[-KEPT:]} | but
    return [each for each in mine if each.id not in keep and not each.unknown]


def _update_of(job: JobRef) -> Update:
    assert job.update is not None
    return job.update
