"""``list``, ``show`` and ``status -o json`` against golden files: scripts rely on these shapes.

A key that changes here breaks somebody's script: add keys freely, change none without saying so. To write a new golden
file set REGENERATE_GOLDEN=1, and read what changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.model.records import EpochRecord, LeaderHint, Progress
from supervisor.model.state import JobState, Shown
from supervisor.observe import status as status_module
from supervisor.observe.listing import seconds_of, take_rows, with_reasons
from supervisor.observe.observer import Observer
from supervisor.observe.status import ClusterConfiguration, take_status, unreachable_status
from tests.fakes.registry_bench import AT, Bench

GOLDEN = Path(__file__).parents[1] / "golden" / "documents"
NOW_S = (seconds_of(AT) or 0.0) + 1
PLACE = ClusterConfiguration("prod", "zk1:2181,zk2:2181", "s3://bucket/prefix")

ROW_KEYS = [
    "name",
    "uid",
    "revision",
    "desired",
    "state",
    "reason",
    "attempt",
    "supervisor",
    "host",
    "driver_pid",
    "shim_pid",
    "started_at",
    "since",
    "restarts",
    "failures",
    "next_attempt_at",
    "checkpoint",
    "progress",
]
STATUS_KEYS = [
    "cluster",
    "leader",
    "epoch",
    "supervisors",
    "absent",
    "zookeeper",
    "store",
    "jobs",
    "paused",
    "pause",
    "distrust",
    "accepted",
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """One job of every kind, with times and ids that never change."""
    bench = Bench()
    uids = iter(f"00000000000{n}-00000000" for n in range(1, 10))
    monkeypatch.setattr("tests.fakes.registry_bench.new_uid", lambda _name: next(uids))
    # these are of no name
    monkeypatch.setattr("supervisor.records.reading.may_be_of", lambda _uid, _name: True)
    monkeypatch.setattr("supervisor.operations.jobs.wall_iso", lambda: AT)
    bench.submit("running", checkpoint="s3a://bkt/running")
    bench.run(
        "running",
        progress=Progress(
            query="counts",
            batch_id=41,
            input_rows_per_s=10.5,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=7.0,
        ),
    )
    bench.submit("waiting", checkpoint="s3a://bkt/waiting")
    bench.submit("backoff")
    bench.exit("backoff", failures=3)
    bench.submit("failed")
    bench.fail("failed")
    bench.submit("corrupt")
    bench.zoo.put(bench.layout.job("corrupt"), b"{")
    bench.submit("cancelled")
    bench.commands().cancel("cancelled")
    bench.submit("parked")
    bench.commands().suspend("parked")
    bench.join("host-a")
    bench.join("host-b")
    bench.put(bench.layout.leader, LeaderHint(supervisor="host-a", epoch=7, address="host-a:8780"))
    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op"))
    return bench


def check(name: str, document: Any) -> None:
    path = GOLDEN / f"{name}.json"
    text = json.dumps(document, indent=2) + "\n"
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("every_uid", [False, True])
def test_list(bench: Bench, every_uid: bool) -> None:
    client = bench.zoo.client()
    view = Observer(client, bench.layout, boottime_s, epoch=0).take_view(None)
    rows = take_rows(client, bench.layout, view, NOW_S, every_uid=every_uid)
    rows = with_reasons(rows, lambda: {"waiting": Shown(JobState.PENDING, "no room: host-a is full")})
    documents = [row.document() for row in rows]
    assert all(list(document)[: len(ROW_KEYS)] == ROW_KEYS for document in documents)
    check("list-all" if every_uid else "list", documents)


def test_status(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "wall_s", lambda: NOW_S)
    document = take_status(bench.zoo.client(), bench.layout, PLACE, 10.0, store_ok=True)
    assert list(document) == STATUS_KEYS
    check("status", document)


def test_status_of_an_unreachable_zookeeper_has_the_same_keys() -> None:
    document = unreachable_status(PLACE, store_ok=False)
    assert list(document) == STATUS_KEYS
    check("status-unreachable", document)


def test_status_of_an_empty_root(bench: Bench) -> None:
    document = take_status(Bench().zoo.client(), bench.layout, PLACE, 10.0, store_ok=True)
    assert (document["leader"], document["epoch"], document["supervisors"], document["jobs"]) == (
        None,
        None,
        [],
        {},
    )
