"""Declares what the layers above need of a ZooKeeper client. ``clients.zookeeper.ZooClient`` has all of it.

These are protocols so that exploration, simulation and unit tests run the code above on a tree in memory: each of
their clients has as much as the part under test calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from supervisor.clients.zookeeper_session import Link, Session
from supervisor.model.transaction import Committed, Node, Reads, Transaction


class ZkReader(Protocol):
    """Reads znodes, from one server. Each call raises ``Unreachable``; what is absent is None."""

    def read(self, path: str, watch: Callable[[], None] | None = None) -> Node | None: ...
    def read_many(self, paths: Sequence[str]) -> Reads: ...
    def children(self, path: str) -> tuple[str, ...] | None: ...


class ZkSession(ZkReader, Protocol):
    """Reads after a ``sync``, and writes. ``last_zxid`` is the newest zxid that this session has seen."""

    @property
    def last_zxid(self) -> int: ...
    def sync(self) -> None: ...
    def commit(self, tx: Transaction) -> Committed: ...


class ReplaceableSession(Protocol):
    """Holds a ZooKeeper session that can be relied upon, or replaced: ``clients.sessions.KeptSession``.

    ``registry.resolve_outcome`` and ``operations`` need no more of it. The simulation puts one client in its place that
    is never replaced.
    """

    def zoo(self) -> ZkSession:
        """Returns the present client, connected. Raises Unreachable."""

    def resolve_outcome(self) -> ZkSession:
        """Returns a client on which a read shows the outcome of every earlier write. It is the same session,
        reconnected, or a new one after the old was closed for certain. Raises Unreachable."""


class ElectionClient(Protocol):
    """Is what ``coord`` needs for one candidacy: one session, with its link and the instant of its last answer. Its
    blocking calls raise Unreachable within the client's request time-out.

    ``coord.contender`` and ``coord.term`` decide by these alone, so a test can let a session end between any two
    calls.
    """

    @property
    def link(self) -> Link: ...
    @property
    def session(self) -> Session | None: ...
    @property
    def connections(self) -> int: ...
    @property
    def last_success_at_s(self) -> float: ...
    @property
    def last_zxid(self) -> int: ...
    def start(self) -> None: ...
    def close(self, timeout_s: float = ...) -> bool: ...
    def sync(self) -> None: ...
    def read_many(self, paths: Sequence[str]) -> Reads: ...
    def watch_exists(self, path: str, watch: Callable[[], None]) -> Node | None: ...
    def commit(self, tx: Transaction) -> Committed: ...
