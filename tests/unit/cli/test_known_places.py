"""A new submission where its job left nothing to be seen: what an empty place proves."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import Cause, OwnState
from supervisor.operations import going_back
from tests.unit.cli.conftest import Terminal

REMEMBERS, SAME_QUERY, UNKNOWN = "file s3a://b/out", "delta s3a://b/t", "foreachBatch"


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(going_back, "opener", lambda *_: lambda location: location)
    monkeypatch.setattr(going_back, "planned_in", lambda _: ())
    monkeypatch.setattr(going_back, "newest_in_sink_log", lambda _: None)


def submitted_again(terminal: Terminal, checkpoint: str, sink: str) -> Any:
    """``clicks`` had committed batch 12 at ``checkpoint`` and was cancelled."""
    spec = terminal.spec("clicks", f"checkpoint: {checkpoint}")
    assert terminal.run("submit", spec).code == 0
    known = CheckpointExpectation(place=place_of(checkpoint), queries=("q 12",), sinks=(f"q 12 {sink}",))
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED, remembered=known)
    assert terminal.run("cancel", "clicks").code == 0
    return terminal.run("submit", spec)


@pytest.mark.parametrize("scheme", ["s3a", "s3", "s3n"])
def test_an_empty_place_on_s3_is_empty_for_every_host(
    terminal: Terminal, nothing_there: None, scheme: str
) -> None:
    """The start would begin with batch 0, and the sink would drop twelve batches."""
    ran = submitted_again(terminal, f"{scheme}://bucket/ck", REMEMBERS)
    assert (ran.code, "batches 0 to 12" in ran.err) == (4, True), ran.err


@pytest.mark.parametrize("place", ["/data/ck", "file:///data/ck2"])
def test_an_empty_directory_of_this_host_proves_nothing(
    terminal: Terminal, nothing_there: None, place: str
) -> None:
    """On the host of the job there may be the checkpoint that it left."""
    assert submitted_again(terminal, place, REMEMBERS).code == 0


@pytest.mark.parametrize("sink", [SAME_QUERY, UNKNOWN, "kafka"])
def test_a_sink_that_a_new_query_loses_nothing_at_is_no_reason(
    terminal: Terminal, nothing_there: None, sink: str
) -> None:
    assert submitted_again(terminal, "s3a://bucket/ck", sink).code == 0
