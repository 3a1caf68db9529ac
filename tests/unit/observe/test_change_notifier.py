"""Who rang: own rings are known, one foreign ring is named, more mean that nobody knows."""

from __future__ import annotations

from supervisor.model.transaction import Create, SetData, Transaction
from supervisor.observe.change_notifier import ChangeNotifier, Changes
from tests.fakes.zookeeper import MemoryZoo

NOTHING = Changes(frozenset(), more=False)


class Rig:
    def __init__(self) -> None:
        zoo = MemoryZoo()
        self.client = zoo.client()
        self.client.start()
        self.client.commit(Transaction("t", "1", (Create("/bell", b""),)))
        self.woken = 0
        self.notifier = ChangeNotifier(self.client, "/bell", self.wake)
        self.notifier.read_changes()

    def wake(self) -> None:
        self.woken += 1

    def ring(self, name: str) -> int:
        version = self.client.commit(Transaction("t", "2", (SetData("/bell", name.encode(), -1),))).versions[
            0
        ]
        assert version is not None
        return version


def test_the_first_look_knows_nothing() -> None:
    rig = Rig()
    assert ChangeNotifier(rig.client, "/bell", rig.wake).read_changes() == Changes(frozenset(), more=True)


def test_one_ring_names_its_job_and_wakes_once() -> None:
    rig = Rig()
    rig.ring("a")
    assert rig.woken == 1
    assert rig.notifier.read_changes() == Changes(frozenset({"a"}), more=False)
    assert rig.notifier.read_changes() == NOTHING


def test_two_rings_name_the_last_and_say_that_there_were_more() -> None:
    rig = Rig()
    rig.ring("a")
    rig.ring("b")
    assert rig.notifier.read_changes() == Changes(frozenset({"b"}), more=True)


def test_own_rings_are_no_news() -> None:
    rig = Rig()
    rig.notifier.skip_own(rig.ring("a"))
    assert rig.notifier.read_changes() == NOTHING


def test_a_foreign_ring_between_own_ones_is_not_forgotten() -> None:
    rig = Rig()
    rig.notifier.skip_own(rig.ring("a"))
    rig.ring("foreign")
    rig.notifier.skip_own(rig.ring("c"))
    assert rig.notifier.read_changes() == Changes(frozenset(), more=True)


def test_the_watch_is_set_again_after_it_fired() -> None:
    rig = Rig()
    for name in "abc":
        rig.ring(name)
        rig.notifier.read_changes()
    assert rig.woken == 3
