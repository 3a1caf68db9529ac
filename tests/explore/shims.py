"""What a shim, its twin and its driver do next: the real ``shim.machine.step`` and ``model.second_killer.step``.

Twin and guardian run the same ``second_killer.step`` on the same observations, and their blows can be repeated without effect:
the guardian acts only where there is no twin any more, and nothing is lost by that.

A request is carried out by the server at a moment of the explorer's choosing. Its answer is heard at once, unless the
shim is stopped: hearing is local, and whatever could come in between (a fault, a stop) may as well come before the
server carries the request out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from supervisor.errors import GuardFailed
from supervisor.model import launch as model
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.emptiness import Emptiness
from supervisor.model.records import Assignment, Ownership
from supervisor.model.second_killer import Act, KillerProbe, SecondKiller, ShimStruck, TreeStruck
from supervisor.model.second_killer import step as strike
from supervisor.model.seen import Found
from supervisor.model.transaction import SetData, Transaction
from supervisor.records.reading import seen
from supervisor.shim import machine
from supervisor.shim import state as shim_state
from supervisor.shim.state import Effect, Event, Now, ShimState
from tests.explore import executing, judge
from tests.explore.setting import (
    LAYOUT,
    LEASE_S,
    NEVER_S,
    NO_KILLER,
    SESSION_S,
    executors_outlive_s,
    location_of,
    now_s,
    spec,
    terms_of,
)
from tests.explore.world import ExploredWorld, Shim, apply, described, end_session, open_session, sid_of

ALIVE, DYING, EMPTY, UNBORN, WAITING = "alive", "dying", "empty", "unborn", "waiting"


class ExploredMove(NamedTuple):
    """``urgent``: time does not go on before it was made. ``fault``: it costs one of the scenario's faults."""

    label: str
    world: ExploredWorld
    urgent: bool = True
    fault: bool = False


class Empty(dict[str, Any]):
    """An empty dictionary that can be hashed, and with it the state of a shim."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


EMPTY_DICT = Empty()


class ExploredLaunch(model.Launch):
    """A launch file, hashed by what tells one from another here."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(
            (self.assignment.uid, self.assignment.attempt, self.assignment.own_version, self.supervisor)
        )


@cache
def launch_of(
    name: str,
    uid: str,
    attempt: int,
    job_version: int,
    own_version: int,
    supervisor: str,
    revision: int = 0,
    prepared: str = "",
) -> ExploredLaunch:
    entry = Assignment(
        name=name,
        uid=uid,
        attempt=attempt,
        revision=revision,
        job_version=job_version,
        own_version=own_version,
        spec=spec(name, uid),
        memory=0,
        extra=EMPTY_DICT,
    )
    terms = terms_of(name)
    # told with the claim
    written = (
        CheckpointExpectation(place=place_of(location_of(uid)), queries=("q 1",))
        if terms.delete_checkpoint
        else None
    )
    return ExploredLaunch(
        cluster="c",
        hosts="",
        root=LAYOUT.root,
        session_timeout_s=SESSION_S,
        supervisor=supervisor,
        host=f"host of {supervisor}",
        assignment=entry,
        lease_s=LEASE_S,
        stop_grace_s=terms.stop_grace_s,
        start_timeout_s=NEVER_S,
        stall_timeout_s=NEVER_S,
        unbounded=terms.unbounded,
        reports=False,
        argv=(),
        env=EMPTY_DICT,
        cwd="/",
        log_path="",
        cgroup="/cgroup",
        remembered=written,
        prepared=prepared,
        executors_outlive_s=executors_outlive_s(name),
        hadoop_conf=EMPTY_DICT,
        spark_conf=EMPTY_DICT,
        extra=EMPTY_DICT,
    )


STEPS: dict[Any, tuple[ShimState, tuple[Effect, ...]]] = {}
"""``machine.step`` is pure: what it answered is remembered, for the time of one exploration."""


