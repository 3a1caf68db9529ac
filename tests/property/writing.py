"""The world of ``test_writes_once``: operators who send requests again and again, threads that carry them out, and a clock.

``BoundedWrites`` as it is; its lock, its futures and its pool are ones at which a process stops, so that requests and threads
are interleaved step by step. The judge knows what was sent, what was carried out and when, and what was answered.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import structlog

from supervisor.api import bounded_writes as module
from supervisor.api.bounded_writes import WAITERS_MAX, BoundedWrites, NotBegun, SameUnderWay, WriteOnce
from supervisor.api.responses import ApiResponse
from supervisor.errors import Conflict, OutcomeUnknown, Unreachable
from tests.property import processes
from tests.property.processes import Process, StopPoint, seam

NEXT_STEP = StopPoint("step", 0)
WRITERS, WAITING_MAX, KEPT_MAX, KEPT_BYTES_MAX, ANSWER_BYTES = 2, 4, 5, 1000, 300
KEPT_S, BURST, PER_S = 600.0, 6, 0.01


class BrokenPromise(AssertionError):
    """Is what the judge finds."""


class ExecutedTwice(BrokenPromise):
    """A request has had an effect twice."""


class WrongAnswer(BrokenPromise):
    """A request was answered with what came of another one, or of one that is forgotten."""


class UntrueAnswer(BrokenPromise):
    """It was said that nothing was done, and something was, or is yet to be."""


class Unbounded(BrokenPromise):
    """More is held or under way than may be."""


class Stuck(BrokenPromise):
    """A request gets no answer."""


class SeamLock:
    """A process stops before it takes the lock, never while it has it: so nobody is ever waited for."""

    held = threading.local()

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        step()
        assert self._lock.acquire(timeout=60)
        self.held.by_me = True

    def __exit__(self, *_: object) -> None:
        self.held.by_me = False
        self._lock.release()


def step() -> None:
    if not getattr(SeamLock.held, "by_me", False):
        seam("step")


class SeamFuture(Future[ApiResponse]):
    """Each use is a seam. Who waits stops until there is a result, or until the world says that its time is up."""

    def result(self, timeout: float | None = None) -> ApiResponse:
        request: SentRequest = processes._this.process.request
        step()
        while not self.done():
            if request.is_late:
                raise TimeoutError
            step()
        return super().result(timeout)

    def cancel(self) -> bool:
        step()
        return super().cancel()

    def set_running_or_notify_cancel(self) -> bool:
        step()
        return super().set_running_or_notify_cancel()

    def set_result(self, result: ApiResponse) -> None:
        step()
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        step()
        super().set_exception(exception)


class QueuedPool:
    """Runs nothing by itself: the world takes what is queued. ``taken`` is called with each request that is."""

    def __init__(self, taken: Callable[[WriteOnce], None]) -> None:
        self.queue: deque[Callable[[], None]] = deque()
        self._taken = taken

    def submit(self, work: Callable[..., None], once: WriteOnce, *more: Any) -> None:
        self._taken(once)
        self.queue.append(lambda: work(once, *more))

    def shutdown(self, **_: bool) -> None:
        self.queue.clear()


@dataclass(eq=False)
class Execution:
    """Is one time that a request was carried out, by its number. ``how`` it ends: ``answered``, ``unknown`` or ``defect`` (then
    it may have had an effect), or ``nothing`` (Unreachable). ``ended_at_s`` is when the work ended, and ``over_at_s`` when its thread
    had nothing more to do with it; they are None before."""

    number: int
    once: WriteOnce
    how: str
    ended_at_s: float | None = None
    over_at_s: float | None = None

    @property
    def has_effect(self) -> bool:
        return self.how != "nothing"


@dataclass(eq=False)
class SentRequest:
    """Was sent at ``sent_at_s``. ``answer`` is what it got: an ApiResponse or an error."""

    once: WriteOnce
    sent_at_s: float
    is_late: bool = False
    answer: Any = None
    process: Any = None


@dataclass
class WritingWorld:
    now_s: float = 1000.0
    executions: list[Execution] = field(default_factory=list)
    requests: list[SentRequest] = field(default_factory=list)
    taken_at_s: dict[str, list[float]] = field(default_factory=dict)
    workers: list[Any] = field(default_factory=list)
    is_closed: bool = False
    failure: AssertionError | None = None
    """It is raised by ``judge``, too: production code takes what is raised within it for a defect of its own."""
    how: str = "answered"
    """So ends what is begun next."""

    def __post_init__(self) -> None:
        self._undo = ExitStack()
        real = module._Write

        def write(*given: Any) -> Any:
            made = real(*given)
            made.result = SeamFuture()
            return made

        silent = structlog.wrap_logger(structlog.ReturnLogger(), processors=[_silent])
        for name, value in {
            "_Write": write,
            "boottime_s": lambda: self.now_s,
            "log": silent,
            "WAITING_MAX": WAITING_MAX,
            "KEPT_MAX": KEPT_MAX,
            "KEPT_BYTES_MAX": KEPT_BYTES_MAX,
            "BURST": BURST,
            "PER_S": PER_S,
        }.items():
            self._undo.enter_context(mock.patch.object(module, name, value))
        self.writes = BoundedWrites(self._context, WRITERS, "world")
        self.writes._pool.shutdown()
        self.pool = QueuedPool(self._judge_rate)
        self.writes._pool, self.writes._lock = self.pool, SeamLock()  # type: ignore[assignment]

    def close(self) -> None:
        for process in [*self.workers, *(each.process for each in self.requests)]:
            if not process.over:
                process.kill()
        self._undo.close()

    @contextmanager
    def _context(self) -> Iterator[Any]:
        yield self

    # -- what happens ---------------------------------------------------------------------------------------------

    def send(self, once: WriteOnce, *, by_digest: bool) -> None:
        """Somebody sends a request; with ``by_digest`` what it says is not held if it was sent before."""
        request = SentRequest(once, self.now_s)

        def ask() -> None:
            try:
                known = self.writes.repeat_of(once.operator, once.key) if by_digest else None
                if known is None:
                    request.answer = self.writes.carry_out(once, lambda _: self._work(once), 60.0)
                else:
                    request.answer = known.answer(once, 60.0)
            except Exception as error:
                request.answer = error

        request.process = Process("request", ask)
        request.process.request = request
        self.requests.append(request)
        self.go_on(request)

    def open_requests(self) -> list[SentRequest]:
        return [request for request in self.requests if not request.process.over]

    def go_on(self, request: SentRequest, steps: int = 1) -> None:
        for _ in range(steps):
            if request.process.over:
                return
            request.process.go_on(NEXT_STEP)
            if request.process.over:
                self._judge_answer(request)

    def begin(self, how: str) -> None:
        """A thread that has nothing to do takes what is queued."""
        if self.pool.queue and len(self.open_workers()) < WRITERS:
            self.how = how
            worker: Any = Process("worker", self.pool.queue.popleft())
            worker.execution = None
            self.workers.append(worker)
            worker.go_on(NEXT_STEP)

    def open_workers(self) -> list[Any]:
        return [worker for worker in self.workers if not worker.over]

    def work_on(self, worker: Any, steps: int = 1) -> None:
        for _ in range(steps):
            if not worker.over:
                worker.go_on(NEXT_STEP)
        if worker.over and worker.execution is not None:
            worker.execution.over_at_s = worker.execution.over_at_s or self.now_s
        self.judge()

    def stop(self) -> None:
        """The supervisor stops. It stops at no seam: what it does in between, nothing else of the world can see."""
        self.is_closed = True
        self.writes.close()

    def rest(self) -> None:
        """Everybody goes on to the end."""
        for _ in range(100):
            for worker in self.open_workers():
                self.work_on(worker, 20)
            self.begin("answered")
            for request in self.open_requests():
                self.go_on(request, 20)
            if not (self.open_requests() or self.open_workers() or (self.pool.queue and not self.is_closed)):
                break
        if self.open_requests():
            raise Stuck(str(self.open_requests()[0].once))
        if self.writes._under_way and not self.is_closed:
            raise Unbounded("something is under way for ever")
        self.judge()

    def _work(self, once: WriteOnce) -> ApiResponse:
        execution = Execution(len(self.executions) + 1, once, self.how)
        self._judge_begin(execution)
        self.executions.append(execution)
        processes._this.process.execution = execution
        step()
        execution.ended_at_s = self.now_s
        if execution.how == "nothing":
            raise Unreachable(f"down {execution.number}")
        if execution.how == "unknown":
            raise OutcomeUnknown(f"unknown {execution.number}")
        if execution.how == "defect":
            raise ZeroDivisionError
        body = json.dumps({"did": execution.number, "digest": once.digest.decode(), "key": once.name})
        return ApiResponse(200, body.ljust(ANSWER_BYTES).encode())

    # -- the judge --------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        if self.failure is not None:
            raise self.failure
        writes = self.writes
        for worker in self.workers:
            if worker.error is not None:
                raise worker.error
        if len(writes._under_way) > WAITING_MAX or len(self.pool.queue) > len(self.requests):
            raise self._found(Unbounded, f"{len(writes._under_way)} are under way")
        if len(writes._answered) > KEPT_MAX:
            raise self._found(Unbounded, f"{len(writes._answered)} answers are kept")
        kept = (len(Future.result(each.result, 0).body) for each in self._over())
        if sum(size for size in kept if size == ANSWER_BYTES) > KEPT_BYTES_MAX:
            raise self._found(Unbounded, "the answers that are kept are too large")

    def _judge_rate(self, once: WriteOnce) -> None:
        times = self.taken_at_s.setdefault(once.operator, [])
        times.append(self.now_s)
        for number, since_s in enumerate(times):
            if len(times) - number > BURST + PER_S * (self.now_s - since_s) + 1e-6:
                raise self._found(Unbounded, f"{once.operator} asks for too much")

    def _found(self, what: type[AssertionError], why: str) -> AssertionError:
        self.failure = what(why)
        return self.failure

    def _over(self) -> list[Any]:
        """Those whose answer is set, which is a step after it is kept."""
        return [each for each in self.writes._answered.values() if Future.done(each.result)]

    def _with_name(self, once: WriteOnce) -> list[Execution]:
        return [each for each in self.executions if each.once.name == once.name and each.has_effect]

    def _is_remembered(self, execution: Execution, at_s: float) -> bool:
        return execution.ended_at_s is None or at_s - execution.ended_at_s < KEPT_S

    def _judge_begin(self, new: Execution) -> None:
        for before in self._with_name(new.once):
            if self._is_remembered(before, self.now_s):
                raise self._found(ExecutedTwice, f"{new.once}: {before.number}")
        mine = [each for each in self.requests if each.once == new.once]
        if not any(not each.process.over or isinstance(each.answer, OutcomeUnknown) for each in mine):
            raise self._found(
                UntrueAnswer, f"{new.once} is carried out, and all who asked for it were told that it is not"
            )

    def _judge_answer(self, request: SentRequest) -> None:
        if request.process.error is not None:
            raise request.process.error
        answer, once = request.answer, request.once
        mine = self._with_name(once)
        if isinstance(answer, NotBegun):
            if any(self._is_remembered(each, self.now_s) for each in mine):
                raise self._found(UntrueAnswer, f"{once}: {answer}")
        elif isinstance(answer, Conflict):
            self._judge_conflict(once, answer)
        elif isinstance(answer, OutcomeUnknown):
            if not request.is_late:
                raise self._found(WrongAnswer, f"{once}: {answer}")
        elif isinstance(answer, Unreachable):  # the words of Execution
            number = int(str(answer).split()[-1])
            if self.executions[number - 1].once != once or self._ended_before(number, request):
                raise self._found(WrongAnswer, f"{once}: {answer}")
        elif isinstance(answer, ApiResponse):
            self._judge_response(request, answer)
        else:
            raise self._found(WrongAnswer, f"{once}: {type(answer).__name__}")

    def _judge_conflict(self, once: WriteOnce, answer: Conflict) -> None:
        if isinstance(answer, SameUnderWay):
            is_true = sum(each.once == once for each in self.open_requests()) >= WAITERS_MAX
        else:
            is_true = any(
                each.once.name == once.name and each.once.digest != once.digest for each in self.requests
            )
        if not is_true:
            raise self._found(WrongAnswer, f"{once}: {answer}")

    def _ended_before(self, number: int, request: SentRequest) -> bool:
        over_at_s = self.executions[number - 1].over_at_s
        return over_at_s is not None and over_at_s < request.sent_at_s

    def _judge_response(self, request: SentRequest, answer: ApiResponse) -> None:
        document = json.loads(answer.body)
        is_dropped = answer.code == 409 and "is not kept any more" in document["error"]
        codes = {"answered": 200, "unknown": 504, "defect": 500}
        may_be_of = [
            each
            for each in self._with_name(request.once)
            if (each.over_at_s is None or request.sent_at_s - each.over_at_s < KEPT_S)
            and each.once == request.once
            and (is_dropped or codes[each.how] == answer.code)
            and (answer.code != 200 or document["did"] == each.number)
        ]
        if not may_be_of:
            raise self._found(WrongAnswer, f"{request.once}: {document}")
        if is_dropped and len(self.executions) * ANSWER_BYTES <= KEPT_BYTES_MAX:
            raise self._found(WrongAnswer, f"{request.once}: its answer was dropped without need")


def _silent(*_: Any) -> Any:
    raise structlog.DropEvent
