"""Deletes the checkpoints of ended jobs whose spec asks for it (``checkpoint_on_cancel: delete``).

There is one remover per term, in a thread of its own beside the controller. It begins after the tombstone,
with claims that a clean-up has made pending deletions, and with no others. ``registry.pending_deletions``
says why nobody can claim such a location before it is done, how a deletion survives any change of leader, and
what is checked of the other claims before anything is deleted. It deletes one batch of each location at a
time; what fails is tried again later, less and less often. Nobody waits for it, because the cancel was
acknowledged long before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from supervisor.act.carry_out import ActionExecutor
from supervisor.clients.store.removal import KEPT_LATE_S, Removal, open_removal
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.term_loop import TermPermission, never, repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import (
    Conflict,
    Corrupt,
    InvalidInput,
    NotLeader,
    NotSent,
    OutcomeUnknown,
    SupervisorError,
)
from supervisor.growing_pause import GrowingPause
from supervisor.model.checkpoint_expectation import place_of, query_ids_at
from supervisor.model.deletable import why_not_deletable
from supervisor.model.records import CheckpointClaim, CheckpointState, Ownership, PendingDeletion, Result
from supervisor.model.seen import Found, Seen
from supervisor.records.layout import Layout
from supervisor.records.reading import children_of, seen, seen_all
from supervisor.registry.checkpoint_claims import Others, is_claim_path
from supervisor.registry.pending_deletions import (
    begin_deletion,
    give_up_claim,
    is_published,
    publish_waiting,
)
from supervisor.spec.s3a import S3Access
from supervisor.spec.site_policy import SitePolicy

log = structlog.get_logger(__name__)

TICK_S = 1.0
READ_EVERY_S = 600.0
RETRY_PAUSE = GrowingPause(first_s=5.0, longest_s=600.0)

AccessTo = Callable[[str, PendingDeletion], S3Access]
Open = Callable[[str, S3Access], Removal]


@dataclass
class LocationDeletion:
    """Holds the state of the deletion of one location. Its times are in BOOTTIME seconds. Until
    ``unsure_at_s`` a request of somebody may have been sent. ``recognised`` is True once what lies there was
    seen to be what the job left."""

    path: str
    unsure_at_s: float
    removal: Removal | None = None
    objects: int = 0
    next_at_s: float = 0.0
    failures: int = 0
    logged: str = ""
    recognised: bool = False


@dataclass(frozen=True)
class ClaimUnderDeletion:
    """Holds what was just read about one pending deletion. ``path`` is the path of its claim."""

    path: str
    claim: Found[CheckpointClaim]
    deletion: PendingDeletion
    own: Found[Ownership]
    result: Found[Result] | None


class _Kept(Exception):
    """Says that a checkpoint must not be deleted after all; the message gives the reason."""


class Remover:
    """Deletes the locations of this term's pending deletions. ``access_to`` returns how to reach the S3 of a
    location, for the job of that pending deletion; it may raise. ``store`` is the URL of the store. ``site``
    says where this host's operator allows deletion."""

    def __init__(
        self,
        term: Term[ZooClient],
        layout: Layout,
        executor: ActionExecutor,
        store: str,
        access_to: AccessTo,
        *,
        site: SitePolicy,
        wanted: threading.Event,
        paused: Callable[[], bool] = never,
        clock: Callable[[], float] = boottime_s,
        open_at: Open = open_removal,
    ) -> None:
        self._term = term
        self._layout = layout
        self._executor = executor
        self._store = store
        self._access_to = access_to
        self._site = site
        self._wanted = wanted
        self._permission = TermPermission(term, paused)
        self._clock = clock
        self._open = open_at
        self._others = Others(layout)
        self._jobs: dict[str, LocationDeletion] = {}
        self._read_at_s = clock()
        self._boundary = ErrorBoundary("remover", clock)

    def run(self) -> None:
        """Deletes until the term is over."""
        repeat(
            lambda: 0.0 if self.step() else TICK_S,
            self._term,
            self._boundary,
            every_s=TICK_S,
            interrupted=self._interrupted,
        )

    def _interrupted(self, error: SupervisorError) -> float:
        log.warning(
            "deletion_not_looked_at", epoch=self._term.epoch, why=str(error), next="tried again later"
        )
        return RETRY_PAUSE.first_s

    def step(self) -> bool:
        """Deletes a batch of each location that is due. Returns True if there is more to do at once."""
        if not self._permission.may_begin():
            return False
        if self._wanted.is_set() or self._clock() >= self._read_at_s:
            self._wanted.clear()
            self._read_at_s = self._clock() + READ_EVERY_S
            self._find_deletions()
        due = [job for job in self._jobs.values() if self._clock() >= job.next_at_s]
        return any([self._advance(job) for job in due if not self._term.over.is_set()])

    def _find_deletions(self) -> None:
        """Reads every claim, pipelined, to find the pending deletions. Raises Unreachable; the reading is
        then made up for later."""
        zoo, parent = self._term.client, self._layout.checkpoints
        try:
            paths = [f"{parent}/{child}" for child in children_of(zoo, parent)]
            claims = seen_all(CheckpointClaim, paths, zoo.read_many(paths).nodes)
        except SupervisorError:
            self._wanted.set()
            raise
        for path, claim in zip(paths, claims, strict=True):
            if isinstance(claim, Found) and claim.record.doom is not None:
                self._jobs.setdefault(path, LocationDeletion(path, self._clock()))

    def _advance(self, job: LocationDeletion) -> bool:
        """Takes the deletion one step further. Returns True if something was done and there may be more.
        Raises NotLeader."""
        try:
            now = self._read(job.path)
            if now is None:
                del self._jobs[job.path]
                return False
            return self._carry_on(job, now)
        except NotLeader:
            raise
        except (Conflict, NotSent, OutcomeUnknown) as error:  # tried again in the next round
            log.debug("deletion_interrupted", epoch=self._term.epoch, path=job.path, why=str(error))
            job.next_at_s = self._clock() + TICK_S
        except SupervisorError as error:
            self._put_off(job)
            if str(error) != job.logged:
                job.logged = str(error)
                log.warning(
                    "checkpoint_not_deleted",
                    epoch=self._term.epoch,
                    path=job.path,
                    why=job.logged,
                    next="tried again later; its location stays claimed until then",
                )
        except Exception as error:  # noqa: BLE001 - the edge of one item
            self._put_off(job)
            self._boundary.log_error(job.path, error)
        return False

    def _put_off(self, job: LocationDeletion) -> None:
        job.failures += 1
        job.next_at_s = self._clock() + RETRY_PAUSE.after(job.failures)

    def _read(self, path: str) -> ClaimUnderDeletion | None:
        """Reads the records of a pending deletion. Returns None if its claim was given up or can't be read
        any more; then it is left alone."""
        zoo = self._term.client
        claim: Seen[CheckpointClaim] = seen(CheckpointClaim, zoo.read(path), path)
        if not isinstance(claim, Found) or claim.record.doom is None or not claim.record.deletion_is_pending:
            return None
        deletion = claim.record.doom
        paths = (self._layout.own(deletion.name), self._layout.result(deletion.uid))
        nodes = zoo.read_many(paths).nodes
        own: Seen[Ownership] = seen(Ownership, nodes[0], paths[0])
        result: Seen[Result] = seen(Result, nodes[1], paths[1])
        if not isinstance(own, Found):
            return None
        return ClaimUnderDeletion(path, claim, deletion, own, result if isinstance(result, Found) else None)

    def _carry_on(self, job: LocationDeletion, now: ClaimUnderDeletion) -> bool:
        why = self._why_kept(now)
        if why is not None:
            return self._keep(job, now, why)
        others = self._others.find_overlap(self._term.client, job.path, now.claim.record.location)
        if others.claim is not None:
            return self._keep(job, now, _overlapped(others.claim))
        if others.doubtful is not None:
            return self._wait(job, now, *others.doubtful)
        if now.deletion.epoch == 0:
            self._executor.commit(
                lambda context: begin_deletion(context, job.path, now.claim, now.own, others.generation)
            )
            return True
        if job.removal is None:
            location = now.claim.record.location
            try:
                job.removal = self._open(location, self._access_to(location, now.deletion))
            except InvalidInput as error:  # an endpoint that gets no credentials
                return self._keep(job, now, str(error))
        removal = job.removal
        try:
            removed = removal.remove_batch(partial(self._may_delete, job, removal, now))
        except _Kept as error:
            return self._keep(job, now, str(error))
        finally:
            if removal.unanswered:
                job.unsure_at_s = self._clock()
        job.objects += removed.objects
        job.failures, job.logged = 0, ""
        if removed.left:
            return True
        return self._finish(job, now, removal)

    def _wait(self, job: LocationDeletion, now: ClaimUnderDeletion, path: str, reason: str) -> bool:
        """Publishes that it is not known whether the claim at ``path`` is in the way, and raises Corrupt: the
        deletion is tried again for as long as it takes."""
        why = f"it waits: a claim that may overlap it can't be read ({reason}); repair or delete the znode {path} by hand"
        result = now.result
        if result is not None and not is_published(result.record, why):
            self._executor.commit(lambda context: publish_waiting(context, now.claim, job.path, result, why))
        raise Corrupt(why)

    def _finish(self, job: LocationDeletion, now: ClaimUnderDeletion, removal: Removal) -> bool:
        """Gives the claim up, now that nothing is there any more, once no request of anybody can still be
        under way."""
        alone = now.deletion.epoch == self._term.epoch and not removal.unanswered
        left_s = job.unsure_at_s + removal.late_s - self._clock()
        if not alone and left_s > 0:
            job.next_at_s = self._clock() + min(left_s, READ_EVERY_S)
            return False
        if not removal.seen:
            return self._keep(job, now, _never_seen(now, self._term.epoch))
        return self._give_up(job, now, CheckpointState.DELETED, f"{job.objects} objects" if alone else "")

    def _keep(self, job: LocationDeletion, now: ClaimUnderDeletion, why: str) -> bool:
        """Gives the claim up without deleting anything (more). The location is free only when no request of
        anybody can be under way: an earlier leader that began may have been allowed to delete, may see
        another directory, and may only have been stopped."""
        begun_by_other = now.deletion.epoch not in (0, self._term.epoch)
        unsure = begun_by_other or (job.removal is not None and job.removal.unanswered > 0)
        left_s = job.unsure_at_s + KEPT_LATE_S - self._clock()
        if unsure and left_s > 0:
            job.next_at_s = self._clock() + min(left_s, READ_EVERY_S)
            return False
        detail = f"{why}; {job.objects} objects had been deleted" if job.objects else why
        return self._give_up(job, now, CheckpointState.KEPT, detail)

    def _give_up(
        self, job: LocationDeletion, now: ClaimUnderDeletion, state: CheckpointState, detail: str
    ) -> bool:
        result = now.result if now.result is not None and _is_about(now.result.record, now) else None
        self._executor.commit(
            lambda context: give_up_claim(context, job.path, now.claim, now.own, result, state, detail)
        )
        del self._jobs[job.path]
        deletion, place = now.deletion, now.claim.record.location
        if state is CheckpointState.DELETED:
            log.info(
                "checkpoint_deleted",
                epoch=self._term.epoch,
                job=deletion.name,
                uid=deletion.uid,
                checkpoint=place,
                objects=job.objects,
            )
        else:
            log.warning(
                "checkpoint_kept",
                epoch=self._term.epoch,
                job=deletion.name,
                uid=deletion.uid,
                checkpoint=place,
                why=detail,
            )
        return True

    def _why_kept(self, now: ClaimUnderDeletion) -> str | None:
        """Returns why the checkpoint must not be deleted after all, or None if it may be."""
        accepted = self._term.client.read(self._layout.accepted)
        if accepted is not None and now.claim.mzxid < accepted.stat.czxid:
            return "the registry was restored since: what lies there may be another job's"
        if not is_claim_path(self._layout, now.path, now.claim.record.location):
            return "its claim is not the one of that location"
        if now.result is None or not _vouches(now.result.record, now):
            return "no record says that an attempt of this submission was seen to write there"
        return self._why_kept_at(now.claim.record.location)

    def _why_kept_at(self, location: str) -> str | None:
        return self._site.why_not_deletable(location) or why_not_deletable(location, self._store)

    def _may_delete(self, job: LocationDeletion, removal: Removal, now: ClaimUnderDeletion) -> None:
        """Raises if the deletion must not go on. It is called once the location was opened, and right before
        anything of it is deleted."""
        why = self._why_kept_at(removal.resolved)
        if why is not None:
            raise _Kept(f"its directory is really {removal.resolved}: {why}")
        if not job.recognised and not _is_its(removal, now):
            raise _Kept(_not_its(now))
        job.recognised = True
        self._still(job.path, now)

    def _still(self, path: str, now: ClaimUnderDeletion) -> None:
        """Raises unless the term and the claim are still as they were, as ZooKeeper says now. It is called
        right before a batch is sent."""
        self._term.check()
        zoo = self._term.client
        if self._term.connection is not None and zoo.connections != self._term.connection:
            raise NotSent("the leader has not yet looked at the registry on this connection")
        zoo.sync()
        epoch, claim, pause = zoo.read_many((self._layout.epoch, path, self._layout.pause)).nodes
        if epoch is None or epoch.stat.version != self._term.fence_version:
            raise self._term.fence_failed()
        if claim is None or claim.stat.version != now.claim.version or pause is not None:
            raise Conflict("its claim has changed, or the cluster is paused")
        others = self._others.find_overlap(zoo, path, now.claim.record.location)
        if others.claim is not None or others.doubtful is not None:
            raise Conflict("another claim overlaps it, or can't be read")
        if self._term.distrust is not None:
            raise NotSent("the registry is not trusted any more")
        self._term.check()