def step(state: ShimState, event: Event, now_s: float) -> tuple[ShimState, tuple[Effect, ...]]:
    heard: Any = event
    if isinstance(event, shim_state.OwnRead):  # a record is decoded once, so its identity will do
        own = event.own
        record = (id(own.record), own.version) if isinstance(own, Found) else type(own)
        heard = (event.token, record, event.lease_version, event.live)
    key = (state, heard, now_s)
    stepped = STEPS.get(key)
    if stepped is None:
        stepped = STEPS[key] = machine.step(state, event, Now(now_s, now_s))
    return stepped


def spawn(world: ExploredWorld, host: int, supervisor: str, entry: Assignment) -> ExploredWorld:
    """The agent starts a shim: it forks its twin, and gets a session."""
    number = 1 + sum(1 for shim in world.shims if (shim.uid, shim.attempt) == (entry.uid, entry.attempt))
    claim = f"{entry.uid}.{entry.attempt}/{number}"
    launch = launch_of(entry.name, entry.uid, entry.attempt, entry.job_version, entry.own_version, supervisor)
    sid = sid_of(f"shim {claim} #1")
    state = ShimState(launch, LAYOUT, claim, 1, 2, born_at_s=world.now_s)
    shim = Shim(
        entry.name,
        entry.uid,
        entry.attempt,
        number,
        host,
        claim,
        entry.own_version,
        state,
        sid,
        twin=NO_KILLER,
    )
    world = open_session(world._replace(shims=(*world.shims, shim)), sid)
    return deliver(world, len(world.shims) - 1, shim_state.Connected(sid))


def deliver(world: ExploredWorld, index: int, *events: Event) -> ExploredWorld:
    """The shim hears the events, one after the other; its effects are performed. A stopped one hears them later."""
    shim = world.shims[index]
    if shim.state is None:
        return world
    if shim.paused:
        return world.with_shim(index, shim._replace(inbox=(*shim.inbox, *events)))
    queue = list(events)
    while queue:
        shim = world.shims[index]
        if shim.state is None:
            break
        state, effects = step(shim.state, queue.pop(0), world.now_s)
        world = world.with_shim(index, shim._replace(state=state))
        for effect in effects:
            world, more = perform(world, index, effect)
            queue.extend(more)
    return world


def perform(world: ExploredWorld, index: int, effect: Effect) -> tuple[ExploredWorld, tuple[Event, ...]]:
    shim = world.shims[index]
    more: tuple[Event, ...] = ()
    match effect:
        case shim_state.Read() | shim_state.Commit() | shim_state.CloseSession():
            if shim.sent is not None:
                world = world.breaks(f"I11: the shim of {shim.title} has two requests under way")
            shim = shim._replace(sent=(effect, world.tick))
        case shim_state.FirstConnect() | shim_state.NewClient():
            shim = shim._replace(sid=0)
            if shim.connected:
                world, shim = new_session(world, shim)
                more = (shim_state.Connected(shim.sid),)
        case shim_state.WriteDeadline(deadline_at_s):
            shim = shim._replace(file_deadline_at_s=deadline_at_s)
        case shim_state.Exec(before_at_s):
            shim = shim._replace(exec_before_at_s=before_at_s)
        case shim_state.Order():
            more = (shim_state.Unheard(effect),)
        case shim_state.Diagnose():
            more = (shim_state.Diagnosed(),)
        case shim_state.Terminate():
            shim = shim._replace(terminated=True)
        case shim_state.Kill():
            world, shim = kill_tree(world, shim)
            more = (shim_state.TreeSeen(True),) if shim.tree in (UNBORN, EMPTY) else ()
        case shim_state.Finish():
            world, shim = finish(world, shim)
    return world.with_shim(index, shim), more


