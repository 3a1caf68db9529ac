"""``api.bounded_writes``: each request once, bounds for what waits and for each operator, and what a restart drops."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from supervisor.api import bounded_writes
from supervisor.api.bounded_writes import (
    BURST,
    KEPT_S,
    PER_S,
    WAITERS_MAX,
    WAITING_MAX,
    BoundedWrites,
    NotBegun,
    SameUnderWay,
    WriteOnce,
)
from supervisor.api.responses import ApiResponse
from supervisor.errors import AccessDenied, Conflict, InvalidInput, OutcomeUnknown, Unreachable
from tests.waiting import wait_until

ANSWER_S = 60.0


class Registry:
    """Counts what is carried out; ``clock`` is CLOCK_BOOTTIME. While ``gate`` is closed, nothing ends."""

    def __init__(self) -> None:
        self.begun = self.closed = 0
        self.clock = 100.0
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    @contextmanager
    def open(self) -> Iterator[Any]:
        yield self
        self.closed += 1

    def write(self, _context: Any) -> ApiResponse:
        self.begun += 1
        number = self.begun
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        return ApiResponse(200, str(number).encode())


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(bounded_writes, "boottime_s", lambda: registry.clock)
    return registry


@pytest.fixture
def writes(registry: Registry) -> Iterator[BoundedWrites]:
    writes = BoundedWrites(registry.open, 1, "test")  # type: ignore[arg-type]
    yield writes
    registry.gate.set()
    writes.close()


def once(key: str, operator: str = "ann", digest: bytes = b"d") -> WriteOnce:
    return WriteOnce(operator, key, digest)


def in_thread(writes: BoundedWrites, registry: Registry, key: str, answers: list[Any]) -> threading.Thread:
    def run() -> None:
        try:
            answers.append(writes.carry_out(once(key), registry.write, ANSWER_S).body)
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_the_same_key_is_carried_out_once_and_answered_alike(
    writes: BoundedWrites, registry: Registry
) -> None:
    answers = {writes.carry_out(once("k"), registry.write, ANSWER_S).body for _ in range(3)}
    assert answers == {b"1"} and registry.begun == 1
    assert writes.carry_out(once("other"), registry.write, ANSWER_S).body == b"2"
    assert writes.carry_out(once("k", "bob"), registry.write, ANSWER_S).body == b"3", "another operator's key"


def test_what_has_begun_although_no_thread_could_be_started_is_carried_out_once(
    writes: BoundedWrites, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool queues a work before it starts a thread for it: another thread may have taken it when that fails."""
    submit, begun = writes._pool.submit, threading.Event()

    def fails(work: Any, *arguments: Any) -> Any:
        submit(work, *arguments)
        assert begun.wait(60)
        raise RuntimeError("can't start new thread")

    def write(context: Any) -> ApiResponse:
        begun.set()
        return registry.write(context)

    monkeypatch.setattr(writes._pool, "submit", fails)
    answers = {writes.carry_out(once("k"), write, ANSWER_S).body for _ in range(2)}
    assert answers == {b"1"} and registry.begun == 1


def test_who_asks_again_while_it_is_carried_out_gets_its_answer(
    writes: BoundedWrites, registry: Registry
) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    threads = [in_thread(writes, registry, "k", answers) for _ in range(2)]
    wait_until(lambda: registry.begun == 1, what="the first")
    registry.gate.set()
    for thread in threads:
        thread.join(60)
    assert answers == [b"1", b"1"]


def test_only_so_many_wait_for_the_same_and_all_have_its_answer_once_it_is_there(
    writes: BoundedWrites, registry: Registry
) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    threads = [in_thread(writes, registry, "k", answers) for _ in range(WAITERS_MAX)]
    wait_until(lambda: registry.begun == 1, what="the first")
    repeated = writes.repeat_of("ann", "k")
    assert repeated is not None
    wait_until(repeated.has_enough_waiters, what="all that may wait")
    for ask in (
        lambda: repeated.answer(once("k"), ANSWER_S),
        lambda: writes.carry_out(once("k"), registry.write, ANSWER_S),
    ):
        with pytest.raises(SameUnderWay, match="the same request is being received or carried out"):
            ask()
    registry.gate.set()
    for thread in threads:
        thread.join(60)
    assert answers == [b"1"] * WAITERS_MAX and not repeated.has_enough_waiters()
    assert {repeated.answer(once("k"), ANSWER_S).body for _ in range(WAITERS_MAX + 1)} == {b"1"}


