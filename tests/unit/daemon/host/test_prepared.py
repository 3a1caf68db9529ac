"""What a host decides about its prepared drivers: which are kept, which go, what is prepared, and what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from supervisor.daemon.host.prepared import (
    RETRY_PAUSE,
    WHY_MAX_BYTES,
    HostCapacity,
    HostLoad,
    KeptDriver,
    PreparedDecision,
    PreparedSituation,
    PreparePause,
    RequestedDriver,
    decide,
)
from supervisor.model.records import BlobRef, Preparation, PreparedDriver, PrepareLevel
from tests.unit.daemon.host.prepared_bench import request

NOW_S, ROOM = 1000.0, HostCapacity("h", 10, 100)


def asked(*records: Preparation) -> dict[str, RequestedDriver]:
    entries = [(f"{record.uid}.{record.revision}", record) for record in records]
    return {entry: RequestedDriver(entry, record) for entry, record in entries}


def kept(
    key: str, record: Preparation, *, age_s: float = 5.0, ready: bool = True, **more: object
) -> KeptDriver:
    made = KeptDriver(key, record, NOW_S - age_s, 60.0, ready=ready)
    return replace(made, **more)  # type: ignore[arg-type]


def decided(
    requests: Mapping[str, RequestedDriver] | None,
    *drivers: KeptDriver,
    loads: Sequence[HostLoad] = (),
    capacity: HostCapacity = ROOM,
    under_way: Mapping[str, Preparation] | None = None,
    pauses: Mapping[str, PreparePause] | None = None,
    assigned: Sequence[str] = (),
) -> PreparedDecision:
    return decide(
        PreparedSituation(requests, drivers, loads, capacity, under_way or {}, pauses or {}, assigned, NOW_S)
    )


def gone(decision: PreparedDecision) -> list[str]:
    return sorted(each.key for each, _ in decision.discard)


def begun(decision: PreparedDecision) -> list[str]:
    return [each.entry for each in decision.prepare]


def said(decision: PreparedDecision) -> list[tuple[str, bool, str]]:
    return [(each.uid, each.ready, each.why) for each in decision.reported]


def test_what_is_asked_for_is_prepared_once() -> None:
    decision = decided(asked(request()))
    assert begun(decision) == ["uid-a.1"] and said(decision) == [("uid-a", False, "")]
    decision = decided(asked(request()), under_way={"uid-a.1": request()})
    assert begun(decision) == [] and said(decision) == [("uid-a", False, "")]
    for ready in (False, True):
        decision = decided(asked(request()), kept("uid-a.p1", request(), ready=ready))
        assert (begun(decision), gone(decision)) == ([], [])
        assert said(decision) == [("uid-a", ready, "")]


def test_what_is_told_names_what_it_is() -> None:
    record = request(revision=3, driver_memory=5, level=PrepareLevel.APPLICATION)
    assert decided(asked(record), kept("uid-a.p1", record)).reported == (
        PreparedDriver(
            uid="uid-a",
            revision=3,
            level=PrepareLevel.APPLICATION,
            sha256="0" * 64,
            driver_memory=5,
            ready=True,
        ),
    )


def test_of_two_for_one_request_the_ready_one_stays_else_the_older() -> None:
    one, other = kept("uid-a.p1", request(), age_s=9, ready=False), kept("uid-a.p2", request(), age_s=3)
    assert gone(decided(asked(request()), one, other)) == ["uid-a.p1"]
    assert gone(decided(asked(request()), replace(one, ready=True), other)) == ["uid-a.p2"]


@pytest.mark.parametrize(
    "now",
    [
        request(spec=BlobRef(key="k", sha256="1" * 64, bytes=1)),
        request(level=PrepareLevel.APPLICATION),
        request(memory=11),
        request(driver_memory=7),
        request(at="later"),
    ],
)
def test_what_was_made_for_something_else_is_discarded_and_made_anew(now: Preparation) -> None:
    decision = decided(asked(now), kept("uid-a.p1", request()))
    assert gone(decision) == ["uid-a.p1"] and begun(decision) == ["uid-a.1"]


def test_what_is_asked_for_no_more_goes_but_not_while_an_attempt_of_its_job_is_assigned_here() -> None:
    """The leader takes the request back when it has assigned the attempt, which may not have been handed over yet."""
    assert gone(decided({}, kept("uid-a.p1", request()))) == ["uid-a.p1"]
    assert gone(decided({}, kept("uid-a.p1", request()), assigned=["uid-a"])) == []
    assert gone(decided({}, kept("uid-a.p1", request()), assigned=["uid-b"])) == ["uid-a.p1"]


def test_on_unknown_nothing_is_discarded_and_nothing_begun() -> None:
    driver = kept("uid-a.p1", request())
    decision = decided(None, driver)
    assert (gone(decision), begun(decision), said(decision)) == ([], [], [("uid-a", True, "")])
    unreadable = {"uid-a.1": RequestedDriver("uid-a.1", None, "not JSON")}
    assert gone(decided(unreadable, driver)) == []


def test_a_bad_request_concerns_itself_alone_and_is_told() -> None:
    requests = {"uid-a.1": RequestedDriver("uid-a.1", None, "not JSON"), **asked(request("b"))}
    decision = decided(requests | {"odd": RequestedDriver("odd", None, "no")})
    assert begun(decision) == ["uid-b.1"]
    assert said(decision) == [("uid-a", False, "not JSON"), ("uid-b", False, "")]


def test_one_that_cannot_be_ready_is_discarded_and_told_and_not_made_anew_at_once() -> None:
    driver = kept("uid-a.p1", request(), ready=False, why="no module named x")
    decision = decided(asked(request()), driver)
    assert gone(decision) == ["uid-a.p1"] and begun(decision) == []
    assert decision.failed == (("uid-a.1", "no module named x"),)
    assert said(decision) == [("uid-a", False, "no module named x")]


def test_one_that_is_not_ready_in_time_is_discarded_and_told() -> None:
    assert decided(asked(request()), kept("uid-a.p1", request(), age_s=59.0, ready=False)).discard == ()
    decision = decided(asked(request()), kept("uid-a.p1", request(), age_s=60.0, ready=False))
    assert gone(decision) == ["uid-a.p1"] and "start_timeout" in said(decision)[0][2]
    assert decided(asked(request()), kept("uid-a.p1", request(), age_s=6e5)).discard == (), "it is ready"


def test_after_a_failure_there_is_a_pause() -> None:
    pauses = {"uid-a.1": PreparePause("no answer", 1, NOW_S + 1.0)}
    decision = decided(asked(request()), pauses=pauses)
    assert begun(decision) == [] and said(decision) == [("uid-a", False, "no answer")]
    pauses = {"uid-a.1": PreparePause("no answer", 1, NOW_S)}
    assert begun(decided(asked(request()), pauses=pauses)) == ["uid-a.1"]
    pauses = [RETRY_PAUSE.after(tries) for tries in range(1, 40)]
    assert pauses == sorted(pauses) and pauses[0] == 5.0 and pauses[-1] == RETRY_PAUSE.longest_s


def test_what_may_pass_is_told_as_such() -> None:
    def waits(**parts: Any) -> list[bool]:
        return [each.waits for each in decided(asked(request()), **parts).reported]

    assert waits(pauses={"uid-a.1": PreparePause("no answer", 1, NOW_S + 1.0, passing=True)}) == [True]
    assert waits(pauses={"uid-a.1": PreparePause("no module named x", 1, NOW_S + 1.0)}) == [False]
    assert waits(loads=[HostLoad("uid-x", 50)], capacity=HostCapacity("h", 1, 100)) == [True]
    unready = decided(asked(request()), kept("uid-a.p1", request(), ready=False, why="no module named x"))
    assert [each.waits for each in unready.reported] == [False]


def test_a_driver_is_prepared_only_where_there_is_room_beside_all_that_lives() -> None:
    loads = [HostLoad("uid-x", 50)]
    one = kept("uid-b.p1", request("b", memory=30))
    both = asked(request(memory=21), request("b", memory=30))
    decision = decided(both, one, loads=loads)
    assert begun(decision) == [] and "no room: h has 0m free" in said(decision)[1][2]
    assert gone(decision) == [], "nothing is discarded for a driver that is to be prepared"
    under_way = {"uid-c.1": request("c", memory=1)}
    fitting = asked(request(memory=20), request("b", memory=30), request("c", memory=1))
    assert begun(decided(fitting, one, loads=loads)) == ["uid-a.1"]
    assert begun(decided(fitting, one, loads=loads, under_way=under_way)) == [], "under way"
    dying = replace(one, discarded=True)
    assert begun(decided(asked(request(memory=21)), dying, loads=loads)) == [], "it still lives"
    assert begun(decided(asked(request(memory=21)), replace(dying, alive=False), loads=loads)) == ["uid-a.1"]
    decision = decided(asked(request()), loads=loads, capacity=HostCapacity("h", 1, 100))
    assert begun(decision) == [] and "its 1 driver" in said(decision)[0][2]


def test_the_more_important_is_prepared_first() -> None:
    requests = asked(request(memory=60), request("b", memory=60, priority=5))
    assert begun(decided(requests)) == ["uid-b.1"]


def test_where_attempts_need_the_room_prepared_drivers_go_the_least_important_first() -> None:
    drivers = [
        kept("uid-a.p1", request(memory=30, priority=2)),
        kept("uid-b.p1", request("b", memory=30, priority=1)),
        kept("uid-c.p1", request("c", memory=30, priority=3)),
    ]
    requests = asked(*(each.for_request for each in drivers))
    assert gone(decided(requests, *drivers, loads=[HostLoad("uid-x", 10)])) == []
    assert gone(decided(requests, *drivers, loads=[HostLoad("uid-x", 11)])) == ["uid-b.p1"]
    assert gone(decided(requests, *drivers, loads=[HostLoad("uid-x", 45)])) == ["uid-a.p1", "uid-b.p1"]
    slots = HostCapacity("h", 3, 1000)
    assert gone(decided(requests, *drivers, loads=[HostLoad("uid-x", 1)], capacity=slots)) == ["uid-b.p1"]


def test_the_driver_that_is_meant_for_a_start_stays_and_is_counted_once() -> None:
    driver = kept("uid-a.p1", request(memory=60))
    start = HostLoad("uid-a", 60, takes_prepared=True)
    assert gone(decided(asked(request(memory=60)), driver, loads=[start])) == []
    assert gone(decided(asked(request(memory=60)), driver, loads=[replace(start, takes_prepared=False)])) == [
        "uid-a.p1"
    ]


def test_the_ready_ones_are_told_first_and_reasons_are_short() -> None:
    requests = asked(request("c"), request("b"), request("a"))
    pauses = {"uid-b.1": PreparePause("x" * 1000, 1, NOW_S + 9.0)}
    decision = decided(requests, kept("uid-c.p1", request("c")), pauses=pauses)
    assert [each.uid for each in decision.reported] == ["uid-c", "uid-b", "uid-a"]
    assert len(decision.reported[1].why.encode()) <= WHY_MAX_BYTES


def test_the_dead_and_the_discarded_are_not_kept() -> None:
    for driver in (kept("uid-a.p1", request(), alive=False), kept("uid-a.p1", request(), discarded=True)):
        decision = decided(asked(request()), driver)
        assert begun(decision) == ["uid-a.1"] and gone(decision) == []
        assert said(decision) == [("uid-a", False, "")]
