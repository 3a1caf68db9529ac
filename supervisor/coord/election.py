"""The election as values: what a contender writes to lead, and how it knows its own write again. Pure.

Called by ``coord.contender``. One multi creates the ephemeral /leader and sets the persistent /epoch at the version
read; its own id is in /epoch, so that a lost reply can be settled by reading back (F18). /leader alone would be no
fence: deleted and created anew it has version 0 again (zookeeper.md M11).

/epoch also remembers the latest terms, each with the id of its election. By them ``coord.trust`` tells this registry
from one that was restored to an older state and has been led since: a number alone can be caught up with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from supervisor.errors import Corrupt
from supervisor.model.records import Acceptance, EpochRecord, Handover, LeaderHint, LedTerm, clip
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Node, SetData, Transaction
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout

Record = TypeVar("Record")

RECENT_KEPT = 24
"""Terms remembered in /epoch: at most 2.4 KiB of the 4 KiB that a record may have."""

OPEN_KEPT = 8
"""Terms, at most, of which it is open whether they are in the store: 0.8 KiB more."""


ACCEPTER = "accept-registry"
"""Stands for a supervisor where an epoch is an acceptance. No term was ever led under it."""

DISTRUST_MAX_BYTES = 600


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
    layout: Layout,
    leader: Node | None,
    epoch: Node | None,
    switchover: Node | None = None,
    recorded: Node | None = None,
) -> ElectionView:
    """Read the nodes. Never raises: an unreadable /epoch is a flaw, an unreadable /leader only lacks its hint, and an
    unreadable wish is none. ``epoch`` of what it returns remembers what /recorded says."""
    owner = leader.stat.ephemeral_owner if leader is not None else None
    hint = _readable(LeaderHint, leader, layout.leader)
    wish = _readable(Handover, switchover, layout.switchover)
    nothing = EpochRecord(epoch=0, supervisor="", op="")
    if epoch is None:
        return ElectionView(
            owner, hint, nothing, 0, f"{layout.epoch} is missing: not founded yet, or ZooKeeper lost its data"
        )
    try:
        record = decode(EpochRecord, epoch.data, layout.epoch)
    except Corrupt as error:
        return ElectionView(
            owner, hint, nothing, 0, f"{error}; nobody can lead until an operator restores it"
        )
    known = _readable(EpochRecord, recorded, layout.recorded)
    return ElectionView(owner, hint, _remember_recorded(record, known), epoch.stat.version, wish=wish)


def take_leadership(
    layout: Layout,
    me: Candidate,
    *,
    epoch: int,
    op_id: str,
    seen: EpochRecord,
    version: int,
    distrust: str | None = None,
) -> Transaction:
    """Lead as ``epoch``. A failed guard on ``layout.leader``: somebody leads; on ``layout.epoch``: the race was lost.

    ``distrust``: why this leader will do nothing, as far as it is known beforehand.
    """
    hint = hint_of(me, epoch, distrust)
    return Transaction(
        "take_leadership",
        op_id,
        (
            Create(layout.leader, encode(hint), ephemeral=True),
            SetData(layout.epoch, encode(_next_term(seen, epoch, Author(me.supervisor, op_id))), version),
        ),
    )


def publish_distrust(
    layout: Layout,
    me: Candidate,
    *,
    epoch: int,
    fence: int,
    op_id: str,
    distrust: str,
) -> Transaction:
    """Tell everybody by /leader why this leader does nothing. While the fence holds, nobody else has a /leader there."""
    hint = encode(hint_of(me, epoch, distrust))
    return Transaction(
        "publish_distrust", op_id, (Check(layout.epoch, fence), SetData(layout.leader, hint, ANY_VERSION))
    )


def publish_recording(
    layout: Layout,
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
    known = _readable(EpochRecord, recorded, layout.recorded)
    terms = _authors(_announced(known)) if known is not None else {}
    before = [(number, terms[number]) for number in sorted(terms) if (newest or 0) < number < epoch][
        -OPEN_KEPT:
    ]
    if newest is not None and newest != epoch:
        before = [(newest, recent[newest]), *before]
    author = recent[epoch]
    data = encode(
        EpochRecord(
            epoch=epoch,
            supervisor=author.supervisor,
            op=author.op,
            before=tuple(_led(*each) for each in before),
        )
    )
    publish = (
        SetData(layout.recorded, data, ANY_VERSION) if recorded is not None else Create(layout.recorded, data)
    )
    return Transaction("publish_recording", op_id, (Check(layout.epoch, fence), publish))


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


def accept(layout: Layout, seen: RestoredRegistry, acceptance: Acceptance) -> Transaction:
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
    before = (Delete(layout.accepted, seen.accepted.stat.version),) if seen.accepted is not None else ()
    return Transaction(
        "accept_registry",
        acceptance.id,
        (
            Check(layout.cluster, seen.cluster.stat.version),
            SetData(layout.epoch, encode(term), seen.epoch_version),
            *before,
            *(Create(path, b"") for path in seen.missing),
            Create(layout.accepted, encode(acceptance)),
        ),
    )


def _next_term(seen: EpochRecord, epoch: int, author: Author) -> EpochRecord:
    terms = {**recent_terms(seen), epoch: author}
    recent = tuple(_led(number, terms[number]) for number in sorted(terms)[-RECENT_KEPT:])
    return replace(seen, epoch=epoch, supervisor=author.supervisor, op=author.op, recent=recent)


def _remember_recorded(record: EpochRecord, recorded: EpochRecord | None) -> EpochRecord:
    """``record`` with the terms one of which has the newest mark in the store: no later term may forget them.

    Other terms are remembered by their number, ``RECENT_KEPT`` of them. Were there more without a word to the store (it
    was down, or they were too short), the newest mark there would look like one of a past that this registry does not have.
    """
    if recorded is None or recorded.epoch > record.epoch:
        return record
    if record.recorded is not None and record.recorded.epoch > recorded.epoch:
        return record
    last, *before = _announced(recorded)
    return replace(record, recorded=last, before=tuple(before))


def _announced(recorded: EpochRecord) -> tuple[LedTerm, ...]:
    """The term itself first."""
    return (LedTerm(recorded.epoch, recorded.supervisor, recorded.op), *recorded.before)


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
    """The latest terms that this registry remembers, and those one of which has the newest mark in the store."""
    last = (record.recorded,) if record.recorded is not None else ()
    return _authors((*last, *record.before, *record.recent))


def _authors(terms: Iterable[LedTerm]) -> dict[int, Author]:
    return {term.epoch: Author(term.supervisor, term.op) for term in terms}


def _led(epoch: int, author: Author) -> LedTerm:
    return LedTerm(epoch, author.supervisor, author.op)


def _readable(cls: type[Record], node: Node | None, path: str) -> Record | None:
    try:
        return decode(cls, node.data, path) if node is not None else None
    except Corrupt:
        return None