def finish(world: ExploredWorld, shim: Shim) -> tuple[ExploredWorld, Shim]:
    """The shim is over. A prepared driver whose application has not begun is killed by it; any other is dead by now."""
    shim = shim._replace(
        state=None, over=True, exec_before_at_s=None, sent=None, twin=None, guarded_attempt=None
    )
    if shim.tree == WAITING:
        world, shim = kill_tree(world, shim)
    if shim.tree in (ALIVE, DYING):
        world = world.breaks(f"the shim of {shim.title} ends while its driver lives")
    return end_session(world, shim.sid), shim


def new_session(world: ExploredWorld, shim: Shim) -> tuple[ExploredWorld, Shim]:
    sid = sid_of(f"shim {shim.claim} #{shim.sessions + 1}")
    return open_session(world, sid), shim._replace(sid=sid, sessions=shim.sessions + 1)


def kill_tree(world: ExploredWorld, shim: Shim) -> tuple[ExploredWorld, Shim]:
    """SIGKILL to the tree, the starter included. It is empty when the kernel has done it: within K."""
    shim = shim._replace(exec_before_at_s=None)
    if shim.tree == WAITING:  # nothing of the application has run
        return world, shim._replace(tree=EMPTY)
    if shim.tree != ALIVE:
        return world, shim
    world = judge.kill(world, shim)
    return world, shim._replace(tree=DYING, dying_tick=world.tick)


def moves(world: ExploredWorld, index: int) -> Iterator[ExploredMove]:
    """Everything that this shim, its driver and its twin can do now."""
    shim = world.shims[index]
    if shim.over and shim.tree in (UNBORN, EMPTY) and shim.orphan is None:
        return
    if shim.state is not None:
        yield from own_moves(world, index, shim)
    yield from driver_moves(world, index, shim)
    if shim.orphan is not None:
        tx, sid, _ = shim.orphan
        yield ExploredMove(
            f"a late request of {shim.title} reaches the server",
            flush(world, index, shim, tx, sid),
            urgent=False,
        )
    if shim.twin is not None and not shim.over:
        yield from twin_moves(world, index, shim)


def own_moves(world: ExploredWorld, index: int, shim: Shim) -> Iterator[ExploredMove]:
    who = f"shim {shim.title}"
    if shim.exec_before_at_s is not None and not shim.prepared:
        label, after = execute(world, index, shim)
        yield ExploredMove(f"{who}: {label}", after, urgent=not shim.paused)
    if shim.sent is not None and shim.connected:
        label, after = carry_out(world, index, shim)
        yield ExploredMove(f"{who}: {label}", after, urgent=not shim.paused)
    if shim.paused:
        return
    if shim.inbox:
        first, rest = shim.inbox[0], shim.inbox[1:]
        after = deliver(world.with_shim(index, shim._replace(inbox=rest)), index, first)
        yield ExploredMove(f"{who} hears {type(first).__name__}", after)
    if shim.tick_due:
        after = deliver(world.with_shim(index, shim._replace(tick_due=False)), index, shim_state.Tick())
        yield ExploredMove(f"{who} looks at the clock", after)
    if (
        shim.connected
        and shim.state is not None
        and shim.state.session == shim.sid != 0
        and not world.has_session(shim.sid)
    ):
        yield ExploredMove(f"{who} hears that its session is gone", lose_session(world, index, shim))


def due(world: ExploredWorld, shim: Shim) -> bool:
    """Would a look at the clock change anything?"""
    if shim.state is None or shim.paused:
        return False
    state, effects = step(shim.state, shim_state.Tick(), world.now_s)
    return bool(effects) or state != shim.state


def lose_session(world: ExploredWorld, index: int, shim: Shim) -> ExploredWorld:
    events: tuple[Event, ...] = (shim_state.SessionLost(),)
    if shim.sent is not None:
        events = (unanswered(shim.sent[0]), *events)
    return deliver(world.with_shim(index, shim._replace(sent=None)), index, *events)


def unanswered(effect: Effect) -> Event:
    """What the shim hears when the answer to its request was lost."""
    match effect:
        case shim_state.Read(token):
            return shim_state.ReadFailed(token)
        case shim_state.Commit(tx):
            return shim_state.WriteOutcomeUnknown(tx.id)
    return shim_state.CloseFailed()


