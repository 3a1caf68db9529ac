"""What a supervisor does next: contender, leader's pass and actions, each by the code of production; ``hosts`` has the rest.

A pass reads the registry in one piece unless the scenario says ``split``; then the leases are read at another moment than
the names. Its actions become multis under way at once, and the server carries each out at a moment of the explorer's
choosing, also while the supervisor is stopped: as requests do that were sent before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from supervisor.act.transactions import transaction_for
from supervisor.coord import leadership as lead
from supervisor.coord.election import (
    Candidate,
    ElectionView,
    election_view,
    gives_way,
    is_ours,
    take_leadership,
)
from supervisor.coord.leadership import State
from supervisor.errors import GuardFailed
from supervisor.model.actions import Action, Drain, GiveUpdateUp, Unassign
from supervisor.model.seen import Found, Unreadable
from supervisor.model.state import is_pending, observed_update
from supervisor.model.transaction import Node, Reads, Transaction
from supervisor.model.view import Row, SeenAcceptance
from supervisor.observe.observer import Observer
from supervisor.plan.check import violations
from supervisor.plan.decide import asks_what_was_left
from supervisor.plan.make import make_plan
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.leader_writes import unassign
from tests.explore import judge, operators, placing, removing, sweeping, trust, way_back
from tests.explore.controlling import StubController
from tests.explore.hosts import host
from tests.explore.setting import LAYOUT, PATHS, POLICY, SESSION_S, TICK_S
from tests.explore.shims import ExploredMove
from tests.explore.world import (
    ExploredFirstSeen,
    ExploredSupervisor,
    ExploredWorld,
    Sent,
    Snapshot,
    apply,
    described,
    end_session,
    open_session,
    sid_of,
)


def moves(world: ExploredWorld, index: int) -> Iterator[ExploredMove]:
    """Everything that this supervisor can do now."""
    me = world.supervisors[index]
    for number, sent in enumerate(me.queue):
        label, after = carry_out(world, index, number)
        yield ExploredMove(
            f"{me.id} (epoch {sent.epoch}): {label}",
            after,
            urgent=me.alive and not me.paused and me.connected,
        )
    if world.sweeps:
        yield from sweeping.under_way(world, index, me)
    if world.removes:
        yield from removing.under_way(world, index, me)
    if not me.alive or me.paused:
        return
    yield from contend(world, index, me)
    if me.connected and world.replaceable:
        yield from trust.marks(world, me)
    if me.term is not None and me.connected and world.replaceable:
        yield from trust.moves(world, index, me)
    if (
        me.term is not None
        and me.connected
        and not me.queue
        and not (world.replaceable and is_held(world, me))
    ):
        yield from lead_on(world, index, me)
    if world.sweeps and (me.sweep is not None or not (world.replaceable and is_held(world, me))):
        yield from sweeping.moves(world, index, me)
    if world.removes and not (world.replaceable and is_held(world, me)):
        yield from removing.moves(world, index, me)
    yield from host(world, index, me)


def is_held(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    """Its term is paused; or, unless the scenario is ``hasty``, it has not looked yet since its connection came back."""
    return me.suspended or (not world.hasty and any(isinstance(effect, lead.Probe) for effect in me.todo))


READ_TICKS = 2
"""How long a read may take before the client gives it up (5 s), where a scenario splits them."""

LOCAL = (lead.Connect, lead.BeginTerm, lead.PauseTerm, lead.ResumeTerm)


def is_local(world: ExploredWorld, index: int) -> bool:
    """Is the next thing that the contender does something that nobody can notice? It is done with the one before.

    A probe that finds all as it was is such: it moves nothing but the leader's own deadline.
    """
    me = world.supervisors[index]
    if not me.todo:
        return False
    match me.todo[0]:
        case lead.EndTerm():
            return not me.queue and me.erasing is None
        case lead.Disconnect():
            return not world.has_session(me.sid)
        case lead.Probe():
            return is_quiet(world, me._replace(todo=()))
    return isinstance(me.todo[0], LOCAL)


# -- the contender -----------------------------------------------------------------------------------------------------


def deliver(world: ExploredWorld, index: int, event: lead.Event) -> ExploredWorld:
    """The machine hears an event. What it wants done is done next, in its thread."""
    me = world.supervisors[index]
    machine_state, effects = lead.step(me.machine_state, event)
    return world.with_supervisor(index, me._replace(machine_state=machine_state, todo=(*me.todo, *effects)))


def contend(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    if me.todo:
        done = perform(world, index, me)
        if done is not None:
            yield ExploredMove(f"{me.id} {done[0]}", and_so_on(done[1], index))
        return
    if me.sid and not world.has_session(me.sid) and me.connected and me.machine_state.session == me.sid:
        before = world.with_supervisor(index, me._replace(tick_due=False))
        yield ExploredMove(
            f"{me.id} hears that its session is gone", and_so_on(deliver(before, index, lead.Lost()), index)
        )
        if me.tick_due:
            after = deliver(before, index, lead.ElectionTick(world.now_s, me.answered_at_s))
            yield ExploredMove(f"{me.id}'s contender looks at the clock", and_so_on(after, index))
        return
    if me.tick_due:
        after = world.with_supervisor(index, me._replace(tick_due=False))
        yield ExploredMove(
            f"{me.id}'s contender looks at the clock",
            deliver(after, index, lead.ElectionTick(world.now_s, me.answered_at_s)),
        )
    if me.machine_state.state is State.FOLLOWING and me.connected and leader_owner(world) != known_owner(me):
        yield ExploredMove(
            f"{me.id} hears that /leader has changed", deliver(world, index, lead.LeaderChanged())
        )


def known_owner(me: ExploredSupervisor) -> int:
    """Who leads as it saw it last, also where a flaw or a hand-over keeps it from acting on that."""
    unheeded = me.observed is not None and (me.observed.flaw is not None or me.observed.owner is None)
    return (me.observed.owner if unheeded else me.machine_state.owner) or 0


def and_so_on(world: ExploredWorld, index: int) -> ExploredWorld:
    """With what the contender does next and nobody can notice."""
    while is_local(world, index):
        done = perform(world, index, world.supervisors[index])
        assert done is not None
        world = done[1]
    return world


def leader_owner(world: ExploredWorld) -> int:
    node = world.tree.nodes.get(LAYOUT.leader)
    return 0 if node is None else node.owner


def clock_matters(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    """Would a tick lead to more than a proof of life that says nothing new?"""
    if not me.alive or me.paused or me.todo:
        return False
    machine_state, effects = lead.step(me.machine_state, lead.ElectionTick(world.now_s, me.answered_at_s))
    return machine_state != me.machine_state or bool(effects)


def is_quiet(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    """A leader whose probe would find all as it was: then the probe only moves its own deadline."""
    node = world.tree.nodes.get(LAYOUT.epoch)
    return (
        me.machine_state.state is State.LEADING
        and me.connected
        and world.has_session(me.sid)
        and not me.todo
        and node is not None
        and node.version == me.machine_state.fence
        and leader_owner(world) == me.sid
        and (not world.replaceable or trust.would_learn_nothing(world, me))
        and (LAYOUT.switchover not in world.tree.nodes or not gives_way(read_election(world), me.id))
    )


Done = tuple[str, ExploredWorld]


def follows_quietly(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    """A follower whose look would find the leader that it knows: a change of that it hears by its watch."""
    same = me.machine_state.owner is not None and me.machine_state.owner == leader_owner(world) != me.sid
    runs = me.alive and not me.paused and not me.todo
    if world.replaceable and not trust.would_learn_nothing(world, me):
        return False
    return me.machine_state.state is State.FOLLOWING and same and can_ask(world, me) and runs


def poll(world: ExploredWorld, index: int) -> ExploredWorld:
    """The look of a quiet follower, if it is time for one."""
    world = deliver(world, index, lead.ElectionTick(world.now_s, world.supervisors[index].answered_at_s))
    while world.supervisors[index].todo:
        done = perform(world, index, world.supervisors[index])
        assert done is not None
        world = done[1]
    return world


def perform(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Done | None:
    """The first thing that the machine wants done; None: something else comes first."""
    effect, rest = me.todo[0], me.todo[1:]
    me = me._replace(todo=rest)
    after = world.with_supervisor(index, me)
    match effect:
        case lead.Connect():
            return "connects", connect(after, index)
        case lead.Disconnect():
            after = end_session(after, me.sid) if me.connected else after
            return "closes its session", after.with_supervisor(index, me._replace(sid=0))
        case lead.ReadElection() | lead.ResolveOutcome() | lead.Probe():
            return ask(world, after, index, me, effect)
        case lead.Stand(epoch, version):
            return stand(after, index, me, epoch, version)
        case lead.BeginTerm(epoch, fence):
            term = me._replace(
                term=(epoch, fence),
                first_seen=ExploredFirstSeen(),
                reading=None,
                suspended=False,
                unreferenced=(),
                sweep=None,
                known_deletions=(),
            )
            term = trust.begun(term, epoch) if world.replaceable else term
            after = operators.changes_too_often(after, epoch)
            return f"leads with epoch {epoch}", after.with_supervisor(index, term)
        case lead.EndTerm(why):
            return end_term(world, after, index, me, why)
    return "goes on", after.with_supervisor(index, me._replace(suspended=isinstance(effect, lead.PauseTerm)))


def ask(
    world: ExploredWorld, after: ExploredWorld, index: int, me: ExploredSupervisor, effect: lead.Effect
) -> Done:
    """``sync``, and read who leads."""
    if not can_ask(world, me):
        failed = {
            lead.ReadElection: lead.ElectionReadFailed(world.now_s, ""),
            lead.ResolveOutcome: lead.ResolveFailed(world.now_s),
        }.get(type(effect))
        return "hears nothing", after if failed is None else deliver(after, index, failed)
    found = read_election(world)
    me = trust.trust_checked(world, me) if world.replaceable else me
    after = after.with_supervisor(index, me._replace(observed=found, answered_at_s=world.now_s))
    after = judge.reads_doorbell(after, index) if world.replaceable else after
    if isinstance(effect, lead.Probe):
        version = None if found.flaw else found.version
        return "probes", deliver(after, index, lead.Probed(version, found.owner, gives_way(found, me.id)))
    if isinstance(effect, lead.ResolveOutcome) and is_ours(
        found, f"{me.op_id}.{me.machine_state.epoch}", me.sid
    ):
        return "finds that it was elected", deliver(after, index, lead.Elected(found.version))
    return "looks who leads", deliver(after, index, election_read(world, me, found))


def end_term(
    world: ExploredWorld, after: ExploredWorld, index: int, me: ExploredSupervisor, why: str
) -> Done | None:
    """The term's tasks are awaited: the machine goes on when nothing of them is under way."""
    if me.erasing is not None:
        return None
    if me.queue:
        gone = me._replace(term=None, reading=None, todo=(lead.EndTerm(why), *me.todo))
        if any(world.has_session(sent.sid) for sent in me.queue) and me.connected:
            return None
        return "gives up what was under way", after.with_supervisor(index, gone._replace(queue=()))
    after = after.with_supervisor(
        index,
        me._replace(term=None, reading=None, distrust=None, unreferenced=(), sweep=None, known_deletions=()),
    )
    return f"ends its term: {why}", deliver(after, index, lead.TermDrained())


