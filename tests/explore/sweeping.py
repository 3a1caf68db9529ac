"""The specs in the store, and the leader's sweeper (``daemon.leader.sweeper``, ``registry.blob_sweep``): where a scenario ``sweeps``.

A user's submit puts its blob in a move of its own (``users``); its multi comes later, or never. A sweep begins at any
moment at which it would come to something. What it finds among the records are actions under way, like a pass's. Its scan of the
store is replayed: it lists, it reads what is referred to, it sends one deletion after the other, each at another moment;
and a deletion that was sent arrives also when its sender is stopped, deposed or dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from supervisor.clients.store.base import StoreEntry
from supervisor.coord import leadership as lead
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.errors import Corrupt
from supervisor.model.records import Cleanliness, JobRef, Ownership, Result
from supervisor.model.seen import Found
from supervisor.model.transaction import Node, Reads, Transaction
from supervisor.records.reading import seen
from supervisor.registry.blob_sweep import BlobSweeper, References
from supervisor.registry.blobs import parse_key
from supervisor.registry.leader_write_context import LeaderWriteContext
from tests.explore import judge
from tests.explore.replay import Pending
from tests.explore.setting import LAYOUT, RESULTS_KEPT, SWEEP_GRACE_S, now_s
from tests.explore.shims import ExploredMove
from tests.explore.world import ExploredSupervisor, ExploredWorld, Sent, Snapshot


def put(world: ExploredWorld, key: str) -> ExploredWorld:
    """A user's blob is durable. What is there already stays as it is."""
    if any(known == key for known, _ in world.blobs):
        return world
    return world._replace(blobs=tuple(sorted((*world.blobs, (key, world.tick)))))


def entries(world: ExploredWorld, prefix: str) -> tuple[StoreEntry, ...]:
    return tuple(StoreEntry(key, 1, now_s(tick)) for key, tick in world.blobs if key.startswith(prefix))


# -- the sweeper of production ---------------------------------------------------------------------------------------------


class Reader:
    """A client of ``tree``: of a follower that may stand still, up to a ``sync``."""

    def __init__(self, tree: Snapshot, newest: Snapshot) -> None:
        self._tree, self._newest = tree, newest

    def sync(self) -> None:
        self._tree = self._newest

    def children(self, path: str) -> tuple[str, ...] | None:
        return self._tree.children(path)

    def read(self, path: str) -> Node | None:
        return self._tree.read(path)

    def read_many(self, paths: Any) -> Reads:
        return Reads(tuple(map(self._tree.read, paths)), 0.0, 0.0)


class TermNow:
    """A supervisor's term as it is now, and its ``over``."""

    def __init__(self, me: ExploredSupervisor, client: Reader) -> None:
        self.epoch = me.term[0] if me.term else 0
        self.distrust, self.recorded, self.client = me.distrust, me.recorded, client
        self.over = self
        self._is_over = me.term is None or any(isinstance(effect, lead.EndTerm) for effect in me.todo)
        self._waits = iter((self._is_over,))

    def is_set(self) -> bool:
        return self._is_over

    def wait(self, _: float) -> bool:
        """Over after one round."""
        return next(self._waits, True)


class ExploredSweeper(Sweeper):
    """A ``Sweeper`` of one moment; it is its own executor, and what it would scan. ``made``: what it would commit."""

    def __init__(self, world: ExploredWorld, me: ExploredSupervisor) -> None:
        term: Any = TermNow(me, Reader(me.lag or world.tree, world.tree))
        paused = LAYOUT.pause in world.tree.nodes
        itself: Any = self
        super().__init__(
            term, LAYOUT, itself, itself, itself, paused=lambda: paused, first_after_s=0.0, every_s=0.0
        )
        self._context = LeaderWriteContext(LAYOUT, *(me.term or (0, 0)), "sweep", "")
        self.made: list[tuple[str, Transaction]] = []
        self.scans = False

    def commit(self, build: Any) -> None:
        """``build``: of a ``Deletion``, whose name is wanted for the story."""
        self.made.append((build.__self__.name, build(self._context)))

    def scan(self, *_: Any) -> tuple[str, ...]:
        self.scans = True
        return ()

    def prune_epochs(self) -> None:
        """There are never as many as are kept."""

    def is_due(self) -> bool:
        """Does it sweep at all, now? By ``Sweeper.run``."""
        due: list[bool] = []
        self.sweep_once = lambda: due.append(True) or 0  # type: ignore[method-assign, func-returns-value]
        self.run()
        del self.sweep_once
        return bool(due)


class BegunSweep(NamedTuple):
    """What a sweep that begins now comes to. ``made``: deletions of records. ``references``: None: they can't be told."""

    made: tuple[tuple[str, Transaction], ...]
    scans: bool
    references: References | None


