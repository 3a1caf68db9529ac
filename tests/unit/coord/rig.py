"""A contender on the in-memory ensemble, with everything around it that a test wants to look at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor.clients.zookeeper import Link, Session
from supervisor.coord.contender import Contender, Duties, ElectionRegistry, SessionFactory
from supervisor.coord.election import Candidate
from supervisor.coord.leadership import State
from supervisor.coord.term import Term
from supervisor.coord.trust import Trust
from supervisor.errors import Conflict, Unreachable
from supervisor.model.records import Cluster, EpochRecord, Handover
from supervisor.records import codec
from supervisor.records.layout import Layout
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.waiting import wait_until

PATHS = Layout("/t")
CLUSTER = Cluster(id="c1", name="test", store="file:///nowhere")
T = 1.5


class MemoryEpochs:
    """The epochs in the store; ``down``: it does not answer; ``mute``: it takes a mark, and its answer is lost."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[str, str]] = {}
        self.down = self.mute = False

    def record_epoch(self, epoch: int, supervisor: str, op: str) -> None:
        self._answer()
        is_new = epoch not in self.kept
        if self.kept.setdefault(epoch, (supervisor, op)) != (supervisor, op):
            raise Conflict(f"epoch {epoch} is another's")
        if self.mute and is_new:
            raise Unreachable("the answer was lost")

    def read_epoch(self, epoch: int) -> EpochRecord | None:
        self._answer()
        if epoch not in self.kept:
            return None
        supervisor, op = self.kept[epoch]
        return EpochRecord(epoch=epoch, supervisor=supervisor, op=op)

    def newest_epoch_above(self, epoch: int) -> int | None:
        self._answer()
        return max((n for n in self.kept if n > epoch), default=None)

    def _answer(self) -> None:
        if self.down:
            raise Unreachable("the store is down")


def bootstrapped(epoch: int = 0) -> MemoryZoo:
    zoo = MemoryZoo()
    zoo.put(PATHS.cluster, codec.encode(CLUSTER))
    zoo.put(PATHS.epoch, codec.encode(EpochRecord(epoch=epoch, supervisor="", op="founding")))
    return zoo


class Rig:
    """One supervisor's contender. ``terms``: all that began; ``over``: those whose tasks are over."""

    def __init__(self, zoo: MemoryZoo, epochs: MemoryEpochs, zxid_path: Path, name: str = "a") -> None:
        self.zoo, self.epochs, self.name = zoo, epochs, name
        self.clients: list[MemoryClient] = []
        self.terms: list[Term[MemoryClient]] = []
        self.over: list[Term[MemoryClient]] = []
        self.published: list[tuple[Session, ...]] = []
        self.closed: list[int] = []
        self.beats = 0
        self.tasks_may_end = threading.Event()
        self.tasks_may_end.set()
        self.before_start: Callable[[MemoryClient], None] = lambda _: None
        self.when_term: Callable[[Term[MemoryClient]], None] = lambda _: None
        self.trust = Trust(zxid_path, CLUSTER.id)
        self.contender: Contender[MemoryClient] = Contender(
            Candidate(name, f"{name}:1"),
            ElectionRegistry(PATHS, epochs, self.trust),
            SessionFactory(self._connect, self._close, self.published.append),
            Duties(self._on_term, self._on_step_down, beat=self._beat),
        )

    def _connect(self, on_link: Callable[[Link], None]) -> MemoryClient:
        client = MemoryClient(self.zoo, T, on_link=on_link, request_timeout_s=0.2)
        self.clients.append(client)
        self.before_start(client)
        return client

    def _close(self, session: Session) -> None:
        self.closed.append(session.id)
        self.zoo.close_session(session.id, session.password)

    def _on_term(self, term: Term[MemoryClient]) -> None:
        self.terms.append(term)
        self.when_term(term)

    def _on_step_down(self, term: Term[MemoryClient]) -> None:
        self.tasks_may_end.wait(30)
        self.over.append(term)

    def _beat(self) -> None:
        self.beats += 1

    def ask_switchover(self, to: str | None = None) -> None:
        """As an operator does, while this one leads; the leader's loop tells the contender."""
        wish = Handover(epoch=self.terms[-1].epoch, leader=self.name, to=to, by="somebody", at="now", op="op")
        self.zoo.put(PATHS.switchover, codec.encode(wish))
        self.contender.nudge()

    @property
    def client(self) -> MemoryClient:
        return self.clients[-1]

    def leads(self, terms: int = 1) -> Term[MemoryClient]:
        """Wait until the n-th term has begun."""
        wait_until(lambda: len(self.terms) >= terms, 10, f"term number {terms}", period_s=0.005)
        return self.terms[terms - 1]

    def waits_in(self, state: State) -> None:
        wait_until(lambda: self.contender.report().state is state, 10, state, period_s=0.005)


@contextmanager
def running(*rigs: Rig) -> Iterator[None]:
    for rig in rigs:
        rig.contender.start()
    try:
        yield
    finally:
        for rig in rigs:
            rig.tasks_may_end.set()
            rig.contender.stop(10)