def _overlapped(other: CheckpointClaim) -> str:
    return f"it overlaps {other.location}, which {other.name} ({other.uid}) claims"


def _vouches(result: Result, now: ClaimUnderDeletion) -> bool:
    """Says whether the result of that uid, written in the multi that made the claim a pending deletion, says
    that the uid wrote there. A pending deletion alone proves nothing, because it names whatever location its
    author liked."""
    wrote_there = _is_about(result, now) and result.wrote == place_of(now.claim.record.location) != ""
    return wrote_there and result.deletes_checkpoint and result.checkpoint_state is CheckpointState.DELETING


def _is_about(result: Result, now: ClaimUnderDeletion) -> bool:
    """Says whether this is the result of that uid and the location was its checkpoint."""
    checkpoint = result.terms.checkpoint if result.terms is not None else None
    same = checkpoint is not None and place_of(checkpoint) == place_of(now.claim.record.location)
    return same and (result.name, result.uid) == (now.deletion.name, now.deletion.uid)


def _is_its(removal: Removal, now: ClaimUnderDeletion) -> bool:
    """Says whether what lies there is what the job left. A host may have a directory of its own at the path
    of another host's."""
    place = place_of(now.claim.record.location)
    return removal.queries is None or bool(removal.queries & query_ids_at(now.own.record.remembered, place))


def _not_its(now: ClaimUnderDeletion) -> str:
    return (
        "the directory of that path on the host that leads holds none of the queries that the job was seen to run: "
        f"delete it where the driver ran{_ran_on(now)}"
    )


def _ran_on(now: ClaimUnderDeletion) -> str:
    return (
        f" (it ran last on {now.own.record.host})"
        if now.own.record.uid == now.deletion.uid and now.own.record.host
        else ""
    )


def _never_seen(now: ClaimUnderDeletion, epoch: int) -> str:
    host = _ran_on(now)
    if now.deletion.epoch == epoch:
        return f"the host that leads sees no such directory: delete it where the driver ran{host}"
    return (
        f"left in an unknown state: the leader of epoch {now.deletion.epoch} began to delete it, and the host that "
        f"leads now sees no such directory: look where the driver ran{host}, and on the host of that leader"
    )
