"""The life of a JVM application, which others look at: nobody's looking is no silence of its own."""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.records import Cause, Progress
from supervisor.shim import state as shim
from supervisor.shim.reports import parse
from supervisor.shim.state import Stage
from tests.unit.shim.world import LAUNCH, ShimWorld

STALL_S = 40.0


def probed(batch_id: int | None) -> shim.Reported:
    return shim.Reported(
        "looked",
        Progress(
            query=None,
            batch_id=batch_id,
            input_rows_per_s=None,
            processed_rows_per_s=None,
            batch_ms=None,
            at="t",
            lag=None,
        ),
    )


def started() -> ShimWorld:
    world = ShimWorld(replace(LAUNCH, reports=False, stall_timeout_s=STALL_S))
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.deliver(probed(None))
    world.deliver(replace(probed(5), event="progress"))
    return world


def test_a_supervisor_that_is_down_ends_no_healthy_driver() -> None:
    """I6: with nobody to look into its commit log, nothing is known of the driver, and nothing is concluded."""
    world = started()
    world.run(STALL_S * 3)
    assert world.stage() is Stage.RUNNING


def test_a_driver_that_is_looked_at_and_makes_nothing_is_stalled() -> None:
    world = started()
    for _ in range(5):
        world.run(10)
        world.deliver(probed(5))
    world.run(1)
    assert (world.stage() is Stage.RUNNING, world.state.cause) == (False, Cause.STALLED)


def test_what_it_made_while_nobody_looked_counts() -> None:
    world = started()
    world.run(STALL_S * 3)
    world.deliver(probed(50))
    world.run(STALL_S / 2)
    world.deliver(probed(50))
    world.run(1)
    assert world.stage() is Stage.RUNNING
    assert world.state.life.progress is not None and world.state.life.progress.batch_id == 50
    world.run(STALL_S)
    world.deliver(probed(50))
    world.run(1)
    assert world.state.cause is Cause.STALLED


def test_one_that_never_made_a_batch_is_left_alone() -> None:
    world = ShimWorld(replace(LAUNCH, reports=False, stall_timeout_s=STALL_S, start_timeout_s=60.0))
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    for batch in (None, 7, 7, 7, 7, 7):  # of an earlier attempt
        world.deliver(probed(batch))
        world.run(30)
    assert world.stage() is Stage.RUNNING


def test_the_word_on_the_socket() -> None:
    report = parse(b'{"event": "looked", "batch_id": 5}')
    assert report is not None and report.event == "looked"
    assert report.progress is not None and report.progress.batch_id == 5
