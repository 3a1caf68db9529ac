"""Several queries in one application: each is told of and judged for itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.checkpoint_expectation import QUERIES_MAX, UNNAMED_MAX, CheckpointExpectation
from supervisor.model.lag_window import SAMPLE_S
from supervisor.model.records import Cause, Lease, Progress, QueryState
from supervisor.model.silence import PROBE_AFTER, PROBE_EVERY
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.shim import health, queries
from supervisor.shim import state as shim
from supervisor.shim.end import describe
from supervisor.shim.reports import parse
from supervisor.shim.state import Life, Reported, Stage
from tests.unit.shim.world import LAUNCH, LEASE, ShimWorld, running

STALL_S = 40.0


def report(event: str, query: str, batch_id: int | None = None, error: str = "") -> Reported:
    return Reported(
        event,
        Progress(query=query, batch_id=batch_id, at="t") if batch_id is not None else None,
        error,
        query,
        f"id-{query}",
    )


def started(*names: str) -> ShimWorld:
    world = ShimWorld(replace(LAUNCH, stall_timeout_s=STALL_S))
    world.takes_orders = True
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    for name in names:
        world.deliver(report("query", name))
        world.deliver(report("progress", name, 0))
    return world


def go_on(world: ShimWorld, seconds: float, *events: tuple[str, str]) -> None:
    """Time passes, and these queries say these events every five seconds."""
    for n in range(int(seconds // 5)):
        world.run(5)
        for name, event in events:
            world.deliver(report(event, name, n + 1 if event == "progress" else None))


def states(world: ShimWorld) -> dict[str, str]:
    world.run(LAUNCH.lease_s / 6 + 1)
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    return {query.query or "": query.state.value for query in lease.queries}


def test_one_that_hangs_is_stalled_while_the_other_goes_on() -> None:
    world = started("good", "bad")
    go_on(world, STALL_S + 5, ("good", "progress"))
    assert world.state.cause is Cause.STALLED
    assert "query bad" in world.state.reason


@pytest.mark.parametrize("event", ["idle", "working", "progress"])
def test_idle_and_at_work_are_life(event: str) -> None:
    world = started("good", "other")
    go_on(world, STALL_S * 3, ("good", "progress"), ("other", event))
    assert world.stage() is Stage.RUNNING


def test_what_a_probe_has_asked_in_vain_is_unknown_and_nobody_is_ended_for_it() -> None:
    world = started("odd")
    for _ in range(4):
        world.run(STALL_S / 2)
        world.deliver(report("unknown", "odd", error="AttributeError: 'NoneType' object has no attribute"))
    assert world.stage() is Stage.RUNNING
    assert states(world) == {"odd": "unknown"}
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    assert (lease.queries[0].error or "").startswith("AttributeError")
    assert (lease.silence_s or 0.0) >= 2 * STALL_S, "silence is told as it is"
    world.deliver(report("working", "odd"))
    assert states(world) == {"odd": "active"}
    world.deliver(report("unknown", "odd"))
    world.run(STALL_S + 1)
    assert world.state.cause is Cause.STALLED, "it says nothing at all any more"


def test_nobody_is_ended_at_its_start_because_nobody_can_say_what_it_does() -> None:
    life = Life(begun_at_s=1.0, session_at_s=2.0)
    life = health.after_report(life, report("query", "odd"), 3.0)
    life = health.after_report(life, report("unknown", "odd"), 290.0)
    assert health.overdue(life, LAUNCH, 0.0, 310.0) is None
    late = 290.0 + LAUNCH.stall_timeout_s
    verdict = health.overdue(life, LAUNCH, 0.0, late)
    assert verdict is not None and verdict[0] is Cause.START_TIMED_OUT


@pytest.mark.parametrize(("error", "state"), [("", "terminated"), ("ValueError: no", "failed")])
def test_one_that_has_ended_is_not_stalled_and_is_shown(error: str, state: str) -> None:
    world = started("good", "done")
    world.deliver(report("terminated", "done", error=error))
    go_on(world, STALL_S * 3, ("good", "progress"))
    assert world.stage() is Stage.RUNNING
    assert states(world) == {"good": "active", "done": state}


def test_what_a_query_says_of_its_end_is_covered_as_every_other_text_that_everybody_can_read() -> None:
    """A failed query names the URL or the option that it could not connect with; the lease is shown by ``show``."""
    life = Life()
    place = shim.InPlace("id-q", 3, "s3a://key:hunter2hunter2@elsewhere/ck")
    life = queries.after_report(life, replace(report("progress", "q", 3), committed=(place,)), 1.0)
    life = queries.after_report(
        life, report("terminated", "q", error="SQLException: jdbc:x://db/y?user=a&password=hunter2"), 2.0
    )
    ((shown,), _more) = queries.shown(life, STALL_S, 3.0, "s3a://bucket/ck")
    assert "hunter2" not in f"{shown.error} {shown.elsewhere}"
    assert (shown.error or "").startswith("SQLException: jdbc:x://db/y?user=a&password=")
    assert (shown.elsewhere or "").endswith("@elsewhere/ck")


def test_an_application_without_an_active_query_is_silent() -> None:
    world = started("done")
    world.deliver(report("terminated", "done"))
    world.run(STALL_S + 1)
    assert world.state.cause is Cause.STALLED
    assert "ended" in world.state.reason


def test_one_that_is_started_again_lives_again() -> None:
    world = started("good", "again")
    world.deliver(report("terminated", "again", error="ValueError: no"))
    world.deliver(report("query", "again"))
    assert states(world) == {"good": "active", "again": "active"}
    go_on(world, STALL_S + 5, ("good", "progress"))
    assert world.state.cause is Cause.STALLED


def lagging(query: str, batch_id: int, lag: float | None) -> Reported:
    return replace(
        report("progress", query), progress=Progress(query=query, batch_id=batch_id, at="t", lag=lag)
    )


def behind(life: Life, now_s: float) -> dict[str, bool | None]:
    shown, _ = queries.shown(life, 10_000.0, now_s)
    return {query.query or "": query.behind for query in shown}


def grown(minutes: int, *others: Reported) -> Life:
    """The lag of "q" grows each minute; ``others`` come in the last one."""
    life = queries.after_report(Life(), report("query", "q"), 0.0)
    for number in range(minutes + 1):
        life = queries.after_report(life, lagging("q", number, 2000.0 + number), number * SAMPLE_S)
    for other in others:
        life = queries.after_report(life, other, minutes * SAMPLE_S)
    return life


def test_the_lease_says_of_each_query_whether_it_falls_behind() -> None:
    fine = lagging("fine", 1, 1.0)
    assert behind(grown(14, fine), 14 * SAMPLE_S) == {"q": False, "fine": False}
    assert behind(grown(15, fine), 15 * SAMPLE_S) == {"q": True, "fine": False}
    assert behind(grown(15, report("working", "q")), 15 * SAMPLE_S) == {"q": True}


def test_nothing_is_said_of_a_query_without_a_lag_one_that_waits_for_data_and_one_that_has_ended() -> None:
    for other in (lagging("q", 99, None), report("idle", "q"), report("terminated", "q")):
        life = grown(15, other)
        assert behind(life, 15 * SAMPLE_S) == {"q": None}
        life = queries.after_report(life, lagging("q", 100, 9000.0), 16 * SAMPLE_S)
        assert behind(life, 16 * SAMPLE_S) == {"q": False}, "its window has begun anew"


def test_a_query_that_is_started_again_is_judged_anew() -> None:
    life = grown(15, report("query", "q"))
    life = queries.after_report(life, lagging("q", 16, 9000.0), 16 * SAMPLE_S)
    assert behind(life, 16 * SAMPLE_S) == {"q": False}


def test_a_wall_clock_that_jumps_is_no_time_and_the_lease_has_what_is_known() -> None:
    """The instants of a shim are of BOOTTIME."""
    world = started("q")

    def said() -> bool | None:
        (query,) = decode(Lease, world.nodes[LEASE].data, LEASE).queries
        return query.behind

    for number in range(20):
        world.deliver(lagging("q", number + 1, 2000.0 + number))
        world.run(SAMPLE_S / 2)
        world.deliver(report("working", "q"))
        world.run(SAMPLE_S / 2)
        world.offset_s += 3600.0 if number == 5 else 0.0
        assert said() is (number >= 14), "at the end of the minute"


def test_a_silent_query_is_looked_at_before_it_counts_as_stalled() -> None:
    world = started("good", "long")

    def probes() -> int:
        return sum(isinstance(effect, shim.Order) and effect.order == "look" for effect in world.effects)

    go_on(world, STALL_S * PROBE_AFTER - 5, ("good", "progress"))
    assert probes() == 0
    go_on(world, STALL_S / 2, ("good", "progress"))
    assert 2 <= probes() <= STALL_S / 2 / (STALL_S * PROBE_EVERY) + 1
    assert world.stage() is Stage.RUNNING


def test_the_main_progress_is_the_newest_events() -> None:
    world = started("a", "b")
    world.deliver(report("progress", "a", 7))
    world.run(LAUNCH.lease_s)
    progress = decode(Lease, world.nodes[LEASE].data, LEASE).progress
    assert progress is not None and (progress.query, progress.batch_id) == ("a", 7)


def test_the_most_urgent_are_shown_and_the_rest_is_counted() -> None:
    life = Life()
    for n in range(40):
        life = queries.after_report(life, report("query", f"q{n}"), float(n))
        if n < 20:
            life = queries.after_report(
                life, report("terminated", f"q{n}", error="E: no" if n == 19 else ""), float(n)
            )
    shown, more = queries.shown(life, 1000.0, 50.0)
    assert len(shown) + more == 40 and len(shown) > queries.SHOWN
    shown_states = [query.state for query in shown]
    assert QueryState.TERMINATED not in shown_states or shown_states.count(QueryState.ACTIVE) == 20
    assert [query.query for query in shown if query.state is QueryState.FAILED] == ["q19"]
    assert sum(query.at is not None for query in shown) <= queries.SHOWN, "of the others there are no figures"


@pytest.mark.parametrize("count", [1, 5, 8, 12])
def test_each_of_a_dozen_queries_is_shown(count: int) -> None:
    life = Life()
    for n in range(count):
        name = f"topic-number-{n}"
        life = queries.after_report(life, replace(report("query", name), id=f"{n:036}"), 1.0)
        full = Progress(
            query=name, batch_id=10_000, at="2026-11-28T12:00:00.000+00:00", lag=1.5, batch_ms=77.0
        )
        event = replace(report("progress", name), id=f"{n:036}", progress=full, at=full.at or "")
        life = queries.after_report(life, event, 2.0)
    shown, more = queries.shown(life, 1000.0, 50.0)
    assert ([query.query for query in shown], more) == ([f"topic-number-{n}" for n in range(count)], 0)
    assert all(query.batch_id == 10_000 for query in shown)


def crowd(count: int = queries.TRACKED) -> Life:
    """So many queries live."""
    return Life(queries=tuple(shim.QueryLife(f"id-q{n}", f"q{n}", float(n)) for n in range(count)))


def test_a_failed_query_is_counted_and_judged_the_thousandth_and_each_beyond_too() -> None:
    life = crowd()
    beyond = (f"q{queries.TRACKED + n}" for n in range(20))
    for name in ("q999", *beyond):
        life = queries.after_report(life, report("query", name), 2000.0)
    assert life.more_queries == 20
    for n, name in enumerate(("q999", *(f"q{queries.TRACKED + n}" for n in range(20)))):
        life = queries.after_report(life, report("terminated", name, error="ValueError: bad record"), 2001.0)
        assert queries.failed_count(life) == n + 1
    assert len(life.queries) == queries.TRACKED
    shown, more = queries.shown(life, 1e6, 2002.0)
    assert len(shown) + more == queries.TRACKED + 20
    assert {query.state for query in shown if query.at is not None} <= {QueryState.FAILED}
    life = queries.after_report(life, report("query", f"q{queries.TRACKED + 19}"), 2003.0)
    assert queries.failed_count(life) == 20, "one was started again"
    life = queries.after_report(life, report("query", "fresh"), 2004.0)
    assert queries.failed_count(life) == 20, "one that is new takes the place of none that is to be told"


def test_the_lease_says_how_many_queries_have_failed() -> None:
    world = started("good", "bad", "worse")
    world.deliver(report("terminated", "bad", error="ValueError: no"))
    world.deliver(report("terminated", "worse", error="ValueError: no"))
    world.run(LAUNCH.lease_s / 6 + 1)
    assert decode(Lease, world.nodes[LEASE].data, LEASE).failed_queries == 2
    world.deliver(report("query", "worse"))
    world.run(LAUNCH.lease_s / 6 + 1)
    assert decode(Lease, world.nodes[LEASE].data, LEASE).failed_queries == 1


def failing(failed_query_ends: bool) -> ShimWorld:
    world = started("good", "bad")
    world.state = replace(
        world.state, launch=replace(world.state.launch, failed_query_ends=failed_query_ends)
    )
    world.deliver(report("terminated", "bad", error="ValueError: cannot reach warehouse table orders"))
    return world


def test_a_failed_query_of_several_ends_the_attempt_soon_if_the_spec_says_so() -> None:
    world = failing(failed_query_ends=True)
    world.run(queries.FAILED_FOR_S - 1)
    assert world.stage() is Stage.RUNNING, "the application may start it again"
    world.run(2)
    assert world.state.cause is Cause.USER_ERROR
    world.deliver(shim.Exited(-9, "", None))
    exit_of = describe(world.state)
    assert exit_of.cause is Cause.USER_ERROR
    assert exit_of.reason == "query bad failed: ValueError: cannot reach warehouse table orders"


def test_a_failed_query_that_is_started_again_or_left_ends_nobody() -> None:
    world = failing(failed_query_ends=True)
    world.deliver(report("query", "bad"))
    go_on(world, STALL_S / 2, ("good", "progress"), ("bad", "progress"))
    assert world.stage() is Stage.RUNNING
    world = failing(failed_query_ends=False)
    go_on(world, STALL_S * 3, ("good", "progress"))
    assert world.stage() is Stage.RUNNING


def test_when_all_have_ended_the_reason_has_the_error_of_the_one_that_failed() -> None:
    world = started("bad")
    world.deliver(report("terminated", "bad", error="ValueError: cannot reach warehouse table orders"))
    world.run(STALL_S + 1)
    assert world.state.cause is Cause.STALLED
    assert world.state.reason.startswith("query bad has failed: ValueError: cannot reach warehouse")


@pytest.mark.parametrize("lives", [False, True])
def test_a_driver_that_outlives_the_error_of_its_main_code_is_ended_soon_unless_a_query_lives(
    lives: bool,
) -> None:
    """A thread that is no daemon holds the process of an application whose main thread has raised."""
    world = started("q", "other")
    for name in ("q", "other")[: 1 if lives else 2]:
        world.deliver(report("terminated", name, error="ValueError: no"))
    parsed = parse(b'{"event": "error", "kind": "ValueError", "message": "cannot reach warehouse"}')
    assert parsed is not None
    world.deliver(parsed)
    go_on(world, health.OUTLIVES_S - 5, *([("other", "progress")] if lives else []))
    assert world.stage() is Stage.RUNNING
    go_on(world, 10, *([("other", "progress")] if lives else []))
    if lives:
        assert world.stage() is Stage.RUNNING
        return
    assert world.state.cause is Cause.USER_ERROR
    world.deliver(shim.Exited(-9, "", None))
    assert describe(world.state).reason == (
        "its main code ended, and its process did not: ValueError: cannot reach warehouse"
    )


def test_one_that_is_not_tracked_is_counted_once_however_much_it_says() -> None:
    life = crowd()
    for n in range(queries.TRACKED, queries.TRACKED + 2):
        life = queries.after_report(life, report("query", f"q{n}"), float(n))
    for n in range(100):
        life = queries.after_report(life, report("progress", f"q{queries.TRACKED}", n), 50.0 + n)
    assert (len(life.queries), life.more_queries) == (queries.TRACKED, 2)


TEXT = st.text(max_size=200)
WORDS = tuple(f"{n:036} {2**63 - 1}" for n in range(QUERIES_MAX))
FULLEST = CheckpointExpectation(
    place="p" * 16,
    queries=WORDS[:1],
    accepted="o" * 32,
    elsewhere=tuple(f"{'e' * 16} {word}" for word in WORDS[1:]),
    unnamed=("0" * 8,) * UNNAMED_MAX,
)
EVENTS = st.builds(
    lambda event, query, error: parse(
        json.dumps(
            {
                "event": event,
                "query": query,
                "id": query and query[:3],
                "batch_id": 10**18,
                "error": error,
                "input_rows_per_s": 1.23456789e14,
                "processed_rows_per_s": 1e-300,
                "batch_ms": -1.7e14,
                "lag": 9.99e14,
            }
        ).encode()
    ),
    st.sampled_from(["query", "progress", "idle", "terminated", "working"]),
    TEXT,
    TEXT,
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_is_reported_the_lease_can_be_written(events: list[Reported | None]) -> None:
    life = Life()
    for now_s, event in enumerate(events):
        if event is not None:
            life = queries.after_report(life, event, float(now_s))
    shown, more = queries.shown(life, 10.0, 100.0)
    world = ShimWorld()
    world.connect()
    world.run()
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    fullest = replace(
        lease,
        name="n" * 63,
        progress=Progress(
            query='"' * 120,
            batch_id=1,
            input_rows_per_s=1e14,
            processed_rows_per_s=1e14,
            batch_ms=1e14,
            at="t" * 30,
            lag=1e14,
        ),
        driver=replace(lease.driver, host="h" * 253),
        queries=shown,
        more_queries=more,
        remembered=FULLEST,
    )
    assert len(encode(fullest)) <= MAX_RECORD_BYTES
    assert len(life.queries) <= queries.TRACKED


def reported(query: str, batch_id: int, checkpoint: str, **more: object) -> Reported:
    parsed = parse(
        json.dumps(
            {"event": "progress", "id": query, "batch_id": batch_id, "checkpoint": checkpoint, **more}
        ).encode()
    )
    assert parsed is not None
    return parsed


def test_what_is_committed_in_the_checkpoint_of_the_job_is_remembered_in_the_lease() -> None:
    launch = replace(
        LAUNCH,
        env={**LAUNCH.env, "SPARK_SUPERVISOR_CHECKPOINT": "s3a://bucket/ck"},
        remembered=CheckpointExpectation(place="place", queries=("old 7",)),
    )
    world = running(launch)
    assert queries.remembered(launch, world.state.life) == launch.remembered
    world.deliver(reported("old", 7, "s3a://bucket/ck/old"))
    world.deliver(reported("here", 3, "s3a://bucket/ck"))
    world.deliver(reported("below", 4, "s3a://bucket/ck/q2/"))
    world.deliver(reported("elsewhere", 5, "file:/tmp/temporary-1"))
    world.deliver(reported("beside", 6, "s3a://bucket/ck2"))
    world.deliver(reported("here", 9, "s3a://bucket/ck"))
    world.wait(LAUNCH.lease_s / 3)
    world.run()
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    assert lease.remembered == CheckpointExpectation(place="place", queries=("old 7", "below 4", "here 9"))


def test_a_jvm_application_is_remembered_by_what_its_host_saw() -> None:
    launch = replace(
        LAUNCH, env={"SPARK_SUPERVISOR_CHECKPOINT": "/ck"}, remembered=CheckpointExpectation(place="place")
    )
    parsed = parse(
        json.dumps({"event": "idle", "committed": {"q1": 3, "q2": 8}, "checkpoint": "file:///ck"}).encode()
    )
    assert parsed is not None
    life = queries.after_report(Life(), parsed, 1.0)
    assert queries.remembered(launch, life) == CheckpointExpectation(place="place", queries=("q1 3", "q2 8"))
    assert queries.remembered(replace(launch, remembered=None), life) is None


@pytest.mark.parametrize(
    "hostile",
    [
        {"id": "a b"},
        {"id": ""},
        {"id": "x" * 40},
        {"id": 'q"'},
        {"batch_id": -1},
        {"batch_id": True},
        {"batch_id": "3"},
        {"checkpoint": 7},
        {"checkpoint": ""},
        {"checkpoint": "s3a://bucket/" + "x" * 2000},
        {"committed": {"a b": 1, "": 2}},
    ],
)
def test_what_is_no_committed_batch_is_not_remembered(hostile: dict[str, object]) -> None:
    body = {"event": "progress", "id": "q", "batch_id": 3, "checkpoint": "/ck", **hostile}
    parsed = parse(json.dumps(body).encode())
    assert parsed is not None
    assert parsed.committed == ()


def test_a_query_with_its_checkpoint_elsewhere_is_named() -> None:
    life = Life()
    for event in (
        report("query", "a"),
        report("query", "b"),
        reported("id-a", 1, "s3a://bucket/ck/a"),
        reported("id-b", 1, "file:/tmp/temporary-1"),
    ):
        life = queries.after_report(life, event, 1.0)
    parsed, _ = queries.shown(life, 100.0, 2.0, "s3://bucket/ck")
    assert [(query.query, query.elsewhere) for query in parsed] == [
        ("a", None),
        ("b", "file:/tmp/temporary-1"),
    ]
    assert all(query.elsewhere is None for query in queries.shown(life, 100.0, 2.0)[0])
