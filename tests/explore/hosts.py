"""What a supervisor does for the drivers of its own host: as agent it registers and starts shims, as guardian it kills.

The guardian is ``daemon.host.guarded_attempt``; of the agent its look at /own and, where registries are replaced, its doubts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import ShimRecord
from supervisor.daemon.host import guarded_attempt as guard
from supervisor.daemon.host.agent import _is_current
from supervisor.model.emptiness import Emptiness
from supervisor.model.records import Assignment, Cause, Ownership
from supervisor.model.second_killer import Act, KillerProbe, ShimStruck, TreeStruck
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Create, Delete, SetData, Transaction
from supervisor.records.reading import seen
from tests.explore import judge, preparing, refusing, trust
from tests.explore.setting import LAYOUT, encode, member
from tests.explore.shims import DYING, ExploredMove, crash, kill_tree, launch_of, spawn
from tests.explore.world import (
    ExploredSupervisor,
    ExploredWorld,
    Shim,
    apply,
    described,
    open_session,
    sid_of,
)


def host(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    if not me.connected:
        yield from guardian(world, index, me)
        return
    if not world.has_session(me.agent_sid) or LAYOUT.supervisor(me.id) not in world.tree.nodes:
        if LAYOUT.supervisors in world.tree.nodes:
            yield ExploredMove(f"{me.id} registers as a supervisor", register(world, index))
    elif world.tree.nodes[LAYOUT.supervisor(me.id)].data != described_host(me):
        yield ExploredMove(
            f"{me.id} says whether it trusts the registry, and its policy", tell_distrust(world, me)
        )
    elif LAYOUT.pause not in world.tree.nodes:  # what was assigned before a pause is started after it
        for entry in world.tree.children(LAYOUT.assigned_to(me.id)) or ():
            if not any(shim.key == entry and shim.host == index and not shim.over for shim in world.shims):
                path = f"{LAYOUT.assigned_to(me.id)}/{entry}"
                given = seen(Assignment, world.tree.read(path), path)
                if isinstance(given, Found) and is_there(world, given.record):
                    yield from taken_up(world, index, me, given.record)
        if world.prepares:
            yield from preparing.moves(world, index, me)
    yield from guardian(world, index, me)


def taken_up(
    world: ExploredWorld, index: int, me: ExploredSupervisor, given: Assignment
) -> Iterator[ExploredMove]:
    """What the agent does with an assignment that it sees the first time."""
    entry = f"{given.uid}.{given.attempt}"
    path = f"{LAYOUT.assigned_to(me.id)}/{entry}"
    cleared, doubt = trust.doubt_of(world, me, path) if world.replaceable else (None, None)
    if doubt is not None:
        return
    if not refusing.allows(me.policy, given.revision):
        refusal = refusing.refusal(world, me, given, Cause.POLICY)
        if refusal is not None:
            yield refusal
        return
    after = world.with_supervisor(index, me._replace(cleared=cleared))
    after = judge.starts(after, index, entry)
    yield ExploredMove(f"{me.id} starts a shim for {entry}", spawn(after, index, me.id, given))
    if world.prepares:
        yield from preparing.hand_over(after, index, me, given)


def is_there(world: ExploredWorld, entry: Assignment) -> bool:
    """The agent's own look, which spares a useless start; one that slept after it is a shim that is stopped at its birth."""
    own = seen(Ownership, world.tree.read(LAYOUT.own(entry.name)), LAYOUT.own(entry.name))
    return isinstance(own, Found) and _is_current(own, entry)


def register(world: ExploredWorld, index: int) -> ExploredWorld:
    me = world.supervisors[index]
    number = me.registrations + 1
    sid = sid_of(f"agent of {me.id} #{number}") if not world.has_session(me.agent_sid) else me.agent_sid
    world = world if world.has_session(sid) else open_session(world, sid)
    path = LAYOUT.supervisor(me.id)
    tree = world.tree.copy()
    if path in tree.nodes:
        tree.apply(Transaction("gone", "", (Delete(path, ANY_VERSION),)), 0)
    tree.apply(Transaction("register", "", (Create(path, described_host(me), ephemeral=True),)), sid)
    return world._replace(tree=tree).with_supervisor(index, me._replace(agent_sid=sid, registrations=number))


def described_host(me: ExploredSupervisor) -> bytes:
    distrust = None if me.memory.reason is None else "why"
    return encode(replace(member(me.id), distrust=distrust, policy_sha256=me.policy))


def tell_distrust(world: ExploredWorld, me: ExploredSupervisor) -> ExploredWorld:
    tree = world.tree.copy()
    tree.apply(
        Transaction("register", "", (SetData(LAYOUT.supervisor(me.id), described_host(me), ANY_VERSION),)),
        me.agent_sid,
    )
    return world._replace(tree=tree)


