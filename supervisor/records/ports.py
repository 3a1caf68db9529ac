"""Declares what the layers above need of a ZooKeeper client; ``clients.zookeeper.ZooClient`` has it, or what
a test puts in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

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
