"""Removes the records and blobs of uids that are gone, and what is left of savepoints, slowly and beside the
controller. It also has clusters end what drivers have left there (``application_sweeper``).

There is one sweeper per term, in a thread of its own, so that a slow store never delays a pass. A failure is
harmless: the sweeper tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from supervisor.act.carry_out import ActionExecutor
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.clusters.leftovers import KnownJobs, known_jobs
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.daemon.leader.application_sweeper import ApplicationSweeper
from supervisor.daemon.leader.term_loop import TermPermission, never, repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Conflict, Corrupt, GuardFailed, NotLeader, OutcomeUnknown, SupervisorError
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, View
from supervisor.observe.observer import Observer
from supervisor.plan.after_restore import may_start
from supervisor.records.layout import Layout
from supervisor.registry.blob_sweep import BlobSweeper, References
from supervisor.registry.record_sweep import Deletion, RecordListing, take_listing, to_sweep
from supervisor.registry.uploaded_logs import LogSweeper
from supervisor.savepoints.sweep import SavepointSweeper

log = structlog.get_logger(__name__)

FIRST_AFTER_S = 30.0
EVERY_S = 600.0
DELETIONS_MAX = 1_000
"""This is the maximum per sweep, because ZooKeeper operations have a hard cap (I11)."""


class Sweeper:
    """Sweeps for one term. ``paused`` says whether the cluster is paused, as the leader saw it last.
    ``first_after_s`` and ``every_s`` say when it sweeps (tests shorten them)."""

    def __init__(
        self,
        term: Term[ZooClient],
        layout: Layout,
        executor: ActionExecutor,
        blobs: BlobSweeper,
        epochs: EpochMarks,
        *,
        paused: Callable[[], bool] = never,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
        savepoints: SavepointSweeper | None = None,
        applications: ApplicationSweeper | None = None,
        logs: LogSweeper | None = None,
    ) -> None:
        self._logs = logs
        self._applications = applications
        self._term = term
        self._layout = layout
        self._executor = executor
        self._blobs = blobs
        self._epochs = epochs
        self._permission = TermPermission(term, paused)
        self._savepoints = savepoints
        self._first_after_s = first_after_s
        self._every_s = every_s
        self._boundary = ErrorBoundary("sweeper")

    def run(self) -> None:
        """Sweeps until the term is over."""
        repeat(
            self._step,
            self._term,
            self._boundary,
            every_s=self._every_s,
            interrupted=self._interrupted,
            first_after_s=self._first_after_s,
        )

    def _step(self) -> float:
        if self._permission.may_begin():
            self.sweep_once()
        return self._every_s

    def _interrupted(self, error: SupervisorError) -> float:
        log.warning("sweep_failed", epoch=self._term.epoch, why=str(error), next="tried again later")
        return self._every_s

    def sweep_once(self) -> int:
        """Makes one sweep and returns how much was removed. Raises SupervisorError when something could not
        be read."""
        listing, view = self._read()
        if view.paused:
            return 0
        removed = sum(
            1
            for one in to_sweep(listing, view.rows)[:DELETIONS_MAX]
            if self._permission.may_go_on() and self._delete(one)
        )
        blobs = self._part(
            "blobs", lambda: len(self._blobs.scan(self._references, self._permission.may_go_on))
        )
        self._part("epochs", self._epochs.prune_epochs)
        left = outputs = 0
        if self._savepoints is not None:
            savepoints = self._savepoints
            left = self._part("savepoints", lambda: len(savepoints.scan(self._permission.may_go_on)))
        if self._logs is not None:
            logs = self._logs
            outputs = self._part("logs", lambda: len(logs.scan(self._references, self._permission.may_go_on)))
        applications = self._applications
        if applications is not None:
            sweep = applications.sweep
            self._part("applications", lambda: sweep(self._known_jobs, self._permission.may_go_on))
        if removed or blobs or left or outputs:
            log.info(
                "swept", epoch=self._term.epoch, records=removed, blobs=blobs, savepoints=left, logs=outputs
            )
        return removed + blobs + left + outputs

    def _part(self, what: str, work: Callable[[], int]) -> int:
        """Sweeps one kind of leftover, and returns how much was removed: a failure of one kind prevents no
        other kind."""
        if not self._permission.may_go_on():
            return 0
        try:
            return self._boundary.attempt(what, work, 0, (SupervisorError,))
        except NotLeader:
            raise
        except SupervisorError as error:
            log.warning(
                "sweep_failed", epoch=self._term.epoch, why=f"{what}: {error}", next="tried again later"
            )
            return 0

    def _read(self) -> tuple[RecordListing, View]:
        """Returns a listing and a full view of the sweeper's own, because the listing must be older than the view
        by which it is judged. Raises Conflict for a view that vouches for nothing: a registry that has lost its
        references seems to need no blob (I10)."""
        listing = take_listing(self._term.client, self._layout)
        # its epoch says whose view it is, and is never compared: what is deleted is guarded by /epoch itself
        view = Observer(self._term.client, self._layout, boottime_s, self._term.epoch).take_view(None)
        if view.distrust is not None:
            raise Conflict(view.distrust)
        return listing, view

    def _delete(self, deletion: Deletion) -> bool:
        try:
            self._executor.commit(deletion.transaction)
        except (GuardFailed, OutcomeUnknown):
            return False
        except SupervisorError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of one item
            self._boundary.log_error(deletion.path, error)
            return False
        return True

    def _known_jobs(self) -> KnownJobs | None:
        """Reads now which attempts may have a driver, or returns None if nothing may be ended by that: after an acceptance,
        drivers of the state that was lost may live until it was waited out."""
        self._term.client.sync()
        listing, view = self._read()
        if view.paused or not may_start(view):
            return None
        return known_jobs(
            view.rows, {path.rpartition("/")[2]: lease for path, lease in listing.leases.items()}
        )

    def _references(self) -> References:
        """Reads now which uids' blobs are needed."""
        self._term.client.sync()
        listing, view = self._read()
        return references(listing, view.rows)


def references(listing: RecordListing, rows: Mapping[str, Row]) -> References:
    """Returns the live uids and those of kept results. Raises Corrupt if it can't be known whose blobs a name
    needs."""
    uids: set[str] = set()
    for row in rows.values():
        if isinstance(row.ref, Unreadable) and not isinstance(row.own, Found):
            raise Corrupt(f"the records of {row.name} are unreadable: no blob is swept until it is cancelled")
        if isinstance(row.ref, Found):
            uids.add(row.ref.record.uid)
        if isinstance(row.own, Found):
            uids.update(uid for uid in (row.own.record.uid, row.own.record.newest_uid) if uid)
    uids.update(path.rpartition("/")[2] for path in listing.results)
    uids.update(
        claim.record.uid
        for claim in listing.claims.values()
        if isinstance(claim, Found) and claim.record.doom
    )
    uids.update(path.rpartition("/")[2].rpartition(".")[0] for path in listing.assignments)
    return References(frozenset(uids))
