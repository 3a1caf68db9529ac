"""Represents a ZooKeeper multi as a value: ``registry`` builds it, ``clients.zookeeper`` carries it out,
tests compare it.

All operations of a transaction are applied, or none. ``id`` is unique per transaction and stored in what it
writes, so that an unknown outcome can be resolved by reading back (protocol §5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Transaction:
    """Holds the operations of one multi. ``what`` names the write for logs (``assign``, ``cancel`` …); ``id``
    serves to resolve unknown outcomes.
    """

    what: str
    id: str
    ops: tuple[Op, ...]


class Stat(NamedTuple):
    """Holds what ZooKeeper says about a znode. ``mzxid`` is unique per change, also across a delete and
    re-create.

    ``modified_at_s`` is the wall time of the server that led then, for display only; 0 means that it is not
    known.
    """

    version: int
    mzxid: int
    czxid: int = 0
    ephemeral_owner: int = 0
    children: int = 0
    modified_at_s: float = 0.0


class Node(NamedTuple):
    """Holds a znode as it was read. ``None`` in place of a Node means that ZooKeeper said that it does not
    exist (never that it is unknown).
    """

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Committed:
    """Describes a multi that was applied. ``sent_at_s`` is BOOTTIME read before it was sent. ``versions`` are
    the new data versions of each operation's znode (0 for a create, None for a check or delete).
    """

    sent_at_s: float
    versions: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """Holds the answers to a pipelined read. ``sent_at_s`` is BOOTTIME before the first request was sent,
    ``received_at_s`` BOOTTIME after the last answer.
    """

    nodes: tuple[Node | None, ...]
    sent_at_s: float
    received_at_s: float
