"""The prepared drivers of a host as their run directories show them: what their shims are told, and who may take one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Readiness
from supervisor.daemon.host import prepared_drivers
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.prepared import HostCapacity, HostLoad, RequestedDriver
from supervisor.daemon.host.prepared_drivers import PreparedDrivers, read_requests
from supervisor.model.records import Preparation
from supervisor.records.codec import encode
from supervisor.records.layout import Layout
from tests.fakes.zookeeper import MemoryZoo
from tests.unit.daemon.host.prepared_bench import GONE, Ear, hand, launch_of, request, stand
from tests.unit.daemon.host.test_launcher import given

KEY = "uid-a.p1"


class Host:
    """A host with prepared drivers, and its clock."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosted = HostedAttempts(directory / "run", directory / "log")
        self.now_s = 1000.0
        monkeypatch.setattr(prepared_drivers, "boottime_s", lambda: self.now_s)
        self.drivers = PreparedDrivers(self.hosted, HostCapacity("h", 10, 100))
        self.ears: list[Ear] = []

    def stand(self, key: str = KEY, asked: Preparation | None = None, **more: object) -> Ear:
        asked = asked or request()
        more.setdefault("launch", launch_of(asked, key, begun_s=self.now_s))
        self.ears.append(Ear(stand(self.hosted, key, asked, **more)))  # type: ignore[arg-type]
        return self.ears[-1]

    def turn(self, asked: Mapping[str, RequestedDriver] | None, *loads: HostLoad) -> list[str]:
        return [each.entry for each in self.drivers.turn(asked, loads, ())]

    def said(self) -> list[tuple[bool, str]]:
        return [(each.ready, each.why) for each in self.drivers.reported]


ASKED = {"uid-a.1": RequestedDriver("uid-a.1", request())}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path, monkeypatch)
    yield made
    for ear in made.ears:
        ear.close()


def test_a_driver_is_wanted_in_each_round_and_also_while_nothing_is_known(host: Host) -> None:
    """An agent that was just started has not read any request: what its predecessor prepared stays."""
    ear = host.stand()
    for _ in range(2):
        host.drivers.send()
    host.turn(None)
    assert ear.heard() == ["wanted", "wanted"] and host.said() == [(True, "")]


def test_what_is_not_asked_for_is_asked_to_discard_itself_until_it_is_gone(host: Host) -> None:
    ear = host.stand()
    host.turn({})
    host.drivers.send()
    assert ear.heard() == ["discard", "discard"]
    assert host.drivers.fit_for(replace(given("a"), attempt=3), None) == [] and not host.drivers.take(KEY)


def test_for_a_while_after_a_hand_over_no_other_driver_is_prepared_for_the_same_job(host: Host) -> None:
    """The leader takes the request back when it sees the claim: another driver would be started beside the attempt, and
    discarded a moment later. What is asked for after that (a standby) is prepared."""
    host.stand()
    host.turn(ASKED)
    assert host.drivers.take(KEY) and host.turn(ASKED) == []
    host.now_s += prepared_drivers.HANDED_S
    assert host.turn(ASKED) == ["uid-a.1"]


def test_where_nothing_was_handed_over_in_the_end_another_driver_is_prepared(host: Host) -> None:
    host.stand(shim=GONE)
    assert host.drivers.take(KEY)
    host.drivers.release(KEY)
    assert host.turn(ASKED) == ["uid-a.1"]


def test_to_whom_an_attempt_was_handed_nothing_is_said(host: Host) -> None:
    ear = host.stand()
    host.turn(ASKED)
    assert host.drivers.take(KEY)
    host.drivers.discard(KEY, "x")
    host.turn({})
    hand(host.hosted, KEY, 3)
    host.drivers.send()
    host.turn({})
    assert ear.heard() == [] and host.said() == []
    assert PreparedDrivers(host.hosted, HostCapacity("h", 9, 9)).fit_for(given("a"), None) == [], "nor later"


def test_it_is_taken_once_and_may_be_given_back(host: Host) -> None:
    host.stand()
    assert host.drivers.take(KEY) and not host.drivers.take(KEY)
    host.drivers.release(KEY)
    assert host.drivers.take(KEY)


@pytest.mark.parametrize(
    "changes",
    [{"uid": "uid-b"}, {"revision": 2}, {"driver_memory": 4}],
)
def test_only_what_was_prepared_for_the_same_is_fit(host: Host, changes: dict[str, object]) -> None:
    host.stand()
    assert [key for key, _ in host.drivers.fit_for(given("a"), None)] == [KEY]
    assert host.drivers.fit_for(replace(given("a"), **changes), None) == []  # type: ignore[arg-type]


def test_another_spec_is_not_fit_and_neither_is_what_is_not_ready_or_dead(host: Host) -> None:
    host.stand("uid-a.p1", ready=None)
    host.stand("uid-a.p2", ready=False)
    host.stand("uid-a.p3", shim=GONE)
    host.stand("uid-a.p4")
    host.stand("uid-a.p5")
    assert [key for key, _ in host.drivers.fit_for(given("a"), "uid-a.p5")] == ["uid-a.p5", "uid-a.p4"]
    other = replace(given("a"), spec=replace(given("a").spec, sha256="1" * 64))
    assert host.drivers.fit_for(other, None) == []


def test_a_driver_that_ends_by_itself_is_a_failure_once_and_tried_again_after_a_pause(host: Host) -> None:
    host.stand(ready=None)
    assert host.turn(ASKED) == []
    run_dir.write_process(str(host.hosted.attempts_dir / KEY / run_dir.SHIM), GONE, "c")
    assert host.turn(ASKED) == []
    assert "see /log/uid-a.p1.log" in host.said()[0][1]
    host.now_s += 4.9
    assert host.turn(ASKED) == []
    host.now_s += 0.2
    assert host.turn(ASKED) == ["uid-a.1"]


