"""What can go wrong: each kind of fault by name, with the moves that do it. And how what was stopped or cut comes back.

To come back is free, to go wrong costs one of the scenario's faults. Kinds are named in a scenario's ``kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from supervisor.coord import leadership as lead
from supervisor.coord.trust import Memory
from supervisor.model.records import Assignment
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, SetData, Transaction
from supervisor.records.reading import seen
from supervisor.shim import state as shim_state
from tests.explore import executing, refusing, replacing, users
from tests.explore.setting import LAYOUT, SESSION_S
from tests.explore.shims import (
    ALIVE,
    DYING,
    EMPTY,
    WAITING,
    ExploredMove,
    crash,
    deliver,
    due,
    exit_root,
    flush,
    heal_shim,
    spawn,
    unanswered,
)
from tests.explore.supervisors import apply, clock_matters, election_of
from tests.explore.supervisors import deliver as tell_contender
from tests.explore.world import ExploredFirstSeen, ExploredSupervisor, ExploredWorld, Shim, end_session

PAUSED_MAX_TICKS = 5
"""Nobody is stopped for longer than that; by then every wait is over, and nothing new can come of it."""

Kind = Callable[[ExploredWorld], Iterator[ExploredMove]]


def recoveries(world: ExploredWorld) -> Iterator[ExploredMove]:
    """Whatever is stopped, cut or behind may come back at any time, and comes back in the end."""
    for index, shim in enumerate(world.shims):
        if shim.paused:
            late = shim.paused_ticks >= PAUSED_MAX_TICKS
            yield ExploredMove(f"shim {shim.title} runs again", wake_shim(world, index), urgent=late)
        if shim.state is not None and not shim.connected:
            yield ExploredMove(f"shim {shim.title} is connected again", heal_shim(world, index), urgent=False)
    for index, one in enumerate(world.supervisors):
        if one.paused:
            yield ExploredMove(
                f"{one.id} runs again",
                wake_supervisor(world, index),
                urgent=one.paused_ticks >= PAUSED_MAX_TICKS,
            )
        if one.alive and not one.connected and not one.paused:
            yield ExploredMove(f"{one.id} is connected again", heal_supervisor(world, index), urgent=False)
        if not one.alive and index not in world.hosts_down:
            yield ExploredMove(f"{one.id} is started again", start(world, index), urgent=False)
            if one.sid and world.has_session(one.sid):
                yield ExploredMove(
                    f"{one.id}'s session closer closes its sessions",
                    session_closer(world, index),
                    urgent=False,
                )
        if one.lag is not None:
            yield ExploredMove(
                f"{one.id}'s follower catches up",
                world.with_supervisor(index, one._replace(lag=None)),
                urgent=False,
            )


# -- shims and drivers -------------------------------------------------------------------------------------------------


def living(world: ExploredWorld) -> Iterator[tuple[int, Shim]]:
    for index, shim in enumerate(world.shims):
        if shim.state is not None:
            yield index, shim


def hit(world: ExploredWorld, index: int, **changes: object) -> ExploredWorld:
    return world.with_shim(index, world.shims[index]._replace(disturbed=True, **changes))


def pause_shim(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, shim in living(world):
        if not shim.paused:
            yield ExploredMove(
                f"shim {shim.title} is stopped (SIGSTOP)", hit(world, index, paused=True, paused_ticks=0)
            )


def wake_shim(world: ExploredWorld, index: int) -> ExploredWorld:
    world = world.with_shim(index, world.shims[index]._replace(paused=False, paused_ticks=0))
    if due(world, world.shims[index]):
        world = world.with_shim(index, world.shims[index]._replace(tick_due=True))
    return world


def kill_shim(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, shim in living(world):
        yield ExploredMove(f"shim {shim.title} is killed", crash(hit(world, index), index))


def kill_twin(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, shim in living(world):
        if shim.twin is not None:
            yield ExploredMove(f"the twin of {shim.title} is killed", hit(world, index, twin=None))


def cut_shim(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The connection is gone; what was sent may still reach the server, until the session is used elsewhere."""
    for index, shim in living(world):
        if shim.connected and not shim.paused:
            yield ExploredMove(f"shim {shim.title} is cut off", cut(hit(world, index), index))


