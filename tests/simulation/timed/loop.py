"""One seeded event loop on virtual time, and threads that run one at a time, each until it waits.

The product's own loops block (``Event.wait``, ``SimpleQueue.get``, a commit). Here each of them is a real thread, but only
one holds the baton: whoever has to wait runs the event loop itself until an event resumes somebody; only if that is
another thread is the baton handed over. So the order of everything is decided by the heap of virtual times alone.

``now_s`` is true time; what a process may know of it is its host's clock (``Clock``). A ``Process`` can be stopped: what
happens to it meanwhile is kept and happens when it goes on. It can be killed: each of its threads unwinds with ``Killed``.
"""

from __future__ import annotations

import heapq
import random
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

SHORTEST_S = 1e-6


class Killed(BaseException):
    """The process of this thread is no more."""


class Stuck(AssertionError):
    """Nothing is left to happen although somebody waits, or far too much happens at one instant."""


@dataclass
class Clock:
    """BOOTTIME of a host, off by ``offset_s`` and too fast or slow by ``rate``; REALTIME may jump."""

    offset_s: float = 0.0
    rate: float = 1.0
    wall_s: float = 1.8e9

    def boottime_s(self, true_s: float) -> float:
        return self.offset_s + self.rate * true_s


@dataclass(eq=False)
class Process:
    """``clock``: of its host. ``deferred``: what has happened to it while it was stopped."""

    name: str
    clock: Clock
    dead: bool = False
    stopped: bool = False
    stopped_at_s: float = 0.0
    deferred: list[Callable[[], object]] = field(default_factory=list)
    fibers: list[Fiber] = field(default_factory=list)
    on_death: list[Callable[[], object]] = field(default_factory=list)


class Fiber:
    """A thread of the simulation. ``token``: of its present wait; whoever wants to resume an earlier one comes too late."""

    __slots__ = ("process", "token", "value", "name", "worker", "waiting", "killed")

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.token = 0
        self.value: Any = None
        self.worker: _Worker | None = None
        self.waiting = False
        self.killed = False


class _Worker:
    """A thread of the operating system that carries one fiber after the other, over many simulations."""

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()
        self.job: tuple[SimulatedLoop, Fiber, Callable[[], object]] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            assert self.job is not None
            loop, fiber, target = self.job
            loop.enter(fiber)
            try:
                target()
            except Killed:
                pass
            except BaseException as error:
                loop.failed = loop.failed or error
            fiber.process.fibers.remove(fiber)
            self.job = None
            loop.leave(self)


_idle: list[_Worker] = []