def guardian(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    for number, shim in enumerate(world.shims):
        if shim.host == index and not shim.over and shim.twin is None:
            yield from guardian_moves(world, number, shim, me)


def guardian_moves(
    world: ExploredWorld, number: int, shim: Shim, me: ExploredSupervisor
) -> Iterator[ExploredMove]:
    """The guardian's view of this shim's attempt. While it only looks it remembers nothing, and is made anew at each look."""
    dead = shim.state is None
    guarded_attempt = shim.guarded_attempt
    who = f"{me.id}'s guardian"
    if guarded_attempt is None:
        guarded_attempt, _ = guard.step(
            new_guarded_attempt(shim, me), KillerProbe(dead, shim.file_deadline_at_s), world.now_s
        )
        if guarded_attempt.stage is guard.GuardStage.WATCHED:
            return
    if guarded_attempt.stage is guard.GuardStage.KILLING:
        yield from guardian_kills(world, number, shim, guarded_attempt, who)
    elif guarded_attempt.stage is guard.GuardStage.BURYING:
        yield from guardian_buries(world, number, shim, guarded_attempt, who, me)
    elif guarded_attempt.stage is guard.GuardStage.REMOVING:
        over = shim._replace(over=True, guarded_attempt=None, twin=None)
        yield ExploredMove(f"{who} has done with {shim.title}", world.with_shim(number, over))


def new_guarded_attempt(shim: Shim, me: ExploredSupervisor) -> guard.GuardedAttempt:
    record = ShimRecord(ProcessId(1, 1, "boot"), shim.claim)
    return guard.GuardedAttempt(
        shim.claim if shim.prepared else shim.key,
        me.id,
        "boot",
        LAYOUT,
        0.0,
        guard.GuardStage.WATCHED,
        launch_of(shim.name, shim.uid, shim.attempt, 0, shim.own_version, me.id),
        record,
    )


def guardian_kills(
    world: ExploredWorld, number: int, shim: Shim, guarded_attempt: guard.GuardedAttempt, who: str
) -> Iterator[ExploredMove]:
    act = guarded_attempt.killer.act
    if act is Act.KILL_SHIM:
        after = crash(world, number)
        label, event = "kills the shim", ShimStruck(True)
    else:
        if shim.tree == DYING:
            return
        after, struck = kill_tree(world, shim)
        after = after.with_shim(number, struck)
        label, event = (
            "kills the driver",
            TreeStruck(0.0, Emptiness.POPULATED if struck.tree == DYING else Emptiness.EMPTY),
        )
        if struck.tree == DYING:
            yield ExploredMove(f"{who} {label} of {shim.title}", after)
            return
    guarded_attempt, _ = guard.step(guarded_attempt, event, world.now_s)
    if guarded_attempt.stage is guard.GuardStage.TAKEN:
        guarded_attempt, _ = guard.step(guarded_attempt, preparing.handed_to(after, number), world.now_s)
    after = after.with_shim(number, after.shims[number]._replace(guarded_attempt=guarded_attempt))
    # dead already: nobody notices
    if guarded_attempt.stage is guard.GuardStage.KILLING and after.shims[number].state is None:
        more = next(guardian_kills(after, number, after.shims[number], guarded_attempt, who), None)
        after = after if more is None else more.world
    yield ExploredMove(f"{who} {label} of {shim.title}", after)


def guardian_buries(
    world: ExploredWorld,
    number: int,
    shim: Shim,
    guarded_attempt: guard.GuardedAttempt,
    who: str,
    me: ExploredSupervisor,
) -> Iterator[ExploredMove]:
    if shim.asked_by_guardian is not None:
        after, outcome = apply(
            world.with_shim(number, shim._replace(asked_by_guardian=None)),
            shim.asked_by_guardian,
            me.agent_sid,
        )
        after = judge.commit(world, after, shim, shim.asked_by_guardian, outcome)
        done = isinstance(outcome, tuple)
        guarded_attempt, _ = guard.step(
            guarded_attempt, guard.TombstoneWritten() if done else guard.CommitUnanswered(), world.now_s
        )
        yield ExploredMove(
            f"{who} writes the tombstone of {shim.title}: {described(outcome)}",
            after.with_shim(number, after.shims[number]._replace(guarded_attempt=guarded_attempt)),
        )
        return
    guarded_attempt, effects = guard.step(
        guarded_attempt, guard.GuardTick(world.has_session(me.agent_sid) and me.connected), world.now_s
    )
    if not any(isinstance(effect, guard.ReadOwn) for effect in effects):
        return
    own = seen(Ownership, world.tree.read(LAYOUT.own(shim.name)), LAYOUT.own(shim.name))
    guarded_attempt, effects = guard.step(guarded_attempt, guard.OwnershipRead(own, None, ""), world.now_s)
    asks = next((effect.transaction for effect in effects if isinstance(effect, guard.CommitTombstone)), None)
    yield ExploredMove(
        f"{who} reads {judge.shown_own(own)}",
        world.with_shim(number, shim._replace(guarded_attempt=guarded_attempt, asked_by_guardian=asks)),
    )
