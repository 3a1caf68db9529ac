"""An assignment whose reply is late keeps its place: the next plan gives it to nobody else."""

from __future__ import annotations

import threading

import pytest

from supervisor.act import carry_out
from supervisor.model.records import Member
from supervisor.model.transaction import Committed, Transaction
from tests.fakes.zookeeper import MemoryClient
from tests.unit.daemon.leader.test_controller import Rig


class Late:
    """In the place of ``commit``: what it is told of ``held`` waits, uncommitted, until ``release``."""

    def __init__(self, client: MemoryClient) -> None:
        self.commit, self.held, self.release = client.commit, "", threading.Event()

    def __call__(self, tx: Transaction, connection: int | None = None) -> Committed:
        if self.held and any(self.held.encode() in getattr(op, "data", b"") for op in tx.ops):
            assert self.release.wait(20)
        return self.commit(tx, connection)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(carry_out, "PASS_WAIT_S", 0.2)
    rig = Rig()
    for host in ("s1", "s2"):
        rig.bench.put(
            rig.bench.layout.supervisor(host),
            Member(
                id=host,
                host=host,
                boot_id="b",
                address="",
                memory=10 << 40,
                drivers=1,
                starting=10,
                software="",
                since="",
            ),
        )
        rig.bench.zoo.put(rig.bench.layout.assigned_to(host), b"")
    rig.done()
    return rig


@pytest.mark.parametrize("committed", [False, True], ids=["not committed yet", "committed, not heard"])
def test_a_place_in_flight_is_not_given_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    late = Late(rig.client)
    monkeypatch.setattr(rig.client, "commit", late)
    late.held = '"name":"m"'
    rig.bench.submit("m")
    assert rig.done() == []
    (in_flight,) = rig.controller.executor.in_flight
    # comes before m in the order of placing, so it would get the host that m was given
    rig.bench.submit("a")
    if committed:
        late.release.set()
    late.held = ""
    rig.done()
    late.release.set()
    rig.done()
    rig.done()
    hosts = {name: rig.bench.own(name).supervisor for name in ("a", "m")}
    assert sorted(hosts.values()) == ["s1", "s2"]
    assert hosts["m"] == in_flight.host.id
    assert rig.controller.executor.in_flight == ()
