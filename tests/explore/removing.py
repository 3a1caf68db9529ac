"""The checkpoints of jobs that end with ``checkpoint_on_cancel: delete``, and the leader's remover: where a scenario ``removes``.

Each uid has a place of its own (``setting.location_of``), some inside or around that of others, and leaves objects there when its
driver is executed. The remover is ``daemon.leader.remover.Remover``, one step of one location at a time: it reads at one moment, asks once more
and sends its request at another; its multis, and each deletion that it sends, arrive at a third. A deletion that was sent arrives
also when its sender is stopped, deposed or dead, up to ``LATE_TICKS`` later; then it is void, as a request whose signature is too old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from supervisor.clients.store.removal import Removed
from supervisor.coord import leadership as lead
from supervisor.daemon.leader.remover import ClaimUnderDeletion, LocationDeletion, Remover
from supervisor.errors import NotLeader
from supervisor.model.location import overlaps
from supervisor.model.records import CheckpointClaim, CheckpointState, Result
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.spec.s3a import S3Access
from supervisor.spec.site_policy import SitePolicy
from tests.explore import judge
from tests.explore.replay import Pending
from tests.explore.setting import LAYOUT, TICK_S, location_of
from tests.explore.shims import ExploredMove
from tests.explore.sweeping import Reader, TermNow
from tests.explore.world import ExploredSupervisor, ExploredWorld, KnownDeletion, Sent, Wipe

LATE_TICKS = 2
LATE_S = (LATE_TICKS + 1) * TICK_S
"""What arrives at a tick may do so at its end."""

CLAIMS = f"{LAYOUT.checkpoints}/"
SITE = SitePolicy(deletable=("s3://bucket/*", "file:///data/*"))


def is_local(location: str) -> bool:
    """A directory: its deletion takes effect as it is asked for, through descriptors that lead to no later one of that name."""
    return location.startswith("file:")


# -- the remover of production -----------------------------------------------------------------------------------------------


class ExploredRemoval:
    """``clients.store.removal.Removal`` of one request. ``outcome``: what it was answered; None: it is not sent yet."""

    seen = True
    unanswered = 0
    queries = None

    def __init__(self, location: str, outcome: Removed | None) -> None:
        self._outcome = outcome
        self.resolved = location
        self.late_s = 0.0 if is_local(location) else LATE_S

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        if self._outcome is None:
            still()
            raise Pending("wipe")
        return self._outcome


class RemoverTerm(TermNow):
    """With what a remover asks of its term."""

    connection = None

    def __init__(self, me: ExploredSupervisor, client: Reader) -> None:
        super().__init__(me, client)
        self.fence_version = me.term[1] if me.term else -1

    def check(self) -> None:
        if self.is_set():
            raise NotLeader("the term is over")

    def fence_failed(self) -> NotLeader:
        return NotLeader("a write failed on the epoch")


class ExploredRemover(Remover):
    """A ``Remover`` of one moment, which remembers ``me.known_deletions``; it is its own executor. ``due``: what it would go on with."""

    def __init__(self, world: ExploredWorld, me: ExploredSupervisor, outcome: Removed | None = None) -> None:
        term: Any = RemoverTerm(me, Reader(me.lag or world.tree, world.tree))
        wanted, itself = threading.Event(), self
        wanted.set()
        executor: Any = itself
        super().__init__(
            term,
            LAYOUT,
            executor,
            "s3://store/c",
            lambda *_: S3Access(),
            site=SITE,
            wanted=wanted,
            paused=lambda: LAYOUT.pause in world.tree.nodes,
            clock=lambda: world.now_s,
            open_at=lambda location, _: ExploredRemoval(location, outcome),
        )
        self._jobs = {
            known.path: LocationDeletion(known.path, known.unsure_at_s, next_at_s=known.next_at_s)
            for known in me.known_deletions
        }
        self._context = LeaderWriteContext(LAYOUT, *(me.term or (0, 0)), "remove", "")
        self.due: list[str] = []

    def commit(self, build: Callable[[LeaderWriteContext], Any]) -> None:
        raise Pending("commit", build(self._context))

    def _advance(self, job: LocationDeletion) -> bool:
        self.due.append(job.path)
        return False

    def go_on(self, path: str) -> tuple[Any, ...] | None:
        """The request that it waits for, or None: there is nothing more to do now. Raises NotLeader."""
        try:
            super()._advance(self._jobs[path])
        except Pending as pending:
            return pending.request
        return None

    @property
    def known_deletions(self) -> tuple[KnownDeletion, ...]:
        return tuple(
            sorted(
                (KnownDeletion(job.path, job.unsure_at_s, job.next_at_s) for job in self._jobs.values()),
                key=lambda known: known.path,
            )
        )


class Later(ExploredRemover):
    """It goes on with what it has read before."""

    def __init__(
        self,
        world: ExploredWorld,
        me: ExploredSupervisor,
        now: ClaimUnderDeletion,
        outcome: Removed | None = None,
    ) -> None:
        super().__init__(world, me, outcome)
        self._now = now

    def _read(self, _path: str) -> ClaimUnderDeletion:
        return self._now


class Answered(Later):
    """... with the answer to its deletion."""

    def __init__(self, world: ExploredWorld, me: ExploredSupervisor, wipe: Wipe) -> None:
        super().__init__(world, me, wipe.now, Removed(wipe.arrived or 0, left=False))

    def _why_kept(self, _now: ClaimUnderDeletion) -> None:
        return None


# -- moves -------------------------------------------------------------------------------------------------------------------


def under_way(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    if me.wipe is not None and me.wipe.arrived is None:
        yield ExploredMove(
            f"{me.id}'s deletion of {titled(me.wipe)} arrives",
            arrived(world, index),
            urgent=me.alive and not me.paused,
        )


def arrived(world: ExploredWorld, index: int) -> ExploredWorld:
    wipe = world.supervisors[index].wipe
    assert wipe is not None
    gone = frozenset(uid for uid in world.objects if overlaps(location_of(uid), wipe.location))
    world = judge.wiped(world, wipe)
    world = world._replace(objects=world.objects - gone)
    return world.with_supervisor(
        index, world.supervisors[index]._replace(wipe=wipe._replace(arrived=len(gone)))
    )


def moves(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    """Of a leader that runs."""
    if me.term is None or me.queue or not (me.connected and world.has_session(me.sid)):
        return
    who = f"{me.id} (epoch {me.term[0]})"
    # of an earlier term, which is over
    if me.wipe is not None and me.wipe.epoch != me.term[0] and me.wipe.arrived is not None:
        me = me._replace(wipe=None)
        world = world.with_supervisor(index, me)
    if me.wipe is not None:
        if me.wipe.arrived is not None:
            after = went_on(world, index, Answered(world, me, me.wipe), me.wipe.path)
            yield ExploredMove(f"{who} hears that {titled(me.wipe)} is deleted", after)
        return
    reading = next((known for known in me.known_deletions if known.now is not None), None)
    if reading is not None:
        after = went_on(world, index, Later(world, me, reading.now), reading.path)
        yield ExploredMove(
            f"{who} goes on with {reading.now.claim.record.location}{did(after, index)}", after
        )
        return
    looking = ExploredRemover(world, me)
    if looking._term.over.is_set():
        return
    looking.step()
    for path in looking.due:
        now = looking._read(path)
        known_deletions = tuple(
            known._replace(now=now) if known.path == path else known
            for known in looking.known_deletions
            if now is not None or known.path != path
        )
        if known_deletions != me.known_deletions:
            yield ExploredMove(
                f"{who} reads what there is of {path.rpartition('/')[2][:6]}",
                world.with_supervisor(index, me._replace(known_deletions=known_deletions)),
            )


def went_on(world: ExploredWorld, index: int, explored: ExploredRemover, path: str) -> ExploredWorld:
    me = world.supervisors[index]
    assert me.term is not None
    assert isinstance(explored, Later)
    try:
        request = explored.go_on(path)
    except NotLeader:  # its loop ends; the contender hears of it
        from tests.explore.supervisors import deliver  # supervisors take the moves of this module

        return deliver(
            world.with_supervisor(index, me._replace(known_deletions=(), wipe=None)),
            index,
            lead.Deposed("a write failed on the epoch"),
        )
    me = me._replace(known_deletions=explored.known_deletions, wipe=None)
    if request is None:
        return world.with_supervisor(index, me)
    if request[0] == "commit":
        tx = request[1]
        return world.with_supervisor(
            index, me._replace(queue=(Sent(f"/{tx.what}", tx, me.sid, me.term[1], ""),))
        )
    now = explored._read(path)
    wipe = Wipe(path, now.claim.record.location, now.deletion.uid, now, me.term[0], world.tick)
    world = judge.wipes(world.with_supervisor(index, me._replace(wipe=wipe)), wipe)
    return arrived(world, index) if is_local(wipe.location) else world


def did(world: ExploredWorld, index: int) -> str:
    me = world.supervisors[index]
    if me.wipe is not None:
        return f": sends a deletion below {me.wipe.location}"
    return f": {me.queue[-1].tx.what}" if me.queue else ": waits"


def titled(wipe: Wipe) -> str:
    return f"the checkpoint of {wipe.uid}"


def grown_old(world: ExploredWorld) -> ExploredWorld:
    """A request that nobody has taken for so long is void; who has sent it, and lives, has heard of it long ago."""
    for index, one in enumerate(world.supervisors):
        if one.wipe is not None and (
            one.wipe.arrived is not None and not one.alive or world.tick - one.wipe.tick > LATE_TICKS
        ):
            world = world.with_supervisor(index, one._replace(wipe=None))
    return world


# -- at rest -------------------------------------------------------------------------------------------------------


def unremoved(world: ExploredWorld) -> str | None:
    """Every claim with a pending deletion comes to its end, and of what is said to be deleted nothing is left."""
    for path in world.tree.children(LAYOUT.checkpoints) or ():
        claim = seen(CheckpointClaim, world.tree.read(CLAIMS + path), path)
        if isinstance(claim, Found) and claim.record.doom is not None:
            return f"the checkpoint of {claim.record.doom.uid} keeps a pending deletion"
    for uid in world.tree.children(LAYOUT.results) or ():
        result = seen(Result, world.tree.read(LAYOUT.result(uid)), "")
        state = result.record.checkpoint_state if isinstance(result, Found) else None
        if state is CheckpointState.DELETED and uid in world.objects:
            return f"the checkpoint of {uid} is said to be deleted, and objects of it are left"
        if state is CheckpointState.DELETING:
            return f"the checkpoint of {uid} is said to be under deletion for ever"
    return None


# -- when two states are one ---------------------------------------------------------------------------------------------------


def key_of(world: ExploredWorld) -> tuple[Any, ...]:
    return world.objects, tuple([_remover_key(one, world) for one in world.supervisors])


def _remover_key(one: ExploredSupervisor, world: ExploredWorld) -> tuple[Any, ...]:
    now = world.now_s
    wipe = (
        None
        if one.wipe is None
        else (
            one.wipe.path,
            one.wipe.location,
            one.wipe.uid,
            one.wipe.epoch,
            one.wipe.arrived,
            world.tick - one.wipe.tick,
            versions_of(one.wipe.now),
        )
    )
    return wipe, tuple(
        [
            (
                known.path,
                min(now - known.unsure_at_s, LATE_S),
                max(0.0, known.next_at_s - now),
                None if known.now is None else versions_of(known.now),
            )
            for known in one.known_deletions
        ]
    )


def versions_of(now: ClaimUnderDeletion) -> tuple[Any, ...]:
    result = None if now.result is None else now.result.version
    return now.claim.version, replace(now.claim.record, extra={}).doom, now.own.version, result
