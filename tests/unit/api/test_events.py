"""``api.events``: one watcher while somebody listens, a bound for who listens, and an end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from supervisor.api import events
from supervisor.api.changes import ClusterReading
from supervisor.api.events import KEEP_ALIVE, STREAMS_MAX, EventFeed
from supervisor.errors import Unreachable
from supervisor.model.job_row import JobRow
from tests.unit.api.test_event_ring import parsed
from tests.waiting import wait_until


class Cluster:
    """Is what the watcher reads. ``defect`` is raised once."""

    def __init__(self) -> None:
        self.state, self.count = "running", 0
        self.defect: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def read(self) -> ClusterReading:
        assert self.gate.wait(60)
        self.count += 1
        if self.defect is not None:
            defect, self.defect = self.defect, None
            raise defect
        return ClusterReading({"a": JobRow("a", uid="1", state=self.state)}, {"leader": "h"})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(events, "PERIOD_S", 0.02)
    monkeypatch.setattr(events, "WAKE_S", 0.02)
    return Cluster()


@pytest.fixture
def feed(cluster: Cluster) -> Iterator[EventFeed]:
    feed = EventFeed(cluster.read)
    yield feed
    cluster.gate.set()
    feed.close()
    wait_until(lambda: not feed.is_watched, 60, "the end of the watcher")


def following(pieces: Iterator[bytes]) -> dict[str, object]:
    """The next event."""
    for piece in pieces:
        if found := parsed(piece):
            return found[0]
    raise AssertionError("the stream has ended")


def test_a_change_is_told_to_each_who_listens(cluster: Cluster, feed: EventFeed) -> None:
    with feed.listen() as one, feed.listen() as other:
        assert following(one)["data"] == following(other)["data"] == {"why": "begin"}
        cluster.state = "failed"
        event = following(one)
        assert event["event"] == "job"
        assert {"name": "a", "state": "failed", "before": "running"}.items() <= event["data"].items()  # type: ignore[attr-defined]
        assert following(other) == event
    with feed.listen(str(event["id"])) as again:
        assert following(again)["event"] == "changed"


def test_whoever_comes_back_has_missed_nothing(cluster: Cluster, feed: EventFeed) -> None:
    with feed.listen() as pieces:
        first = following(pieces)
    cluster.state = "failed"
    count = cluster.count
    wait_until(lambda: cluster.count > count + 1, 60, "readings while nobody listens")
    with feed.listen(str(first["id"])) as pieces:
        assert following(pieces)["event"] == "job"


def test_nobody_is_told_to_read_before_the_watcher_has_read(cluster: Cluster, feed: EventFeed) -> None:
    """What changed between the two would be told to nobody."""
    cluster.gate.clear()
    with feed.listen() as pieces:
        assert [next(pieces) for _ in range(5)] == [b""] * 5
        cluster.gate.set()
        assert following(pieces)["event"] == "reset"


def test_it_watches_only_while_somebody_listens(
    cluster: Cluster, feed: EventFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LINGER_S", 0.0)
    assert not feed.is_watched and cluster.count == 0
    with feed.listen() as pieces:
        before = following(pieces)
        assert feed.is_watched
    wait_until(lambda: not feed.is_watched, 60, "the end of the watcher")
    with feed.listen(str(before["id"])) as pieces:
        assert following(pieces)["data"] == {"why": "missed"}


def test_so_many_may_listen_and_no_more(feed: EventFeed) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            stack.enter_context(feed.listen())
        with pytest.raises(Unreachable, match="listen already"), feed.listen():
            pass
    with feed.listen() as pieces:
        assert following(pieces)["event"] == "reset"


def test_who_hears_nothing_is_told_that_it_lives(
    cluster: Cluster, feed: EventFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_S", 0.0)
    with feed.listen() as pieces:
        assert any(piece == KEEP_ALIVE for piece in (next(pieces) for _ in range(100)))


def test_a_stream_has_an_end(cluster: Cluster, feed: EventFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    with feed.listen() as pieces:
        following(pieces)
        monkeypatch.setattr(events, "STREAM_MAX_S", 0.0)
        assert list(pieces) == []


def test_a_supervisor_that_stops_ends_the_streams(feed: EventFeed) -> None:
    with feed.listen() as pieces:
        following(pieces)
        feed.close()
        assert list(pieces) == []
    with pytest.raises(Unreachable, match="stopping"), feed.listen():
        pass


def test_a_defect_of_a_reading_ends_nothing(cluster: Cluster, feed: EventFeed) -> None:
    with feed.listen() as pieces:
        following(pieces)
        cluster.defect = KeyError("x")
        assert following(pieces)["data"] == {"why": "missed"}
        cluster.state = "failed"
        assert following(pieces)["event"] == "job"
