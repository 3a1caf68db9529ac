"""The election as values: what a contender writes to lead, and how it knows its own write again. Pure.

Called by ``coord.contender``. One multi creates the ephemeral /leader and sets the persistent /epoch at the version
read; its own id is in /epoch, so that a lost reply can be settled by reading back (F18). /leader alone would be no
fence: deleted and created anew it has version 0 again (KAZOO M11).

/epoch also remembers the latest terms, each with the id of its election. By them ``coord.trust`` tells this registry
from one that was restored to an older state and has been led since: a number alone can be caught up with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from supervisor.errors import Corrupt
from supervisor.model.records import EpochRecord, LeaderHint
from supervisor.model.transaction import Create, Node, SetData, Transaction

Record = TypeVar("Record")

RECENT_KEPT = 24
"""Terms remembered in /epoch: at most 2.4 KiB of the 4 KiB that a record may have."""

_RECENT = "recent"


class Codec(Protocol):
    """``registry.codec``, as an argument: registry and coord don't know each other."""

    def encode(self, record: Any) -> bytes: ...
    def decode(self, cls: type[Record], data: bytes, path: str) -> Record: ...


@dataclass(frozen=True, slots=True)
class Paths:
    """The three znodes of the election, absolute."""

    leader: str
    epoch: str
    cluster: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who stands. ``address``: of its HTTP server, a hint for clients."""

    supervisor: str
    address: str


@dataclass(frozen=True, slots=True)
class Author:
    """Who led a term: its supervisor, and the id of the election, which no other election has."""

    supervisor: str
    op: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look showed: /leader (None: nobody leads) and /epoch. ``flaw``: why nobody may stand here, or None."""

    owner: int | None
    hint: LeaderHint | None
    epoch: EpochRecord
    version: int
    flaw: str | None = None


def sight(paths: Paths, codec: Codec, leader: Node | None, epoch: Node | None) -> Sight:
    """Read the two nodes. Never raises: an unreadable /epoch is a flaw, an unreadable /leader only lacks its hint."""
    owner = leader.stat.ephemeral_owner if leader is not None else None
    hint = _hint(paths, codec, leader) if leader is not None else None
    nothing = EpochRecord(0, "", "")
    if epoch is None:
        return Sight(owner, hint, nothing, 0, f"{paths.epoch} is missing: not founded yet, or ZooKeeper lost its data")
    try:
        record = codec.decode(EpochRecord, epoch.data, paths.epoch)
    except Corrupt as error:
        return Sight(owner, hint, nothing, 0, f"{error}; nobody can lead until an operator restores it")
    return Sight(owner, hint, record, epoch.stat.version)


def take_leadership(
    paths: Paths, codec: Codec, me: Candidate, *, epoch: int, op_id: str, seen: EpochRecord, version: int
) -> Transaction:
    """Lead as ``epoch``. A failed guard on ``paths.leader``: somebody leads; on ``paths.epoch``: the race was lost."""
    terms = {**recent_terms(seen), epoch: Author(me.supervisor, op_id)}
    recent = [[n, author.supervisor, author.op] for n, author in terms.items()][-RECENT_KEPT:]
    changed = replace(seen, epoch=epoch, supervisor=me.supervisor, op=op_id, extra={**seen.extra, _RECENT: recent})
    return Transaction(
        "take_leadership",
        op_id,
        (
            Create(paths.leader, codec.encode(LeaderHint(me.supervisor, epoch, me.address)), ephemeral=True),
            SetData(paths.epoch, codec.encode(changed), version),
        ),
    )


def is_ours(seen: Sight, op_id: str, session: int) -> bool:
    """Whether the election with this id was applied and still stands: read on its own session, after a ``sync``."""
    return seen.flaw is None and seen.epoch.op == op_id and seen.owner == session


def recent_terms(record: EpochRecord) -> dict[int, Author]:
    """The latest terms that this registry remembers, oldest first. An entry that can't be read is left out."""
    entries = record.extra.get(_RECENT)
    terms: dict[int, Author] = {}
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case [int(epoch), str(supervisor), str(op)]:
                terms[epoch] = Author(supervisor, op)
    return terms


def _hint(paths: Paths, codec: Codec, leader: Node) -> LeaderHint | None:
    try:
        return codec.decode(LeaderHint, leader.data, paths.leader)
    except Corrupt:
        return None