class SimulatedLoop:
    """One simulation. ``labels``: what happened, hashed; kept as text only when ``story`` is a list."""

    def __init__(self, seed: int, story: list[str] | None = None) -> None:
        self.now_s = 0.0
        self.seed = seed
        self.random = random.Random(seed)
        self.story = story
        self.hash = 0
        self.events = 0
        self.switches = 0
        self.failed: BaseException | None = None
        self.outside = Process("outside", Clock())
        self.process = self.outside
        self._heap: list[tuple[float, int, Callable[[], object], Process | None]] = []
        self._count = 0
        self._next: Fiber | None = None
        self._at_once = 0
        self._main = Fiber(self.outside, "main")
        self._main.worker = _MAIN
        self.fiber: Fiber = self._main

    # -- events ----------------------------------------------------------------------------------------------------

    def after(self, seconds: float, what: Callable[[], object], process: Process | None = None) -> None:
        """``what`` happens ``seconds`` of true time from now, to ``process`` (None: to the world)."""
        self._count += 1
        heapq.heappush(self._heap, (self.now_s + seconds, self._count, what, process))

    def note(self, text: str) -> None:
        """One thing that happened: part of the run's hash, and of its story."""
        self.hash = zlib.crc32(text.encode(), self.hash ^ int(self.now_s * 1e6))
        if self.story is not None:
            self.story.append(f"{self.now_s:9.3f} {text}")

    def _one(self) -> None:
        if not self._heap:
            raise Stuck("nothing is left to happen")
        at_s, _, what, process = heapq.heappop(self._heap)
        if at_s > self.now_s:
            self.now_s = at_s
            self._at_once = 0
        self._at_once += 1
        if self._at_once > 100_000:
            raise Stuck(f"{self._at_once} events at {self.now_s}: {what!r}")
        self.events += 1
        if process is None:
            self.process = self.outside
        elif process.dead:
            return
        elif process.stopped:
            process.deferred.append(what)
            return
        else:
            self.process = process
        what()

    # -- processes -------------------------------------------------------------------------------------------------

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        if not process.dead and not process.stopped:
            process.stopped = True
            process.stopped_at_s = self.now_s

    def cont(self, process: Process) -> None:
        """SIGCONT: what was kept happens now, in its order or, as threads go, in any."""
        if process.dead or not process.stopped:
            return
        process.stopped = False
        kept, process.deferred = process.deferred, []
        if self.random.random() < 0.5:
            self.random.shuffle(kept)
        for number, what in enumerate(kept):
            self.after(number * 1e-5, what, process)

    def kill(self, process: Process) -> None:
        """SIGKILL, or its own end."""
        if process.dead:
            return
        process.dead = True
        process.deferred.clear()
        for fiber in process.fibers:
            fiber.killed = True
            if fiber.waiting:
                self.after(0.0, lambda fiber=fiber, token=fiber.token: self._resume(fiber, token, None))  # type: ignore[misc]
        for told in process.on_death:
            self.after(0.0, told)

    # -- threads ---------------------------------------------------------------------------------------------------

    def spawn(self, target: Callable[[], object], process: Process, name: str = "") -> Fiber:
        """A thread of ``process`` that begins now."""
        fiber = Fiber(process, name)
        process.fibers.append(fiber)

        def begin() -> None:
            fiber.worker = _idle.pop() if _idle else _Worker()
            fiber.worker.job = (self, fiber, target)
            self._next = fiber

        def never() -> None:
            if fiber.worker is None and fiber in process.fibers:
                process.fibers.remove(fiber)

        process.on_death.append(never)
        self.after(0.0, begin, process)
        return fiber

    def wait(self, timeout_s: float | None = None) -> Any:
        """The running thread waits: for ``wake``, whose value this returns, at most ``timeout_s`` of its host's clock.

        None after the time-out.
        """
        fiber = self.fiber
        if fiber.killed:
            raise Killed
        fiber.token += 1
        token = fiber.token
        if timeout_s is not None:
            true_s = max(SHORTEST_S, timeout_s / fiber.process.clock.rate)
            self.after(true_s, lambda: self._resume(fiber, token, None), fiber.process)
        fiber.waiting = True
        self._drive(fiber)
        fiber.waiting = False
        self.enter(fiber)
        if fiber.killed:
            raise Killed
        value, fiber.value = fiber.value, None
        return value

    def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def ticket(self) -> tuple[Fiber, int]:
        """What ``wake`` needs to end the *next* wait of the running thread."""
        return self.fiber, self.fiber.token + 1

    def wake(self, ticket: tuple[Fiber, int], value: Any = True) -> None:
        fiber, token = ticket
        process = fiber.process
        if (
            self._next is None
            and fiber.waiting
            and fiber.token == token
            and not (process.stopped or process.dead)
        ):
            self._resume(fiber, token, value)
        else:
            self.after(0.0, lambda: self._resume(fiber, token, value), process)

    def _resume(self, fiber: Fiber, token: int, value: Any) -> None:
        if fiber.token == token and fiber.waiting and fiber.worker is not None:
            fiber.waiting = False  # only once
            fiber.value = value
            self._next = fiber

    def enter(self, fiber: Fiber) -> None:
        self.fiber = fiber
        self.process = fiber.process

    def leave(self, worker: _Worker) -> None:
        """The thread's fiber has ended: go on with the loop until the baton goes to somebody."""
        _idle.append(worker)
        self._drive(None, worker)

    def _drive(self, me: Fiber | None, worker: _Worker | None = None) -> None:
        mine = worker if me is None else me.worker
        while True:
            chosen = self._next
            if chosen is not None:
                self._next = None
                if chosen is me:
                    return
                assert chosen.worker is not None and mine is not None
                self.switches += 1
                chosen.worker.go.release()
                if me is not None:
                    mine.go.acquire()
                return
            try:
                if self.failed is not None:
                    raise self.failed
                self._one()
            except BaseException as error:
                self.failed = self.failed or error
                self._next = self._main
                if me is self._main:
                    self._next = None
                    return

    # -- for the main thread ---------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let the world go on for so long. Raises what went wrong in it."""
        self.fiber, self.process = self._main, self.outside
        self.wait(seconds)
        if self.failed is not None:
            raise self.failed

    def end(self, processes: Sequence[Process]) -> None:
        """Unwind every thread."""
        self.failed = None
        self._heap.clear()
        for process in processes:
            process.stopped = False
            self.kill(process)
            process.on_death.clear()
        for _ in range(100):
            if not any(process.fibers for process in processes):
                return
            self.fiber, self.process = self._main, self.outside
            try:
                self.wait(0.001)
            finally:
                self.failed = None


class _MainWorker:
    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()


_MAIN: Any = _MainWorker()