def can_ask(world: ExploredWorld, me: ExploredSupervisor) -> bool:
    return me.connected and world.has_session(me.sid)


def connect(world: ExploredWorld, index: int) -> ExploredWorld:
    me = world.supervisors[index]
    number = me.sessions + 1
    sid = sid_of(f"{me.id} #{number}")
    world = open_session(world, sid)
    me = me._replace(sid=sid, sessions=number, answered_at_s=world.now_s, op_id=f"{me.id}.{number}")
    return deliver(world.with_supervisor(index, me), index, lead.SessionConnected(sid, SESSION_S))


def read_election(world: ExploredWorld) -> ElectionView:
    tree = world.tree
    return election_view(
        PATHS, tree.read(LAYOUT.leader), tree.read(LAYOUT.epoch), tree.read(LAYOUT.switchover)
    )


def election_read(world: ExploredWorld, me: ExploredSupervisor, found: ElectionView) -> lead.ElectionRead:
    return lead.ElectionRead(
        world.now_s, found.owner, found.epoch.epoch, found.version, found.flaw, gives_way(found, me.id)
    )


def stand(
    world: ExploredWorld, index: int, me: ExploredSupervisor, epoch: int, version: int
) -> tuple[str, ExploredWorld]:
    tx = election_of(me, epoch, version)
    after, reply = apply(world, tx, me.sid) if me.connected else (world, None)
    if reply is None:
        return "stands, and hears nothing", deliver(after, index, lead.StoodUnknown(""))
    if isinstance(reply, GuardFailed):
        return f"stands for epoch {epoch}: {described(reply)}", deliver(
            after, index, lead.Rejected(world.now_s, reply.path)
        )
    assert reply[1] is not None
    return f"is elected, epoch {epoch}", deliver(after, index, lead.Elected(reply[1]))


