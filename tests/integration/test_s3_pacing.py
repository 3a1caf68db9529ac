"""A server that says SlowDown is asked less often by all who share a store, and no wait outlasts an operation (F26)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.retries.bucket import Clock

from supervisor.clients.store import s3_pacing
from supervisor.clients.store.deadline import Bounded, Budget
from supervisor.clients.store.s3 import S3Store
from supervisor.clients.store.s3_pacing import CALM_S, FLOOR_PER_S, RequestPace
from supervisor.errors import Unreachable
from supervisor.growing_pause import GrowingPause
from tests.fakes.faulty_s3 import FaultyS3, refuse
from tests.testbed.moto import MotoServer
from tests.waiting import wait_until

SLOW_DOWN = refuse(503, "SlowDown")
pytestmark = pytest.mark.usefixtures("aws_env")


@pytest.fixture
def server(moto_server: MotoServer) -> Iterator[FaultyS3]:
    server = FaultyS3(moto_server.port)
    yield server
    server.stop()


@pytest.mark.slow
def test_a_storm_of_many_operations_is_few_requests(
    server: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a common pace, each of them asks every few milliseconds."""
    monkeypatch.setattr(s3_pacing, "BACKOFF", GrowingPause(0.002, 2.0))
    store = S3Store("bucket", "p", server.endpoint_url, deadline_s=3.0)
    server.always = SLOW_DOWN
    with pytest.raises(Unreachable, match="SlowDown"):
        store.check()
    server.requests.clear()

    def ask(_: int) -> str:
        with pytest.raises(Unreachable) as caught:
            store.check()
        return str(caught.value)

    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(ask, range(16)))
    assert all("is the store up" in each for each in said)
    assert len(server.requests) <= 40


def test_after_a_storm_everything_is_served(server: FaultyS3, moto_server: MotoServer) -> None:
    store = S3Store(moto_server.new_bucket(), "p", server.endpoint_url, deadline_s=60.0)
    server.faults = [SLOW_DOWN] * 3
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.create(f"k{number}", b"x"), range(8)))
    assert [entry.key for entry in store.entries("")] == [f"k{number}" for number in range(8)]


class StoppedClock(Clock):  # type: ignore[misc]
    """Of a pace: no token comes by itself."""

    now_s = 1000.0

    def current_time(self) -> float:
        return self.now_s


def test_only_a_complaint_slows_down_and_it_is_forgotten(server: FaultyS3, moto_server: MotoServer) -> None:
    """A process that was told SlowDown once must not read a thousand specs slowly when it becomes leader weeks later."""
    store, clock = S3Store(moto_server.new_bucket(), "p", server.endpoint_url, deadline_s=1.0), StoppedClock()
    store._objects._session._pace = RequestPace(clock)
    wait_until(lambda: answers(store), 30, "the client to be made in time")
    server.faults = [refuse(500, "InternalError")]
    for _ in range(20):
        store.check()
    server.faults = [SLOW_DOWN]
    while answers(store):
        assert len(server.requests) < 100
    clock.now_s += CALM_S
    for _ in range(20):
        store.check()


def answers(store: S3Store) -> bool:
    try:
        store.check()
    except Unreachable:
        return False
    return True


def test_a_wait_for_the_pace_ends_with_its_operation_and_takes_no_token() -> None:
    pace = slow_pace()
    with pace.of(Budget("a look", 0.05)), pytest.raises(Unreachable, match="no answer in time"):
        while True:
            pace._wait()
    assert pace._tokens.available_capacity < 1
    pace._clock.now_s += 1 / FLOOR_PER_S
    with pace.of(Budget("a patient one", 60.0)):
        pace._wait()


def slow_pace() -> RequestPace:
    """The server has just complained."""
    pace = RequestPace(StoppedClock())
    said = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    pace._heard(
        response=(None, said), caught_exception=None, operation=None, attempts=1, request_dict={"context": {}}
    )
    return pace


def test_who_was_given_up_sends_nothing_when_the_token_comes() -> None:
    pace = slow_pace()
    sent: list[str] = []
    waiting = threading.Event()

    def work(budget: Budget) -> None:
        with pace.of(budget):
            waiting.set()
            while True:
                pace._wait()
                sent.append("a request")

    with pytest.raises(Unreachable):
        Bounded(0.05).run("it", work)
    assert waiting.is_set()
    before = len(sent)
    pace._clock.now_s += 60
    for thread in threading.enumerate():
        if thread.name == "store":
            thread.join(30)
    assert len(sent) == before
