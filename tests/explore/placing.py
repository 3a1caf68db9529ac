"""Hosts that operators cordon and drain, and jobs that users move: the commands, and what is judged of where drivers are placed.

Production code to the letter: ``operations.hosts: HostOperations``, ``operations.jobs: JobOperations.move``, ``plan.moves``. No
driver is prepared for a move here: a job of this world has none, so it is stopped as soon as another host could take it.
What the plan may do is judged from the view that it was made from, by rules of its own; at rest, by what is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from supervisor.model.actions import Assign, Drain, Plan, Prepare
from supervisor.model.records import Cordon, Desired, JobRef, Ownership, OwnState, Phase
from supervisor.model.seen import Found
from supervisor.model.view import Row, View
from supervisor.operations.hosts import HostDid, HostDone, HostOperations
from supervisor.records.reading import seen
from supervisor.registry.operator_writes import cordon
from tests.explore.setting import LAYOUT

if TYPE_CHECKING:
    from supervisor.model.transaction import Transaction
    from tests.explore.replay import Replay
    from tests.explore.world import ExploredWorld, Snapshot, User, UserWish

HOSTED = ("cordon", "uncordon", "drain")
PARALLEL = 1
WRITTEN = (HostDid.CORDONED, HostDid.UNCORDONED, HostDid.DRAINING)


def run(replay: Replay, wish: UserWish) -> HostDone:
    """``wish.uid``: which host."""
    operator = HostOperations(replay, LAYOUT, "operator")
    match wish.what:
        case "cordon":
            return operator.cordon(wish.uid, "")
        case "uncordon":
            return operator.uncordon(wish.uid)
    return operator.drain(wish.uid, PARALLEL, "")


def finish(world: ExploredWorld, user: User, done: HostDone) -> ExploredWorld:
    """I8: what is acknowledged as done is written, and its hand-over, too."""
    if done.did in WRITTEN and not user.took:
        return world.breaks(
            f"I8: {user.wishes[user.done].what} is acknowledged, and no write of it has committed"
        )
    if done.asked is not None and done.asked.wish is not None:
        known = world.judge
        return world._replace(judge=known._replace(handed_over=max(known.handed_over, done.asked.epoch)))
    return world


def committed(world: ExploredWorld, wish: UserWish) -> ExploredWorld:
    """From now on the drivers of a host that is drained may be stopped, for good: a stop may be under way when it ends."""
    known = world.judge
    if wish.what != "drain":
        return world
    return world._replace(judge=known._replace(drained=known.drained | {int(wish.uid[1:]) - 1}))


# -- what a plan may do -------------------------------------------------------------------------------------------------


def flaws(view: View, plan: Plan) -> tuple[str, ...]:
    """What the plan of ``view`` must not do about hosts."""
    found = [
        f"hosts: {action.name} is given to {action.host.id}, which is cordoned"
        for action in plan.actions
        if isinstance(action, Assign | Prepare) and is_cordoned(view, action.host.id)
    ]
    for action in plan.actions:
        if isinstance(action, Drain):
            found.extend(_flaw_of_stop(view, action))
    for host, cordon_found in view.cordons.items():
        if isinstance(cordon_found, Found) and cordon_found.record.draining:
            found.extend(_too_many(view, plan, host, cordon_found.record))
    return tuple(found)


def is_cordoned(view: View, host: str) -> bool:
    found = view.cordons.get(host)
    return found is not None and not (isinstance(found, Found) and not found.record.cordoned)


def _is_moved(action: Drain) -> bool:
    """It is stopped for a drain of its host: neither its user nor an update is the reason."""
    job, own = action.ref.record, action.own.record
    same = (job.revision, job.restart_nonce) == (own.revision, own.restart_nonce)
    return same and job.desired is Desired.RUNNING and job.uid == own.uid


def _flaw_of_stop(view: View, action: Drain) -> list[str]:
    job, own = action.ref.record, action.own.record
    if job.desired is not Desired.RUNNING:
        return []
    cordon_found = view.cordons.get(own.supervisor)
    drained = isinstance(cordon_found, Found) and cordon_found.record.draining
    if _is_moved(action) and not drained:
        return [f"hosts: {action.name} is stopped, and nobody wants it to leave {own.supervisor}"]
    takers = [
        one.id for one in view.members.values() if one.distrust is None and not is_cordoned(view, one.id)
    ]
    others = [one for one in takers if one != own.supervisor]
    if not takers:
        return [f"hosts: {action.name} is stopped, and no host could start it"]
    move = job.move_in_force if own.restart_nonce != job.restart_nonce else None
    goes = move is not None and own.revision == job.revision and not drained
    if goes and move is not None and move.to not in others:
        return [f"hosts: {action.name} is stopped to go to {move.to}, which can't take it"]
    return []


def _too_many(view: View, plan: Plan, host: str, drain: Cordon) -> list[str]:
    stopped = [
        action.name
        for action in plan.actions
        if isinstance(action, Drain) and _is_moved(action) and action.own.record.supervisor == host
    ]
    away = [name for name, row in view.rows.items() if name not in stopped and _is_away(row)]
    if stopped and len(stopped) + len(away) > drain.max_parallel:
        return [f"hosts: {stopped} are stopped for the drain of {host}, and {away} do not run yet"]
    return []


def _is_away(row: Row) -> bool:
    """It is wanted, and does not run. Where more than one job may be drained nothing else ever stops one."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    lease = row.lease_of_owner
    runs = row.own.record.state is OwnState.CLAIMED and lease is not None and lease.phase is Phase.RUNNING
    return row.ref.record.desired is Desired.RUNNING and not runs


# -- at rest ------------------------------------------------------------------------------------------------------------


def cordons_of(tree: Snapshot) -> dict[str, Cordon]:
    found = {}
    for host in tree.children(LAYOUT.hosts) or ():
        record = seen(Cordon, tree.read(LAYOUT.host(host)), LAYOUT.host(host))
        if isinstance(record, Found) and record.record.cordoned:
            found[host] = record.record
    return found


def open_hosts(world: ExploredWorld) -> set[str]:
    """Hosts that are up, and not cordoned."""
    cordoned = cordons_of(world.tree)
    return {
        one.id
        for index, one in enumerate(world.supervisors)
        if index not in world.hosts_down and one.id not in cordoned
    }


def way_out(world: ExploredWorld) -> Transaction | None:
    """On the way to rest: where every host that is up is cordoned, an operator ends that of one."""
    cordoned = cordons_of(world.tree)
    up = [one.id for n, one in enumerate(world.supervisors) if n not in world.hosts_down]
    if not up or open_hosts(world):
        return None
    path = LAYOUT.host(up[0])
    before = seen(Cordon, world.tree.read(path), path)
    return cordon(LAYOUT, replace(cordoned[up[0]], cordoned=False, op="rest"), before)


def unmoved(world: ExploredWorld, name: str, own: Ownership) -> str | None:
    """At rest nothing is left of a drain, or of a move that could be made."""
    drained = {host for host, record in cordons_of(world.tree).items() if record.draining}
    if own.state is OwnState.CLAIMED and own.supervisor in drained and open_hosts(world):
        return f"/own/{name} is on {own.supervisor}, which is drained"
    return None


def waits_for_its_host(world: ExploredWorld, job: JobRef) -> bool:
    """It is to move to a host that can't take it: then it goes on where it is."""
    move = job.move_in_force
    return move is not None and move.to not in open_hosts(world)
