"""Defines the election as values: what a contender writes to lead, and how it recognises its own write. All
of it is pure.

``coord.contender`` calls it. One multi creates the ephemeral /leader and sets the persistent /epoch at the
version that was read; the id of the multi is in /epoch, so that a lost reply can be resolved by reading back
(F18). /leader alone would be no fence: deleted and created anew it has version 0 again (zookeeper.md M11).

/epoch also remembers the latest terms, each with the id of its election. By them ``coord.trust`` distinguishes this
registry from one that was restored to an older state and has been led since: a number alone can be caught up
with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from supervisor.errors import Corrupt
from supervisor.model.records import (
    DISTRUST_MAX_BYTES,
    Acceptance,
    EpochRecord,
    Handover,
    LeaderHint,
    LedTerm,
    clip,
)
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Node, SetData, Transaction
from supervisor.records.codec import decode, encode
from supervisor.records.layout import Layout

Record = TypeVar("Record")

RECENT_KEPT = 24
"""This many terms are remembered in /epoch; they take at most 2.4 KiB of the 4 KiB that a record may have."""

OPEN_KEPT = 8
"""At most this many terms are remembered of which it is open whether they are in the store; they take 0.8 KiB
more."""


ACCEPTER = "accept-registry"
"""It stands in the place of a supervisor where an epoch is an acceptance. No term was ever led under it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Says who stands. ``address`` is the address of its HTTP server, a hint for clients."""

    supervisor: str
    address: str


@dataclass(frozen=True, slots=True)
class Author:
    """Says who led a term: it holds the supervisor, and the id of the election, which no other election
    has."""

    supervisor: str
    op: str


@dataclass(frozen=True, slots=True)
class ElectionView:
    """Holds what one reading showed: /leader (``owner`` None: nobody leads) and /epoch with its version.
    ``flaw`` says why nobody may stand here, or is None.

    ``wish`` is the latest planned hand-over that was asked for, in force or not.
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
    """Returns what the nodes show. Never raises: an unreadable /epoch is a flaw, an unreadable /leader only
    lacks its hint, and an unreadable wish counts as none. The ``epoch`` of the view also remembers what
    /recorded says."""
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
    """Returns the multi by which ``me`` leads as ``epoch``. If its guard on ``layout.leader`` fails, somebody
    leads; if the one on ``layout.epoch`` fails, the race was lost.

    ``distrust`` says why this leader will do nothing, as far as that is known beforehand.
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
    """Returns the multi that says in /leader why this leader does nothing. While the fence holds, nobody else
    has a /leader there."""
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
    """Returns the multi that notes in the registry, *before* this term's mark is put into the store, that it
    may be there from now on.

    Afterwards would be too late: the reply may be lost, or the term over, and the mark is there all the same.
    ``newest`` is the newest of the marks in the store, a term of ``recent``, or None. It stays known, and so
    do the later ones that were announced (``recorded`` is that node as it is), up to ``OPEN_KEPT`` of them:
    should this term's mark never come, one of these is the newest.
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
    """Holds the registry that an operator examined: the nodes /cluster, /epoch and /accepted as they were
    read.

    ``missing`` holds the paths of the fixed znodes that are not there, and are made anew.
    """

    cluster: Node
    epoch: EpochRecord
    epoch_version: int
    accepted: Node | None
    missing: tuple[str, ...] = ()


def accept(layout: Layout, seen: RestoredRegistry, acceptance: Acceptance) -> Transaction:
    """Returns the multi that accepts the restored registry: its epoch is above all, so the present leader is
    fenced out.

    An operator's command writes it, not a contender: it leads nothing. The acceptance has its place among the
    terms, so that its mark, which was put into the store before, is known here (``coord.trust``). /accepted
    is made anew, never set: its czxid separates what was written before the acceptance from what came after it.
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
    """Returns ``record`` with the terms one of which has the newest mark in the store: no later term may
    forget them.

    Of the other terms the ``RECENT_KEPT`` with the highest numbers are remembered. If more than that passed
    without a record in the store (it was down, or they were too short), the newest mark there would look like
    one of a past that this registry does not have.
    """
    if recorded is None or recorded.epoch > record.epoch:
        return record
    if record.recorded is not None and record.recorded.epoch > recorded.epoch:
        return record
    last, *before = _announced(recorded)
    return replace(record, recorded=last, before=tuple(before))


def _announced(recorded: EpochRecord) -> tuple[LedTerm, ...]:
    """Returns the terms of /recorded, the term itself first."""
    return (LedTerm(recorded.epoch, recorded.supervisor, recorded.op), *recorded.before)


def is_ours(seen: ElectionView, op_id: str, session: int) -> bool:
    """Says whether the election with this id was applied and still stands; ``seen`` was read on its own
    session, after a ``sync``."""
    return seen.flaw is None and seen.epoch.op == op_id and seen.owner == session


def gives_way(seen: ElectionView, me: str) -> bool:
    """Says whether a planned hand-over in force wants another supervisor than ``me`` to lead.

    It is in force only for the epoch that it names: the next election makes it void. Without a name it wants
    anybody but the one that led.
    """
    wish = seen.wish
    if wish is None or seen.flaw is not None or wish.epoch != seen.epoch.epoch:
        return False
    return wish.to != me if wish.to is not None else wish.leader == me


def recent_terms(record: EpochRecord) -> dict[int, Author]:
    """Returns the latest terms that this registry remembers, and those one of which has the newest mark in
    the store, by number."""
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
