"""Carries out what requests write, in a few threads, and each request once: one that is sent again with the same key gets
the answer of the first.

So a client that has lost its connection may send a restart again, and nothing is restarted twice. Keys are remembered by
this process, for ``KEPT_S`` and not more than ``KEPT_MAX``: another supervisor, and this one after a restart, knows none.
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
from supervisor.api.responses import ApiResponse
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s
from supervisor.errors import Conflict, OutcomeUnknown, Unreachable
from supervisor.operations.context import CommandContext

WAITING_MAX: Final = 8
"""So many writes may be under way or wait for a thread; what comes besides is refused, and may try again."""
BURST: Final = 60
PER_S: Final = 5.0
"""Each operator may ask for ``BURST`` writes at once, and for so many a second in the long run."""
KEPT_S: Final = 600.0
KEPT_MAX: Final = 1000

Work = Callable[[CommandContext], ApiResponse]


class NotBegun(Unreachable):
    """A write was not begun, and nothing of it was done: it may be sent again in a moment."""


@dataclass(frozen=True, slots=True)
class WriteOnce:
    """Names a request: ``operator`` has sent it with ``key``, and ``digest`` is of all that it says."""

    operator: str
    key: str
    digest: bytes


@dataclass(eq=False)
class _Write:
    digest: bytes
    began_at_s: float
    result: Future[ApiResponse] = field(default_factory=Future)


class BoundedWrites:
    """``open_context`` opens what one of the ``writers`` threads works with; ``name`` is for threads. It may be used by many
    threads at once."""

    def __init__(
        self, open_context: Callable[[], AbstractContextManager[CommandContext]], writers: int, name: str
    ) -> None:
        self._contexts = KeptContexts(open_context)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Write] = {}
        self._budgets: dict[str, RateBudget] = {}
        self._is_closed = False
        self._pool = Pool(writers, name)

    def carry_out(self, once: WriteOnce, work: Work, answer_s: float) -> ApiResponse:
        """Returns what ``work`` returns, or what it has returned for the same key. Raises what it raises; NotBegun if
        nothing was begun, Conflict if the key was sent with another request, and OutcomeUnknown if it takes longer than
        ``answer_s``: then it goes on."""
        write = self._joined(once, work)
        try:
            return write.result.result(answer_s)
        except TimeoutError:
            if write.result.cancel():
                self._forget(once, write)
                raise NotBegun("nothing was done: other writes take too long", "try again later") from None
            raise OutcomeUnknown(
                f"the outcome is unknown: it takes more than {answer_s:g} s, and goes on",
                "the same request with the same Idempotency-Key gets its answer",
            ) from None
        except CancelledError:
            raise NotBegun(
                "nothing was done: this supervisor is stopping, or was busy", "try again"
            ) from None

    def close(self) -> None:
        """Drops what has not begun. What is under way is carried out, and nobody waits for it."""
        with self._lock:
            self._is_closed = True
            writes = list(self._known.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for write in writes:
            write.result.cancel()
        self._contexts.close()

    def _joined(self, once: WriteOnce, work: Work) -> _Write:
        with self._lock:
            now_s = boottime_s()
            known = self._known.get((once.operator, once.key))
            if known is not None:
                if known.digest != once.digest:
                    raise Conflict(
                        "this Idempotency-Key was sent with another request before: nothing was done",
                        "make a new one for each request",
                    )
                return known
            waiting = sum(not one.result.done() for one in self._known.values())
            if self._is_closed or waiting >= WAITING_MAX:
                raise NotBegun("nothing was done: too many writes are being carried out", "try again")
            self._spend(once.operator, now_s)
            self._make_room(now_s)
            write = self._known[once.operator, once.key] = _Write(once.digest, now_s)
            self._pool.submit(self._carry_out, once, write, work)
            return write

    def _spend(self, operator: str, now_s: float) -> None:
        budget = self._budgets.setdefault(operator, RateBudget(BURST, PER_S, now_s))
        if not budget.spend(now_s):
            raise NotBegun(
                f"nothing was done: {operator} asks for more than {PER_S:g} writes a second", "try again"
            )

    def _make_room(self, now_s: float) -> None:
        """Forgets the keys of writes that are over, the oldest first."""
        over = [key for key, one in self._known.items() if one.result.done()]
        surplus = len(self._known) + 1 - KEPT_MAX
        for number, key in enumerate(over):
            if number < surplus or now_s - self._known[key].began_at_s >= KEPT_S:
                del self._known[key]

    def _carry_out(self, once: WriteOnce, write: _Write, work: Work) -> None:
        if not write.result.set_running_or_notify_cancel():
            return
        try:
            with self._contexts.lend() as context:
                answer = work(context)
        except BaseException as error:  # noqa: BLE001 - it is for whoever asked
            if isinstance(error, Unreachable):  # nothing was done, so that it may be tried again
                self._forget(once, write)
            write.result.set_exception(error)
        else:
            write.result.set_result(answer)

    def _forget(self, once: WriteOnce, write: _Write) -> None:
        with self._lock:
            if self._known.get((once.operator, once.key)) is write:
                del self._known[once.operator, once.key]