def beginning(world: ExploredWorld, me: ExploredSupervisor) -> BegunSweep:
    """Worked out once for each state of the registry."""
    key = ("sweep", me.term)
    found = world.tree.memo.get(key) if me.lag is None else None
    if found is None:
        blob_sweeper = ExploredSweeper(world, me)
        blob_sweeper.sweep_once()
        found = BegunSweep(tuple(blob_sweeper.made), blob_sweeper.scans, references(world, me))
        if me.lag is None:
            world.tree.memo[key] = found
    return found  # type: ignore[no-any-return]


def references(world: ExploredWorld, me: ExploredSupervisor) -> References | None:
    try:
        return ExploredSweeper(world, me)._references()
    except Corrupt:
        return None


# -- a scan, by replay -------------------------------------------------------------------------------------------------------


class Answered(NamedTuple):
    """``kind``: ``entries``, ``references`` or ``delete``."""

    kind: str
    what: Any
    at_s: float


class Scan:
    """``BlobSweeper.scan`` on what it was answered so far; it is its own store."""

    def __init__(self, world: ExploredWorld, me: ExploredSupervisor) -> None:
        self._answers = me.sweep or ()
        self._next = 0
        self._now_s = world.now_s
        self._may_go_on = ExploredSweeper(world, me)._permission.may_go_on
        self.unreferenced = dict(me.unreferenced)

    def request(self) -> tuple[str, Any] | None:
        """What it asks for next; None: it is over, and ``unreferenced`` are what it leaves."""
        store: Any = self
        sweeper = BlobSweeper(store, SWEEP_GRACE_S, self._clock)
        sweeper._unreferenced = self.unreferenced
        try:
            sweeper.scan(lambda: self._answer("references", None), self._goes_on)
        except Pending as pending:
            return pending.request  # type: ignore[return-value]
        self.unreferenced = dict(sweeper._unreferenced)
        return None

    def entries(self, prefix: str) -> Iterator[StoreEntry]:
        return iter(self._answer("entries", prefix))

    def delete(self, key: str) -> None:
        self._answer("delete", key)

    def _answer(self, kind: str, what: Any) -> Any:
        if self._next == len(self._answers):
            raise Pending(kind, what)
        self._next += 1
        return self._answers[self._next - 1].what

    def _clock(self) -> float:
        """Of the answer before, or of the first one."""
        return self._answers[max(self._next - 1, 0)].at_s if self._answers else self._now_s

    def _goes_on(self) -> bool:
        return self._next < len(self._answers) or self._may_go_on()


def answer(world: ExploredWorld, index: int, kind: str, what: Any) -> ExploredWorld:
    """As it is now."""
    me = world.supervisors[index]
    value = (
        entries(world, what) if kind == "entries" else references(world, me) if kind == "references" else what
    )
    if value is None:  # it gives up, and remembers nothing of it
        return world.with_supervisor(index, me._replace(sweep=None))
    return world.with_supervisor(
        index, me._replace(sweep=(*(me.sweep or ()), Answered(kind, value, world.now_s)))
    )


def go_on(world: ExploredWorld, index: int) -> ExploredWorld:
    """Its next request is answered, and what else is of the same kind; of a deletion: it is sent."""
    kind_before = None
    while (me := world.supervisors[index]).sweep is not None:
        scan = Scan(world, me)
        request = scan.request()
        if request is None:
            unreferenced = tuple(sorted(scan.unreferenced.items()))
            return world.with_supervisor(index, me._replace(sweep=None, unreferenced=unreferenced))
        kind, what = request
        if kind_before not in (None, kind):
            return world
        if kind == "delete":
            return judge.sweeps(world.with_supervisor(index, me._replace(erasing=what)), index, what)
        world, kind_before = answer(world, index, kind, what), kind
    return world


def comes_to(world: ExploredWorld, index: int, begun: BegunSweep) -> bool:
    """Would a scan that is over within this moment delete anything, or remember anything else?"""
    if not begun.scans or begun.references is None:
        return False
    me = world.supervisors[index]
    me = me._replace(sweep=())
    while (request := (scan := Scan(world, me)).request()) is not None:
        kind, what = request
        if kind == "delete":
            return True
        value = entries(world, what) if kind == "entries" else begun.references
        me = me._replace(sweep=(*(me.sweep or ()), Answered(kind, value, world.now_s)))
    return scan.unreferenced != dict(me.unreferenced)


# -- moves -------------------------------------------------------------------------------------------------------------------