def election_of(me: ExploredSupervisor, epoch: int, version: int) -> Transaction:
    assert me.observed is not None
    return take_leadership(
        PATHS,
        Candidate(me.id, ""),
        epoch=epoch,
        op_id=f"{me.op_id}.{epoch}",
        seen=me.observed.epoch,
        version=version,
    )


# -- the leader's loop -------------------------------------------------------------------------------------------------


class Still:
    """What the observer reads from: one tree, at one moment, or at two."""

    def __init__(self, tree: Snapshot, now_s: float, sent_at_s: float | None = None) -> None:
        self.tree = tree
        self.now_s = now_s
        self.sent_at_s = now_s if sent_at_s is None else sent_at_s

    def read(self, path: str) -> Node | None:
        return self.tree.read(path)

    def children(self, path: str) -> tuple[str, ...] | None:
        return self.tree.children(path)

    def read_many(self, paths: Sequence[str]) -> Reads:
        return Reads(tuple(map(self.tree.read, paths)), self.sent_at_s, self.now_s)


class Split(Still):
    """Names are read from ``first``, at the time of sending; what follows the listing of /live from ``tree``, now."""

    def __init__(self, first: Snapshot, first_at_s: float, tree: Snapshot, now_s: float) -> None:
        super().__init__(first, first_at_s)
        self._then = (tree, now_s)

    def children(self, path: str) -> tuple[str, ...] | None:
        if path == LAYOUT.lives:
            self.sent_at_s = self.now_s
            self.tree, self.now_s = self._then
        return super().children(path)


