"""Liveness: with faults stopped, does the fleet come to rest as declared, and is nothing left over?

From a state everything that is stopped, cut or behind comes back, users finish what they began and begin nothing new,
and all go on in one fixed order. Within ``TICKS`` ticks the world must be at rest, and stay so for ``CALM_TICKS`` more. The way
there is one and the same from a state on, so states from which it was seen to come to rest are remembered, with the ticks
that it took: every state is asked, and the cost is about one move for each that no earlier way passed through.
"""

from __future__ import annotations

from supervisor.model.records import (
    CheckpointClaim,
    Cleanliness,
    Desired,
    JobRef,
    Ownership,
    OwnState,
    Pause,
    Result,
)
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from supervisor.registry.operator_writes import unpause
from tests.explore import operators, placing, refusing, removing, sweeping, trust
from tests.explore.canon import key_of
from tests.explore.setting import LAYOUT
from tests.explore.world import ExploredWorld, apply

TICKS = 40
MOVES_MAX = 3_000
CALM_TICKS = 6
ENDLESS = 10**9


class Calm:
    """``trace``: of the last way that did not come to rest."""

    def __init__(self) -> None:
        self._good: dict[tuple[object, ...], int] = {}  # ticks that it takes from there
        self.trace: list[str] = []
        self.ticks_max = 0

    def wrong(self, world: ExploredWorld) -> str | None:
        """Why this world does not come to rest as declared, or None."""
        world = quieted(world)
        way: dict[tuple[object, ...], int] = {}
        self.trace[:] = ["-- faults stop, everybody comes back, users finish --"]
        begun_tick, fit_since, left = world.tick, None, 0
        for _ in range(MOVES_MAX):
            key = key_of(world)
            if key in self._good:
                left = self._good[key]
                break
            why = not_at_rest(world)
            fit_since = (world.tick if fit_since is None else fit_since) if why is None else None
            if fit_since is not None and world.tick - fit_since >= CALM_TICKS:
                break
            if key in way and why is not None:
                return f"liveness: {why}, and so for ever"
            way.setdefault(key, world.tick)
            if world.tick > begun_tick + TICKS:
                return f"liveness: {why}, {TICKS} ticks after the last fault"
            label, world = next_move(world)
            self.trace.append(f"tick {world.tick:3}  {label}")
            if world.broken is not None:
                return world.broken
        else:
            return "liveness: no rest, and time does not go on"
        for known, tick in way.items():
            self._good[known] = world.tick - tick + left
        ticks = world.tick - begun_tick + left
        self.ticks_max = max(self.ticks_max, ticks)
        return None if ticks <= TICKS else f"liveness: at rest only {ticks} ticks after the last fault"


def quieted(world: ExploredWorld) -> ExploredWorld:
    users = tuple(
        user if user.begun else user._replace(wishes=user.wishes[: user.done]) for user in world.users
    )
    users = tuple(
        user._replace(wishes=user.wishes[: user.done + 1]) if user.begun else user for user in users
    )
    known = world.judge._replace(reasons=ENDLESS)  # who is started again and again comes to no rest
    return world._replace(users=users, faults=0, judge=known, prepares=-1 if world.prepares else 0)


def next_move(world: ExploredWorld) -> tuple[str, ExploredWorld]:
    """The first of: a recovery, an urgent move, whatever else can be done, time."""
    from tests.explore import clock, faults, search, supervisors  # search asks rest, and rest takes its moves

    for move in faults.recoveries(world):
        return move.label, supervisors.notice(move.world)
    if LAYOUT.pause in world.tree.nodes and not any(user.begun for user in world.users):
        return "an operator ends the pause", supervisors.notice(unpaused(world))
    way_out = placing.way_out(world)
    if way_out is not None and not any(user.begun for user in world.users):
        return "an operator uncordons a host", supervisors.notice(apply(world, way_out, 0)[0])
    other = None
    for move in search.ordinary(world):
        if move.urgent:
            return move.label, supervisors.notice(move.world)
        other = other or move
    if other is not None:
        return other.label, supervisors.notice(other.world)
    return "time goes on", supervisors.notice(clock.advance(world))


def unpaused(world: ExploredWorld) -> ExploredWorld:
    found = seen(Pause, world.tree.read(LAYOUT.pause), LAYOUT.pause)
    tx = unpause(LAYOUT, found, world.tree.nodes[LAYOUT.doorbell].version, "rest")
    return operators.committed(apply(world, tx, 0)[0], tx.what)


