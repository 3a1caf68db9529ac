"""What is kept of notifications lives as the reference or the result of its uid, and goes with them."""

from __future__ import annotations

import pytest

from supervisor.clock import boottime_s
from supervisor.errors import GuardFailed
from supervisor.model.records import EpochRecord, Notifications, OwnState
from supervisor.observe.observer import Observer
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.record_sweep import Deletion, take_listing, to_sweep
from tests.fakes.registry_bench import AT, Bench


class Rig:
    """A job that is registered, one that has failed, and what is kept of both and of an older submission of each."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.layout = self.bench.layout
        self.bench.put(self.layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
        self.bench.zoo.put(self.layout.notifications, b"")
        self.uids = {}
        for name in ("a", "b"):
            self.bench.submit(name)
            self.uids[name] = self.bench.ref(name).record.uid
        self.bench.fail("b")
        suffix = {name: uid.rpartition("-")[2] for name, uid in self.uids.items()}
        self.old = {name: f"1-{suffix[name]}" for name in self.uids}
        for name, uid in [*self.uids.items(), *self.old.items()]:
            self.bench.put(self.layout.notifications_of(uid), Notifications(name=name, uid=uid))

    def swept(self) -> list[Deletion]:
        client = self.bench.sessions().zoo()
        listing = take_listing(client, self.layout)
        view = Observer(client, self.layout, boottime_s, 1).take_view(None)
        return [each for each in to_sweep(listing, view.rows) if each.what == "notifications"]


def test_those_of_uids_that_are_gone_are_swept_and_no_others() -> None:
    rig = Rig()
    assert {each.path for each in rig.swept()} == {
        rig.layout.notifications_of(uid) for uid in rig.old.values()
    }


def test_those_of_a_result_go_after_it() -> None:
    rig = Rig()
    rig.bench.submit("b")
    rig.bench.set_own("b", OwnState.CLAIMED)  # it is about the new uid, from here on
    path = rig.layout.notifications_of(rig.uids["b"])
    assert path not in {each.path for each in rig.swept()}
    rig.bench.zoo.remove(rig.layout.result(rig.uids["b"]))
    assert path in {each.path for each in rig.swept()}


def test_one_that_can_not_be_read_stays() -> None:
    rig = Rig()
    path = rig.layout.notifications_of(rig.old["a"])
    rig.bench.zoo.put(path, b"{")
    assert path not in {each.path for each in rig.swept()}


def test_one_that_was_written_meanwhile_stays() -> None:
    rig = Rig()
    deletion = rig.swept()[0]
    rig.bench.zoo.put(deletion.path, b"{}")
    with pytest.raises(GuardFailed):
        rig.bench.zoo.client().commit(deletion.transaction(LeaderWriteContext(rig.layout, 1, 0, "op", AT)))
    assert rig.bench.has(deletion.path)
