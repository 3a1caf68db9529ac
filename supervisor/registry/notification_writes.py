"""Builds the writes about notifications (protocol §12): what receivers are to be told of a job, and whether they are told.

No decision about a job rests on these records, and no other write looks at them: at worst an event is sent twice, under one
id. The epoch is checked all the same (``leader_write_context``). A leader that was deposed while a receiver was slow could
otherwise mark as accepted, over what its successor has written, an event that it knows in an older state.
"""

from __future__ import annotations

from supervisor.model.notifications import RECORD_MAX_BYTES
from supervisor.model.records import Notifications, NotifyingSince
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Create, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.registry.leader_write_context import LeaderWriteContext


def write_notifications(
    context: LeaderWriteContext, before: Found[Notifications] | None, record: Notifications
) -> Transaction:
    """Returns the multi that puts ``record`` in the place of what was read: it creates it, or sets it at that version."""
    path = context.layout.notifications_of(record.uid)
    return context.transaction("write_notifications", _put(path, before, encode(record, RECORD_MAX_BYTES)))


def switch_notifying(context: LeaderWriteContext, before: Seen[NotifyingSince], on: bool) -> Transaction:
    """Returns the multi by which leaders begin to write down what receivers are to be told, or leave off."""
    record = NotifyingSince(on=on, since=context.at, from_history=on)
    return context.transaction("switch_notifying", _put(context.layout.notifications, before, encode(record)))


def _put(path: str, before: Seen[Notifications] | Seen[NotifyingSince], data: bytes) -> Op:
    return Create(path, data) if before is None else SetData(path, data, before.version)