def not_at_rest(world: ExploredWorld) -> str | None:
    """I3, I7: what is registered to run runs, exactly once; all else is dead; nothing of a uid that is gone is left."""
    tree = world.tree
    if world.replaceable and any(one.alive and trust.alarm_of(one) for one in world.supervisors):
        if world.judge.accepted and not operators.is_outdone(world):
            return "the registry was accepted, and somebody does not trust it"
        return held_back(world)
    why = operators.unfinished(world)
    if why is not None:
        return why
    for name in tree.children(LAYOUT.owns) or ():
        ref = seen(JobRef, tree.read(LAYOUT.job(name)), LAYOUT.job(name))
        own = seen(Ownership, tree.read(LAYOUT.own(name)), LAYOUT.own(name))
        if not isinstance(own, Found):  # quarantined, until an operator cancels it
            continue
        alive = [shim for shim in world.shims if shim.name == name and shim.tree in ("alive", "dying")]
        hosts = len(world.hosts_down) < len(world.supervisors)
        job = ref.record if isinstance(ref, Found) else None
        wanted = job is not None and job.desired is Desired.RUNNING and hosts
        barred = wanted and job is not None and not refusing.may_run(world, job.revision)
        wanted = wanted and not barred
        if len(alive) != (1 if wanted else 0):
            return f"{len(alive)} drivers of {name} are alive, wanted {'running' if wanted else 'stopped'}"
        if job is not None and any(shim.uid != job.uid for shim in alive):
            return f"the driver of another uid of {name} is alive"
        state, record = own.record.state, own.record
        if wanted and job is not None and not is_as_wanted(world, job, record):
            return f"/own/{name} is {state.value}, revision {record.revision}, not as the job wants it"
        unmoved = placing.unmoved(world, name, record)
        if unmoved is not None:
            return unmoved
        is_lost = barred and state is OwnState.REVOKED  # it is given to the next host that allows it
        if not wanted and hosts and not is_lost and state not in (OwnState.VACANT, OwnState.EXITED):
            return f"/own/{name} is {state.value}"
        if job is None and hosts and LAYOUT.lease(name) in tree.nodes:
            return f"/lease/{name} is left of a job that is gone"
    return leftovers(world)


def is_as_wanted(world: ExploredWorld, job: JobRef, own: Ownership) -> bool:
    if own.state is not OwnState.CLAIMED or own.revision != job.revision:
        return False
    return own.restart_nonce == job.restart_nonce or placing.waits_for_its_host(world, job)


def held_back(world: ExploredWorld) -> str | None:
    """I10: an alarm, nothing is started, and no driver that the registry knows is gone; the others end by their leases."""
    for index in world.judge.knows:
        one = world.supervisors[index]
        if one.alive and trust.alarm_of(one) is None:
            return f"I10: {one.id} knows that the registry is an older one, and says nothing"
    for name in {shim.name for shim in world.shims}:
        alive = [shim for shim in world.shims if shim.name == name and shim.tree in ("alive", "dying")]
        if len(alive) > 1 or (alive and LAYOUT.root not in world.tree.nodes):
            return f"I10: {len(alive)} drivers of {name} are alive"
    return None


def is_readable(world: ExploredWorld, name: str) -> bool:
    """Of a name with an unreadable ownership nothing is cleaned either."""
    return isinstance(seen(Ownership, world.tree.read(LAYOUT.own(name)), LAYOUT.own(name)), Found)


def leftovers(world: ExploredWorld) -> str | None:
    tree = world.tree
    if len(world.hosts_down) == len(world.supervisors):
        return None
    for uid in tree.children(LAYOUT.results) or ():
        result = seen(Result, tree.read(LAYOUT.result(uid)), LAYOUT.result(uid))
        if (
            isinstance(result, Found)
            and result.record.state is Cleanliness.DIRTY
            and is_readable(world, result.record.name)
        ):
            return f"the result of {uid} stays dirty"
    for one in world.supervisors:
        for entry in tree.children(LAYOUT.assigned_to(one.id)) or ():
            name = entry.partition("-")[2].rpartition(".")[0]
            if name not in world.judge.spoilt or (world.sweeps and is_readable(world, name)):
                return f"the assignment {entry} to {one.id} is left"
    for place in tree.children(LAYOUT.checkpoints) or ():
        claim = seen(CheckpointClaim, tree.read(f"{LAYOUT.checkpoints}/{place}"), place)
        if isinstance(claim, Found) and is_readable(world, claim.record.name):
            job = seen(JobRef, tree.read(LAYOUT.job(claim.record.name)), "")
            if not isinstance(job, Found) or job.record.uid != claim.record.uid:
                return f"the claim of {claim.record.uid} on its checkpoint is left"
    for shim in world.shims:
        if shim.tree == "waiting" and shim.state is None:
            return f"the prepared driver {shim.title} is left without its shim"
    why = removing.unremoved(world) if world.removes else None
    return why or (sweeping.unswept(world) if world.sweeps else None)
