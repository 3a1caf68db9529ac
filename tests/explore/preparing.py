"""Prepared drivers: brought up before there is an attempt, handed one by the agent, opened by their shim.

The shim is ``shim.machine`` from its stage ``prepared`` on; the multis are those of every attempt. The agent is modelled, and more
freely than it is: it may prepare a driver of what is registered at any time, hand any one that fits to an assignment or start that one
cold, and discard at any time what it has not handed over; so what the leader asks for, and when, need not be explored. A driver reads its
opening at any time after it was written, also when its shim is dead: the opening is a file.

A tree that waits at its barrier runs nothing of the application, and is no driver to the judge. Killed, it is empty at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.daemon.host.guarded_attempt import HandedRead
from supervisor.model.launch import NO_ATTEMPT
from supervisor.model.records import PERMANENT_CAUSES, Assignment, Cause, Desired, JobRef, Ownership
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from supervisor.registry.attempt_writes import Exit, refuse
from supervisor.shim import state as shim_state
from supervisor.shim.state import ShimState, Stage
from tests.explore import judge
from tests.explore.setting import LAYOUT, NO_KILLER
from tests.explore.shims import WAITING, ExploredMove, deliver, launch_of
from tests.explore.world import ExploredSupervisor, ExploredWorld, Shim, apply, described

assert Cause.PREPARED_LOST not in PERMANENT_CAUSES


def moves(world: ExploredWorld, index: int, me: ExploredSupervisor) -> Iterator[ExploredMove]:
    """What the agent does about them, besides handing them over."""
    mine = [(number, shim) for number, shim in enumerate(world.shims) if shim.prepared and shim.host == index]
    for name in world.tree.children(LAYOUT.jobs) or ():
        ref = seen(JobRef, world.tree.read(LAYOUT.job(name)), LAYOUT.job(name))
        if (
            isinstance(ref, Found)
            and ref.record.desired is Desired.RUNNING
            and prepared_so_far(world) < world.prepares
        ):
            yield ExploredMove(
                f"{me.id} prepares a driver for {ref.record.uid}",
                prepare(world, index, me, ref.record),
                urgent=False,
            )
    for number, shim in mine:
        if is_free(shim) and shim.state is not None:
            yield ExploredMove(
                f"{me.id} discards {shim.title}",
                deliver(world, number, shim_state.DiscardAsked()),
                urgent=False,
            )
        if shim.attempt != NO_ATTEMPT and shim.state is None and not shim.over:
            yield from give_back(world, number, shim, me)


def prepared_so_far(world: ExploredWorld) -> int:
    return sum(1 for shim in world.shims if shim.prepared)


def is_free(shim: Shim) -> bool:
    return shim.prepared > 0 and shim.attempt == NO_ATTEMPT and not shim.over


def prepare(world: ExploredWorld, host: int, me: ExploredSupervisor, job: JobRef) -> ExploredWorld:
    """The agent starts a shim without an attempt: it has no session, and its driver is up at once."""
    number = prepared_so_far(world) + 1
    claim = f"{job.uid}.p{number}"
    launch = launch_of(job.name, job.uid, NO_ATTEMPT, -1, -1, me.id, job.revision, claim)
    state = ShimState(launch, LAYOUT, claim, 1, 2, born_at_s=world.now_s, stage=Stage.PREPARED)
    shim = Shim(job.name, job.uid, NO_ATTEMPT, 1, host, claim, -1, state, sid=0, sessions=0, tree=WAITING)
    shim = shim._replace(twin=NO_KILLER, prepared=number, revision=job.revision)
    return world._replace(shims=(*world.shims, shim))


def hand_over(
    world: ExploredWorld, index: int, me: ExploredSupervisor, entry: Assignment
) -> Iterator[ExploredMove]:
    """Any one that fits. Whether its shim is alive is not known to the agent at this moment."""
    for number, shim in enumerate(world.shims):
        if shim.host == index and is_free(shim) and (shim.uid, shim.revision) == (entry.uid, entry.revision):
            launch = launch_of(
                entry.name,
                entry.uid,
                entry.attempt,
                entry.job_version,
                entry.own_version,
                me.id,
                entry.revision,
                shim.claim,
            )
            given = shim._replace(attempt=entry.attempt, own_version=entry.own_version)
            after = deliver(world.with_shim(number, given), number, shim_state.HandedOver(launch))
            yield ExploredMove(
                f"{me.id} hands {entry.uid}.{entry.attempt} to {shim.claim}", after, urgent=False
            )


def give_back(
    world: ExploredWorld, number: int, shim: Shim, me: ExploredSupervisor
) -> Iterator[ExploredMove]:
    """The agent finds that the shim to which it handed an attempt is dead, and that the attempt is still assigned."""
    path = LAYOUT.assignment(me.id, shim.uid, shim.attempt)
    given = seen(Assignment, world.tree.read(path), path)
    own = seen(Ownership, world.tree.read(LAYOUT.own(shim.name)), LAYOUT.own(shim.name))
    if not isinstance(given, Found) or not isinstance(own, Found) or not world.has_session(me.agent_sid):
        return
    tx = refuse(LAYOUT, given.record, own, Exit(Cause.PREPARED_LOST, ""), f"refuse {shim.key}", "")
    if tx is None:
        return
    after, outcome = apply(world, tx, me.agent_sid)
    after = judge.commit(world, after, shim, tx, outcome)
    yield ExploredMove(
        f"{me.id} gives {shim.key} back, for its prepared driver is gone: {described(outcome)}",
        after,
        urgent=False,
    )


def handed_to(world: ExploredWorld, number: int) -> HandedRead:
    """What the guardian finds in ``handed.json`` once the shim is dead."""
    shim = world.shims[number]
    if shim.attempt == NO_ATTEMPT:
        return HandedRead(None)
    me = world.supervisors[shim.host]
    launch = launch_of(
        shim.name, shim.uid, shim.attempt, 0, shim.own_version, me.id, shim.revision, shim.claim
    )
    return HandedRead(launch)


def opening(world: ExploredWorld, number: int, shim: Shim) -> ExploredMove:
    """The driver reads its opening, whenever it runs, and looks at the clock."""
    assert shim.exec_before_at_s is not None
    if world.now_s >= shim.exec_before_at_s:
        after = world.with_shim(number, shim._replace(exec_before_at_s=None, tree="empty", status=78))
        after = deliver(after, number, shim_state.ExecLate(), shim_state.Exited(78))
        return ExploredMove(f"driver {shim.title} reads its opening too late", after, urgent=False)
    after = judge.execute(world, shim)
    after = after.with_shim(number, shim._replace(exec_before_at_s=None, tree="alive"))
    events = (shim_state.Executed(), shim_state.Reported("begun"), shim_state.Reported("idle"))
    return ExploredMove(
        f"driver {shim.title} reads its opening and begins", deliver(after, number, *events), urgent=False
    )
