"""Provides the three ways in which the project's processes have threads; a test
(``unit.clients.test_threads``) lists which module uses which, and why.

A ``BackgroundThread`` is a named thread with one piece of work, mostly a loop that lasts as long as its
owner; a ``TurnLoop`` is one that is called again and again, and can be woken. A ``Pool`` is a bounded number of
named threads for many items. ``run_in_thread`` runs work whose outcome may be asked for, and which need not be
waited for.

*Stop.* A loop waits on an event or a queue of its own; ``BackgroundThread.stop`` signals that through ``ask``
and waits for the end for a limited time. When a pool is closed, what has not begun is dropped and what has
begun is awaited. ``run_in_thread`` is not stopped: the process may end without it.

*An unexpected error* is reported once. A background thread reports it to ``failed``, else to
``threading.excepthook``, which logs ``thread_died`` (``logs``). A pool and ``run_in_thread`` put it into the
future; a caller that does not ask a future for its result gives the pool work that handles every error
itself. For one item of a loop, ``daemon.loops.error_boundary`` catches the error.

Three idioms are left beside these. A shim and a driver import nothing that they can do without:
``shim.link``, ``shim.output`` and kazoo's connection thread (``clients.kazoo_connection``) use ``threading``
itself, and ``spark.orders`` uses ``_thread``. The HTTP server of the standard library makes a thread for each
connection; ``daemon.process.bounded_http`` bounds them. ``clients.store.deadline`` has background threads with
futures of its own: whether the caller has left or the work is done must be decided under one lock, because a
thread that was left behind keeps its slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class BackgroundThread:
    """Runs ``work`` once, from ``start`` on, in a thread called ``name``.

    ``failed`` is called, within that thread, with the name and the error that ended ``work``. ``ask`` asks
    the work to end. A thread that is not ``daemon`` keeps the process from ending before the thread does.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        *,
        failed: Callable[[str, BaseException], object] | None = None,
        ask: Callable[[], object] | None = None,
        daemon: bool = True,
    ) -> None:
        self.name = name
        self._work = work
        self._failed = failed
        self._ask = ask
        self._thread = threading.Thread(target=self._run, name=name, daemon=daemon)

    def start(self) -> BackgroundThread:
        """Starts the thread. Raises RuntimeError if no thread can be started."""
        self._thread.start()
        return self

    def is_alive(self) -> bool:
        """Returns whether it was started and has not ended."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Waits for its end. Returns True if it has ended in time, or was never started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self, timeout_s: float = 0.0) -> bool:
        """Asks it to end, and waits for that as ``join`` does."""
        if self._ask is not None:
            self._ask()
        return self.join(timeout_s)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            if self._failed is None:
                raise
            self._failed(self.name, error)


class TurnLoop(BackgroundThread):
    """Calls ``turn`` in a thread called ``name`` until it is stopped: again after the seconds that it returns (None: for as
    long as nobody calls ``wake``), and at once after ``wake``. An error of ``turn`` ends the loop."""

    def __init__(self, name: str, turn: Callable[[], float | None]) -> None:
        super().__init__(name, self._take_turns, ask=self._ask_to_stop)
        self._turn = turn
        self._woken = threading.Event()
        self.is_stopping = False

    def wake(self) -> None:
        """Makes the next turn begin at once. It never blocks or raises."""
        self._woken.set()

    def _ask_to_stop(self) -> None:
        self.is_stopping = True
        self._woken.set()

    def _take_turns(self) -> None:
        while not self.is_stopping:
            self._woken.wait(self._turn())
            self._woken.clear()


class Pool(ThreadPoolExecutor):
    """Runs work in at most ``workers`` threads called ``name_<n>``, each made when it is needed. As a context
    manager it closes itself."""

    def __init__(self, workers: int, name: str) -> None:
        super().__init__(workers, thread_name_prefix=name)

    def close(self) -> None:
        """Drops what has not begun, and waits for what has. Idempotent."""
        self.shutdown(wait=True, cancel_futures=True)

    def __exit__(self, *_: object) -> None:
        self.close()


def run_in_thread(name: str, work: Callable[[], T]) -> Future[T]:
    """Runs ``work`` in a thread of its own that does not keep the process from ending.

    The future gets its result or its error, whatever that is. Raises RuntimeError if no thread can be
    started.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is for whoever asks
            future.set_exception(error)
        else:
            future.set_result(result)

    BackgroundThread(name, run).start()
    return future
