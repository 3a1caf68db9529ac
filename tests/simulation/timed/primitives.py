"""What the product takes from ``threading``, ``queue``, ``clients.threads`` and ``time``, on the simulated loop.

Only what is used there. A lock is free when it is asked for: threads change places only where they wait, and nobody waits
with a lock in his hands.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from tests.simulation.timed.loop import Fiber, Killed, SimulatedLoop

Ticket = tuple[Fiber, int]


class Namespaces:
    """``threading``, ``queue``, ``time``, ``SimulatedPool`` and ``wait`` for the modules of the product."""

    def __init__(self, loop: SimulatedLoop) -> None:
        def bound(cls: type[Any]) -> Callable[..., Any]:
            return lambda *args, **kwargs: cls(loop, *args, **kwargs)

        self.threading = SimpleNamespace(
            Event=bound(SimulatedEvent),
            Thread=bound(Thread),
            Lock=Lock,
            RLock=Lock,
            get_ident=lambda: id(loop.fiber),
        )
        self.queue = SimpleNamespace(SimpleQueue=bound(SimpleQueue), Empty=queue.Empty)
        self.time = SimpleNamespace(sleep=loop.sleep)
        self.pool = bound(SimulatedPool)
        self.wait = lambda futures, timeout=None: wait(loop, futures, timeout)


class Lock:
    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def acquire(self, *_: object) -> bool:
        return True

    def release(self) -> None:
        pass


class SimulatedEvent:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._set = False
        self._waiting: list[Ticket] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for ticket in waiting:
            self._loop.wake(ticket)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._set:
            return True
        ticket = self._loop.ticket()
        self._waiting.append(ticket)
        self._loop.wait(timeout)
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        return self._set


class Thread:
    def __init__(
        self,
        loop: SimulatedLoop,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = False,
    ) -> None:
        self._loop = loop
        self._target = partial(target, *args)
        self._process = loop.process
        self._over = SimulatedEvent(loop)
        self.name = name
        self.ident: int | None = None

    def start(self) -> None:
        self.ident = id(self)
        self._loop.spawn(self._run, self._process, self.name)

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        if self.ident is not None:
            self._over.wait(timeout)

    def is_alive(self) -> bool:
        return self.ident is not None and not self._over.is_set()


class SimpleQueue:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._items: deque[Any] = deque()
        self._waiting: Ticket | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting is not None:
            self._loop.wake(self._waiting)
            self._waiting = None

    def empty(self) -> bool:
        return not self._items

    def get(self, timeout: float | None = None) -> Any:
        while not self._items:
            if timeout is not None and timeout <= 0:
                raise queue.Empty
            self._waiting = self._loop.ticket()
            self._loop.wait(timeout)
            self._waiting = None
            if timeout is not None and not self._items:
                raise queue.Empty
        return self._items.popleft()


class Future:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._over = SimulatedEvent(loop)
        self._value: Any = None
        self._error: BaseException | None = None
        self.begun = False
        self.cancelled = False

    def done(self) -> bool:
        return self._over.is_set()

    def result(self, timeout: float | None = None) -> Any:
        self._over.wait(timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def run(self, target: Callable[[], Any]) -> None:
        try:
            self._value = target()
        except Exception as error:
            self._error = error
        self._over.set()

    def cancel(self) -> None:
        self.cancelled = True
        self._over.set()


class SimulatedPool:
    """At most so many threads; each lives as long as there is work."""

    def __init__(self, loop: SimulatedLoop, workers: int, name: str) -> None:
        self._loop = loop
        self._process = loop.process
        self._free = workers
        self._name = name
        self._tasks: deque[tuple[Future, Callable[[], Any]]] = deque()
        self._futures: list[Future] = []

    def submit(self, target: Callable[..., Any], *args: Any) -> Future:
        future = Future(self._loop)
        self._tasks.append((future, lambda: target(*args)))
        self._futures = [one for one in self._futures if not one.done()]
        self._futures.append(future)
        if self._free:
            self._free -= 1
            self._loop.spawn(self._work, self._process, self._name)
        return future

    def _work(self) -> None:
        while self._tasks:
            future, target = self._tasks.popleft()
            future.run(target)
        self._free += 1

    def map(self, target: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(target, item) for item in items]
        return iter([future.result() for future in futures])

    def close(self) -> None:
        while self._tasks:
            self._tasks.popleft()[0].cancel()
        for future in self._futures:
            future._over.wait()

    def __enter__(self) -> SimulatedPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait(loop: SimulatedLoop, futures: Iterable[Future], timeout: float | None = None) -> None:
    """Until all are done, at most ``timeout``."""
    process = loop.process
    until_at_s = None if timeout is None else process.clock.boottime_s(loop.now_s) + timeout
    for future in futures:
        if not future.done():
            left_s = None if until_at_s is None else until_at_s - process.clock.boottime_s(loop.now_s)
            if left_s is not None and left_s <= 0:
                return
            future._over.wait(left_s)


__all__ = [
    "SimulatedEvent",
    "Future",
    "Killed",
    "Lock",
    "Namespaces",
    "SimulatedPool",
    "SimpleQueue",
    "Thread",
    "wait",
]