def cut(world: ExploredWorld, index: int) -> ExploredWorld:
    shim = world.shims[index]
    events: tuple[shim_state.Event, ...] = (shim_state.Disconnected(),)
    orphan = None
    if shim.sent is not None:
        events = (unanswered(shim.sent[0]), *events)
        if isinstance(shim.sent[0], shim_state.Commit):
            orphan = (shim.sent[0].transaction, shim.sid, shim.sent[1])
    world = world.with_shim(index, shim._replace(connected=False, sent=None, orphan=orphan, recut=True))
    return deliver(world, index, *events)


def lose_reply(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The connection goes and is back at once: the request was carried out, and the answer is lost."""
    for index, shim in living(world):
        if (
            shim.sent is not None
            and shim.connected
            and not shim.paused
            and isinstance(shim.sent[0], shim_state.Commit)
        ):
            after = cut(world, index)
            orphan = after.shims[index].orphan
            assert orphan is not None
            after = heal_shim(flush(after, index, after.shims[index], orphan[0], orphan[1]), index)
            yield ExploredMove(
                f"the answer to the {shim.sent[0].transaction.what} of {shim.title} is lost", after
            )
    for index, user in enumerate(world.users):
        if user.sent is not None:
            yield ExploredMove(
                f"the answer to the user's {user.sent.what} is lost",
                users.lose(world, index, after_commit=True),
            )


def lose_request(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The connection goes and is back at once: the request never came to the server."""
    for index, shim in living(world):
        if shim.sent is not None and shim.connected and not shim.paused:
            yield ExploredMove(f"a request of shim {shim.title} is lost", heal_shim(cut(world, index), index))
    for index, user in enumerate(world.users):
        if user.sent is not None:
            yield ExploredMove(
                f"the user's {user.sent.what} is lost", users.lose(world, index, after_commit=False)
            )


def leave_user(world: ExploredWorld) -> Iterator[ExploredMove]:
    """A user is cut off while his multi is under way; he is told that the outcome is unknown."""
    for index, user in enumerate(world.users):
        if user.sent is not None:
            yield ExploredMove(
                f"the user is cut off, his {user.sent.what} under way", users.leave(world, index)
            )


def kill_user(world: ExploredWorld) -> Iterator[ExploredMove]:
    """A user's command is killed between its put and its multi."""
    for index, user in enumerate(world.users):
        if user.begun and user.sent is None and not user.unknown:
            yield ExploredMove(f"user {user.wishes[user.done].what} is killed", users.die(world, index))


def lose_election(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The answer to an election is lost, whether or not it was applied."""
    for index, one in enumerate(world.supervisors):
        if (
            one.alive
            and not one.paused
            and one.connected
            and one.todo
            and isinstance(one.todo[0], lead.Stand)
        ):
            effect = one.todo[0]
            without = world.with_supervisor(index, one._replace(todo=one.todo[1:]))
            yield ExploredMove(
                f"{one.id}'s election is lost", tell_contender(without, index, lead.StoodUnknown(""))
            )
            after, outcome = apply(without, election_of(one, effect.epoch, effect.version), one.sid)
            if isinstance(outcome, tuple):
                after = tell_contender(after, index, lead.StoodUnknown(""))
                yield ExploredMove(f"the answer to {one.id}'s election is lost", after)


def expire_shim(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The server ends a shim's session. No reason to disturb its driver: ``disturbed`` stays as it is."""
    for _, shim in living(world):
        if world.has_session(shim.sid):
            yield ExploredMove(f"the session of shim {shim.title} ends", end_session(world, shim.sid))


def fail_driver(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, shim in enumerate(world.shims):
        if shim.tree == ALIVE and shim.status is None:
            yield ExploredMove(f"driver {shim.title} fails", exit_root(hit(world, index), index, 1))
        if shim.tree == WAITING:
            gone = hit(world, index, tree=EMPTY, exec_before_at_s=None)
            yield ExploredMove(f"the prepared driver {shim.title} dies", exit_root(gone, index, 1))


def end_driver(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The application ends by itself, with 0."""
    for index, shim in enumerate(world.shims):
        if shim.tree == ALIVE and shim.status is None:
            yield ExploredMove(f"driver {shim.title} ends with 0", exit_root(hit(world, index), index, 0))


def second_shim(world: ExploredWorld) -> Iterator[ExploredMove]:
    """An agent that was started again starts a second shim for an entry."""
    for one in world.supervisors:
        if not one.alive or one.paused or not one.connected:
            continue
        for entry in world.tree.children(LAYOUT.assigned_to(one.id)) or ():
            path = f"{LAYOUT.assigned_to(one.id)}/{entry}"
            given = seen(Assignment, world.tree.read(path), path)
            if isinstance(given, Found) and any(shim.key == entry for shim in world.shims):
                yield ExploredMove(
                    f"{one.id} starts a second shim for {entry}",
                    spawn(world, one.number, one.id, given.record),
                )


# -- supervisors -------------------------------------------------------------------------------------------------------


def running(world: ExploredWorld) -> Iterator[tuple[int, ExploredSupervisor]]:
    for index, one in enumerate(world.supervisors):
        if one.alive:
            yield index, one


def pause_supervisor(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, one in running(world):
        if not one.paused:
            stopped = one._replace(paused=True, paused_ticks=0)
            yield ExploredMove(f"{one.id} is stopped (SIGSTOP)", world.with_supervisor(index, stopped))


def wake_supervisor(world: ExploredWorld, index: int) -> ExploredWorld:
    world = world.with_supervisor(index, world.supervisors[index]._replace(paused=False, paused_ticks=0))
    if clock_matters(world, world.supervisors[index]):
        world = world.with_supervisor(index, world.supervisors[index]._replace(tick_due=True))
    return world


def kill_supervisor(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, one in running(world):
        yield ExploredMove(f"{one.id} is killed", stop(world, index))


def lose_disk(world: ExploredWorld) -> Iterator[ExploredMove]:
    """A supervisor is killed, and what it remembered of the registry is lost. The store remembers its terms."""
    for index, one in running(world):
        after = stop(world, index)
        known = after.judge._replace(
            doorbell_versions=(
                *after.judge.doorbell_versions[:index],
                0,
                *after.judge.doorbell_versions[index + 1 :],
            ),
            knows=after.judge.knows - {index},
        )
        forgetful = after.supervisors[index]._replace(memory=Memory(), cleared=None)
        yield ExploredMove(
            f"{one.id} is killed and its disk lost",
            after.with_supervisor(index, forgetful)._replace(judge=known),
        )


def stop(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    shims = tuple(
        shim._replace(guarded_attempt=None, asked_by_guardian=None)
        if shim.host == index and shim.guarded_attempt is not None
        else shim
        for shim in world.shims
    )
    return world._replace(shims=shims).with_supervisor(
        index,
        one._replace(
            alive=False,
            paused=False,
            machine_state=lead.LeadershipState(highest=0),
            todo=(),
            term=None,
            first_seen=ExploredFirstSeen(),
            reading=None,
            tick_due=False,
            lag=None,
            observed=None,
            recorded=True,
            distrust=None,
            recent=(),
            suspended=False,
            unreferenced=(),
            sweep=None,
            known_deletions=(),
        ),
    )


def start(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    world = world.with_supervisor(index, one._replace(alive=True, connected=True, queue=()))
    return tell_contender(world, index, lead.Start())


def session_closer(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    return end_session(end_session(world, one.sid), one.agent_sid)


def cut_supervisor(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, one in running(world):
        if one.connected and not one.paused and one.sid:
            cut_off = world.with_supervisor(index, one._replace(connected=False))
            yield ExploredMove(
                f"{one.id} is cut off", tell_contender(cut_off, index, lead.SessionDisconnected())
            )


def heal_supervisor(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    # first in, first out: the old connection is void
    queue = tuple(sent for sent in one.queue if sent.sid != one.sid)
    world = world.with_supervisor(index, one._replace(connected=True, queue=queue))
    if not world.has_session(one.sid):
        return tell_contender(world, index, lead.Lost()) if one.machine_state.session == one.sid else world
    return tell_contender(world, index, lead.SessionConnected(one.sid, SESSION_S))


def lose_action(world: ExploredWorld) -> Iterator[ExploredMove]:
    """A leader's write is lost on its way; it looks again."""
    for index, one in running(world):
        for number, sent in enumerate(one.queue):
            queue = (*one.queue[:number], *one.queue[number + 1 :])
            after = world.with_supervisor(index, one._replace(queue=queue))
            yield ExploredMove(f"{one.id}'s {sent.tx.what} {sent.name} is lost", after)


def lag(world: ExploredWorld) -> Iterator[ExploredMove]:
    """The follower that a leader reads from falls behind: it shows what is now, until it catches up."""
    for index, one in running(world):
        if one.term is not None and one.lag is None:
            yield ExploredMove(
                f"{one.id}'s follower falls behind",
                world.with_supervisor(index, one._replace(lag=world.tree)),
            )


def remove_leader(world: ExploredWorld) -> Iterator[ExploredMove]:
    """/leader is deleted by hand: two may lead with living sessions, and only the epoch tells them apart."""
    if LAYOUT.leader in world.tree.nodes:
        tree = world.tree.copy()
        tree.apply(Transaction("by hand", "", (Delete(LAYOUT.leader, ANY_VERSION),)), 0)
        yield ExploredMove("/leader is removed by hand", world._replace(tree=tree))


def spoil(world: ExploredWorld, path: str) -> ExploredWorld:
    tree = world.tree.copy()
    tree.apply(Transaction("by hand", "", (SetData(path, b"{", ANY_VERSION),)), 0)
    return world._replace(tree=tree)


def spoil_lease(world: ExploredWorld) -> Iterator[ExploredMove]:
    """A lease becomes unreadable. No reason to disturb a driver: the next renewal overwrites it."""
    for name in world.tree.children(LAYOUT.leases) or ():
        yield ExploredMove(f"/lease/{name} is spoilt", spoil(world, LAYOUT.lease(name)))


def spoil_own(world: ExploredWorld) -> Iterator[ExploredMove]:
    """An ownership becomes unreadable: its job is quarantined, and no other."""
    for name in world.tree.children(LAYOUT.owns) or ():
        shims = tuple(shim._replace(disturbed=True) if shim.name == name else shim for shim in world.shims)
        known = world.judge._replace(spoilt=world.judge.spoilt | {name})
        yield ExploredMove(
            f"/own/{name} is spoilt", spoil(world._replace(shims=shims, judge=known), LAYOUT.own(name))
        )


# -- hosts -------------------------------------------------------------------------------------------------------------


def lose_host(world: ExploredWorld) -> Iterator[ExploredMove]:
    """Power off: all that runs there is gone at once, and nothing comes back."""
    for index, one in running(world):
        after = stop(world, index)
        for number, shim in enumerate(after.shims):
            if shim.host == index and not (shim.over and shim.tree in ("unborn", EMPTY)):
                tree = EMPTY if shim.tree in (ALIVE, DYING, WAITING) else shim.tree
                off = shim._replace(
                    disturbed=True, twin=None, guarded_attempt=None, tree=tree, exec_before_at_s=None
                )
                after = executing.outlive(after, shim) if shim.tree in (ALIVE, DYING) else after
                after = crash(after.with_shim(number, off), number)
                after = after.with_shim(number, after.shims[number]._replace(over=True))
        yield ExploredMove(
            f"the host of {one.id} is lost", after._replace(hosts_down=after.hosts_down | {index})
        )


KINDS: dict[str, Kind] = {
    "pause shim": pause_shim,
    "kill shim": kill_shim,
    "kill twin": kill_twin,
    "cut shim": cut_shim,
    "lose reply": lose_reply,
    "lose request": lose_request,
    "lose election": lose_election,
    "expire shim": expire_shim,
    "fail driver": fail_driver,
    "pause supervisor": pause_supervisor,
    "kill supervisor": kill_supervisor,
    "cut supervisor": cut_supervisor,
    "lose action": lose_action,
    "lag": lag,
    "remove leader": remove_leader,
    "spoil lease": spoil_lease,
    "spoil own": spoil_own,
    "lose host": lose_host,
    "cut user": leave_user,
    "kill user": kill_user,
    "end driver": end_driver,
    "second shim": second_shim,
    "lose disk": lose_disk,
    **replacing.KINDS,
    **refusing.KINDS,
}


def moves(world: ExploredWorld, kinds: tuple[str, ...]) -> Iterator[ExploredMove]:
    if world.faults > 0:
        if replacing.RESTORE in kinds and world.saved is None:
            yield replacing.save(world)
        for kind in kinds:
            for move in KINDS[kind](world):
                after = move.world._replace(faults=world.faults - 1)
                yield ExploredMove(move.label, after, urgent=False, fault=True)
