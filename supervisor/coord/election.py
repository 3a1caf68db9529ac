"""The election as values: what a contender writes to lead, and how it knows its own write again. Pure.

Called by ``coord.contender``. One multi creates the ephemeral /leader and sets the persistent /epoch at the version
read; its own id is in /epoch, so that a lost reply can be settled by reading back (F18). /leader alone would be no
fence: deleted and created anew it has version 0 again (zookeeper.md M11).

/epoch also remembers the latest terms, each with the id of its election. By them ``coord.trust`` tells this registry
from one that was restored to an older state and has been led since: a number alone can be caught up with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, TypeVar

from supervisor.errors import Corrupt
from supervisor.model.records import Acceptance, EpochRecord, Handover, LeaderHint, clip
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Node, SetData, Transaction

Record = TypeVar("Record")

RECENT_KEPT = 24
"""Terms remembered in /epoch: at most 2.4 KiB of the 4 KiB that a record may have."""

OPEN_KEPT = 8
"""Terms, at most, of which it is open whether they are in the store: 0.8 KiB more."""

_RECENT, _RECORDED, _BEFORE = "recent", "recorded", "before"

ACCEPTER = "accept-registry"
"""Stands for a supervisor where an epoch is an acceptance. No term was ever led under it."""

DISTRUST_MAX_BYTES = 600


class Codec(Protocol):
    """``records.codec``, as an argument: registry and coord don't know each other."""

    def encode(self, record: Any) -> bytes: ...
    def decode(self, cls: type[Record], data: bytes, path: str) -> Record: ...


@dataclass(frozen=True, slots=True)
class Paths:
    """The znodes of the election, absolute."""

    leader: str
    epoch: str
    cluster: str
    switchover: str
    accepted: str
    doorbell: str
    recorded: str


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
class ElectionView:
    """What one look showed: /leader (None: nobody leads) and /epoch. ``flaw``: why nobody may stand here, or None.

    ``wish``: the latest planned hand-over that was asked for, in force or not.
    """

    owner: int | None
    hint: LeaderHint | None
    epoch: EpochRecord
    version: int
    flaw: str | None = None
    wish: Handover | None = None


def election_view(
    paths: Paths,
    codec: Codec,
    leader: Node | None,
    epoch: Node | None,
    switchover: Node | None = None,
    recorded: Node | None = None,
) -> ElectionView:
    """Read the nodes. Never raises: an unreadable /epoch is a flaw, an unreadable /leader only lacks its hint, and an
    unreadable wish is none. ``epoch`` of what it returns remembers what /recorded says."""
    owner = leader.stat.ephemeral_owner if leader is not None else None
    hint = _readable(codec, LeaderHint, leader, paths.leader)
    wish = _readable(codec, Handover, switchover, paths.switchover)
    nothing = EpochRecord(epoch=0, supervisor="", op="")
    if epoch is None:
        return ElectionView(
            owner, hint, nothing, 0, f"{paths.epoch} is missing: not founded yet, or ZooKeeper lost its data"
        )
    try:
        record = codec.decode(EpochRecord, epoch.data, paths.epoch)
    except Corrupt as error:
        return ElectionView(
            owner, hint, nothing, 0, f"{error}; nobody can lead until an operator restores it"
        )
    known = _readable(codec, EpochRecord, recorded, paths.recorded)
    return ElectionView(owner, hint, _remember_recorded(record, known), epoch.stat.version, wish=wish)


def take_leadership(
    paths: Paths,
    codec: Codec,
    me: Candidate,
    *,
    epoch: int,
    op_id: str,
    seen: EpochRecord,
    version: int,
    distrust: str | None = None,
) -> Transaction:
    """Lead as ``epoch``. A failed guard on ``paths.leader``: somebody leads; on ``paths.epoch``: the race was lost.

    ``distrust``: why this leader will do nothing, as far as it is known beforehand.
    """
    hint = hint_of(me, epoch, distrust)
    return Transaction(
        "take_leadership",
        op_id,
        (
            Create(paths.leader, codec.encode(hint), ephemeral=True),
            SetData(
                paths.epoch, codec.encode(_next_term(seen, epoch, Author(me.supervisor, op_id))), version
            ),
        ),
    )


def publish_distrust(
    paths: Paths,
    codec: Codec,
    me: Candidate,
    *,
    epoch: int,
    fence: int,
    op_id: str,
    distrust: str,
) -> Transaction:
    """Tell everybody by /leader why this leader does nothing. While the fence holds, nobody else has a /leader there."""
    hint = codec.encode(hint_of(me, epoch, distrust))
    return Transaction(
        "publish_distrust", op_id, (Check(paths.epoch, fence), SetData(paths.leader, hint, ANY_VERSION))
    )


def publish_recording(
    paths: Paths,
    codec: Codec,
    *,
    epoch: int,
    fence: int,
    op_id: str,
    recent: Mapping[int, Author],
    newest: int | None,
    recorded: Node | None,
) -> Transaction:
    """Leave in the registry, *before* this term's mark is put into the store, that it may be there from now on.

    Afterwards would be too late: the reply may be lost, or the term over, and the mark is there all the same. ``newest``:
    of the marks there, a term of ``recent``. It stays known, and so does every later one that was announced
    (``recorded``: the node as it is): should this term's mark never come, one of these is the newest.
    """
    known = _readable(codec, EpochRecord, recorded, paths.recorded)
    terms = dict(_entries(_announced(known))) if known is not None else {}
    before = [(number, terms[number]) for number in sorted(terms) if (newest or 0) < number < epoch][
        -OPEN_KEPT:
    ]
    if newest is not None and newest != epoch:
        before = [(newest, recent[newest]), *before]
    author = recent[epoch]
    data = codec.encode(
        EpochRecord(
            epoch=epoch,
            supervisor=author.supervisor,
            op=author.op,
            extra={_BEFORE: [_entry(*each) for each in before]},
        )
    )
    say = SetData(paths.recorded, data, ANY_VERSION) if recorded is not None else Create(paths.recorded, data)
    return Transaction("publish_recording", op_id, (Check(paths.epoch, fence), say))


