"""The registry as a whole is replaced: restored to an older state, lost, or made unreadable at its root (I10, F22–F24).

A restore breaks every connection, and what was under way on them is void. Sessions that the backup knows live on, on the
ids that their clients still have. The servers go on with zxids above all that anybody has seen, which is the harder case.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.coord import leadership as lead
from supervisor.model.records import Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, SetData, Transaction
from supervisor.records.reading import seen
from supervisor.shim import state as shim_state
from tests.explore import judge, users
from tests.explore.setting import LAYOUT
from tests.explore.shims import ExploredMove, deliver, heal_shim, unanswered
from tests.explore.supervisors import deliver as tell_contender
from tests.explore.world import ExploredWorld, Judge, Saved, Shim, Snapshot

RESTORE = "restore registry"
ZXIDS = 1 << 32


def save(world: ExploredWorld) -> ExploredMove:
    """Costs no fault."""
    return ExploredMove(
        "the registry is saved",
        world._replace(saved=Saved(world.tree, world.sessions, world.judge, world.store)),
        urgent=False,
    )


def restore(world: ExploredWorld) -> Iterator[ExploredMove]:
    if (
        world.saved is not None
        and doorbell_versions(world.saved.tree) < doorbell_versions(world.tree)
        and is_noticeable(world, world.saved)
    ):
        yield ExploredMove("ZooKeeper is restored to what was saved", replaced(world, world.saved))


def is_noticeable(world: ExploredWorld, saved: Saved) -> bool:
    """Whoever runs has seen something of what is lost. What nobody saw nobody can miss: not covered (``coord.trust``)."""
    running = [index for index, one in enumerate(world.supervisors) if one.alive]
    if not running:  # the store can, if there was a term since
        return world.store != saved.store
    return all(world.judge.doorbell_versions[index] > doorbell_versions(saved.tree) for index in running)


def lose(world: ExploredWorld) -> Iterator[ExploredMove]:
    """An empty ensemble."""
    if LAYOUT.root in world.tree.nodes:
        tree = Snapshot()
        tree.memo = {}
        yield ExploredMove("ZooKeeper has lost its data", replaced(world, Saved(tree, (), Judge())))


def spoil_root(world: ExploredWorld) -> Iterator[ExploredMove]:
    """/cluster or /epoch becomes unreadable: there is no telling whose registry it is, or who may lead."""
    for path in (LAYOUT.cluster, LAYOUT.epoch):
        tree = world.tree.copy()
        tree.apply(Transaction("by hand", "", (SetData(path, b"{", ANY_VERSION),)), 0)
        yield ExploredMove(f"{path} is spoilt", world._replace(tree=tree))


def replaced(world: ExploredWorld, by: Saved) -> ExploredWorld:
    tree = by.tree.copy()
    tree.zxid = world.tree.zxid + ZXIDS
    known = world.judge._replace(
        cancelled=by.judge.cancelled,
        registered=by.judge.registered,
        executed=by.judge.executed,
        lost=True,
        accepted=by.judge.accepted,
        paused=by.judge.paused,
        handed_over=by.judge.handed_over,
    )
    world = world._replace(
        tree=tree, sessions=tuple((sid, 0) for sid, _ in by.sessions), judge=known, late=()
    )
    there = {key for key, _ in world.blobs}  # what was swept in the time that is lost can't come back
    dangling = (
        frozenset(key for _, key in judge.named_blobs(world) if key not in there)
        if world.sweeps
        else frozenset()
    )
    world = world._replace(judge=world.judge._replace(dangling=dangling))
    for index in range(len(world.shims)):
        world = break_shim(world, index)
    for index in range(len(world.supervisors)):
        world = break_supervisor(world, index)
    for index, user in enumerate(world.users):
        if user.sent is not None:
            world = users.lose(world, index, after_commit=False)
    return world


def break_shim(world: ExploredWorld, index: int) -> ExploredWorld:
    """A driver that the restored registry knows as it is must not be disturbed, when its shim is connected again at once.
    Any other one may be, and will be."""
    shim = world.shims[index]
    known = is_known(world, shim)
    disturbed = shim.disturbed or not known
    world = world.with_shim(
        index,
        shim._replace(
            orphan=None,
            asked_by_guardian=None,
            recut=True,
            of_the_past=True,
            disturbed=disturbed,
            sent=None,
            connected=False,
        ),
    )
    if shim.state is None or not shim.connected:
        return world
    events: tuple[shim_state.Event, ...] = (shim_state.Disconnected(),)
    if shim.sent is not None:
        events = (unanswered(shim.sent[0]), *events)
    world = deliver(world, index, *events)
    return heal_shim(world, index) if known and not shim.paused else world


def is_known(world: ExploredWorld, shim: Shim) -> bool:
    own = seen(Ownership, world.tree.read(LAYOUT.own(shim.name)), LAYOUT.own(shim.name))
    if not isinstance(own, Found) or shim.state is None or own.version != shim.state.fence:
        return False
    return own.record.claim == shim.claim and own.record.state is OwnState.CLAIMED


def break_supervisor(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    cut = world.with_supervisor(
        index, one._replace(queue=(), reading=None, lag=None, connected=not one.alive)
    )
    return (
        tell_contender(cut, index, lead.SessionDisconnected())
        if one.alive and one.connected and not one.paused
        else cut
    )


def doorbell_versions(tree: Snapshot) -> int:
    node = tree.nodes.get(LAYOUT.doorbell)
    return -1 if node is None else node.version


KINDS = {RESTORE: restore, "lose registry": lose, "spoil root": spoil_root}