def test_who_gives_up_makes_room_for_another_who_waits(writes: BoundedWrites, registry: Registry) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    thread = in_thread(writes, registry, "k", answers)
    wait_until(lambda: registry.begun == 1, what="the first")
    for _ in range(WAITERS_MAX + 1):
        with pytest.raises(OutcomeUnknown):
            writes.carry_out(once("k"), registry.write, 0.05)
    registry.gate.set()
    thread.join(60)
    assert answers == [b"1"]


def test_a_key_that_was_sent_with_another_request_is_a_conflict(
    writes: BoundedWrites, registry: Registry
) -> None:
    writes.carry_out(once("k"), registry.write, ANSWER_S)
    with pytest.raises(Conflict, match="sent with another request before: nothing was done"):
        writes.carry_out(once("k", digest=b"e"), registry.write, ANSWER_S)
    assert registry.begun == 1


@pytest.mark.parametrize("error", [OutcomeUnknown("unknown"), ZeroDivisionError()])
def test_what_may_have_been_done_is_remembered_and_not_tried_again(
    writes: BoundedWrites, registry: Registry, error: Exception
) -> None:
    registry.error = error
    first, again = (writes.carry_out(once("k"), registry.write, ANSWER_S) for _ in range(2))
    assert first == again and first.code == (504 if isinstance(error, OutcomeUnknown) else 500)
    assert registry.begun == 1


def test_an_error_keeps_nothing_of_its_request(writes: BoundedWrites, registry: Registry) -> None:
    """An exception has frames, and these have all that they worked with: a bundle is 32 MiB."""

    class Bundle(bytearray):
        pass

    bundle = Bundle()
    gone = weakref.ref(bundle)

    def work(_context: Any, bundle: Bundle = bundle) -> ApiResponse:
        raise InvalidInput(f"no good: {len(bundle)}")

    for _ in range(2):
        assert writes.carry_out(once("k"), work, ANSWER_S).code == 400
    del bundle, work
    wait_until(lambda: gc.collect() and gone() is None, what="the end of the bundle")


@pytest.mark.parametrize("error", [Unreachable("down"), AccessDenied("no")])
def test_what_has_done_nothing_may_be_tried_again_with_the_same_key(
    writes: BoundedWrites, registry: Registry, error: Exception
) -> None:
    registry.error = error
    with pytest.raises(type(error)):
        writes.carry_out(once("k"), registry.write, ANSWER_S)
    registry.error = None
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"2"


def test_what_takes_too_long_goes_on_and_the_same_key_has_its_answer(
    writes: BoundedWrites, registry: Registry
) -> None:
    registry.gate.clear()
    with pytest.raises(OutcomeUnknown, match="the same Idempotency-Key gets its answer"):
        writes.carry_out(once("k"), lambda context: registry.write(context), 0.2)
    registry.gate.set()
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"1"


def test_what_was_not_begun_in_time_is_not_carried_out_later(
    writes: BoundedWrites, registry: Registry
) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    thread = in_thread(writes, registry, "first", answers)
    wait_until(lambda: registry.begun == 1, what="the first")
    with pytest.raises(NotBegun, match="nothing was done"):
        writes.carry_out(once("second"), registry.write, 0.05)
    registry.gate.set()
    thread.join(60)
    assert writes.carry_out(once("third"), registry.write, ANSWER_S).body == b"2", "the second never was"


def test_so_many_may_wait_and_no_more(writes: BoundedWrites, registry: Registry) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    threads = [in_thread(writes, registry, f"k{number}", answers) for number in range(WAITING_MAX)]
    wait_until(lambda: len(writes._under_way) == WAITING_MAX, what="all that may wait")
    with pytest.raises(NotBegun, match="too many writes"):
        writes.carry_out(once("more"), registry.write, ANSWER_S)
    registry.gate.set()
    for thread in threads:
        thread.join(60)
    assert len(answers) == WAITING_MAX == registry.begun


def test_each_operator_has_a_rate_of_his_own(writes: BoundedWrites, registry: Registry) -> None:
    for number in range(BURST):
        writes.carry_out(once(f"k{number}"), registry.write, ANSWER_S)
    with pytest.raises(NotBegun, match="ann asks for more than"):
        writes.carry_out(once("more"), registry.write, ANSWER_S)
    assert writes.carry_out(once("k", "bob"), registry.write, ANSWER_S).code == 200
    assert writes.carry_out(once("k0"), registry.write, ANSWER_S).body == b"1", "an answer costs nothing"
    registry.clock += 1 / PER_S
    assert writes.carry_out(once("more"), registry.write, ANSWER_S).code == 200


