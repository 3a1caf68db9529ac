"""The writes about notifications: their guards, one by one, against a registry in memory; and how large a record may become."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.errors import GuardFailed
from supervisor.model.notifications import (
    COMMAND_MAX_BYTES,
    ENTRIES_MAX,
    REASON_MAX_BYTES,
    RECORD_MAX_BYTES,
)
from supervisor.model.records import (
    EpochRecord,
    Notification,
    Notifications,
    NotifiedEvent,
    NotifyingSince,
    Pause,
)
from supervisor.model.seen import Found
from supervisor.records.codec import encode
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.notification_writes import switch_notifying, write_notifications
from supervisor.settings.notify import RECEIVERS_MAX
from tests.fakes.registry_bench import AT, Bench

RECORD = Notifications(name="a", uid="u-a")
ENTRY = Notification(
    event=NotifiedEvent.FAILED, occurrence=1, at=AT, attempt=1, revision=1, state="failed", reason="why"
)


class Rig:
    """A root where leaders write down what is told; the epoch is at version 0."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.layout = self.bench.layout
        self.bench.put(self.layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
        self.context = LeaderWriteContext(self.layout, 1, 0, "op", AT)
        self.client = self.bench.zoo.client()
        self.client.commit(switch_notifying(self.context, None, True))
        self.read = self.seen()

    def seen(self) -> Found[Notifications]:
        self.client.commit(write_notifications(self.context, None, RECORD))
        return Found(RECORD, 0)

    def write(self) -> None:
        record = replace(RECORD, entries=(ENTRY,))
        self.client.commit(write_notifications(self.context, self.read, record))

    def switch(self) -> None:
        self.client.commit(switch_notifying(self.context, Found(NotifyingSince(on=True, since=AT), 0), False))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_both_are_written_where_nothing_has_moved(rig: Rig) -> None:
    rig.write()
    rig.switch()
    assert rig.bench.record(Notifications, rig.layout.notifications_of("u-a")).record.entries == (ENTRY,)
    assert rig.bench.record(NotifyingSince, rig.layout.notifications).record.on is False


def test_a_deposed_leader_writes_nothing() -> None:
    for write in (Rig.write, Rig.switch):
        rig = Rig()
        rig.bench.put(rig.layout.epoch, EpochRecord(epoch=2, supervisor="l2", op="op"))
        with pytest.raises(GuardFailed) as failed:
            write(rig)
        assert failed.value.path == rig.layout.epoch


def test_nothing_is_written_while_the_cluster_is_paused() -> None:
    for write in (Rig.write, Rig.switch):
        rig = Rig()
        rig.bench.put(rig.layout.pause, Pause(by="me", at=AT, reason="", op="op"))
        with pytest.raises(GuardFailed) as failed:
            write(rig)
        assert failed.value.path == rig.layout.pause


def test_nothing_is_written_over_what_was_not_read() -> None:
    for write, path in ((Rig.write, "notifications_of"), (Rig.switch, "notifications")):
        rig = Rig()
        found = rig.layout.notifications_of("u-a") if path == "notifications_of" else rig.layout.notifications
        rig.bench.zoo.put(found, b"{}")
        with pytest.raises(GuardFailed) as failed:
            write(rig)
        assert failed.value.path == found


def test_the_largest_record_fits() -> None:
    worst = replace(
        ENTRY,
        event=NotifiedEvent.FALLING_BEHIND,
        occurrence=10**9,
        attempt=10**9,
        revision=10**9,
        state="quarantined",
        reason='"' * REASON_MAX_BYTES,
        cause="checkpoint_conflict",
        command='"' * COMMAND_MAX_BYTES,
        pending=("x" * 32,) * RECEIVERS_MAX,
        over=True,
    )
    record = Notifications(name="n" * 63, uid="u" * 90, entries=(worst,) * ENTRIES_MAX)
    assert len(encode(record, RECORD_MAX_BYTES)) <= RECORD_MAX_BYTES