def lead_on(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    tree, epoch = world.tree if me.lag is None else me.lag, me.term[0] if me.term else 0
    if me.reading is not None:
        first, first_at_s = me.reading
        outcome = take_pass(me, Split(first, first_at_s, tree, world.now_s), world.now_s)
        after = after_pass(world, index, me._replace(reading=None), outcome)
        late = world.now_s - first_at_s >= READ_TICKS * TICK_S
        yield ExploredMove(
            f"{me.id} (epoch {epoch}) reads the leases and plans{decided(outcome)}", after, urgent=late
        )
        return
    outcome = passed(world, me, tree)
    first_seen, sents, broken, nudged = outcome
    if not sents and not broken and first_seen == me.first_seen and not (nudged and can_be_nudged(me)):
        return
    if world.split:
        reading = me._replace(reading=(tree, world.now_s))
        yield ExploredMove(f"{me.id} (epoch {epoch}) reads the names", world.with_supervisor(index, reading))
        return
    yield ExploredMove(
        f"{me.id} (epoch {epoch}) reads and plans{decided(outcome)}", after_pass(world, index, me, outcome)
    )
    if world.prepares:
        yield from gives_up(world, index, me, tree, outcome)


def gives_up(
    world: ExploredWorld, index: int, me: ExploredSupervisor, tree: Snapshot, outcome: Outcome
) -> Iterator[ExploredMove]:
    """No driver of the new revision can be prepared, a failed one has left nothing, or no savepoint can be made or restored:
    whether that is so is not modelled, it may be so at any time."""
    still = Still(tree, world.now_s)
    others = [
        take_pass(me, still, world.now_s, gives_up=True),
        take_pass(me, still, world.now_s, clean=True),
        take_pass(me, still, world.now_s, made=False),
    ]
    if any(sent.tx.what == "keep_savepoint" for sent in outcome[1]):
        others.append(take_pass(me, still, world.now_s, queued=True))
    for other in others:
        if other[1] != outcome[1]:
            yield ExploredMove(
                f"{me.id} (epoch {me.term[0] if me.term else 0}) reads and plans{decided(other)}",
                after_pass(world, index, me, other),
                urgent=False,
            )


def passed(world: ExploredWorld, me: ExploredSupervisor, tree: Snapshot) -> Outcome:
    """What a pass would come to now, worked out once for each state of the registry."""
    key = (me.term, me.first_seen, world.tick, me.recorded, me.distrust)
    outcome = tree.memo.get(key)
    if outcome is None:
        outcome = tree.memo[key] = take_pass(me, Still(tree, world.now_s), world.now_s)
    return outcome  # type: ignore[no-any-return]


def notice(world: ExploredWorld) -> ExploredWorld:
    """Leaders that have nothing to do have observed: their FirstSeen instants are as early as they can be.

    A pass without actions changes only FirstSeen, and those of one tick are of one time, whenever within it they
    are taken. Earlier first observations end waits earlier, so the worst that a leader may do is kept; and a pass fewer is interleaved.
    """
    for index, me in enumerate(world.supervisors):
        reads_doorbell = me.alive and not me.paused and me.connected and me.term is not None and not me.queue
        if reads_doorbell and me.reading is None and me.lag is None and not world.split:
            first_seen, sents, broken, _ = passed(world, me, world.tree)
            if not sents and not broken and first_seen != me.first_seen:
                world = world.with_supervisor(index, me._replace(first_seen=first_seen))
    return world


Outcome = tuple[ExploredFirstSeen, tuple[Sent, ...], tuple[str, ...], bool]
"""``bool``: it has seen that a hand-over of its term is wanted."""


def take_pass(
    me: ExploredSupervisor,
    zoo: Still,
    now_s: float,
    *,
    gives_up: bool = False,
    clean: bool = False,
    made: bool = True,
    queued: bool = False,
) -> Outcome:
    """Observe, plan, check. What a leader remembers between passes is FirstSeen; it reads all the rest anew.

    With ``gives_up``, no driver of a new revision could be prepared. With ``clean``, a failed one has left nothing; else nobody
    can tell. Unless ``made``, there is no savepoint, or no copy; with ``queued``, it waits for its turn."""
    assert me.term is not None
    epoch, fence = me.term
    observer = Observer(zoo, LAYOUT, lambda: zoo.now_s, epoch)
    observer._first_seen._owns.update(me.first_seen.owns)
    observer._first_seen._leases.update(me.first_seen.leases)
    observer._first_seen._running.update(me.first_seen.running)
    if me.first_seen.accepted is not None:
        observer._accepted = SeenAcceptance(Unreadable("", 0), *me.first_seen.accepted)
    view = observer.take_view(None, recorded=me.recorded, distrust=me.distrust)
    rows = view.rows.values()
    judges = any(isinstance(row.ref, Found) and observed_update(row.ref.record) for row in rows)
    if clean:
        view = replace(view, rows={row.name: with_answer(row) for row in rows})
    if judges:
        view = way_back.answered(view, zoo, now_s, made=made, queued=queued)
    plan = make_plan(view, POLICY, now_s)
    if gives_up:
        plan = replace(plan, actions=tuple(map(given_up, plan.actions)))
    broken = (*violations(view, plan), *placing.flaws(view, plan), *way_back.flaws(view, plan))
    accepted = view.accepted and (view.accepted.since_zxid, view.accepted.first_seen_at_s)
    first_seen = ExploredFirstSeen(
        tuple(sorted(observer._first_seen._owns.items())),
        tuple(sorted(observer._first_seen._leases.items())),
        accepted,
        tuple(sorted(observer._first_seen._running.items())) if judges else (),
    )
    context = LeaderWriteContext(LAYOUT, epoch, fence, f"e{epoch}", "")
    sents = tuple(
        Sent(a.name, transaction_for(a, context), me.sid, fence, a.why, without_entry(a, context))
        for a in plan.actions
    )
    hand = StubController(context, me.distrust).conclude_pass(view, plan, broken)
    sents += tuple(Sent(f"/{tx.what}", tx, me.sid, fence, "", number=epoch) for tx in hand.made)
    return first_seen, sents if not broken else (), broken, hand.nudged


def with_answer(row: Row) -> Row:
    return replace(row, left_behind="") if asks_what_was_left(row) else row


def given_up(action: Action) -> Action:
    """Where production's plan waits for a prepared driver, that of this world drains: it has none to wait for."""
    if isinstance(action, Drain) and is_pending(action.ref.record, action.own.record):
        return GiveUpdateUp(action.name, "no driver of it can be prepared", action.ref, action.own)
    return action


def without_entry(action: Action, context: LeaderWriteContext) -> Transaction | None:
    """An un-assignment whose entry is gone: the ownership alone is put right."""
    return unassign(context, action, entry_exists=False) if isinstance(action, Unassign) else None


def decided(outcome: Outcome) -> str:
    return "".join(f"; {sent.tx.what} {sent.name}: {sent.why}" for sent in outcome[1])


def after_pass(world: ExploredWorld, index: int, me: ExploredSupervisor, outcome: Outcome) -> ExploredWorld:
    first_seen, sents, broken, nudged = outcome
    after = judge.planned(
        world.with_supervisor(index, me._replace(first_seen=first_seen, queue=sents)), sents, me.id
    )
    after = judge.plans(after, index, sents) if world.replaceable else after
    if nudged and can_be_nudged(me):
        after = deliver(after, index, lead.Nudged())
    return after.breaks(f"the check stopped a plan: {broken[0]}") if broken else after


def can_be_nudged(me: ExploredSupervisor) -> bool:
    """Its contender has nothing else to do: else it will look anyway."""
    return me.machine_state.state is State.LEADING and not me.todo


def carry_out(world: ExploredWorld, index: int, number: int) -> tuple[str, ExploredWorld]:
    """The server carries out one action's multi."""
    me = world.supervisors[index]
    sent = me.queue[number]
    queue = (*me.queue[:number], *me.queue[number + 1 :])
    before = world.with_supervisor(index, me._replace(queue=queue))
    after, reply = apply(before, sent.tx, sent.sid)
    if (
        isinstance(reply, GuardFailed)
        and sent.alone is not None
        and reply.path.startswith(f"{LAYOUT.assigned}/")
    ):
        sent = sent._replace(tx=sent.alone)  # as ``act.carry_out`` does
        after, reply = apply(before, sent.tx, sent.sid)
    after = judge.leader_commit(before, after, sent, reply)
    if isinstance(reply, tuple) and me.lag is not None:  # a follower answers a write when it has it itself
        after = after.with_supervisor(index, after.supervisors[index]._replace(lag=None))
    if isinstance(reply, GuardFailed) and reply.path == LAYOUT.epoch and me.alive and not me.paused:
        after = deliver(after, index, lead.Deposed("a write failed on the epoch"))
    return f"{sent.tx.what} {sent.name}: {described(reply)}", after
