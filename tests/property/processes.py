"""Processes that stop where they are and go on later, one at a time: what an interleaving is made of. No time, no luck.

A process is a thread that runs only while whoever moves it waits. It stops at a *seam*: right before a request to ZooKeeper or
to a store. In between nothing that others do can be seen, so no other place to stop makes a difference.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from supervisor.model.transaction import Committed, Node, Reads, Transaction
from tests.fakes.zookeeper import MemoryClient


class StopPoint(NamedTuple):
    """Before the ``after``-th request of this ``kind`` that is still to come."""

    kind: str
    after: int


class Killed(BaseException):
    """The process is gone: nothing that it would have done happens."""


_this = threading.local()


def seam(kind: str, where: str = "") -> None:
    """``where``: location that the request is about to delete at."""
    process = getattr(_this, "process", None)
    if process is not None:
        process._comes_to(kind, where)


class Process:
    """``deletes_at``: where it is about to delete, while it is stopped there; else empty."""

    def __init__(self, title: str, work: Callable[[], object]) -> None:
        self.title = title
        self.over = False
        self.error: BaseException | None = None
        self.deletes_at = ""
        self._work = work
        self._stop: StopPoint | None = None
        self._killed = False
        self._go, self._passed = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, name=title, daemon=True).start()

    def go_on(self, stop: StopPoint | None) -> None:
        """Until it stops there, or is over; raises what ended it."""
        self._stop, self.deletes_at = stop, ""
        self._go.release()
        self._passed.acquire()
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        self._killed = True
        self.go_on(None)

    def _run(self) -> None:
        _this.process = self
        self._go.acquire()
        try:
            if not self._killed:
                self._work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.over = True
        self._passed.release()

    def _comes_to(self, kind: str, where: str) -> None:
        if self._stop is not None and self._stop.kind == kind:
            if self._stop.after == 0:
                self.deletes_at = where
                self._passed.release()
                self._go.acquire()
            else:
                self._stop = self._stop._replace(after=self._stop.after - 1)
        if self._killed:
            raise Killed


class SeamClient(MemoryClient):
    """Each request is a seam."""

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        seam("read")
        return super().read(path, watch)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> tuple[str, ...] | None:
        seam("read")
        return super().children(path, watch)

    def read_many(self, paths: Sequence[str]) -> Reads:
        seam("read")
        return super().read_many(paths)

    def commit(self, tx: Transaction, connection: int | None = None) -> Committed:
        seam("commit")
        return super().commit(tx, connection)


def quiet(**methods: Any) -> Any:
    """An object with these methods."""
    return type("Quiet", (), {name: staticmethod(method) for name, method in methods.items()})()
