"""Bounds every store operation: it runs on a thread of its own, and the caller leaves when the time is up.

Socket time-outs alone bound nothing: name resolution has none, a server that sends a byte a second never
exceeds one, the credential chain may run a program, and a hard-mounted NFS directory blocks for ever (F27).
So the caller waits for the worker, never for the network. A worker that was left behind starts nothing more:
it asks ``Budget.check`` first. A call on a file system that hangs leaves a thread behind, which nobody can
end. So the slots for such threads belong to the file system within this process, not to the caller: a job
that is tried again and again fills them once; from then on it is refused at once, like each other job on that
file system, and no other job is affected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

from supervisor.clients.threads import BackgroundThread
from supervisor.clock import boottime_s
from supervisor.errors import Unreachable

T = TypeVar("T")
PARALLEL_MAX = 32
MOUNTS = Path("/proc/self/mountinfo")


class Budget:
    """Holds the time that one operation has left. It is shared by the worker, which may earn more of it, and
    the waiting caller.

    ``deadline_s`` is the time without progress after which the operation is over, ``max_s`` the time after
    which it is over in any case; both count from construction, by CLOCK_BOOTTIME. ``trouble`` is the latest
    error that the worker met, for the message.
    """

    def __init__(self, what: str, deadline_s: float, max_s: float | None = None) -> None:
        now_s = boottime_s()
        self._what = what
        self._stall_s = deadline_s
        self._ends_at_s = now_s + deadline_s
        self._latest_at_s = now_s + max(deadline_s, max_s or 0.0)
        self._furthest: dict[str, int] = {}
        self._abandoned = False
        self.trouble = ""

    def remaining_s(self) -> float:
        """Returns the seconds left, and 0.0 when it is over."""
        return 0.0 if self._abandoned else max(0.0, min(self._ends_at_s, self._latest_at_s) - boottime_s())

    def check(self) -> None:
        """Raises ``Unreachable`` if it is over: the caller has got, or will get, the error that nothing was
        acknowledged."""
        if self.remaining_s() <= 0:
            raise self.over()

    def moved(self, way: str, position: int) -> None:
        """Notes that ``position`` bytes were moved one ``way``. Only a new maximum earns time, so a link that
        breaks at the same position again and again does not go on for ever. Raises as ``check`` does."""
        self.check()
        if position > self._furthest.get(way, 0):
            self._furthest[way] = position
            self._ends_at_s = boottime_s() + self._stall_s

    def abandon(self) -> None:
        """Marks that the caller leaves: the worker shall stop at its next step."""
        self._abandoned = True

    def over(self) -> Unreachable:
        """Returns the error of an operation whose time is up."""
        detail = f" (last: {self.trouble})" if self.trouble else ""
        return Unreachable(
            f"{self._what}: no answer in time{detail}", "is the store up and reachable from this host?"
        )


class WorkerSlots:
    """Counts the threads of one store or file system. ``left`` is how many of them are not waited for any
    more."""

    def __init__(self) -> None:
        self.free = threading.BoundedSemaphore(PARALLEL_MAX)
        self.lock = threading.Lock()
        self.left = 0

    def note_left(self, more: int) -> None:
        with self.lock:
            self.left += more


_SHARED: dict[str, WorkerSlots] = {}
_SHARING = threading.Lock()


def slots_on(path: str) -> WorkerSlots:
    """Returns the slots of the file system that ``path`` is on, according to the table of mounts: asking the
    file system might hang. A symbolic link to another file system counts where the link is."""
    mount = mount_of(path)
    with _SHARING:
        return _SHARED.setdefault(mount, WorkerSlots())


def mount_of(path: str) -> str:
    """Returns the mount point above ``path``, or ``/`` where it is not known."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "/"
    points = (_unescaped(line.split(" ")[4]) for line in lines if line.count(" ") > 4)
    above = (point for point in points if point == "/" or path == point or path.startswith(f"{point}/"))
    return max(above, key=len, default="/")


def _unescaped(point: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, char)
    return point


class Bounded:
    """Runs operations within their budgets: at most ``PARALLEL_MAX`` at a time, stuck ones included.
    ``slots`` are slots that are shared with others that use the same file system; with None it has its
    own."""

    def __init__(self, deadline_s: float, slots: WorkerSlots | None = None) -> None:
        self._deadline_s = deadline_s
        self._slots = slots if slots is not None else WorkerSlots()

    def run(self, what: str, work: Callable[[Budget], T], max_s: float | None = None) -> T:
        """Returns the result of ``work`` or raises its error; raises ``Unreachable`` naming ``what`` when its
        budget is used up."""
        budget = Budget(what, self._deadline_s, max_s)
        if self._slots.left >= PARALLEL_MAX:
            raise Unreachable(
                f"{what}: {PARALLEL_MAX} looks at its file system or store hang; nothing more is asked of it"
            )
        if not self._slots.free.acquire(timeout=budget.remaining_s()):
            budget.trouble = f"{PARALLEL_MAX} operations were already waiting for this store"
            raise budget.over()
        future: Future[T] = Future()
        left = threading.Event()
        # A daemon thread: one that hangs must not keep the command line from exiting (an executor's would).
        try:
            BackgroundThread("store", lambda: self._work(work, budget, future, left)).start()
        except RuntimeError as error:  # no more threads on this host
            self._slots.free.release()
            raise Unreachable(f"{what}: {error}") from None
        try:
            while not future.done() and budget.remaining_s() > 0:
                wait([future], timeout=budget.remaining_s())
        finally:
            budget.abandon()
        with self._slots.lock:
            if not future.done():
                left.set()
                self._slots.left += 1
        if left.is_set():
            raise budget.over()
        return future.result()

    def _work(
        self, work: Callable[[Budget], T], budget: Budget, future: Future[T], left: threading.Event
    ) -> None:
        try:
            result = work(budget)
        except BaseException as error:  # noqa: BLE001  carried to the caller's thread and raised there
            with self._slots.lock:
                future.set_exception(error)
        else:
            with self._slots.lock:
                future.set_result(result)
        finally:
            if left.is_set():
                self._slots.note_left(-1)
            self._slots.free.release()
