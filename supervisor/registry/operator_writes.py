"""Builds the multis of an operator's commands about the whole cluster, pause, unpause and switchover, and about a
host: cordon, drain and uncordon. All builders are pure.

``operations.cluster`` and ``operations.hosts`` read, build with these, commit and resolve the outcome. The writes need no
leader.
What they ring the doorbell with is no job's name (a name has no colon): a leader that rereads it finds
nothing, also a leader of an older version.
"""

from __future__ import annotations

from supervisor.model.records import Cordon, Handover, Pause
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Check, Create, Delete, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from supervisor.registry.attempt_writes import ring_doorbell

PAUSED_DOORBELL, SWITCHOVER_DOORBELL, HOST_DOORBELL = ":pause", ":switchover", ":host"


def pause(layout: Layout, record: Pause) -> Transaction:
    """Returns the multi that creates /pause; it fails on /pause if that is there already. From its commit on
    no write of a leader about jobs and no claim can commit."""
    return Transaction(
        "pause", record.op, (Create(layout.pause, encode(record)), ring_doorbell(layout, PAUSED_DOORBELL))
    )


def unpause(layout: Layout, found: Seen[Pause], rings: int, op_id: str) -> Transaction:
    """Returns the multi that removes the very pause that was read, readable or not. ``rings`` is the version
    of /doorbell, read before /pause.

    A multi whose outcome is unknown may arrive late, and then there may be another pause, for another reason.
    /pause is made and removed and never changed, so its own version is always the same. But every pause
    rings: if the doorbell has not rung since before /pause was read, the multi removes what was read, and
    nothing else; else it fails.
    """
    assert found is not None
    return Transaction(
        "unpause", op_id, (Delete(layout.pause, found.version), ring_doorbell(layout, PAUSED_DOORBELL, rings))
    )


def switchover(layout: Layout, record: Handover, epoch_version: int, before: Seen[Handover]) -> Transaction:
    """Returns the multi that asks for a hand-over of the term that /epoch names. It is guarded by /epoch: it
    fails if somebody was elected since.

    ``before`` is an older wish that nobody has taken away, to be written over.
    """
    data = encode(record)
    path = layout.switchover
    put: Op = Create(path, data) if before is None else SetData(path, data, before.version)
    return Transaction(
        "switchover",
        record.op,
        (Check(layout.epoch, epoch_version), put, ring_doorbell(layout, SWITCHOVER_DOORBELL)),
    )


def switched_over(layout: Layout, found: Found[Handover], fence_version: int, op_id: str) -> Transaction:
    """Returns the multi by which the leader of a later epoch records, after its first pass, that the
    hand-over is done. It commits also while the cluster is paused."""
    return Transaction(
        "switched_over",
        op_id,
        (
            Check(layout.epoch, fence_version),
            Delete(layout.switchover, found.version),
        ),
    )


def cordon(layout: Layout, record: Cordon, before: Seen[Cordon], *, with_parent: bool = False) -> Transaction:
    """Returns the multi that says what an operator wants of a host: a cordon, a drain, or neither any more. It is guarded by
    the record that was read, so of two operators the second one sees what the first one wrote.

    The record is never deleted, so its version never begins again: a multi whose outcome is unknown can't arrive late and
    undo what was wanted since. ``with_parent`` makes /hosts, too, which a root has from its first cordon on. No write of a
    leader and no claim is guarded by it: it says where, not whether an attempt may run, and an assignment that was under way
    when it committed stands.
    """
    path, data = layout.host(record.supervisor), encode(record)
    put: Op = Create(path, data) if before is None else SetData(path, data, before.version)
    parent = (Create(layout.hosts, b""),) if with_parent else ()
    return Transaction("cordon", record.op, (*parent, put, ring_doorbell(layout, HOST_DOORBELL)))