def carry_out(world: ExploredWorld, index: int, shim: Shim) -> tuple[str, ExploredWorld]:
    """The server carries the request out; the shim hears the answer."""
    assert shim.sent is not None
    effect, sent_tick = shim.sent
    after = world.with_shim(index, shim._replace(sent=None))
    match effect:
        case shim_state.Read(token):
            if not world.has_session(shim.sid):
                return "its read fails", deliver(after, index, shim_state.ReadFailed(token))
            own = seen(Ownership, world.tree.read(LAYOUT.own(shim.name)), LAYOUT.own(shim.name))
            lease, live = (
                world.tree.read(LAYOUT.lease(shim.name)),
                world.tree.read(LAYOUT.live(shim.uid, shim.attempt)),
            )
            answer = shim_state.OwnRead(
                token,
                own,
                lease.stat.version if lease else None,
                live.stat.ephemeral_owner if live else None,
            )
            return f"reads {judge.shown_own(own)}", deliver(after, index, answer)
        case shim_state.CloseSession(session):
            return "has its old session closed", deliver(
                end_session(after, session), index, shim_state.SessionClosed()
            )
    assert isinstance(effect, shim_state.Commit)
    tx = effect.transaction
    if effect.first and shim.recut:
        return f"its {tx.what} is not sent, for its connection is gone", deliver(
            after, index, shim_state.WriteNotSent(tx.id)
        )
    after, outcome = apply(after, tx, shim.sid)
    after = judge.commit(world, after, shim, tx, outcome)
    if outcome is None:
        events: tuple[Event, ...] = (shim_state.WriteOutcomeUnknown(tx.id),)
    elif isinstance(outcome, GuardFailed):
        events = (shim_state.WriteRejected(tx.id, outcome.path, outcome.kind),)
    else:
        own_path = LAYOUT.own(shim.name)
        set_own = [
            v
            for op, v in zip(tx.ops, outcome, strict=True)
            if isinstance(op, SetData) and op.path == own_path
        ]
        events = (shim_state.WriteCommitted(tx.id, now_s(sent_tick), set_own[0] if set_own else None),)
    return f"{tx.what}: {described(outcome)}", deliver(after, index, *events)


def flush(world: ExploredWorld, index: int, shim: Shim, tx: Transaction, sid: int) -> ExploredWorld:
    after, outcome = apply(world.with_shim(index, shim._replace(orphan=None)), tx, sid)
    return judge.commit(world, after, shim, tx, outcome)


def heal_shim(world: ExploredWorld, index: int) -> ExploredWorld:
    """On the same session, and what the old connection still held is void (first in, first out); or on none."""
    shim = world.shims[index]
    if world.has_session(shim.sid):
        world = world.with_shim(index, shim._replace(connected=True, orphan=None))
        return deliver(world, index, shim_state.Connected(shim.sid))
    if shim.sid == 0:  # its new client had found nobody yet
        world, shim = new_session(world, shim)
        return deliver(
            world.with_shim(index, shim._replace(connected=True)), index, shim_state.Connected(shim.sid)
        )
    world = world.with_shim(index, shim._replace(connected=True))
    return deliver(world, index, shim_state.SessionLost())


def execute(world: ExploredWorld, index: int, shim: Shim) -> tuple[str, ExploredWorld]:
    """The starter, let go, looks at the clock once more, and becomes the driver."""
    assert shim.exec_before_at_s is not None
    late = world.now_s >= shim.exec_before_at_s
    if late:
        after = world.with_shim(index, shim._replace(exec_before_at_s=None))
        return "its starter is too late", deliver(after, index, shim_state.ExecLate())
    after = judge.execute(world, shim)
    after = after.with_shim(index, shim._replace(exec_before_at_s=None, tree=ALIVE))
    return "executes its driver", deliver(after, index, shim_state.Executed(), shim_state.Reported("idle"))


