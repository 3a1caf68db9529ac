"""Makes the leader's scheduled savepoints, one in each period of every running job that wants them (spec key
``savepoints``), and removes the old ones.

This is a loop of its own, one per term, beside the controller and never in its pass. It serves at most
``WORKERS`` jobs at a time. A child process per job does the copying; it is ended with the term, when it takes
too long, or with this process. So a slow store or a large checkpoint delays one worker, and nobody else.

The loop finds in the store what is due (``savepoints.schedule`` says whose clock counts and what a wrong one
does), when the term begins and then once in each slot; none of this needs a fence. Two leaders at once create
the same id, which one of them completes; at worst there is one savepoint more. A savepoint that one leader
began and did not complete is continued by the next within its slot. The loop removes only savepoints that
were made by schedule (``savepoints.schedule.surplus``), as ``savepoint delete`` would: none that is being
restored, and none in which a job has its checkpoint. Any doubt keeps a savepoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from supervisor.clients.task_child import TaskEnded
from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.savepoint_task import SavepointTasks, WantedSavepoint
from supervisor.daemon.leader.term_loop import TermPermission, repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Conflict, NotFound, NotYet, SupervisorError
from supervisor.growing_pause import GrowingPause
from supervisor.metrics import Metrics, SavepointAge
from supervisor.model.location import normalise
from supervisor.model.records import Desired, JobRef
from supervisor.model.seen import Found
from supervisor.model.state import JobState, shown_state
from supervisor.model.view import Row, View
from supervisor.savepoints.schedule import Scheduled, began_at_s, ids_of, newest_of, slot_of, surplus
from supervisor.savepoints.shelf import Shelf, ShelfEntry

log = structlog.get_logger(__name__)

WORKERS: Final = 2
TICK_S: Final = 2.0
NOT_YET_S: Final = 15.0
RETRY_S: Final = 30.0
RETRY_MAX_S: Final = 3600.0
TIMEOUT_MIN_S: Final = 3600.0
DELETES_MAX: Final = 10
"""This many savepoints of one job are deleted at a time."""


@dataclass(frozen=True, slots=True)
class SavepointStatus:
    """Holds when the savepoints of one uid are due, in BOOTTIME seconds. ``at_s`` is the instant since which
    there has been a savepoint as new as the newest, or since which this leader has known the job."""

    uid: str
    at_s: float
    check_at_s: float
    failures: int = 0


class ScheduledSavepoints:
    """Runs the loop. ``view`` returns the controller's latest view, or None. ``clock`` is BOOTTIME."""

    def __init__(
        self,
        term: Term[ZooClient],
        view: Callable[[], View | None],
        tasks: SavepointTasks,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = boottime_s,
        tick_s: float = TICK_S,
    ) -> None:
        self._term = term
        self._view = view
        self._tasks = tasks
        self._metrics = metrics
        self._clock = clock
        self._tick_s = tick_s
        self._lock = threading.Lock()
        self._statuses: dict[str, SavepointStatus] = {}
        self._in_flight: dict[str, Future[None]] = {}
        self._apart = ErrorBoundary("savepoints")

    def run(self) -> None:
        """Serves the jobs until the term is over, and then ends what is under way."""
        with Pool(WORKERS, "savepoints") as pool:
            repeat(partial(self._submit_due, pool), self._term, self._apart, every_s=self._tick_s)

    def _submit_due(self, pool: Pool) -> float:
        for wanted in self.due():
            self._in_flight[wanted.name] = pool.submit(self.see_to, wanted)
        return self._tick_s

    def due(self) -> list[WantedSavepoint]:
        """Returns the jobs to serve now, the longest due first, and no more of them than there are free
        workers."""
        self._in_flight = {name: future for name, future in self._in_flight.items() if not future.done()}
        view = self._view()
        if view is None or not self._term.lasts:
            return []
        is_paused = view.paused
        if not TermPermission(self._term, lambda: is_paused).may_begin():
            return []
        jobs = {row.name: found for row in view.rows.values() if (found := self._wanted_of(row)) is not None}
        now_s = self._clock()
        with self._lock:
            known = self._statuses
            self._statuses = {
                name: known[name]
                if name in known and known[name].uid == job.uid
                else SavepointStatus(job.uid, now_s, now_s)
                for name, job in jobs.items()
            }
            statuses = dict(self._statuses)
        self._metrics.set_savepoints(
            {name: SavepointAge(statuses[name].at_s, job.policy.every_s) for name, job in jobs.items()}
        )
        ready = [
            job
            for name, job in jobs.items()
            if job.running and name not in self._in_flight and statuses[name].check_at_s <= now_s
        ]
        ready.sort(key=lambda job: statuses[job.name].check_at_s)
        return ready[: WORKERS - len(self._in_flight)]

    def _wanted_of(self, row: Row) -> WantedSavepoint | None:
        return self._apart.attempt(row.name, lambda: wanted_of(row), None)

    def see_to(self, job: WantedSavepoint) -> None:
        """Makes the savepoint that is due of one job and removes those that may go. Raises nothing."""
        try:
            self._see_to(job)
        except TaskEnded:
            return
        except NotYet as error:
            wait_s = self._later(job, NOT_YET_S)
            log.info(
                "savepoint_not_yet",
                job=job.name,
                uid=job.uid,
                why=str(error),
                next=f"tried again in {wait_s:.0f} s",
            )
        except SupervisorError as error:
            self._failed(job, str(error))
        except Exception as error:  # the edge of the loop: that job's trouble alone (I9)
            log.exception("savepoint_defect", job=job.name, uid=job.uid)
            self._failed(job, f"{type(error).__name__}: {error}")

    def _see_to(self, job: WantedSavepoint) -> None:
        shelf, every_s = self._tasks.shelf, job.policy.every_s
        begun_at_s, now_s = self._clock(), shelf.now_s()
        slot_at_s = slot_of(job.name, every_s, now_s)
        savepoint = to_make(shelf, job, slot_at_s)
        if savepoint is not None:
            entries = list(shelf.entries(job.name))
            newest = newest_of(scheduled(entries, job.source), now_s, every_s)
            if newest is not None:
                self._note(job, at_s=begun_at_s - (now_s - (began_at_s(newest.id) or 0)))
            made = self._tasks.create(job, savepoint, max(TIMEOUT_MIN_S, every_s), self._go_on)
            self._metrics.count_savepoint(job.name, "done")
            log.info(
                "savepoint_created",
                job=job.name,
                uid=job.uid,
                attempt=job.attempt,
                savepoint=savepoint,
                batches=list(made.batches),
                objects=made.objects,
                bytes=made.bytes,
                s=round(self._clock() - begun_at_s, 1),
            )
            self._remove_surplus(job, now_s)
        self._note(
            job,
            at_s=begun_at_s - (now_s - slot_at_s),
            check_at_s=begun_at_s + (slot_at_s + every_s - now_s),
            failures=0,
        )

    def _remove_surplus(self, job: WantedSavepoint, now_s: float) -> None:
        shelf = self._tasks.shelf
        try:
            places = {
                entry.id: entry.begun.location for entry in shelf.entries(job.name) if entry.begun is not None
            }
            to_delete = surplus(scheduled(shelf.entries(job.name)), job.policy, now_s)[:DELETES_MAX]
            in_use = self._tasks.in_use() if to_delete else None
            for savepoint in to_delete:
                why = in_use(places[savepoint]) if in_use is not None else None
                if why is None:
                    why = self._delete(job, savepoint)
                if why is not None:
                    log.info(
                        "savepoint_kept",
                        job=job.name,
                        savepoint=savepoint,
                        why=why,
                        next="tried again with the next",
                    )
        except TaskEnded:
            raise
        except SupervisorError as error:
            log.warning(
                "savepoints_not_removed", job=job.name, why=str(error), next="tried again with the next"
            )

    def _delete(self, job: WantedSavepoint, savepoint: str) -> str | None:
        try:
            self._tasks.delete(job.name, savepoint, TIMEOUT_MIN_S, self._go_on)
        except NotFound:
            return None
        except Conflict as error:
            return str(error)
        log.info("savepoint_removed", job=job.name, savepoint=savepoint, why="newer ones are kept")
        return None

    def _failed(self, job: WantedSavepoint, why: str) -> None:
        wait_s = self._later(job, RETRY_S)
        self._metrics.count_savepoint(job.name, "failed")
        log.warning(
            "savepoint_failed",
            job=job.name,
            uid=job.uid,
            attempt=job.attempt,
            why=why,
            next=f"tried again in {wait_s:.0f} s",
        )

    def _later(self, job: WantedSavepoint, first_s: float) -> float:
        """Postpones the job's next check, longer with each failure, and returns the seconds until then."""
        with self._lock:
            savepoint_status = self._statuses.get(job.name)
        failures = savepoint_status.failures + 1 if savepoint_status is not None else 1
        wait_s = GrowingPause(first_s, min(RETRY_MAX_S, job.policy.every_s)).after(failures)
        self._note(job, check_at_s=self._clock() + wait_s, failures=failures)
        return wait_s

    def _note(self, job: WantedSavepoint, **changes: float) -> None:
        with self._lock:
            savepoint_status = self._statuses.get(job.name)
            if savepoint_status is not None and savepoint_status.uid == job.uid:
                self._statuses[job.name] = replace(savepoint_status, **changes)  # type: ignore[arg-type]

    def _go_on(self) -> bool:
        return self._term.lasts


