"""Looks at the checkpoints of updates that have failed: has the target left anything there (``update.rollback: clean``)?

The controller asks for it in each pass, and the answer becomes a part of its View (``Row.left_behind``). A checkpoint is
examined in a thread for which nobody waits; the plan waits for the answer for a limited time (``plan.decide``). Nothing of
it is kept: a new leader examines it again. It is no guard of anything: a wrong answer is a roll back that goes on from the
same checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import structlog

from supervisor.clients.threads import run_in_thread
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.model.checkpoint_expectation import SeenQuery, sinks_of
from supervisor.model.records import JobRef, Ownership
from supervisor.model.seen import Found
from supervisor.model.sinks import SeenSink
from supervisor.model.state import known_before
from supervisor.model.view import Row, View
from supervisor.plan.decide import asks_what_was_left

log = structlog.get_logger(__name__)

Examine: TypeAlias = "Callable[[JobRef, Sequence[SeenQuery], Sequence[SeenSink]], str]"
"""Returns what is in the checkpoint of a job, or in its sinks, beyond some batches; empty if nothing is. It may raise
anything."""

TURN_MAX_S: Final = 900.0
"""For so long a look waits for its turn."""

EXAMINED_MAX: Final = 4
"""So many checkpoints are examined at a time. One that hangs keeps its place; the plan does not wait for it for ever."""


class LeftBehind:
    """Keeps the answers of one term by job and exit. ``wake`` is called when there is an answer."""

    def __init__(
        self, examine: Examine, wake: Callable[[], None], *, clock: Callable[[], float] = boottime_s
    ) -> None:
        self._examine = examine
        self._wake = wake
        self._clock = clock
        self._asked: dict[tuple[str, int], Future[str]] = {}
        self._begun_at_s: dict[tuple[str, int], float] = {}
        self._wanted_at_s: dict[tuple[str, int], float] = {}

    def answered(self, view: View) -> View:
        """Returns ``view`` with the answers that there are, and begins to examine what it asks for."""
        asking = {_key(row): row for row in view.rows.values() if asks_what_was_left(row)}
        self._asked = {key: each for key, each in self._asked.items() if key in asking or not each.done()}
        now_s = self._clock()
        self._begun_at_s = {key: at_s for key, at_s in self._begun_at_s.items() if key in self._asked}
        self._wanted_at_s = {key: self._wanted_at_s.get(key, now_s) for key in asking}
        if not asking:
            return view
        rows = dict(view.rows)
        for key, row in asking.items():
            if key not in self._asked and self._is_free():
                self._begin(key, row)
            future = self._asked.get(key)
            left = future.result() if future is not None and future.done() else row.left_behind
            rows[row.name] = replace(row, left_behind=left, examined_since_s=self._since_s(key))
        return replace(view, rows=rows)

    def _since_s(self, key: tuple[str, int]) -> float:
        """Returns from when the time of a look counts. One whose turn does not come, since those before it hang, is not
        waited for for ever."""
        if key in self._begun_at_s:
            return self._begun_at_s[key]
        now_s, wanted_at_s = self._clock(), self._wanted_at_s[key]
        return now_s if now_s - wanted_at_s < TURN_MAX_S else wanted_at_s

    def _is_free(self) -> bool:
        return sum(not each.done() for each in self._asked.values()) < EXAMINED_MAX

    def _begin(self, key: tuple[str, int], row: Row) -> None:
        assert isinstance(row.ref, Found) and isinstance(row.own, Found)
        job, own = row.ref.record, row.own.record
        try:
            future = run_in_thread("left-behind", partial(self._answer, job, own))
        except RuntimeError as error:
            future = Future()
            future.set_result(f"its checkpoint could not be looked at ({error})")
        self._asked[key] = future
        self._begun_at_s[key] = self._clock()
        future.add_done_callback(lambda _: self._wake())

    def _answer(self, job: JobRef, own: Ownership) -> str:
        """Returns what was left. No answer is not clean."""
        known = known_before(job, own)
        if known is None:
            return "what was in its checkpoint before is not known"
        try:
            left = self._examine(job, known, sinks_of(None, own.remembered))
        except SupervisorError as error:
            left = f"its checkpoint could not be looked at: {error}"
        except Exception as error:
            log.exception("left_behind_unknown", job=job.name, uid=job.uid, attempt=own.attempt)
            left = f"its checkpoint could not be looked at ({type(error).__name__}: {error})"
        log.info("left_behind", job=job.name, uid=job.uid, attempt=own.attempt, what=left or "nothing")
        return left


def _key(row: Row) -> tuple[str, int]:
    """Returns the job, and the version of /own that its exit has written."""
    assert isinstance(row.own, Found)
    return row.name, row.own.version