def under_way(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    if me.erasing is not None:
        after = judge.blobs_hold(arrived(world, index, me.erasing))
        yield ExploredMove(
            f"{me.id}'s deletion of {titled(me.erasing)} arrives", after, urgent=me.alive and not me.paused
        )


def arrived(world: ExploredWorld, index: int, key: str) -> ExploredWorld:
    me = world.supervisors[index]
    world = world._replace(blobs=tuple(one for one in world.blobs if one[0] != key))
    if world.judge.lost:  # what is restored later than this was sent may name it
        world = world._replace(judge=world.judge._replace(dangling=world.judge.dangling | {key}))
    world = world.with_supervisor(index, me._replace(erasing=None))
    if me.sweep is None or not me.alive or me.paused:
        return answer(world, index, "delete", key) if me.sweep is not None else world
    return go_on(answer(world, index, "delete", key), index)


def moves(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    """Of a leader that runs."""
    if me.erasing is not None or me.term is None:
        return
    asks = me.connected and world.has_session(me.sid)
    who = f"{me.id} (epoch {me.term[0]})"
    if me.sweep is not None:
        request = Scan(world, me).request()
        if asks or request is None or request[0] != "references":
            yield ExploredMove(
                f"{who} sweeps: {DOES[request[0] if request else ''].format(request and titled(request[1]))}",
                go_on(world, index),
            )
    elif asks and not me.queue and ExploredSweeper(world, me).is_due():
        begun = beginning(world, me)
        scans = comes_to(world, index, begun)
        sents = tuple(Sent(name, tx, me.sid, me.term[1], "") for name, tx in begun.made)
        if sents or scans:
            after = world.with_supervisor(index, me._replace(queue=sents, sweep=() if scans else None))
            after = judge.plans(after, index, sents) if world.replaceable else after
            found = "".join(f"; {sent.tx.what} {sent.name}" for sent in sents)
            yield ExploredMove(
                f"{who} sweeps: {'lists the store' if scans else 'the records'}{found}",
                go_on(after, index),
                urgent=False,
            )


DOES = {
    "references": "reads what is referred to",
    "entries": "lists the store",
    "delete": "sends the deletion of {}",
    "": "ends",
}


def titled(key: str | None) -> str:
    """A blob by its uid."""
    parsed = parse_key(key or "")
    return f"the spec of {parsed.uid}, revision {parsed.revision}" if parsed is not None else str(key)


# -- at rest -----------------------------------------------------------------------------------------------------------------


def unswept(world: ExploredWorld) -> str | None:
    """No blob is left of a uid that is gone, and no more results than are kept."""
    tree, kept, doubtful = world.tree, set[str](), set[str]()
    results: Counter[str] = Counter()
    for name in tree.children(LAYOUT.owns) or ():
        ref, own = (
            seen(JobRef, tree.read(LAYOUT.job(name)), ""),
            seen(Ownership, tree.read(LAYOUT.own(name)), ""),
        )
        if not isinstance(own, Found):
            doubtful.add(name)
            continue
        kept |= {own.record.uid, own.record.newest_uid}
        kept |= {ref.record.uid} if isinstance(ref, Found) else set()
    for uid in tree.children(LAYOUT.results) or ():
        result = seen(Result, tree.read(LAYOUT.result(uid)), "")
        kept.add(uid)
        if (
            isinstance(result, Found)
            and result.record.state is Cleanliness.CLEAN
            and result.record.name not in doubtful
        ):
            results[result.record.name] += 1
    for one in world.supervisors:
        kept |= {entry.rpartition(".")[0] for entry in tree.children(LAYOUT.assigned_to(one.id)) or ()}
    if max(results.values(), default=0) > RESULTS_KEPT:
        return f"{max(results.values())} results of one name are left"
    for key, _ in world.blobs:
        parsed = parse_key(key)
        if parsed is not None and parsed.uid not in kept and not doubtful:
            return f"{titled(key)}, is left in the store, and the uid is gone"
    return None


# -- when two states are one ---------------------------------------------------------------------------------------------------


def key_of(world: ExploredWorld) -> tuple[Any, ...]:
    """Of the store and of all that sweep. What matters of an unreferenced object is whether it is of what is there now, and its age."""
    there = {key: now_s(tick) for key, tick in world.blobs}
    return (
        tuple(there),
        world.judge.dangling,
        tuple([_sweeper_key(one, there, world.now_s) for one in world.supervisors]),
    )


def _sweeper_key(one: ExploredSupervisor, there: dict[str, float], now: float) -> tuple[Any, ...]:
    began_at_s = one.sweep[0].at_s if one.sweep else now
    unreferenced = tuple(
        [
            (
                key,
                there.get(key) == observed.entry.modified_at_s,
                min(began_at_s - observed.first_at_s, SWEEP_GRACE_S),
                min(now - began_at_s, SWEEP_GRACE_S),
            )
            for key, observed in one.unreferenced
        ]
    )
    sweep = (
        None
        if one.sweep is None
        else tuple([(_answer_key(each, there), min(now - each.at_s, SWEEP_GRACE_S)) for each in one.sweep])
    )
    return unreferenced, sweep, one.erasing


def _answer_key(answered: Answered, there: dict[str, float]) -> Any:
    match answered.what:
        case References():
            return answered.what.uids
        case tuple():
            return tuple(
                [(entry.key, there.get(entry.key) == entry.modified_at_s) for entry in answered.what]
            )
    return answered.what
