"""Builds the ops by which a job takes a checkpoint location, and leaves the one that it had. All builders are pure.

``user_writes`` and ``update_savepoint_writes`` put them into their multis.
"""

from __future__ import annotations

from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import CheckpointClaim, JobRef, Lease
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Create, Delete, Op, SetData
from supervisor.records.codec import encode
from supervisor.records.layout import Layout


def take(layout: Layout, op_id: str, job: JobRef, claimed: ClaimedLocation) -> tuple[Op, ...]:
    """Returns the ops that claim the location for ``job``. /checkpoints is set at the version read before all claims were
    searched, so that of two claims that overlap one fails."""
    moved = SetData(layout.checkpoints, op_id.encode(), claimed.generation)
    if not claimed.path:
        return (moved,)
    kept = claimed.claim.record.extra if isinstance(claimed.claim, Found) else {}
    data = encode(CheckpointClaim(location=claimed.location, name=job.name, uid=job.uid, extra=kept))
    taken: Op = (
        Create(claimed.path, data)
        if claimed.claim is None
        else SetData(claimed.path, data, claimed.claim.version)
    )
    return (taken, moved)


def leave(
    layout: Layout, name: str, lease: Seen[Lease], left: tuple[str, Found[CheckpointClaim]] | None
) -> tuple[Op, ...]:
    """Returns the ops that delete the claim of the old checkpoint, and the lease that described it, at the versions
    seen."""
    claim = (Delete(left[0], left[1].version),) if left is not None else ()
    return (*claim, *((Delete(layout.lease(name), lease.version),) if lease is not None else ()))
