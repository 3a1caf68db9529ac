"""What a takeover asks of ZooKeeper: three reads per job (ownership, reference, lease), and nothing else that grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from supervisor.model.transaction import Committed, Node, Reads
from tests.fakes.zookeeper import MemoryClient
from tests.unit.daemon.leader.test_controller import Rig

PER_JOB = 3


class Counted:
    """Counts the requests that ``client`` makes, each read of a pipelined batch for itself."""

    def __init__(self, client: MemoryClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests = 0
        read_many: Callable[[Sequence[str]], Reads] = client.read_many

        def many(paths: Sequence[str]) -> Reads:
            self.requests += len(paths)
            return read_many(paths)

        def one(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*given: Any, **more: Any) -> Node | Committed | None:
                self.requests += 1
                return call(*given, **more)

            return counted

        monkeypatch.setattr(client, "read_many", many)
        for name in ("read", "children", "sync", "commit", "watch_exists"):
            monkeypatch.setattr(client, name, one(getattr(client, name)))


def first_pass_with(jobs: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Requests of the first pass, and of the one after it, over so many running jobs."""
    rig = Rig()
    for number in range(jobs):
        name = f"job-{number}"
        uid = rig.bench.submit(name).uid
        rig.bench.run(name)
        rig.bench.zoo.put(rig.bench.layout.live(uid, 1), b"")
    counted = Counted(rig.client, monkeypatch)
    assert rig.controller.reconcile_once().results == ()
    first = counted.requests
    assert rig.controller.reconcile_once().results == ()
    return first, counted.requests - first


def test_a_takeover_costs_three_requests_per_job(monkeypatch: pytest.MonkeyPatch) -> None:
    few, _ = first_pass_with(100, monkeypatch)
    many, _ = first_pass_with(300, monkeypatch)
    assert many - few == PER_JOB * 200
    assert many <= PER_JOB * 300 + 25, "what is asked once"


def test_an_idle_pass_does_not_grow_with_the_jobs_but_for_its_share_of_leases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("supervisor.observe.observer.LEASE_READS_PER_S", 0)
    _, few = first_pass_with(100, monkeypatch)
    _, many = first_pass_with(300, monkeypatch)
    assert many == few
