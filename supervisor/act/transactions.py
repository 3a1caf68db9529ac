"""Turns an action into the guarded multi that carries it out. There is one line per kind; the choices were
made in the plan.

Called by ``act.carry_out``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Prepare,
    Revoke,
    RollBack,
    RollBackToSavepoint,
    SuspendExhausted,
    Unassign,
    Withdraw,
)
from supervisor.model.transaction import Transaction
from supervisor.registry import leader_writes as write
from supervisor.registry import update_savepoint_writes as savepoint_write
from supervisor.registry.leader_write_context import LeaderWriteContext

BUILDERS: dict[type[Any], Callable[[LeaderWriteContext, Any], Transaction]] = {
    Assign: lambda context, a: write.assign(
        context,
        a.ref,
        a.own,
        a.host,
        a.account,
        a.waited,
        prepared=a.prepared,
        moved_by=a.moved_by,
        queries=a.queries,
        left=a.left,
    ),
    Unassign: lambda context, a: write.unassign(context, a.name, a.own, a.why),
    Drain: lambda context, a: write.drain(context, a.ref, a.own, a.why),
    GiveUpdateUp: lambda context, a: write.give_update_up(context, a.ref, a.own, a.why),
    RollBack: lambda context, a: write.roll_update_back(context, a.ref, a.own, a.why),
    KeepSavepoint: lambda context, a: savepoint_write.keep_savepoint(context, a.ref, a.own, a.savepoint),
    RollBackToSavepoint: lambda context, a: savepoint_write.roll_back_to_savepoint(
        context, a.ref, a.own, a.restored, a.why
    ),
    FinishUpdate: lambda context, a: write.finish_update(context, a.ref, a.own),
    Revoke: lambda context, a: write.revoke(context, a.name, a.own, a.lease, a.why),
    Bury: lambda context, a: write.bury(context, a.name, a.own, a.waited, a.why),
    Conclude: lambda context, a: write.conclude(context, a.ref, a.own, a.outcome, a.account, a.why),
    SuspendExhausted: lambda context, a: write.suspend_exhausted(context, a.ref, a.own, a.why),
    Prepare: lambda context, a: write.prepare(
        context, a.ref, a.own, a.host, a.level, a.why, new_host=a.new_host
    ),
    Withdraw: lambda context, a: write.withdraw(context, a.path, a.version),
    CleanUp: lambda context, a: write.clean_up(
        context,
        a.leftover.result,
        a.own,
        a.lease,
        a.leftover.claim,
        dead=a.dead,
        waited=a.waited,
        deletion_wanted=a.deletes_checkpoint,
    ),
}


def transaction_for(action: Action, context: LeaderWriteContext) -> Transaction:
    """Returns the multi for ``action``. ``context`` holds the epoch's fence and the stamp of this write."""
    return BUILDERS[type(action)](context, action)
