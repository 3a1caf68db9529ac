"""An application that begins anew beside what its job has left in the checkpoint is refused, and says how to go on (F43)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation, with_unnamed
from supervisor.model.launch import UNNAMED, Launch, with_remembered
from supervisor.model.records import Cause, Lease
from supervisor.records.codec import decode
from supervisor.shim import queries
from supervisor.shim import state as shim
from supervisor.shim.beginning_anew import ANEW_FOR_S
from supervisor.shim.end import describe
from supervisor.shim.reports import parse
from supervisor.shim.state import Reported, Stage
from tests.unit.shim.world import LAUNCH, LEASE, ShimWorld, running

OLD = "0a000000-e858-432d-8218-addf97e927d3"
NEW = "0b000000-e858-432d-8218-addf97e927d3"


def launch(*were: str, unnamed: tuple[str, ...] = ()) -> Launch:
    """The launch of an attempt whose job has left these queries in its checkpoint."""
    known = CheckpointExpectation(place="p", queries=tuple(f"{each} 41" for each in were), unnamed=unnamed)
    return replace(LAUNCH, env={"SPARK_SUPERVISOR_CHECKPOINT": "file:///ck"}, remembered=known)


def report(event: str, query_id: str, batch: int = 0, place: str = "", **more: object) -> Reported:
    body = {"event": event, "id": query_id, "query": query_id, **more}
    if event == "progress":
        body |= {"batch_id": batch, "checkpoint": place or f"file:/ck/{query_id}"}
    parsed = parse(json.dumps(body).encode())
    assert parsed is not None
    return parsed


def go_on(world: ShimWorld, seconds: float, query_id: str = NEW, place: str = "") -> None:
    for batch in range(int(seconds // 5)):
        world.deliver(report("progress", query_id, batch, place))
        world.run(5)


def refused(world: ShimWorld) -> bool:
    return world.stage() is not Stage.RUNNING and world.state.cause is Cause.BAD_CHECKPOINT


def test_a_new_query_while_none_of_those_that_were_there_is_started_is_refused_for_good() -> None:
    world = running(launch(OLD))
    world.deliver(report("query", NEW))
    go_on(world, ANEW_FOR_S - 5)
    assert world.stage() is Stage.RUNNING
    go_on(world, 15)
    assert refused(world)
    world.deliver(shim.Exited(-9, ""))
    ended = describe(world.state)
    assert ended.permanent and ended.cause is Cause.BAD_CHECKPOINT
    assert f"query {OLD}, which had committed batch 41 there, was not started" in ended.reason
    assert "queryName" in ended.reason and "--accept-fresh-start" in ended.reason
    assert ended.committed == (f"{OLD} 41",), "a resume finds the same, and is not taken for an acceptance"


def test_an_update_that_adds_a_query_may_start_it_first() -> None:
    world = running(launch(OLD))
    world.deliver(report("query", NEW))
    go_on(world, ANEW_FOR_S - 10)
    world.deliver(report("query", OLD))
    go_on(world, 3 * ANEW_FOR_S)
    assert world.stage() is Stage.RUNNING
    known = queries.remembered(world.state.launch, world.state.life)
    assert known is not None and [pair.split()[0] for pair in known.queries] == [OLD, NEW]


@pytest.mark.parametrize(
    ("were", "place"),
    [((), ""), ((OLD,), "file:/tmp/temporary-1"), ((NEW,), "")],
    ids=["first start, or an accepted fresh one", "beside the job's checkpoint", "the same"],
)
def test_what_begins_nothing_anew_in_the_checkpoint_is_left_alone(were: tuple[str, ...], place: str) -> None:
    world = running(launch(*were))
    world.deliver(report("query", NEW))
    go_on(world, 3 * ANEW_FOR_S, place=place)
    assert world.stage() is Stage.RUNNING


def test_a_second_query_without_a_name_is_refused_before_it_begins() -> None:
    world = running(launch(OLD, unnamed=(OLD[:8],)))
    world.deliver(Reported("unnamed"))
    world.run(1)
    assert refused(world)
    world.deliver(shim.Exited(-9, ""))
    ended = describe(world.state)
    assert ended.permanent and ended.reason.startswith("a query without a name would begin from nothing")
    assert "give it a queryName" in ended.reason


def test_the_lease_of_a_first_start_says_that_a_query_without_a_name_can_not_go_on() -> None:
    world = running(launch())
    world.deliver(report("query", NEW))
    world.deliver(report("progress", NEW, 3, unnamed=True))
    world.wait(LAUNCH.lease_s / 3)
    world.run()
    lease = decode(Lease, world.nodes[LEASE].data, LEASE)
    assert lease.remembered is not None
    assert (lease.remembered.queries, lease.remembered.unnamed) == ((f"{NEW} 3",), (NEW[:8],))


def test_of_a_version_that_did_not_say_which_had_no_name_the_rule_of_all_holds() -> None:
    world = running(launch(OLD))
    world.deliver(report("query", NEW))
    for batch in range(20):
        world.deliver(report("progress", NEW, batch, unnamed=True))
        world.run(5)
    assert refused(world) and "a query without a name has begun from nothing" in world.state.reason


def test_a_directory_that_was_renamed_has_a_name() -> None:
    known = CheckpointExpectation(place="p", queries=(f"{OLD} 1", f"{NEW} 2"))
    both = with_unnamed(known, (OLD, NEW, "other"))
    assert both.unnamed == (OLD[:8], NEW[:8])
    assert with_unnamed(both, (), (OLD,)).unnamed == (NEW[:8],)
    assert with_unnamed(known, ()) is known


def test_the_driver_hears_that_one_without_a_name_was_there() -> None:
    known = CheckpointExpectation(place="p", queries=(f"{OLD} 1",), unnamed=(OLD[:8],))
    told = with_remembered(LAUNCH, known)
    assert told.env[UNNAMED] == OLD[:8] and told.remembered is known
    assert UNNAMED not in with_remembered(told, replace(known, unnamed=())).env
