"""Znodes to records: the one place where bytes become ``Found``, ``Unreadable`` or absent.

Called by commands, observe and the agent. Reads are pipelined: never one round trip per job in series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from supervisor.errors import Corrupt
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node
from supervisor.registry.codec import decode

T = TypeVar("T")


class Reader(Protocol):
    """What is needed of a ZooKeeper client to read one znode. Raises Unreachable."""

    def read(self, path: str) -> Node | None: ...


def seen(cls: type[T], node: Node | None, path: str) -> Seen[T]:
    """The record in ``node``. Never raises: what cannot be believed is ``Unreadable``, with the reason."""
    if node is None:
        return None
    try:
        return Found(decode(cls, node.data, path), node.stat.version, node.stat.mzxid)
    except Corrupt as error:
        return Unreadable(str(error), node.stat.version, node.stat.mzxid)


LONG = 500
"""Records in one answer from which on loading a faster decoder pays."""


def seen_all(cls: type[T], paths: Sequence[str], nodes: Sequence[Node | None]) -> list[Seen[T]]:
    """``seen`` for the answer of one pipelined read, in its order."""
    if len(nodes) < LONG:
        return [seen(cls, node, path) for path, node in zip(paths, nodes, strict=True)]
    from supervisor.registry.bulk import bulk_decoder

    decoded: Callable[[bytes], T | None] = bulk_decoder(cls)  # type: ignore[arg-type]  # mypy: cls is not Hashable
    found: list[Seen[T]] = []
    for path, node in zip(paths, nodes, strict=True):
        record = None if node is None else decoded(node.data)
        if node is None or record is None:
            found.append(seen(cls, node, path))
        else:
            found.append(Found(record, node.stat.version, node.stat.mzxid))
    return found
