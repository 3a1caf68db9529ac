"""Defines from where a leader writes: the layout, the fence of its term, and the stamp of one write.

Every multi of a leader about jobs is made by ``LeaderWriteContext.transaction`` (those about leadership are made by
``coord.election``). So every one begins with a check of the *persistent* epoch znode at the version of this term (I4). A
check of the ephemeral /leader would be no fence, because its version restarts at 0. And none commits while the cluster is
paused: ``pause`` holds from the moment it is acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.model.records import Ownership
from supervisor.model.seen import Found
from supervisor.model.transaction import Check, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry.attempt_writes import not_paused
from supervisor.registry.older_history import older_aside


@dataclass(frozen=True, slots=True)
class LeaderWriteContext:
    """Holds what every write of a leader needs: the layout, the fence of its term, and the id and time of this write.
    ``by`` is the supervisor that leads, as an author."""

    layout: Layout
    epoch: int
    fence_version: int
    op_id: str
    at: str
    by: str = ""

    def transaction(self, what: str, *ops: Op) -> Transaction:
        """Returns ``ops`` behind the check of the epoch and the check that the cluster is not paused."""
        guards = (Check(self.layout.epoch, self.fence_version), *not_paused(self.layout))
        return Transaction(what, self.op_id, (*guards, *ops))

    def set_own(self, name: str, own: Found[Ownership], changed: Ownership) -> SetData:
        """Returns the op that sets /own/<name> at the version that was read; ``changed`` gets the id of this write."""
        return SetData(
            self.layout.own(name), encode(older_aside(replace(changed, op=self.op_id))), own.version
        )
