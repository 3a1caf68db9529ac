"""Reads what a write of the leader rests on that gives a job another checkpoint
(``update_savepoint_writes.roll_back_to_savepoint``).

``daemon.leader.update_savepoint_task`` calls it when the copy is complete. It is apart from the builder, for it needs the
claims of all jobs, and with them what no pass of the leader may load: the way to the store.
"""

from __future__ import annotations

from supervisor.errors import Conflict
from supervisor.model.records import JobRef, Lease
from supervisor.model.seen import Seen
from supervisor.model.view import UpdateRestored
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.registry.checkpoint_claims import CheckpointClaims


def read_for_move(zoo: ZkSession, layout: Layout, job: JobRef, location: str) -> UpdateRestored:
    """Returns what a move of the checkpoint of ``job`` to ``location`` rests on, as it is now; the revision is not in it.
    Raises Conflict if somebody has claimed a place that overlaps ``location``, and Unreachable."""
    claims = CheckpointClaims.load(zoo, layout)
    claimed = claims.reserve(job.name, location)
    left = claims.held(job.terms.checkpoint, job.uid)
    if left is not None and left[0] == claimed.path:
        raise Conflict(f"{job.name} has its checkpoint at {claimed.location} already")
    path = layout.lease(job.name)
    lease: Seen[Lease] = seen(Lease, zoo.read(path), path)
    return UpdateRestored(
        lease=lease,
        claim_path=claimed.path,
        location=claimed.location,
        claim=claimed.claim,
        generation=claimed.generation,
        left=left,
    )
