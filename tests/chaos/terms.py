"""Who leads: looked at all the time on a session of the test's own, to count the changes of leader and to find the victim."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.model.records import LeaderHint
from supervisor.model.seen import Found
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from tests.waiting import wait_until

PERIOD_S = 0.05


@dataclass(frozen=True, slots=True)
class SeenTerm:
    """``seen_at_s``: BOOTTIME at which it was seen first; later than its beginning by a look at most, if ZooKeeper answers."""

    epoch: int
    supervisor: str
    session: int
    seen_at_s: float


class TermWatcher(threading.Thread):
    """``found``: all terms seen, in their order. One that lasted shorter than a look is known by its epoch's number only."""

    def __init__(self, hosts: str, layout: Layout) -> None:
        super().__init__(name="terms", daemon=True)
        self._hosts = hosts
        self._layout = layout
        self._client: ZooClient | None = None
        self._stopping = threading.Event()
        self._leads = False
        self.found: list[SeenTerm] = []

    def run(self) -> None:
        while not self._stopping.wait(PERIOD_S):
            with contextlib.suppress(SupervisorError):
                self._read_once()
        if self._client is not None:
            self._client.close()

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(15)

    def current(self) -> SeenTerm | None:
        """The present term; None while nobody leads (as far as is known)."""
        return self.found[-1] if self.found and self._leads else None

    @property
    def newest_epoch(self) -> int:
        return self.found[-1].epoch if self.found else 0

    def wait_after(self, epoch: int, timeout_s: float, stop: Callable[[], bool]) -> bool:
        """Until a later term than ``epoch`` is seen; False: it took too long, or ``stop`` said so."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.newest_epoch > epoch or stop(), timeout_s, "another leader")
        return self.newest_epoch > epoch

    def _read_once(self) -> None:
        if self._client is None or self._client.link in ("lost", "closed"):
            if self._client is not None:
                self._client.close()
            self._client = ZooClient(self._hosts, 10.0)
            self._client.start()
            self._client.wait_connected(10)
        path = self._layout.leader
        node = self._client.read(path)
        hint = seen(LeaderHint, node, path)
        self._leads = isinstance(hint, Found)
        if node is None or not isinstance(hint, Found):
            return
        term = SeenTerm(hint.record.epoch, hint.record.supervisor, node.stat.ephemeral_owner, boottime_s())
        if term.epoch > self.newest_epoch:
            self.found.append(term)
