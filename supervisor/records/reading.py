"""Turns znodes into records: this is the one place where bytes become ``Found``, ``Unreadable`` or absent.

Commands, observe and the agent call it. Reads are pipelined: there is never one round trip per job in series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from supervisor.errors import Conflict, Corrupt
from supervisor.model.records import (
    Assignment,
    Cordon,
    JobRef,
    Lease,
    Member,
    Notifications,
    Preparation,
    Result,
    Revisions,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node
from supervisor.records.codec import decode
from supervisor.records.ids import may_be_of
from supervisor.records.layout import request_name
from supervisor.records.ports import ZkReader

T = TypeVar("T")


def seen(cls: type[T], node: Node | None, path: str) -> Seen[T]:
    """Returns the record in ``node``. Never raises: what cannot be believed is ``Unreadable``, with the
    reason."""
    if node is None:
        return None
    try:
        record = decode(cls, node.data, path)
    except Corrupt as error:
        return Unreadable(str(error), node.stat.version, node.stat.mzxid)
    return _placed(record, node, path)


def children_of(zoo: ZkReader, path: str) -> tuple[str, ...]:
    """Returns the names below one of the fixed znodes. Raises Conflict when it is missing: nothing below it
    is not the same as nothing known (I10)."""
    found = zoo.children(path)
    if found is None:
        raise Conflict(f"{path} is missing, it was removed by hand: see status")
    return found


def _placed(record: T, node: Node, path: str) -> Found[T] | Unreadable:
    """Returns the record, or ``Unreadable`` if it names another job, uid or host than its path says (copied,
    or altered, by hand). Acting on it would apply one job's record to another, so none of it is used."""
    key, named = path.rpartition("/")[2], ""
    match record:
        case JobRef() | Lease():
            named = record.name
        case Member():
            named = record.id
        case Assignment():
            named = f"{record.uid}.{record.attempt}"
        case Cordon():
            named = record.supervisor
        case Preparation():
            named = request_name(record.uid, record.revision)
        case Result() | Revisions() | Notifications():
            named = record.uid
            if not may_be_of(record.uid, record.name):
                return Unreadable(f"{path} is not of {record.name!r}", node.stat.version, node.stat.mzxid)
        case _:
            named = key
    if path.startswith("/") and named != key:  # else it is read from somewhere else
        return Unreadable(f"{path} is about {named!r}", node.stat.version, node.stat.mzxid)
    return Found(record, node.stat.version, node.stat.mzxid)


LONG = 500
"""From this many records in one answer on, loading a faster decoder pays."""


def seen_all(cls: type[T], paths: Sequence[str], nodes: Sequence[Node | None]) -> list[Seen[T]]:
    """Returns ``seen`` of each node in the answer of one pipelined read, in its order."""
    if len(nodes) < LONG:
        return [seen(cls, node, path) for path, node in zip(paths, nodes, strict=True)]
    from supervisor.records.bulk import bulk_decoder  # here: a shim goes without msgspec

    decoded: Callable[[bytes], T | None] = bulk_decoder(cls)  # type: ignore[arg-type]  # mypy: cls is not Hashable
    found: list[Seen[T]] = []
    for path, node in zip(paths, nodes, strict=True):
        record = None if node is None else decoded(node.data)
        if node is None or record is None:
            found.append(seen(cls, node, path))
        else:
            found.append(_placed(record, node, path))
    return found
