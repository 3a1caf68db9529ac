"""The host asks its clusters why drivers wait, and tells their shims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.waits import WaitingDriver
from supervisor.daemon.host import cluster_news
from supervisor.daemon.host.cluster_news import ClusterNews, HostedWait, waited_s
from supervisor.settings.clusters import ClusterSettings

PROD = ClusterSettings(master="spark://m1:7077")
TEST = ClusterSettings(master="spark://m2:7077")


class Recorded(list[tuple[str, dict[str, object]]]):
    def __call__(self, channel: Path | str, event: dict[str, object]) -> None:
        self.append((str(channel), event))


class Reader:
    def __init__(self, cluster: ClusterSettings, asked: list[str]) -> None:
        self._cluster, self._asked = cluster, asked

    def says(self, drivers: Sequence[WaitingDriver], timeout_s: float) -> Sequence[str]:
        assert timeout_s <= cluster_news.ASK_EVERY_S
        self._asked.append(self._cluster.master)
        if self._cluster is TEST:
            raise ClusterSilent("no master answers: down")
        if self._cluster.master == "spark://broken:7077":
            raise KeyError("an answer that nobody thought of")
        return [f"{driver.application} waits" for driver in drivers]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(cluster_news, "reader_of", lambda cluster, _client: Reader(cluster, found))
    return found


def wait(cluster: str, number: int) -> HostedWait:
    return HostedWait(cluster, WaitingDriver(f"u{number}", 1, f"app-{number}"), f"/run/{number}")


def test_each_cluster_is_asked_once_and_each_shim_is_told(asked: list[str]) -> None:
    recorded = Recorded()
    waits = [wait("broken", 0), wait("prod", 1), wait("test", 2), wait("prod", 3), wait("gone", 4)]
    broken = ClusterSettings(master="spark://broken:7077")
    ClusterNews({"prod": PROD, "test": TEST, "broken": broken}, recorded).tell_all(waits)
    assert asked == ["spark://broken:7077", "spark://m1:7077", "spark://m2:7077"]
    assert recorded == [
        ("/run/1", {"event": "cluster", "why": "app-1 waits"}),
        ("/run/3", {"event": "cluster", "why": "app-3 waits"}),
        ("/run/2", {"event": "cluster", "why": "no master answers: down"}),
        ("/run/4", {"event": "cluster", "why": ""}),
    ]


def test_a_master_that_the_spec_names_itself_is_asked_too(asked: list[str]) -> None:
    recorded = Recorded()
    ClusterNews({}, recorded).tell_all([wait("spark://m9:7077", 1), wait("local-cluster[1,1,512]", 2)])
    assert asked == ["spark://m9:7077"]
    assert [event["why"] for _, event in recorded] == ["app-1 waits", ""]


def test_nobody_is_asked_too_often_nor_while_the_last_still_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Going:
        over = False

        def done(self) -> bool:
            return self.over

    begun: list[Any] = []
    going = Going()
    clock = [1000.0]
    monkeypatch.setattr(cluster_news.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(cluster_news, "run_in_thread", lambda _name, work: begun.append(work) or going)
    news = ClusterNews({"prod": PROD}, Recorded())
    news.ask([])
    assert begun == []
    news.ask([wait("prod", 1)])
    clock[0] += 100.0
    news.ask([wait("prod", 1)])
    assert len(begun) == 1, "the last still asks"
    going.over = True
    news.ask([wait("prod", 1)])
    news.ask([wait("prod", 1)])
    assert len(begun) == 2, "a moment ago"


def test_how_long_it_has_waited() -> None:
    assert waited_s("1970-01-01T00:00:10.000Z", 70.0) == 60.0
    assert waited_s("1970-01-01T00:00:10.000Z", 5.0) == 0.0
    assert waited_s("yesterday", 70.0) == 0.0