def test_a_driver_that_is_gone_before_it_was_ever_seen_is_a_failure_too(host: Host) -> None:
    """Else one that ends at once would be made anew in each round."""
    host.turn(ASKED)
    host.drivers.starting(KEY)
    assert host.drivers.under_way == {KEY}
    host.drivers.started(KEY, launch_of(request(), KEY))
    host.drivers.over("uid-a.1")
    host.drivers.note_end(KEY, Readiness(False, "no module named x", 1.0))
    assert host.turn(ASKED) == [] and host.said() == [(False, "no module named x")]


def test_one_that_was_killed_is_no_fault_of_its_job_and_one_that_said_why_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update waits for the one, and is given up for the other (protocol §9.2)."""
    host = Host(tmp_path, monkeypatch)
    host.stand(ready=None)
    host.turn(ASKED)
    run_dir.write_process(str(host.hosted.attempts_dir / KEY / run_dir.SHIM), GONE, "c")
    host.turn(ASKED)
    assert [each.waits for each in host.drivers.reported] == [True]
    host.drivers.failed("uid-a.1", "no module named x")
    host.turn(ASKED)
    assert [each.waits for each in host.drivers.reported] == [False]
    for ear in host.ears:
        ear.close()


def test_what_failed_before_pauses_longer_and_what_stood_for_long_is_forgotten(host: Host) -> None:
    for tries in range(3):
        host.drivers.failed("uid-a.1", f"no {tries}")
    host.now_s += 19.0
    assert host.turn(ASKED) == [] and host.said() == [(False, "no 2")]
    host.now_s += 2.0
    assert host.turn(ASKED) == ["uid-a.1"]
    host.stand()
    host.drivers.over("uid-a.1")
    host.turn(ASKED)
    host.now_s += prepared_drivers.STABLE_S
    host.turn(ASKED)
    assert host.drivers._books.pauses == {}


def test_a_failure_goes_with_its_request(host: Host) -> None:
    host.turn(ASKED)
    host.drivers.over("uid-a.1")
    host.drivers.failed("uid-a.1", "no")
    host.turn({})
    assert host.turn(ASKED) == ["uid-a.1"]


def test_what_is_rejected_by_a_start_is_discarded_and_told_for_a_moment(host: Host) -> None:
    ear = host.stand()
    host.turn(ASKED)
    host.drivers.reject(KEY, "the file /x has changed")
    host.turn(ASKED)
    assert ear.heard() == ["discard"] and host.said() == [(False, "the file /x has changed")]
    host.now_s += prepared_drivers.AGAIN_AT_ONCE_S
    assert host.turn(ASKED) == ["uid-a.1"] and host.said() == [(False, "")]


def test_room_is_made_at_once_for_a_start(host: Host) -> None:
    low, high = host.stand("uid-a.p1"), host.stand("uid-b.p1", request("b", priority=1, memory=60))
    host.drivers.make_room([HostLoad("uid-x", 35)])
    assert low.heard() == ["discard"] and high.heard() == []
    host.drivers.make_room([HostLoad("uid-x", 41)])
    assert high.heard() == ["discard"]


def test_news_are_that_one_is_ready_or_gave_up(host: Host) -> None:
    host.stand(ready=None)
    assert not host.drivers.is_bringing_up()
    host.turn(ASKED)
    assert host.drivers.is_bringing_up() and not host.drivers.has_news()
    run_dir.write_readiness(str(host.hosted.attempts_dir / KEY), Readiness(True, "", 1.0))
    assert host.drivers.has_news()
    host.turn(ASKED)
    assert not host.drivers.is_bringing_up() and not host.drivers.has_news()


def test_since_when_one_is_ready_is_told_and_does_not_change(host: Host) -> None:
    """Else the record of the host would be written in each round."""
    host.stand()
    host.turn(ASKED)
    (first,) = host.drivers.reported
    host.turn(ASKED)
    assert first.ready_at and host.drivers.reported == (first,)


def test_an_odd_launch_file_is_known_by_its_assignment(host: Host) -> None:
    for extra in ({}, {"prepared_for": 7, "prepared_files": []}, {"prepared_for": {"v": 1}}):
        launch = launch_of(request(), KEY, extra=extra)
        assert prepared_drivers._request_of(launch).uid == "uid-a"
        assert prepared_drivers.files_of(launch) is None
    lied = launch_of(request("b"), KEY)
    mine = replace(launch_of(request(), KEY), extra=lied.extra)
    assert prepared_drivers._request_of(mine).uid == "uid-a"


def test_requests_are_read_each_for_itself_and_not_without_end() -> None:
    zoo, layout = MemoryZoo(), Layout("/c")
    base = layout.preparations_of("host-a")
    zoo.put(f"{base}/uid-a.1", encode(request()))
    zoo.put(f"{base}/uid-b.1", b"{")
    zoo.put(f"{base}/uid-c.1", encode(request("a")))
    names = ["uid-a.1", "uid-b.1", "uid-c.1", "gone.1"]
    found = read_requests(zoo.client(), layout, "host-a", names)
    assert found["uid-a.1"].record == request() and found["uid-a.1"].czxid > 0
    assert found["uid-b.1"].record is None and "not JSON" in found["uid-b.1"].why
    assert found["uid-c.1"].record is None and "is about" in found["uid-c.1"].why
    assert "gone.1" not in found
    assert read_requests(zoo.client(), layout, "host-a", []) == {}
    many = [f"u{number:04}.1" for number in range(1000)]
    for name in many:
        zoo.put(f"{base}/{name}", b"")
    assert len(read_requests(zoo.client(), layout, "host-a", many)) == prepared_drivers.REQUESTS_MAX
