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
    Assign: write.assign,
    Unassign: write.unassign,
    Drain: write.drain,
    GiveUpdateUp: write.give_update_up,
    RollBack: write.roll_update_back,
    KeepSavepoint: savepoint_write.keep_savepoint,
    RollBackToSavepoint: savepoint_write.roll_back_to_savepoint,
    FinishUpdate: write.finish_update,
    Revoke: write.revoke,
    Bury: write.bury,
    Conclude: write.conclude,
    SuspendExhausted: write.suspend_exhausted,
    Prepare: write.prepare,
    Withdraw: write.withdraw,
    CleanUp: write.clean_up,
}


def transaction_for(action: Action, context: LeaderWriteContext) -> Transaction:
    """Returns the multi for ``action``. ``context`` holds the epoch's fence and the stamp of this write."""
    return BUILDERS[type(action)](context, action)
