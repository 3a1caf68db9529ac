"""Has the savepoint of an update made before its hand-over, and restored after its target has failed (``update.rollback:
savepoint``, protocol §9.2).

The controller passes each View and its last plan through ``answered``: what the plan's notes wait for is begun, and what has
come of it becomes a part of the View (``Row.saved``, ``Row.restored``). The work is done in a loop of its own, one per term,
beside the controller and never in its pass; the copying in child processes, which end with the term. Nothing of it is kept:
the next leader finds in the store what is complete. It is no guard of anything: the leader's writes rest on /own and /jobs
at the versions for which the work was done, and on what ``registry.update_savepoint_writes.read_for_move`` has read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

import structlog

from supervisor.clients.task_child import GoOn, TaskEnded
from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.daemon.leader.term_loop import repeat
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Conflict, Corrupt, InvalidInput, NotFound, NotYet, SupervisorError
from supervisor.growing_pause import GrowingPause
from supervisor.model.actions import Plan
from supervisor.model.records import JobRef, Ownership
from supervisor.model.seen import Found
from supervisor.model.view import Row, UpdateRestored, UpdateSaved, View

log = structlog.get_logger(__name__)

WORKERS: Final = 4
TICK_S: Final = 0.5
RETRY_PAUSE: Final = GrowingPause(first_s=5.0, longest_s=60.0)
FOR_GOOD: Final = (Conflict, Corrupt, InvalidInput, NotFound)
"""After these errors of a restore no other try would help."""

Key = tuple[str, int, int]


class WayBackWork(Protocol):
    """Is ``update_savepoint_task.UpdateSavepointTasks``."""

    def save(self, ref: Found[JobRef], own: Found[Ownership], go_on: GoOn) -> str: ...

    def restore(self, job: JobRef, go_on: GoOn) -> UpdateRestored: ...

    def read(self, job: JobRef, copied: UpdateRestored) -> UpdateRestored: ...

    def remove_surplus(self, job: JobRef, but: str, go_on: GoOn) -> None: ...


@dataclass(slots=True)
class WayBackTask:
    """Holds what is wanted for one job, as its records were, and what has come of it. ``restores`` says that it is the copy
    of the savepoint, not the savepoint. ``begun_at_s`` is when its turn came: what is limited in time counts from
    there. ``used`` says that a View had the answer: what it was read from may be old."""

    key: Key
    ref: Found[JobRef]
    own: Found[Ownership]
    restores: bool
    saved: UpdateSaved
    restored: UpdateRestored | None = None
    begun_at_s: float | None = None
    used: bool = False
    failures: int = 0
    next_at_s: float = 0.0
    future: Future[None] | None = field(default=None)

    @property
    def is_open(self) -> bool:
        """Says whether there is something to do for it."""
        if not self.restores:
            return not self.saved.savepoint and not self.saved.for_good
        return self.restored is None or (self.restored.revision is not None and self.used)


class WayBack:
    """Runs the loop of one term. ``wake`` is called when there is an answer; ``clock`` is BOOTTIME, as of the plan."""

    def __init__(
        self,
        term: Term[ZooClient],
        work: WayBackWork,
        wake: Callable[[], None],
        *,
        clock: Callable[[], float] = boottime_s,
        tick_s: float = TICK_S,
    ) -> None:
        self._term = term
        self._work = work
        self.wake = wake
        self._clock = clock
        self._tick_s = tick_s
        self._lock = threading.Lock()
        self._wanted: dict[str, WayBackTask] = {}
        self._acts = False
        self._running: list[Future[None]] = []
        self._apart = ErrorBoundary("way back")

    def answered(self, view: View, plan: Plan) -> View:
        """Returns ``view`` with the answers that there are. What the notes of ``plan`` wait for is begun."""
        notes = {note.name: note for note in plan.notes if note.saves or note.restores}
        acts = not view.paused and view.distrust is None and view.recorded
        with self._lock:
            self._acts = acts
            for wanted in self._wanted.values() if not acts else ():
                wanted.begun_at_s = None  # nothing is begun meanwhile, and no time counts
            rows = {name: view.rows.get(name) for name in self._wanted}
            keys = {name: key_of(row) if row is not None else None for name, row in rows.items()}
            self._wanted = {name: each for name, each in self._wanted.items() if keys[name] == each.key}
            for name, note in notes.items() if acts else ():
                row = view.rows.get(name)
                if name not in self._wanted and row is not None:
                    self._begin(row, restores=note.restores)
            answers = {name: self._answer(each, view.rows[name]) for name, each in self._wanted.items()}
        return replace(view, rows={**view.rows, **answers}) if answers else view

    def _begin(self, row: Row, *, restores: bool) -> None:
        key = key_of(row)
        if key is not None and isinstance(row.ref, Found) and isinstance(row.own, Found):
            self._wanted[row.name] = WayBackTask(key, row.ref, row.own, restores, UpdateSaved(self._clock()))

    def _answer(self, wanted: WayBackTask, row: Row) -> Row:
        since_at_s = wanted.begun_at_s if wanted.begun_at_s is not None else self._clock()
        if not wanted.restores:
            return replace(row, saved=replace(wanted.saved, since_at_s=since_at_s))
        wanted.used = wanted.restored is not None
        return replace(row, restored=wanted.restored, restoring_since_at_s=since_at_s)

    def run(self) -> None:
        """Serves what is wanted until the term is over, and then ends what is under way."""
        with Pool(WORKERS, "way-back") as pool:
            repeat(partial(self._submit_due, pool), self._term, self._apart, every_s=self._tick_s)

    def _submit_due(self, pool: Pool) -> float:
        for name, wanted in self.due():
            wanted.future = pool.submit(self.see_to, name, wanted)
            self._running.append(wanted.future)
        return self._tick_s

    def due(self) -> list[tuple[str, WayBackTask]]:
        """Returns what to serve now, and no more than there are free workers."""
        self._running = [future for future in self._running if not future.done()]
        now_s = self._clock()
        with self._lock:
            if not self._acts:
                return []
            ready = [
                (name, each)
                for name, each in self._wanted.items()
                if each.is_open and each.next_at_s <= now_s and (each.future is None or each.future.done())
            ]
        ready.sort(key=lambda each: each[1].next_at_s)
        return ready[: WORKERS - len(self._running)]

    def see_to(self, name: str, wanted: WayBackTask) -> None:
        """Does what is wanted for one job. Raises nothing."""
        job = wanted.ref.record
        if wanted.begun_at_s is None:
            wanted.begun_at_s = self._clock()

        def go_on() -> bool:
            with self._lock:
                is_wanted = self._wanted.get(name) is wanted
            return is_wanted and self._term.lasts

        try:
            if wanted.restores:
                self._restore(wanted, job, go_on)
            else:
                self._save(wanted, job, go_on)
        except TaskEnded:
            return
        except SupervisorError as error:
            self._failed(wanted, job, error)
        except Exception as error:  # the edge of the loop: that job's trouble alone (I9)
            log.exception("way_back_defect", job=job.name, uid=job.uid)
            self._failed(wanted, job, SupervisorError(f"{type(error).__name__}: {error}"))
        self.wake()

    def _save(self, wanted: WayBackTask, job: JobRef, go_on: GoOn) -> None:
        savepoint = self._work.save(wanted.ref, wanted.own, go_on)
        with self._lock:
            wanted.saved = replace(wanted.saved, savepoint=savepoint, nothing=False, why="")
        self.wake()
        self._work.remove_surplus(job, savepoint, go_on)

    def _restore(self, wanted: WayBackTask, job: JobRef, go_on: GoOn) -> None:
        copied = wanted.restored
        done = self._work.restore(job, go_on) if copied is None else self._work.read(job, copied)
        with self._lock:
            wanted.restored, wanted.used, wanted.failures = done, False, 0

    def _failed(self, wanted: WayBackTask, job: JobRef, error: SupervisorError) -> None:
        why = str(error)
        with self._lock:
            wanted.failures += 1
            wait_s = RETRY_PAUSE.after(wanted.failures)
            wanted.next_at_s = self._clock() + wait_s
            if wanted.restores:
                for_good = isinstance(error, FOR_GOOD)
                wanted.restored = UpdateRestored(why=why) if for_good else wanted.restored
            else:
                for_good = isinstance(error, InvalidInput)
                nothing = isinstance(error, NotYet)
                wanted.saved = replace(wanted.saved, why=why, nothing=nothing, for_good=for_good)
        log.warning(
            "way_back_failed",
            job=job.name,
            uid=job.uid,
            what="restore" if wanted.restores else "savepoint",
            why=why,
            next="given up" if for_good else f"tried again in {wait_s:.0f} s, while there is time",
        )


def key_of(row: Row) -> Key | None:
    """Returns the job and the state of its records that the work is about; None if they can't be read."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return None
    return row.ref.record.uid, row.ref.version, row.own.version
