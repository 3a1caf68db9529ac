"""Checks a plan last before it is carried out: a plan that would break an invariant stops the pass. It is
pure.

The check derives nothing from the table: for each action it judges from the records alone whether it may be
carried out (I1, I2, I7, I10). A message from here is a defect of this software, and the reason why nothing
happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from supervisor.model.actions import (
    Action,
    Assign,
    Bury,
    CleanUp,
    Conclude,
    Drain,
    FinishUpdate,
    GiveUpdateUp,
    KeepSavepoint,
    Plan,
    Prepare,
    Revoke,
    RollBack,
    RollBackToSavepoint,
    Waited,
    Withdraw,
)
from supervisor.model.driver_memory import next_memory
from supervisor.model.load import Load, loads_of
from supervisor.model.location import overlaps
from supervisor.model.records import DEAD, Cleanliness, Desired, JobRef, Member, OwnState
from supervisor.model.seen import Found
from supervisor.model.state import is_pending, observed_update
from supervisor.model.view import Row, View
from supervisor.plan.after_restore import may_start
from supervisor.plan.decide import wait_of_s
from supervisor.plan.room import freed


def violations(view: View, plan: Plan) -> tuple[str, ...]:
    """Returns one sentence for each action that must not be carried out; it is empty if the plan is sound."""
    found = [
        f"{name}: {n} actions in one plan"
        for name, n in Counter(a.name for a in plan.actions).items()
        if n > 1
    ]
    if plan.actions and (view.distrust is not None or view.paused):
        found.append("actions although the registry is not trusted or the cluster is paused")
    cordoned = view.cordoned
    for action in plan.actions:
        if isinstance(action, Assign) and not may_start(view):
            found.append(f"{action.name}: started before the wait after an accepted restore was over")
        if not view.recorded and not isinstance(action, Drain | Revoke):
            found.append(f"{action.name}: started or cleaned before the epoch was recorded")
        flaw = _flaw(action, view.rows.get(action.name, Row(action.name)))
        if flaw is not None:
            found.append(f"{action.name}: {type(action).__name__} although {flaw}")
        if isinstance(action, Assign | Prepare) and action.host.id in cordoned:
            found.append(f"{action.name}: {type(action).__name__} although {cordoned[action.host.id]}")
        if isinstance(action, Prepare) and view.members.get(action.host.id) is not action.host:
            found.append(f"{action.name}: {action.host.id} was asked to prepare its driver and is not there")
    return (*found, *_overbooked(view, plan))


def _flaw(action: Action, row: Row) -> str | None:
    if row.flaws and not isinstance(action, Withdraw):
        return "its records could not all be read"
    if isinstance(action, Withdraw):
        return None  # a wish, which may be of a job that is gone; nothing rests on it
    if action.own is not row.own:
        return "it was decided on another reading of the ownership"
    if isinstance(action, Assign):
        return _flaw_of_assign(action, row)
    if isinstance(action, Prepare):
        return _flaw_of_prepare(action, row)
    if isinstance(action, GiveUpdateUp | KeepSavepoint | RollBack | RollBackToSavepoint | FinishUpdate):
        return _flaw_of_update(action, row)
    if isinstance(action, Conclude) and action.own.record.state is not OwnState.EXITED:
        return "no attempt has exited"
    if isinstance(action, Bury) and not _has_waited(action.waited, row):
        return "the full wait is not over"
    if isinstance(action, CleanUp):
        return _flaw_of_clean_up(action, row)
    return None


def _flaw_of_update(
    action: GiveUpdateUp | KeepSavepoint | RollBack | RollBackToSavepoint | FinishUpdate, row: Row
) -> str | None:
    if isinstance(action, GiveUpdateUp | KeepSavepoint):
        return None if _is_pending(row) else "what runs is not the revision before its update"
    if isinstance(action, FinishUpdate):
        return None if _is_observed(row, OwnState.CLAIMED) else "no observed update of it runs"
    if not _is_observed(row, OwnState.EXITED):
        return "no observed update of it has an attempt that ended"
    return _flaw_of_way_back(action, row) if isinstance(action, RollBackToSavepoint) else None


def _flaw_of_assign(action: Assign, row: Row) -> str | None:
    if not isinstance(row.ref, Found) or row.ref.record.desired is not Desired.RUNNING:
        return "it is not wanted running"
    if any(left.result.record.uid == row.ref.record.uid for left in row.leftovers):
        return "this uid has a terminal result"
    if action.own.record.state not in DEAD and not _has_waited(action.waited, row):
        return "an older attempt may be alive"
    return _lacking(row.ref.record, action.host)


def _lacking(job: JobRef, host: Member) -> str | None:
    required = job.terms.placement.require if job.terms.placement is not None else ()
    lacks = set(required) - set(host.labels)
    if job.terms.spark and job.terms.spark not in host.sparks:
        lacks.add(f"spark {job.terms.spark}")
    return f"{host.id} does not have {', '.join(sorted(lacks))}" if lacks else None


def _flaw_of_prepare(action: Prepare, row: Row) -> str | None:
    if not isinstance(row.ref, Found) or row.ref.record.desired is not Desired.RUNNING:
        return "it is not wanted running"
    if action.host.distrust is not None or action.host.prepares == 0:
        return f"{action.host.id} keeps no prepared drivers"
    return _lacking(row.ref.record, action.host)


def _is_pending(row: Row) -> bool:
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    return is_pending(row.ref.record, row.own.record)


def _is_observed(row: Row, state: OwnState) -> bool:
    """Says whether /own is in ``state``, with an attempt of the target of an update that is observed."""
    if not isinstance(row.ref, Found) or not isinstance(row.own, Found):
        return False
    job, own = row.ref.record, row.own.record
    is_mine = own.uid == job.uid and own.revision == job.revision and own.state is state
    return is_mine and observed_update(job) is not None


def _flaw_of_way_back(action: RollBackToSavepoint, row: Row) -> str | None:
    job, revision = action.ref.record, action.restored.revision
    if action.ref is not row.ref:
        return "it was decided on another reading of the reference"
    if job.update is None or not job.update.savepoint:
        return "no savepoint was made before its update"
    if revision is None or revision.revision != job.next_revision:
        return "the copy is of another revision"
    if revision.terms.checkpoint is None or job.terms.checkpoint is None:
        return "it has no checkpoint"
    return "the copy is where it is" if overlaps(revision.terms.checkpoint, job.terms.checkpoint) else None


def _flaw_of_clean_up(action: CleanUp, row: Row) -> str | None:
    result = action.leftover.result.record
    if isinstance(row.ref, Found) and row.ref.record.uid == result.uid:
        return "the uid is registered"
    if result.state is not Cleanliness.DIRTY:
        return "its result is clean"
    if action.dead and action.own.record.state not in DEAD and not _has_waited(action.waited, row):
        return "an attempt may be alive"
    return None


def _has_waited(waited: Waited | None, row: Row) -> bool:
    """Says whether the full wait is over. That is only so for draining and revoked attempts: a claimed one
    must be revoked first."""
    if waited is None or row.lease is None or not isinstance(row.own, Found):
        return False
    moved = row.own.record.state in (OwnState.DRAINING, OwnState.REVOKED)
    return moved and waited.lease is row.lease.seen and row.lease.silent_s >= wait_of_s(row)


def _overbooked(view: View, plan: Plan) -> tuple[str, ...]:
    loads: Mapping[str, Load] = loads_of(view.rows.values())
    for action in plan.actions:
        if isinstance(action, Assign):
            loads = freed(loads, action.own.record) if action.waited else loads
            memory = next_memory(action.ref.record, action.own.record).whole
            load = loads.get(action.host.id, Load()).plus(memory, starting=True)
            loads = {**loads, action.host.id: load}
    hosts = {action.host.id: action.host for action in plan.actions if isinstance(action, Assign)}
    return tuple(
        f"{host.id} would be given more than it can carry"
        for host in hosts.values()
        if loads[host.id].drivers > host.drivers or loads[host.id].memory > host.memory
    )
