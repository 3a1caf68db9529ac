"""The application's own code has failed: what its other threads do then, and what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.records import Cause
from supervisor.shim import state as shim
from supervisor.shim.end import describe
from supervisor.shim.reports import parse
from supervisor.shim.state import Reported, Stage
from tests.unit.shim.world import LAUNCH, ShimWorld

GRACE_S = LAUNCH.stop_grace_s
ERROR = "ValueError: cannot reach warehouse table orders"


def started() -> ShimWorld:
    world = ShimWorld(replace(LAUNCH, stall_timeout_s=10 * GRACE_S))
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    tell(world, "query", query="q", id="1")
    tell(world, "progress", query="q", id="1", batch_id=0)
    return world


def tell(world: ShimWorld, event: str, **fields: Any) -> None:
    report = parse(json.dumps({"event": event, **fields}).encode())
    assert isinstance(report, Reported)
    world.deliver(report)


def end_of(world: ShimWorld, status: int, tail: str = "") -> tuple[Cause, str]:
    ended = describe(replace(world.state, status=status, tail=tail))
    return ended.cause, ended.reason


def test_code_that_came_to_its_end_may_leave_threads_that_work() -> None:
    world = started()
    tell(world, "ended")
    world.run(3 * GRACE_S)
    assert world.stage() is Stage.RUNNING


def test_a_stop_comes_before_it() -> None:
    world = started()
    tell(world, "error", kind="ValueError", message=ERROR)
    world.deliver(shim.StopAsked())
    world.run(GRACE_S + 2)
    assert end_of(world, -9)[0] is Cause.STOPPED


@pytest.mark.parametrize("left", ["SystemExit", "Py4JNetworkError"])
def test_the_error_of_a_query_is_told_where_the_code_says_only_that_it_left(left: str) -> None:
    world = started()
    tell(world, "terminated", query="q", id="1", error=ERROR)
    tell(
        world, "error", kind=left, message="exit 7" if left == "SystemExit" else "Py4JNetworkError: no answer"
    )
    assert end_of(world, 7, tail="MemoryError\n") == (Cause.USER_ERROR, f"exit code 7: {ERROR}")


@pytest.mark.parametrize("event", ["query", "progress"])
def test_the_error_of_a_query_that_runs_again_is_not_told_of_what_comes_later(event: str) -> None:
    world = started()
    tell(world, "terminated", query="q", id="1", error="OutOfMemoryError: Java heap space")
    tell(world, event, query="q", id="1", batch_id=1)
    tell(world, "error", kind="SystemExit", message="exit 7")
    assert end_of(world, 7) == (Cause.USER_ERROR, "exit code 7: the application called sys.exit")


def test_what_has_drained_its_source_is_told_to_be_bounded() -> None:
    world = started()
    for trigger, drained in (("processing", False), ("available_now", True), ("once", True)):
        tell(world, "trigger", query="q", id="1", kind=trigger)
        tell(world, "ended")
        assert end_of(world, 0)[1].endswith("say unbounded: false") is drained
