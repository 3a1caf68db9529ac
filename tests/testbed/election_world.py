"""An ensemble with a founded cluster, and the contenders of one test on it. Used by the tests of election and session closer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.clients.zookeeper import ZooClient
from supervisor.model.records import Cluster, EpochRecord, Handover
from supervisor.model.transaction import Create, Transaction
from supervisor.records import codec
from supervisor.records.layout import LAYOUT_VERSION, Layout
from tests.testbed.contender_process import ContenderProcess

T = 4.0
CLUSTER = "election-test"


def bootstrapped(hosts: str, root: str) -> Layout:
    layout = Layout(root)
    client = ZooClient(hosts, 10.0)
    client.start()
    client.wait_connected(30)
    client.commit(
        Transaction(
            "found",
            "f",
            (
                Create(root, b""),
                Create(layout.version, str(LAYOUT_VERSION).encode()),
                Create(
                    layout.cluster, codec.encode(Cluster(id=CLUSTER, name="test", store="file:///nowhere"))
                ),
                Create(layout.epoch, codec.encode(EpochRecord(epoch=0, supervisor="", op="f"))),
                Create(layout.doorbell, b""),
            ),
        )
    )
    client.close()
    return layout


class ElectionWorld:
    """An ensemble with a founded cluster, and the contenders of one test."""

    def __init__(self, hosts: str, root: str, directory: Path) -> None:
        self.hosts, self.directory = hosts, directory
        self.layout = bootstrapped(hosts, root)
        self.contenders: list[ContenderProcess] = []
        self.zoo = ZooClient(hosts, 10.0)
        self.zoo.start()
        self.zoo.wait_connected(30)

    def start(
        self,
        name: str,
        *,
        session_closer: bool = False,
        timeout_s: float = T,
        hosts: str = "",
        wrapper: Sequence[str] = (),
    ) -> ContenderProcess:
        contender = ContenderProcess(
            name,
            hosts=hosts or self.hosts,
            layout=self.layout,
            cluster=CLUSTER,
            directory=self.directory,
            timeout_s=timeout_s,
            session_closer=session_closer,
            wrapper=wrapper,
        )
        self.contenders.append(contender)
        return contender

    def leader_and_standby(
        self, *, session_closer: bool = False, **more: Any
    ) -> tuple[ContenderProcess, ContenderProcess]:
        leader = self.start("a", session_closer=session_closer, **more)
        leader.wait("wrote")
        leader.wait("recorded")
        standby = self.start("b", session_closer=session_closer, **more)
        standby.wait("sessions")
        return leader, standby

    def epoch(self) -> EpochRecord:
        node = self.zoo.read(self.layout.epoch)
        assert node is not None
        return codec.decode(EpochRecord, node.data, self.layout.epoch)

    def ask_switchover(self, leader: str, to: str | None = None) -> None:
        """Write down that the present term, which ``leader`` leads, is to end."""
        wish = Handover(epoch=self.epoch().epoch, leader=leader, to=to, by="a test", at="now", op="op")
        self.zoo.commit(Transaction("ask", "op", (Create(self.layout.switchover, codec.encode(wish)),)))

    def close(self) -> None:
        for contender in self.contenders:
            contender.end()
        self.zoo.close()
