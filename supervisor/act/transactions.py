"""Action → the guarded multi that carries it out. One line per kind; the choices were made in the plan.

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
    Revoke,
    SuspendExhausted,
    Unassign,
)
from supervisor.model.transaction import Transaction
from supervisor.registry import leader_writes as write
from supervisor.registry.leader_writes import Desk

BUILDERS: dict[type[Any], Callable[[Desk, Any], Transaction]] = {
    Assign: lambda desk, a: write.assign(desk, a.ref, a.own, a.host, a.account, a.waited),
    Unassign: lambda desk, a: write.unassign(desk, a.name, a.own, a.why),
    Drain: lambda desk, a: write.drain(desk, a.ref, a.own, a.why),
    Revoke: lambda desk, a: write.revoke(desk, a.name, a.own, a.lease, a.why),
    Bury: lambda desk, a: write.bury(desk, a.name, a.own, a.waited, a.why),
    Conclude: lambda desk, a: write.conclude(desk, a.ref, a.own, a.outcome, a.account, a.why),
    SuspendExhausted: lambda desk, a: write.suspend_exhausted(desk, a.ref, a.own, a.why),
    CleanUp: lambda desk, a: write.clean_up(
        desk,
        a.leftover.result,
        a.own,
        a.lease,
        a.leftover.claim,
        dead=a.dead,
        waited=a.waited,
        doomed=a.deletes_checkpoint,
    ),
}


def transaction_for(action: Action, desk: Desk) -> Transaction:
    """The multi for ``action``. ``desk``: the epoch's fence and the stamp of this write."""
    return BUILDERS[type(action)](desk, action)
