"""When are two states one? The key of a state: what can still matter of it, with times counted from now.

Left out, because no later step can depend on it:

* absolute time; of an instant that is due, how long it has been due; of a first observation, more than the longest wait;
* zxids: the code compares them only with those that a leader remembers, so the key says whether what was seen is of what is
  there now. The version of /lease moves at every renewal and is compared only with one that was read: the key has the
  difference, and all that is four and more behind is one (a lease that is deleted, made anew and renewed up to the very
  number that somebody read long before is therefore out of bounds);
* the doorbell (but whether it rang since an operator read it), ids and counters of requests, what a driver reported, attempts that are over.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from supervisor.coord.leadership import Stand, State
from supervisor.model.seen import Found
from supervisor.model.transaction import Create, Delete, Node, SetData, Transaction
from supervisor.shim import state as shim_state
from supervisor.shim.state import ShimState, Stage
from tests.explore import executing, removing, sweeping
from tests.explore.judge import OBEYED_TICKS
from tests.explore.operators import DOORBELL
from tests.explore.replay import Stored
from tests.explore.setting import LAYOUT, SUBMIT_MAX_S, TICK_S, executors_outlive_s
from tests.explore.world import (
    ExploredFirstSeen,
    ExploredSupervisor,
    ExploredWorld,
    Sent,
    Shim,
    Snapshot,
    User,
)

STATIC = frozenset(
    {
        "/",
        LAYOUT.root,
        LAYOUT.version,
        LAYOUT.cluster,
        LAYOUT.doorbell,
        *LAYOUT.persistent_parents(),
    }
) - {LAYOUT.checkpoints}
LEASES = f"{LAYOUT.leases}/"
OLDEST_S = 5 * TICK_S
OLDEST_WITH_EXECUTORS_S = 8 * TICK_S
BEHIND_MAX = 4
RINGS_MAX = 6


def key_of(world: ExploredWorld) -> tuple[Any, ...]:
    return (
        tree_key(world.tree),
        world.sessions,
        tuple([supervisor_key(one, world) for one in world.supervisors]),
        tuple([shim_key(shim, world) for shim in world.shims]),
        tuple([user_key(user, world) for user in world.users]),
        world.hosts_down,
        executing.key_of(world),
        world.faults,
        tuple(
            [
                (uid, min(world.tick - tick, OBEYED_TICKS + 1) if lives(world, uid) else -1)
                for uid, tick in world.judge.cancelled
            ]
        ),
        world.judge.registered,
        world.judge.spoilt,
        world.judge.paused,
        world.judge.handed_over,
        world.judge.drained,
        world.judge.refused,
        world.broken,
        tuple(
            [
                (tx_key(late.tx, world.tree), late.wish, late.pause, world.tick - late.tick)
                for late in world.late
            ]
        ),
        replacement_key(world) if world.replaceable else None,
        sweeping.key_of(world) if world.sweeps else None,
        removing.key_of(world) if world.removes else None,
    )


def replacement_key(world: ExploredWorld) -> tuple[Any, ...]:
    """What may matter where the registry can be replaced: who remembers what, next to what is there and what was saved."""
    saved = world.saved
    doorbells = [
        tree.nodes.get(LAYOUT.doorbell) for tree in (world.tree, *(() if saved is None else (saved.tree,)))
    ]
    return (
        world.store,
        None if saved is None else (_tree_now(saved.tree, world), saved.sessions, saved.judge),
        world.judge.lost,
        world.judge.knows,
        world.judge.accepted,
        tuple([of_before(tree) for tree in (world.tree, *(() if saved is None else (saved.tree,)))]),
        tuple(
            [
                _doorbell(notifier, doorbell_versions)
                for notifier in doorbells
                for doorbell_versions in world.judge.doorbell_versions
            ]
        ),
        tuple([memory_key(one, world, doorbells) for one in world.supervisors]),
        tuple([(shim.of_the_past, shim.recut) for shim in world.shims if not shim.over]),
    )


def memory_key(one: ExploredSupervisor, world: ExploredWorld, doorbells: list[Any]) -> tuple[Any, ...]:
    memory = one.memory
    epoch = world.tree.nodes.get(LAYOUT.epoch)
    return (
        tuple([_doorbell(notifier, memory.doorbell_version) for notifier in doorbells]),
        tuple(
            [
                None
                if notifier is None
                else (notifier.mzxid > memory.doorbell_mzxid) - (notifier.mzxid < memory.doorbell_mzxid)
                for notifier in doorbells
            ]
        ),
        memory.last_accepted,
        memory.last_accepted_id,
        memory.reason is None,
        one.recorded,
        one.distrust is None,
        one.suspended,
        () if one.recorded else one.recent,
        epoch is not None and one.cleared == (epoch.version, epoch.mzxid),
        None if one.observed is None else one.observed.flaw is None,
    )


def of_before(tree: Snapshot) -> frozenset[str]:
    """What was written before the acceptance, where that matters."""
    accepted = tree.nodes.get(LAYOUT.accepted)
    if accepted is None:
        return frozenset()
    return frozenset(
        [
            path
            for path, node in tree.nodes.items()
            if (path.startswith(f"{LAYOUT.owns}/") and node.mzxid < accepted.czxid)
            or (path.startswith(f"{LAYOUT.assigned}/") and node.czxid < accepted.czxid)
        ]
    )


def _doorbell(notifier: Any, doorbell_versions: int) -> int | None:
    """How far ahead of what is there."""
    return None if notifier is None else max(-1, min(doorbell_versions - notifier.version, RINGS_MAX))


def lives(world: ExploredWorld, uid: str) -> bool:
    """A driver of this uid: only then it matters how long ago it was cancelled."""
    return any([shim.uid == uid and shim.tree in ("alive", "dying") for shim in world.shims])


def tree_key(tree: Snapshot) -> frozenset[Any]:
    found = tree.memo.get("key")
    if found is None:
        found = tree.memo["key"] = frozenset(
            [
                (path, node.data, -1 if path.startswith(LEASES) else node.version, node.owner)
                for path, node in tree.nodes.items()
                if path not in STATIC
            ]
        )
    return found  # type: ignore[no-any-return]


# -- transactions ------------------------------------------------------------------------------------------------------


def tx_key(tx: Transaction, tree: Snapshot) -> tuple[Any, ...]:
    return tuple([_op_key(op, tree) for op in tx.ops if op.path != LAYOUT.doorbell or op.version >= 0])


def _op_key(op: Any, tree: Snapshot) -> tuple[Any, ...]:
    version = None if isinstance(op, Create) else op.version
    if version is not None and version >= 0 and op.path.startswith(LEASES):
        node = tree.nodes.get(op.path)
        version = ("was", version) if node is None else ("behind", min(node.version - version, BEHIND_MAX))
    if op.path == LAYOUT.doorbell:
        version = _is_now(version, tree)
    data = None if isinstance(op, Delete) or not isinstance(op, SetData | Create) else op.data
    return type(op).__name__, op.path, version, data


# -- supervisors -------------------------------------------------------------------------------------------------------


def supervisor_key(one: ExploredSupervisor, world: ExploredWorld) -> tuple[Any, ...]:
    now, machine_state = world.now_s, one.machine_state
    state = machine_state.state
    leads = state in (State.LEADING, State.SUSPENDED)
    stood = leads or state in (State.CONTENDING, State.SETTLING)
    return (
        one.alive,
        one.paused,
        one.paused_ticks,
        one.connected,
        one.sid,
        one.agent_sid,
        one.sessions,
        one.registrations,
        one.todo,
        _age(one.answered_at_s, now) if leads or state is State.SETTLING else None,
        one.tick_due,
        accepted_key(one),
        one.term,
        state,
        machine_state.session,
        (machine_state.epoch, machine_state.fence) if stood else None,
        machine_state.highest,
        machine_state.owner,
        _due(machine_state.read_at_s, now) if state in (State.FOLLOWING, State.SETTLING) else None,
        machine_state.rejections,
        machine_state.stopping,
        one.policy,
        machine_state.gave_way,
        _due(machine_state.yield_until_at_s, now),
        first_seen_key(one.first_seen, world, one),
        tuple([sent_key(sent, world) for sent in one.queue]),
        None if one.reading is None else (_tree_now(one.reading[0], world), _age(one.reading[1], now)),
        None if one.lag is None else _tree_now(one.lag, world),
    )


def accepted_key(one: ExploredSupervisor) -> Any:
    """What it read before it stands; while it lets others stand, that nobody leads."""
    if bool(one.todo) and isinstance(one.todo[0], Stand):
        return one.observed.owner, one.observed.epoch.epoch, one.observed.version
    return (
        one.machine_state.state is State.FOLLOWING and one.observed is not None and one.observed.owner is None
    )


def sent_key(sent: Sent, world: ExploredWorld) -> tuple[Any, ...]:
    return sent.tx.what, sent.sid, sent.epoch, tx_key(sent.tx, world.tree)


def first_seen_key(
    first_seen: ExploredFirstSeen, world: ExploredWorld, one: ExploredSupervisor
) -> tuple[Any, ...]:
    trees = [
        world.tree,
        *([one.lag] if one.lag is not None else []),
        *([one.reading[0]] if one.reading else []),
    ]
    trees += [world.saved.tree] if world.saved is not None else []
    return (
        tuple(
            [
                (name, _seen(trees, LAYOUT.own(name), observed, world.now_s))
                for name, observed in first_seen.owns
            ]
        ),
        tuple(
            [
                (name, _seen(trees, LAYOUT.lease(name), observed, world.now_s, oldest_of(name)))
                for name, observed in first_seen.leases
            ]
        ),
        None
        if first_seen.accepted is None
        else _seen(trees, LAYOUT.accepted, first_seen.accepted, world.now_s),
        tuple([(name, claim, _age(at_s, world.now_s)) for name, (claim, at_s) in first_seen.running]),
    )


def oldest_of(name: str) -> float:
    """Of the lease of ``name``: more than its full wait."""
    return OLDEST_WITH_EXECUTORS_S if executors_outlive_s(name) else OLDEST_S


def _seen(
    trees: list[Snapshot], path: str, observed: tuple[int, float], now_s: float, oldest_s: float = OLDEST_S
) -> Any:
    """Which of the visible states it is of, and since when; one of none of them is as good as none."""
    matches = tuple([_mzxid(tree, path) == observed[0] for tree in trees])
    return (matches, _age(observed[1], now_s, oldest_s)) if any(matches) else None


def _mzxid(tree: Snapshot, path: str) -> int:
    node = tree.nodes.get(path)
    return -1 if node is None else node.mzxid


def _tree_now(tree: Snapshot, world: ExploredWorld) -> tuple[Any, ...]:
    """Another state of the registry that somebody still sees: what it shows, and what of that is the present one."""
    same = [
        path
        for path, node in tree.nodes.items()
        if _mzxid(world.tree, path) == node.mzxid and path not in STATIC
    ]
    leases = [
        (path, min(world.tree.nodes[path].version - node.version, BEHIND_MAX))
        for path, node in tree.nodes.items()
        if path.startswith(LEASES) and path in world.tree.nodes
    ]
    return tree_key(tree), frozenset(same), frozenset(leases)


# -- shims -------------------------------------------------------------------------------------------------------------

DUE = ("read_at_s", "renew_at_s", "deadline_at_s", "stop_until_at_s", "kill_at_s")
PLAIN = (
    "stage",
    "session",
    "last_session",
    "lost",
    "broken",
    "reading",
    "what",
    "closing",
    "claim_session",
    "claim_tries",
    "fence",
    "held",
    "blind",
    "live",
    "lease_exists",
    "ring",
    "rings",
    "phase",
    "executed",
    "stop_asked",
    "status",
    "cause",
    "permanent",
)
ENDING = (
    "stage",
    "session",
    "last_session",
    "lost",
    "reading",
    "what",
    "closing",
    "fence",
    "blind",
    "live",
    "executed",
    "stop_asked",
    "status",
    "cause",
    "permanent",
)


def shim_key(shim: Shim, world: ExploredWorld) -> tuple[Any, ...]:
    if shim.over and shim.orphan is None:
        return shim.claim, shim.tree
    now = world.now_s
    living = shim.tree in ("alive", "dying")
    return (
        shim.claim,
        (shim.attempt, shim.own_version) if shim.prepared else None,
        shim.host,
        shim.sid,
        shim.sessions,
        shim.connected,
        shim.paused,
        shim.paused_ticks,
        shim.tree,
        world.tick - shim.dying_tick if shim.tree == "dying" else 0,
        shim.terminated and living,
        shim.status if living else None,
        shim.over,
        shim.disturbed,
        shim.tick_due,
        shim.tree != "unborn" or shim.claim in world.judge.claimed,
        None if shim.state is None else state_key(shim.state, now),
        None if shim.sent is None else request_key(shim.sent, world),
        None if shim.orphan is None else (tx_key(shim.orphan[0], world.tree), shim.orphan[1]),
        tuple([event_key(event, shim, world) for event in shim.inbox]),
        None if shim.exec_before_at_s is None else _due(shim.exec_before_at_s, now),
        None if shim.file_deadline_at_s is None else _until(shim.file_deadline_at_s, now),
        None if shim.twin is None else (shim.twin.act, shim.twin.shim_dead, shim.twin.due),
        None if shim.guarded_attempt is None else guarded_attempt_key(shim, now),
        None if shim.asked_by_guardian is None else tx_key(shim.asked_by_guardian, world.tree),
    )


def state_key(state: ShimState, now_s: float) -> tuple[Any, ...]:
    if state.stage in (Stage.BURYING, Stage.DONE):  # the driver is gone, nothing is renewed
        return (
            *[getattr(state, name) for name in ENDING],
            bool(state.op),
            min(state.bury_tries, 5),
            _until(state.read_at_s, now_s),
            None if state.doubt_at_s is None else _age(state.doubt_at_s, now_s),
        )
    ladder = state.ladder
    return (
        *[getattr(state, name) for name in PLAIN],
        bool(state.op),
        *[_until(getattr(state, name), now_s) for name in DUE],
        _age(state.claim_sent_at_s, now_s) if state.stage in (Stage.CLAIMING, Stage.SETTLING) else None,
        state.exec_at_s is None,
        None if ladder is None else (_until(ladder.kill_at_s, now_s), ladder.terminated),
        _age(state.born_at_s, now_s) if state.stage is Stage.CONNECTING else None,
        None if state.doubt_at_s is None else _age(state.doubt_at_s, now_s),
        state.empty_at_s is None,
    )


def request_key(sent: tuple[Any, int], world: ExploredWorld) -> tuple[Any, ...]:
    effect, tick = sent
    tx = getattr(effect, "transaction", None)
    session = getattr(effect, "session", 0)
    return (
        type(effect).__name__,
        None if tx is None else tx_key(tx, world.tree),
        min(world.tick - tick, 5),
        session,
    )


def event_key(event: Any, shim: Shim, world: ExploredWorld) -> tuple[Any, ...]:
    """Of what a stopped shim has yet to hear. Ids of requests do not matter: it has one under way at most."""
    match event:
        case shim_state.OwnRead(_, own, lease_version, live):
            record = (id(own.record), own.version) if isinstance(own, Found) else own
            node = world.tree.nodes.get(LAYOUT.lease(shim.name))
            behind = (
                None
                if lease_version is None or node is None
                else min(node.version - lease_version, BEHIND_MAX)
            )
            return "own", record, lease_version is None, behind, live
        case shim_state.WriteCommitted(_, sent_at_s, own_version):
            return "committed", _age(sent_at_s, world.now_s), own_version
        case shim_state.WriteRejected(_, path, kind):
            return "rejected", path, kind
        case shim_state.Connected(session):
            return "connected", session
        case shim_state.Exited(status):
            return "exited", status
    return (type(event).__name__,)


def guarded_attempt_key(shim: Shim, now_s: float) -> tuple[Any, ...]:
    guarded_attempt = shim.guarded_attempt
    assert guarded_attempt is not None
    killer = guarded_attempt.killer
    return (
        guarded_attempt.stage,
        guarded_attempt.asking,
        _due(guarded_attempt.retry_at_s, now_s),
        None if guarded_attempt.doubt_at_s is None else _age(guarded_attempt.doubt_at_s, now_s),
        killer.act,
        killer.shim_dead,
        killer.due,
        killer.tree,
    )


# -- users -------------------------------------------------------------------------------------------------------------


def user_key(user: User, world: ExploredWorld) -> tuple[Any, ...]:
    sent = None if user.sent is None else tx_key(user.sent, world.tree)
    replies = tuple(
        [
            min(world.now_s - reply.at_s, SUBMIT_MAX_S + TICK_S)
            if isinstance(reply, Stored)
            else _is_now(reply.stat.version, world.tree)
            if isinstance(reply, Node) and reply.stat.mzxid == DOORBELL
            else reply
            for reply in user.replies
        ]
    )
    return user.number, user.done, user.begun, user.unknown, user.took, replies, sent


def _is_now(doorbell_versions: int, tree: Snapshot) -> bool:
    """The doorbell has not rung since it was read."""
    notifier = tree.nodes.get(LAYOUT.doorbell)
    return notifier is not None and notifier.version == doorbell_versions


# -- times -------------------------------------------------------------------------------------------------------------


def _due(at_s: float, now_s: float) -> float:
    """An instant to wait for; all that are past are one."""
    return at_s - now_s if at_s > now_s else 0.0


def _until(at_s: float | None, now_s: float) -> float | None:
    """As ``_due``, but past by up to a lease is told apart (a deadline in the past is compared with others)."""
    return None if at_s is None else max(at_s - now_s, -TICK_S)


@cache
def _age(since_at_s: float, now_s: float, oldest_s: float = OLDEST_S) -> float:
    return min(now_s - since_at_s, oldest_s)