def wanted_of(row: Row) -> WantedSavepoint | None:
    """Returns the job's wanted savepoint, or None if the job has no policy, is not to run, or has records
    that can't be read."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return None
    job: JobRef = row.ref.record
    policy, checkpoint = job.terms.savepoints, job.terms.checkpoint
    if policy is None or checkpoint is None or job.desired is not Desired.RUNNING:
        return None
    running = shown_state(row).state is JobState.RUNNING
    return WantedSavepoint(
        job.name,
        job.uid,
        row.own.record.attempt,
        checkpoint,
        normalise(checkpoint),
        job.spec,
        policy,
        running,
    )


def to_make(shelf: Shelf, job: WantedSavepoint, slot_at_s: int) -> str | None:
    """Returns the id of the savepoint that the slot lacks, which may be an incomplete one, or None if it is
    there. Raises SupervisorError."""
    there = set(shelf.ids(job.name))
    for savepoint in ids_of(slot_at_s):
        if savepoint not in there:
            return savepoint
        found = shelf.find(job.name, savepoint).scheduled
        if found is not None and found.source == job.source:
            return None if found.complete else savepoint
    raise Conflict(f"all ids of this period are taken by other savepoints of {job.name}: delete some")


def scheduled(entries: Iterable[ShelfEntry], source: str | None = None) -> list[Scheduled]:
    """Returns the entries that were made by schedule; with ``source``, only those of that checkpoint."""
    found = [each for entry in entries if (each := entry.scheduled) is not None]
    return [each for each in found if source is None or each.source == source]