def driver_moves(world: ExploredWorld, index: int, shim: Shim) -> Iterator[ExploredMove]:
    if shim.tree == WAITING and shim.exec_before_at_s is not None:
        from tests.explore import preparing  # which makes moves of what is here

        yield preparing.opening(world, index, shim)
    if shim.tree == ALIVE and shim.terminated and shim.status is None:
        yield ExploredMove(f"driver {shim.title} ends on SIGTERM", exit_root(world, index, 143), urgent=False)
    if shim.tree == DYING:
        yield ExploredMove(f"driver {shim.title} is dead, its tree empty", empty(world, index), urgent=False)


def exit_root(world: ExploredWorld, index: int, status: int) -> ExploredWorld:
    """The driver's root process ends; its children may live on, so the tree is not empty."""
    shim = world.shims[index]
    return deliver(world.with_shim(index, shim._replace(status=status)), index, shim_state.Exited(status))


def empty(world: ExploredWorld, index: int) -> ExploredWorld:
    shim = world.shims[index]
    events: tuple[Event, ...] = (shim_state.TreeSeen(True),)
    if shim.status is None:
        events = (shim_state.Exited(-9), *events)
    world = world.with_shim(
        index, shim._replace(tree=EMPTY, status=-9 if shim.status is None else shim.status)
    )
    world = executing.outlive(world, shim)
    return deliver(world, index, *events)


# -- the twin ----------------------------------------------------------------------------------------------------------


def twin_moves(world: ExploredWorld, index: int, shim: Shim) -> Iterator[ExploredMove]:
    twin = shim.twin
    assert twin is not None
    dead = shim.state is None
    if twin.act is Act.PROBE:
        twin = strike(twin, KillerProbe(dead, shim.file_deadline_at_s), world.now_s)
        if twin.act is Act.PROBE:
            return
    if twin.act is Act.KILL_TREE and shim.tree == DYING:
        return  # its kill is under way; ``empty`` comes within K
    struck, after = blow(world, index, twin)
    label = "kills its shim" if twin.act is Act.KILL_SHIM else "kills its driver"
    # dead already: nobody notices
    while struck.act is Act.KILL_SHIM and after.shims[index].state is None:
        struck, after = blow(after, index, struck)
    gone = struck if struck.act is not Act.OVER else None
    yield ExploredMove(
        f"the twin of {shim.title} {label}", after.with_shim(index, after.shims[index]._replace(twin=gone))
    )


def blow(world: ExploredWorld, index: int, killer: SecondKiller) -> tuple[SecondKiller, ExploredWorld]:
    """One act of a second killer, carried out."""
    if killer.act is Act.KILL_SHIM:
        return strike(killer, ShimStruck(True), world.now_s), crash(world, index)
    shim = world.shims[index]
    world, shim = kill_tree(world, shim)
    world = world.with_shim(index, shim)
    seen_tree = Emptiness.POPULATED if shim.tree == DYING else Emptiness.EMPTY
    if shim.tree == DYING:  # struck again until it is empty
        return killer, world
    return strike(killer, TreeStruck(0.0, seen_tree), world.now_s), world


def crash(world: ExploredWorld, index: int) -> ExploredWorld:
    """The shim is dead. What it had sent may still reach the server while its session lives."""
    shim = world.shims[index]
    if shim.state is None:
        return world
    orphan = shim.orphan
    if shim.sent is not None and isinstance(shim.sent[0], shim_state.Commit):
        orphan = (shim.sent[0].transaction, shim.sid, shim.sent[1])
    return world.with_shim(
        index,
        shim._replace(
            state=None,
            sent=None,
            orphan=orphan,
            inbox=(),
            # an opening that was written stays; a starter hears that its shim is gone
            exec_before_at_s=shim.exec_before_at_s if shim.prepared else None,
            paused=False,
            tick_due=False,
            terminated=False,
        ),
    )
