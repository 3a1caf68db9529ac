"""The bound on every store operation: it runs on a thread of its own, and the caller leaves when the time is up.

Socket time-outs alone bound nothing: name resolution has none, a server that sends a byte a second never trips one,
the credential chain may run a program, and a hard-mounted NFS directory blocks for ever (F27). So the caller waits for
the worker, never for the network. A worker that was left behind starts nothing more: it asks ``Budget.check`` first.
Called by ``FileStore`` and ``S3Store`` only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from supervisor.clock import boottime_s
from supervisor.errors import Unreachable

T = TypeVar("T")
PARALLEL_MAX = 32


class Budget:
    """How much time one operation has left. Shared by the worker, who may earn more of it, and the waiting caller.

    ``deadline_s`` is the time without progress after which the operation is over, ``max_s`` the time after which it is
    over in any case; both count from construction, by CLOCK_BOOTTIME. ``trouble``: what the worker met last, for the
    message.
    """

    def __init__(self, what: str, deadline_s: float, max_s: float | None = None) -> None:
        now_s = boottime_s()
        self._what = what
        self._stall_s = deadline_s
        self._ends_s = now_s + deadline_s
        self._latest_s = now_s + max(deadline_s, max_s or 0.0)
        self._furthest: dict[str, int] = {}
        self._abandoned = False
        self.trouble = ""

    def remaining_s(self) -> float:
        """Seconds left, 0.0 when it is over."""
        return 0.0 if self._abandoned else max(0.0, min(self._ends_s, self._latest_s) - boottime_s())

    def check(self) -> None:
        """Raise ``Unreachable`` if it is over: the caller has been told, or will be, that nothing was acknowledged."""
        if self.remaining_s() <= 0:
            raise self.over()

    def moved(self, way: str, position: int) -> None:
        """``position`` bytes were moved one ``way``. Only further than ever before earns time, so a link that breaks at
        the same place again and again does not go on for ever. Raises as ``check`` does."""
        self.check()
        if position > self._furthest.get(way, 0):
            self._furthest[way] = position
            self._ends_s = boottime_s() + self._stall_s

    def abandon(self) -> None:
        """The caller leaves: the worker shall stop at its next step."""
        self._abandoned = True

    def over(self) -> Unreachable:
        """The error of an operation whose time is up."""
        detail = f" (last: {self.trouble})" if self.trouble else ""
        return Unreachable(f"{self._what}: no answer in time{detail}; is the store up and reachable from this host?")


class Bounded:
    """Runs operations of one store within their budgets: at most ``PARALLEL_MAX`` at a time, stuck ones included."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._places = threading.BoundedSemaphore(PARALLEL_MAX)

    def run(self, what: str, work: Callable[[Budget], T], max_s: float | None = None) -> T:
        """The result or the error of ``work``; ``Unreachable`` naming ``what`` when its budget is used up."""
        budget = Budget(what, self._deadline_s, max_s)
        if not self._places.acquire(timeout=budget.remaining_s()):
            budget.trouble = f"{PARALLEL_MAX} operations were already waiting for this store"
            raise budget.over()
        future: Future[T] = Future()
        # A daemon thread: one that hangs must not keep the command line from exiting (an executor's would).
        worker = threading.Thread(target=self._work, args=(work, budget, future), name="store", daemon=True)
        try:
            worker.start()
        except RuntimeError as error:  # no more threads on this host
            self._places.release()
            raise Unreachable(f"{what}: {error}") from None
        try:
            while not future.done() and budget.remaining_s() > 0:
                wait([future], timeout=budget.remaining_s())
        finally:
            budget.abandon()
        if not future.done():
            raise budget.over()
        return future.result()

    def _work(self, work: Callable[[Budget], T], budget: Budget, future: Future[T]) -> None:
        try:
            future.set_result(work(budget))
        except BaseException as error:  # noqa: BLE001  carried to the caller's thread and raised there
            future.set_exception(error)
        finally:
            self._places.release()
