"""A request is carried out at most once, and everybody who sends it gets the same true answer: any history of requests that are sent
again, of threads that take them up, of clients that give up, of a store that is full, and of time.

The steps and the judge are in ``writing``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from supervisor.api import bounded_writes
from supervisor.api.bounded_writes import BoundedWrites, WriteOnce
from tests.explore.planting import Edit, edited
from tests.property.histories import ordinary, play_seed
from tests.property.writing import KEPT_S, BrokenPromise, WritingWorld

names = st.builds(
    WriteOnce,
    st.sampled_from(("ann", "ann", "bob")),
    st.sampled_from(("k1", "k1", "k2", "k3", "k4", "k5", "k6", "k7")),
    st.sampled_from((b"x", b"x", b"x", b"y")),
)
picks = st.integers(0, 5)
hows = st.sampled_from(("answered", "answered", "answered", "nothing", "unknown", "defect"))
many = st.sampled_from((1, 1, 2, 3, 20))


class SentHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.made: WritingWorld | None = None

    @property
    def world(self) -> WritingWorld:
        assert self.made is not None
        return self.made

    @initialize()
    def begins(self) -> None:
        self.made = WritingWorld()

    @invariant()
    def holds(self) -> None:
        if self.made is not None:
            self.made.judge()

    def teardown(self) -> None:
        if self.made is not None:
            try:
                if self.made.failure is None:
                    self.made.rest()
            finally:
                self.made.close()

    @rule(once=names, by_digest=st.booleans(), steps=many)
    def somebody_sends(self, once: WriteOnce, by_digest: bool, steps: int) -> None:
        self.world.send(once, by_digest=by_digest)
        self.world.go_on(self.world.requests[-1], steps)

    @rule(pick=picks, by_digest=st.booleans(), steps=many)
    @precondition(lambda self: self.world.requests)
    def somebody_sends_it_again(self, pick: int, by_digest: bool, steps: int) -> None:
        requests = self.world.requests
        self.world.send(requests[-1 - pick % len(requests)].once, by_digest=by_digest)
        self.world.go_on(requests[-1], steps)

    @rule(once=names, how=hows)
    def somebody_sends_and_a_thread_does_it_at_once(self, once: WriteOnce, how: str) -> None:
        world = self.world
        world.send(once, by_digest=False)
        world.go_on(world.requests[-1], 3)
        world.begin(how)
        for worker in world.open_workers():
            world.work_on(worker, 20)
        world.go_on(world.requests[-1], 20)

    @precondition(lambda self: self.world.open_requests())
    @rule(pick=picks, steps=many, is_late=st.booleans())
    def a_request_goes_on(self, pick: int, steps: int, is_late: bool) -> None:
        requests = self.world.open_requests()
        request = requests[pick % len(requests)]
        request.is_late = request.is_late or is_late
        self.world.go_on(request, steps)

    @rule(how=hows)
    def a_thread_begins(self, how: str) -> None:
        self.world.begin(how)

    @precondition(lambda self: self.world.open_workers())
    @rule(pick=picks, steps=many)
    def a_thread_goes_on(self, pick: int, steps: int) -> None:
        workers = self.world.open_workers()
        self.world.work_on(workers[pick % len(workers)], steps)

    @rule(seconds=st.sampled_from((1.0, 1.0, KEPT_S / 2, KEPT_S - 1.0, KEPT_S)))
    def time_goes_by(self, seconds: float) -> None:
        self.world.now_s += seconds

    @rule(stops=st.sampled_from((False,) * 9 + (True,)))
    def the_supervisor_stops(self, stops: bool) -> None:
        if stops and not self.world.is_closed:
            self.world.stop()


ORDINARY = ordinary(100)


def run(number: int, **changes: Any) -> None:
    """With the ``number``-th seed; shrinks nothing."""
    play_seed(SentHistories, number, ORDINARY, **changes)


def test_each_request_is_carried_out_once_and_answered_truly() -> None:
    """Other histories in each run."""
    run_state_machine_as_test(SentHistories, settings=ORDINARY)


# -- does it bite? ----------------------------------------------------------------------------------------------------

DEFECTS: dict[str, tuple[Edit, ...]] = {
    "the-key-of-one-operator-is-that-of-another": (
        Edit(WriteOnce.name, "self.operator, self.key", "'', self.key"),
    ),
    "the-digest-is-not-compared": (
        Edit(bounded_writes._same, "if known.digest != once.digest:", "if False:"),
    ),
    "what-is-answered-is-forgotten": (
        Edit(BoundedWrites._carry_out, "self._keep(once, write, answer)", "pass"),
    ),
    "between-its-end-and-its-answer-nobody-knows-it": (
        Edit(
            BoundedWrites._carry_out,
            "        self._keep(once, write, answer)",
            "        pass\n    with self._lock:\n        self._keep(once, write, answer)",
        ),
    ),
    "an-unknown-outcome-is-tried-again": (
        Edit(
            BoundedWrites._answer,
            "(Unreachable, AccessDenied)",
            "(Unreachable, AccessDenied, OutcomeUnknown)",
        ),
    ),
    "a-defect-is-tried-again": (Edit(BoundedWrites._answer, 'log.exception("http_answer_failed")', "raise"),),
    "what-has-done-nothing-is-kept": (
        Edit(
            BoundedWrites._carry_out,
            "            self._forget(once, write)\n        write.result.set_exception(error)",
            "            pass\n        write.result.set_exception(error)",
        ),
    ),
    "a-full-store-forgets-the-oldest": (
        Edit(
            BoundedWrites._joined,
            'raise NotBegun("nothing was done: too many writes were made lately", "try again later")',
            "self._answered and self._answered.pop(next(iter(self._answered)))",
        ),
    ),
    "a-full-store-takes-more": (Edit(BoundedWrites._joined, ">= KEPT_MAX", ">= 10 * KEPT_MAX"),),
    "a-large-answer-is-forgotten-with-its-key": (
        Edit(
            BoundedWrites._keep,
            "self._answered[name] = _without_answer(oldest)",
            "del self._answered[name]; return",
        ),
    ),
    "answers-are-kept-however-large-they-are": (
        Edit(BoundedWrites._keep, "self._kept_bytes += write.size_bytes", "pass"),
    ),
    "more-wait-than-may": (
        Edit(
            BoundedWrites._joined, "len(self._under_way) >= WAITING_MAX", "len(self._under_way) > WAITING_MAX"
        ),
    ),
    "time-counts-from-the-begin": (
        Edit(BoundedWrites._joined, "_Write(once.digest)", "_Write(once.digest, now_s)"),
        Edit(BoundedWrites._keep, "boottime_s(), len", "write.ended_at_s, len"),
    ),
    "an-answer-outlives-its-time": (Edit(BoundedWrites._forget_old, "< KEPT_S", "< 2 * KEPT_S"),),
    "who-gives-up-is-told-that-nothing-was-done-and-it-is-done": (
        Edit(
            BoundedWrites._is_dropped,
            "            return False\n        self._forget(once, write)",
            "            return True\n        self._forget(once, write)",
        ),
    ),
    "what-was-dropped-is-carried-out": (
        Edit(BoundedWrites._is_dropped, "write.result.cancel()", "not write.result.running()"),
    ),
    "who-waits-for-what-was-dropped-does-not-see-that-it-was-sent-again": (
        Edit(BoundedWrites._awaited, "known is not None and known is not write", "False"),
    ),
    "nobody-has-a-rate": (Edit(BoundedWrites._spend, "if not budget.spend(now_s):", "if False:"),),
}

SEEDS = 8


def bites(defect: AbstractContextManager[object]) -> BaseException | None:
    """What is found while it is planted, in the ordinary number of histories."""
    with defect:
        for number in range(SEEDS):
            try:
                run(number)
            except AssertionError as found:
                return found
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_it_fails_while_a_defect_is_planted(name: str) -> None:
    assert isinstance(bites(edited(*DEFECTS[name])), BrokenPromise)
