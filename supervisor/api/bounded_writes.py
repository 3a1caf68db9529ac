"""Carries out what requests write, in a few threads, and each request once: one that is sent again with the same key gets
the answer of the first.

So a client that has lost its connection may send a restart again, and nothing is restarted twice. Keys are remembered by
this process, for ``KEPT_S`` after the answer was made: another supervisor, and this one after a restart, knows none.

Memory is bounded, and nothing is carried out twice for that: if ``KEPT_MAX`` keys are remembered, new requests are refused
until the oldest has been kept for its time; if the answers are larger than ``KEPT_BYTES_MAX`` together, of the oldest only
the key is kept, so that who sends it again learns that it was carried out. Errors are kept as the answers that they become:
an exception would keep the request, by its frames.

Called by ``api.writes``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from supervisor.api.kept_contexts import KeptContexts
from supervisor.api.rate_budget import RateBudget
from supervisor.api.responses import ApiResponse, error_response, response_to
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, Conflict, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.logs import get_logger
from supervisor.operations.context import CommandContext

log = get_logger(__name__)

WAITING_MAX: Final = 8
"""So many writes may be under way or wait for a thread; what comes besides is refused, and may try again."""
WAITERS_MAX: Final = 2
"""So many may wait for the answer of one write, the first included: each has a thread of the server, even if its client has
left."""
BURST: Final = 60
PER_S: Final = 5.0
"""Each operator may ask for ``BURST`` writes at once, and for so many a second in the long run."""
KEPT_S: Final = 600.0
KEPT_MAX: Final = 10_000
"""Three operators who write as fast as they may for ``KEPT_S`` do not come so far."""
KEPT_BYTES_MAX: Final = 16 * 2**20

Work = Callable[[CommandContext], ApiResponse]


class NotBegun(Unreachable):
    """A write was not begun, and nothing of it was done: it may be sent again in a moment."""


class SameUnderWay(Conflict):
    """The same request is being received or carried out, and who has sent it again does not wait for its answer."""

    def __init__(self) -> None:
        super().__init__(
            "the same request is being received or carried out",
            "send it again in a moment, with the same Idempotency-Key: it gets the answer of the first",
        )


@dataclass(frozen=True, slots=True)
class WriteOnce:
    """Names a request: ``operator`` has sent it with ``key``, and ``digest`` is of all that it says."""

    operator: str
    key: str
    digest: bytes

    @property
    def name(self) -> tuple[str, str]:
        return self.operator, self.key


@dataclass(eq=False)
class _Write:
    digest: bytes
    ended_at_s: float = 0.0
    size_bytes: int = 0
    result: Future[ApiResponse] = field(default_factory=Future)
    waiters: int = 0
    waiters_lock: threading.Lock = field(default_factory=threading.Lock)

    def has_enough_waiters(self) -> bool:
        return self.waiters >= WAITERS_MAX and not self.result.done()

    def awaited_result(self, timeout_s: float) -> ApiResponse:
        """Returns the answer once it is there. Raises what ``Future.result`` raises, and SameUnderWay at once if
        ``WAITERS_MAX`` wait already."""
        with self.waiters_lock:
            if self.has_enough_waiters():
                raise SameUnderWay
            self.waiters += 1
        try:
            return self.result.result(timeout_s)
        finally:
            with self.waiters_lock:
                self.waiters -= 1


class BoundedWrites:
    """``open_context`` opens what one of the ``writers`` threads works with; ``name`` is for threads. It may be used by many
    threads at once."""

    def __init__(
        self, open_context: Callable[[], AbstractContextManager[CommandContext]], writers: int, name: str
    ) -> None:
        self._contexts = KeptContexts(open_context)
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str], _Write] = {}
        self._answered: dict[tuple[str, str], _Write] = {}
        """It is in the order in which they ended."""
        self._kept_bytes = 0
        self._budgets: dict[str, RateBudget] = {}
        self._is_closed = False
        self._pool = Pool(writers, name)

    def carry_out(self, once: WriteOnce, work: Work, answer_s: float) -> ApiResponse:
        """Returns what ``work`` returns, or what it has returned for the same key; its errors become answers, too. Raises
        NotBegun if nothing was begun, and what ``work`` raised as Unreachable or AccessDenied, which has done nothing;
        Conflict if the key was sent with another request; SameUnderWay if too many wait for it; and OutcomeUnknown if it
        takes longer than ``answer_s``: then it goes on."""
        return self._awaited(once, self._joined(once, work), answer_s)

    def repeat_of(self, operator: str, key: str) -> RepeatedWrite | None:
        """Returns what a request is that was sent with this key before, or None if it is the first: a repeated one is
        answered without what it says, by its digest alone."""
        with self._lock:
            self._forget_old(boottime_s())
            known = self._known((operator, key))
            return None if known is None else RepeatedWrite(self, known)

    def when_over(self, name: tuple[str, str], act: Callable[[], object]) -> None:
        """Calls ``act`` once nothing is under way with this operator and key: now, or in the thread that carries it out."""
        with self._lock:
            write = self._under_way.get(name)
        if write is None:
            act()
        else:
            write.result.add_done_callback(lambda _result: act())

    def close(self) -> None:
        """Drops what has not begun. What is under way is carried out, and nobody waits for it."""
        with self._lock:
            self._is_closed = True
            writes = list(self._under_way.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for write in writes:
            write.result.cancel()
        self._contexts.close()

    # -- who asks -----------------------------------------------------------------------------------------------------

    def _joined(self, once: WriteOnce, work: Work) -> _Write:
        with self._lock:
            now_s = boottime_s()
            self._forget_old(now_s)
            known = self._known(once.name)
            if known is not None:
                return _same(known, once)
            if self._is_closed or len(self._under_way) >= WAITING_MAX:
                raise NotBegun("nothing was done: too many writes are being carried out", "try again")
            if len(self._under_way) + len(self._answered) >= KEPT_MAX:
                raise NotBegun("nothing was done: too many writes were made lately", "try again later")
            self._spend(once.operator, now_s)
            write = self._under_way[once.name] = _Write(once.digest)
            try:
                self._pool.submit(self._carry_out, once, write, work)
            except RuntimeError:
                # it may be queued all the same, and another thread may have begun with it
                if not write.result.cancel():
                    return write
                self._forget(once, write)
                raise NotBegun(
                    "nothing was done: no thread can be started", "try again in a moment"
                ) from None
            return write

    def _awaited(self, once: WriteOnce, write: _Write, answer_s: float) -> ApiResponse:
        try:
            return write.awaited_result(answer_s)
        except TimeoutError:
            if not self._is_dropped(once, write):
                raise OutcomeUnknown(
                    f"the outcome is unknown: it takes more than {answer_s:g} s, and goes on",
                    "the same request with the same Idempotency-Key gets its answer",
                ) from None
        except CancelledError:
            pass
        with self._lock:
            known = self._known(once.name)
        if known is not None and known is not write:  # somebody has sent it again meanwhile
            return self._awaited(once, _same(known, once), answer_s)
        raise NotBegun("nothing was done: other writes take too long, or this supervisor stops", "try again")

    def _is_dropped(self, once: WriteOnce, write: _Write) -> bool:
        """Drops a write that has not begun. Returns False if it has."""
        with self._lock:
            if not write.result.cancel():
                return False
            self._forget(once, write)
            return True

    def _spend(self, operator: str, now_s: float) -> None:
        budget = self._budgets.setdefault(operator, RateBudget(BURST, PER_S, now_s))
        if not budget.spend(now_s):
            raise NotBegun(
                f"nothing was done: {operator} asks for more than {PER_S:g} writes a second", "try again"
            )

    # -- who carries out ----------------------------------------------------------------------------------------------

    def _carry_out(self, once: WriteOnce, write: _Write, work: Work) -> None:
        if not write.result.set_running_or_notify_cancel():
            return
        try:
            answer = self._answer(work)
        except Exception as error:  # noqa: BLE001 - nothing was done, so that it may be tried again
            with self._lock:
                self._forget(once, write)
            write.result.set_exception(error)
            return
        with self._lock:
            self._forget(once, write)
            self._keep(once, write, answer)
        write.result.set_result(answer)

    def _answer(self, work: Work) -> ApiResponse:
        """Returns the answer. Raises what opening a context raises, and Unreachable and AccessDenied of ``work``: then
        nothing was done."""
        with self._contexts.lend() as context:
            try:
                return work(context)
            except (Unreachable, AccessDenied):
                raise
            except SupervisorError as error:
                return response_to(error)
            except Exception:  # the edge of a request
                log.exception("http_answer_failed")
                return error_response(500, SupervisorError("internal error", "see the log of the supervisor"))

    # -- what is remembered: under the lock ---------------------------------------------------------------------------

    def _known(self, name: tuple[str, str]) -> _Write | None:
        return self._under_way.get(name) or self._answered.get(name)

    def _keep(self, once: WriteOnce, write: _Write, answer: ApiResponse) -> None:
        write.ended_at_s, write.size_bytes = boottime_s(), len(answer.body)
        self._answered[once.name] = write
        self._kept_bytes += write.size_bytes
        for name, oldest in self._answered.items():
            if self._kept_bytes <= KEPT_BYTES_MAX:
                return
            self._kept_bytes -= oldest.size_bytes
            self._answered[name] = _without_answer(oldest)

    def _forget_old(self, now_s: float) -> None:
        while self._answered:
            name, oldest = next(iter(self._answered.items()))
            if now_s - oldest.ended_at_s < KEPT_S:
                return
            self._kept_bytes -= oldest.size_bytes
            del self._answered[name]

    def _forget(self, once: WriteOnce, write: _Write) -> None:
        if self._under_way.get(once.name) is write:
            del self._under_way[once.name]


@dataclass(frozen=True, slots=True)
class RepeatedWrite:
    """Stands for a request that was sent before: ``write`` is what came of it."""

    writes: BoundedWrites
    write: _Write

    def has_enough_waiters(self) -> bool:
        """Says whether so many wait for its answer that nobody else may."""
        return self.write.has_enough_waiters()

    def answer(self, once: WriteOnce, answer_s: float) -> ApiResponse:
        """Returns the answer, as ``BoundedWrites.carry_out`` does. Raises as that does."""
        return self.writes._awaited(once, _same(self.write, once), answer_s)


def _same(known: _Write, once: WriteOnce) -> _Write:
    """Returns what is known of the key. Raises Conflict if that was sent with another request."""
    if known.digest != once.digest:
        raise Conflict(
            "this Idempotency-Key was sent with another request before: nothing was done",
            "make a new one for each request",
        )
    return known


def _without_answer(write: _Write) -> _Write:
    known = _Write(write.digest, write.ended_at_s)
    forgotten = Conflict(
        "this request was carried out before, and its answer is not kept any more",
        "show tells what came about",
    )
    known.result.set_result(response_to(forgotten))
    return known
