"""Time goes on by a tick: only when everybody who runs has done what was to be done at once.

Deadlines are met as late as they may be: a tree that was killed is empty within K, which is less than a tick. A session
ends when nothing was heard of it for its time-out; whoever runs and is connected pings.

A shim that runs sees the new time at once. That takes nothing away: nothing of it is under way when time goes on, every
step of the machine looks at the clock after its event, and a shim that is to be stopped before it sees the time may as
well be stopped before the time comes. One that was stopped sees the clock and what it was told in either order.
"""

from __future__ import annotations

from supervisor.shim import state as shim_state
from tests.explore import judge, removing
from tests.explore.setting import SESSION_TICKS
from tests.explore.shims import DYING, deliver, due, empty
from tests.explore.supervisors import clock_matters, follows_quietly, is_quiet, poll
from tests.explore.world import ExploredWorld, end_session


def advance(world: ExploredWorld) -> ExploredWorld:
    heard = pinging(world)
    world = world._replace(tick=world.tick + 1)
    for index, shim in enumerate(world.shims):
        if shim.tree == DYING:  # killed at an earlier tick: K is over
            world = empty(world, index)
    sessions = tuple((sid, 0 if sid in heard else silent + 1) for sid, silent in world.sessions)
    world = world._replace(sessions=sessions)
    for sid, silent in sessions:
        if silent >= SESSION_TICKS:
            world = end_session(world, sid)
    if world.late:
        world = world._replace(
            late=tuple(late for late in world.late if world.tick - late.tick < SESSION_TICKS)
        )
    world = removing.grown_old(world) if world.removes else world
    for index in range(len(world.shims)):
        world = shim_ages(world, index)
    for index in range(len(world.supervisors)):
        world = supervisor_ages(world, index)
    return judge.time_passes(world)


def shim_ages(world: ExploredWorld, index: int) -> ExploredWorld:
    shim = world.shims[index]
    if shim.paused:
        return world.with_shim(index, shim._replace(paused_ticks=shim.paused_ticks + 1))
    return deliver(world, index, shim_state.Tick()) if due(world, shim) else world


def supervisor_ages(world: ExploredWorld, index: int) -> ExploredWorld:
    one = world.supervisors[index]
    if one.paused:
        return world.with_supervisor(index, one._replace(paused_ticks=one.paused_ticks + 1))
    if is_quiet(world, one):
        return world.with_supervisor(index, one._replace(answered_at_s=world.now_s))
    if follows_quietly(world, one):
        return poll(world, index)
    return world.with_supervisor(index, one._replace(tick_due=True)) if clock_matters(world, one) else world


def pinging(world: ExploredWorld) -> set[int]:
    heard: set[int] = set()
    for shim in world.shims:
        if shim.state is not None and not shim.paused and shim.connected:
            heard.add(shim.sid)
    for one in world.supervisors:
        if one.alive and not one.paused and one.connected:
            heard |= {one.sid, one.agent_sid}
    return heard
