"""The agent on an ensemble in memory: what it starts, and when it starts nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.agent import Agent
from supervisor.daemon.starting import Hosted, Starter
from supervisor.model.records import Assignment, Member, OwnState
from supervisor.registry.layout import Layout
from tests.fakes.offices import Bench
from tests.fakes.zookeeper import MemoryClient

ME = Member("host-a", "host-a.example", "b", "", 1 << 40, 10, 2, "", "")


@dataclass
class Started:
    """In the place of the starter."""

    keys: list[str] = field(default_factory=list)

    def start(self, given: Assignment, ended_before: str | None = None) -> None:
        self.keys.append(f"{given.uid}.{given.attempt}")


def agent_of(bench: Bench, started: Started, directory: Path, doubt: str | None) -> Agent:
    def connect(on_link: Any) -> ZooClient:
        return cast(ZooClient, MemoryClient(bench.zoo, on_link=on_link))

    hosted = Hosted(directory, directory)
    return Agent(ME, bench.layout, connect, cast(Starter, started), hosted, distrust=lambda client: doubt)


def assigned(bench: Bench, layout: Layout) -> str:
    uid = bench.submit("a").uid
    bench.set_own("a", OwnState.ASSIGNED)
    ref = bench.ref("a")
    node = bench.zoo.client().read(layout.own("a"))
    assert node is not None
    entry = Assignment("a", uid, 1, 1, ref.version, node.stat.version, ref.record.spec, 1)
    bench.put(layout.assignment("host-a", uid, 1), entry)
    return f"{uid}.1"


def one_round(agent: Agent) -> None:
    agent._round()
    agent._pool.shutdown(wait=True)


def test_what_is_assigned_here_is_started(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    key = assigned(bench, bench.layout)
    one_round(agent_of(bench, started, tmp_path, None))
    assert started.keys == [key]


def test_nothing_is_started_from_a_registry_that_is_not_trusted(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    assigned(bench, bench.layout)
    one_round(agent_of(bench, started, tmp_path, "it was restored to an older state"))
    assert started.keys == []
    assert bench.own("a").state is OwnState.ASSIGNED