def hint_of(me: Candidate, epoch: int, distrust: str | None) -> LeaderHint:
    return LeaderHint(
        supervisor=me.supervisor,
        epoch=epoch,
        address=me.address,
        distrust=clip(distrust, DISTRUST_MAX_BYTES) if distrust else None,
    )


@dataclass(frozen=True, slots=True)
class RestoredRegistry:
    """The registry that an operator looked at: the nodes /cluster, /epoch and /accepted as they were read.

    ``missing``: fixed znodes that are not there, and are made anew.
    """

    cluster: Node
    epoch: EpochRecord
    epoch_version: int
    accepted: Node | None
    missing: tuple[str, ...] = ()


def accept(paths: Paths, codec: Codec, seen: RestoredRegistry, acceptance: Acceptance) -> Transaction:
    """Accept the restored registry: its epoch is above all, so the present leader is fenced out.

    Written by an operator's command, not by a contender: it leads nothing. The acceptance has its place among the
    terms, so that the mark of it that was put into the store before is known here (``coord.trust``). /accepted is made
    anew, never set: its czxid tells what was written before the acceptance from what came after it.
    """
    author = Author(ACCEPTER, acceptance.id)
    term = _remember_recorded(
        _next_term(seen.epoch, acceptance.epoch, author),
        EpochRecord(epoch=acceptance.epoch, supervisor=author.supervisor, op=author.op),
    )
    before = (Delete(paths.accepted, seen.accepted.stat.version),) if seen.accepted is not None else ()
    return Transaction(
        "accept_registry",
        acceptance.id,
        (
            Check(paths.cluster, seen.cluster.stat.version),
            SetData(paths.epoch, codec.encode(term), seen.epoch_version),
            *before,
            *(Create(path, b"") for path in seen.missing),
            Create(paths.accepted, codec.encode(acceptance)),
        ),
    )


def _next_term(seen: EpochRecord, epoch: int, author: Author) -> EpochRecord:
    terms = {**recent_terms(seen), epoch: author}
    recent = [_entry(*term) for term in sorted(terms.items(), key=lambda term: term[0])][-RECENT_KEPT:]
    return replace(
        seen, epoch=epoch, supervisor=author.supervisor, op=author.op, extra={**seen.extra, _RECENT: recent}
    )


def _remember_recorded(record: EpochRecord, recorded: EpochRecord | None) -> EpochRecord:
    """``record`` with the terms one of which has the newest mark in the store: no later term may forget them.

    Other terms are remembered by their number, ``RECENT_KEPT`` of them. Were there more without a word to the store (it
    was down, or they were too short), the newest mark there would look like one of a past that this registry does not have.
    """
    if recorded is None or recorded.epoch > record.epoch:
        return record
    match record.extra.get(_RECORDED):
        case [int(epoch), str(), str()] if epoch > recorded.epoch:
            return record
    last, *before = _announced(recorded)
    return replace(record, extra={**record.extra, _RECORDED: last, _BEFORE: before})


def _announced(recorded: EpochRecord) -> list[Any]:
    """The term itself first."""
    before = recorded.extra.get(_BEFORE)
    return [[recorded.epoch, recorded.supervisor, recorded.op], *(before if isinstance(before, list) else ())]


def is_ours(seen: ElectionView, op_id: str, session: int) -> bool:
    """Whether the election with this id was applied and still stands: read on its own session, after a ``sync``."""
    return seen.flaw is None and seen.epoch.op == op_id and seen.owner == session


def gives_way(seen: ElectionView, me: str) -> bool:
    """Whether a planned hand-over in force wants another supervisor than ``me`` to lead.

    In force only for the epoch that it names: the next election makes it void. Without a name it is anybody but the
    one that led.
    """
    wish = seen.wish
    if wish is None or seen.flaw is not None or wish.epoch != seen.epoch.epoch:
        return False
    return wish.to != me if wish.to is not None else wish.leader == me


def recent_terms(record: EpochRecord) -> dict[int, Author]:
    """The latest terms that this registry remembers, and those one of which has the newest mark in the store.

    An entry that can't be read is left out.
    """
    lists = [entries for key in (_BEFORE, _RECENT) if isinstance(entries := record.extra.get(key), list)]
    return dict(_entries((record.extra.get(_RECORDED), *chain(*lists))))


def _entry(epoch: int, author: Author) -> list[Any]:
    return [epoch, author.supervisor, author.op]


def _entries(entries: Iterable[Any]) -> Iterator[tuple[int, Author]]:
    for entry in entries:
        match entry:
            case [int(epoch), str(supervisor), str(op)]:
                yield epoch, Author(supervisor, op)


def _readable(codec: Codec, cls: type[Record], node: Node | None, path: str) -> Record | None:
    try:
        return codec.decode(cls, node.data, path) if node is not None else None
    except Corrupt:
        return None