def test_keys_are_forgotten_when_their_time_is_over(writes: BoundedWrites, registry: Registry) -> None:
    def slow(context: Any) -> ApiResponse:
        registry.clock += KEPT_S
        return registry.write(context)

    assert writes.carry_out(once("k"), slow, ANSWER_S).body == b"1"
    registry.clock += KEPT_S - 1
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"1", "it counts from its end"
    registry.clock += 1
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"2"
    assert len(writes._answered) == 1


def test_who_comes_when_all_keys_are_remembered_is_refused_and_none_is_forgotten_early(
    writes: BoundedWrites, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_writes, "KEPT_MAX", 3)
    for number in range(3):
        writes.carry_out(once(f"k{number}"), registry.write, ANSWER_S)
    with pytest.raises(NotBegun, match="too many writes were made lately"):
        writes.carry_out(once("more"), registry.write, ANSWER_S)
    assert writes.carry_out(once("k0"), registry.write, ANSWER_S).body == b"1"
    registry.clock += KEPT_S
    assert writes.carry_out(once("more"), registry.write, ANSWER_S).body == b"4"


def test_answers_that_are_too_large_together_are_dropped_and_their_keys_are_not(
    writes: BoundedWrites, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_writes, "KEPT_BYTES_MAX", 250)
    for key in ("a", "b", "c"):
        writes.carry_out(once(key), lambda _context: ApiResponse(200, b"x" * 100), ANSWER_S)
    dropped = writes.carry_out(once("a"), registry.write, ANSWER_S)
    assert dropped.code == 409 and b"carried out before, and its answer is not kept" in dropped.body
    assert len(writes.carry_out(once("b"), registry.write, ANSWER_S).body) == 100
    assert registry.begun == 0 and writes._kept_bytes == 200


def test_a_request_that_was_sent_before_is_known_without_what_it_says(
    writes: BoundedWrites, registry: Registry
) -> None:
    assert writes.repeat_of("ann", "k") is None
    registry.gate.clear()
    answers: list[Any] = []
    thread = in_thread(writes, registry, "k", answers)
    wait_until(lambda: registry.begun == 1, what="the first")
    under_way = writes.repeat_of("ann", "k")
    assert under_way is not None and writes.repeat_of("bob", "k") is None
    with pytest.raises(OutcomeUnknown):
        under_way.answer(once("k"), 0.05)
    with pytest.raises(Conflict):
        under_way.answer(once("k", digest=b"e"), ANSWER_S)
    over: list[bool] = []
    writes.when_over(("ann", "k"), lambda: over.append(True))
    assert not over
    registry.gate.set()
    assert under_way.answer(once("k"), ANSWER_S).body == b"1"
    wait_until(lambda: over == [True], what="its end")
    writes.when_over(("ann", "k"), lambda: over.append(False))
    assert over == [True, False]
    repeated = writes.repeat_of("ann", "k")
    assert repeated is not None and repeated.answer(once("k"), ANSWER_S).body == b"1"
    thread.join(60)


def test_without_a_thread_nothing_is_begun_and_it_may_be_tried_again(
    writes: BoundedWrites, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(writes._pool, "submit", none)
        with pytest.raises(NotBegun):
            writes.carry_out(once("k"), registry.write, ANSWER_S)
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"1"


def test_a_context_that_can_not_be_opened_has_done_nothing() -> None:
    registry = Registry()
    opens: list[Exception] = [AccessDenied("no")]

    @contextmanager
    def opened() -> Iterator[Any]:
        if opens:
            raise opens.pop()
        yield registry

    writes = BoundedWrites(opened, 1, "test")
    with pytest.raises(AccessDenied):
        writes.carry_out(once("k"), registry.write, ANSWER_S)
    assert writes.carry_out(once("k"), registry.write, ANSWER_S).body == b"1"
    writes.close()


def test_a_supervisor_that_stops_drops_what_has_not_begun(writes: BoundedWrites, registry: Registry) -> None:
    registry.gate.clear()
    answers: list[Any] = []
    threads = [in_thread(writes, registry, "first", answers)]
    wait_until(lambda: registry.begun == 1, what="the first")
    threads.append(in_thread(writes, registry, "second", answers))
    wait_until(lambda: len(writes._under_way) == 2, what="the second")
    writes.close()
    threads[1].join(60)
    assert isinstance(answers[0], NotBegun)
    registry.gate.set()
    threads[0].join(60)
    assert answers[1] == b"1" and registry.begun == 1
    wait_until(lambda: registry.closed == 1, what="the session's end")
    with pytest.raises(NotBegun):
        writes.carry_out(once("late"), registry.write, ANSWER_S)
