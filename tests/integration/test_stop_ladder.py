"""An orderly stop of light drivers that obey, half obey or ignore the order to stop at a batch boundary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Cause, OwnState, Phase, QueryState, StopMode
from tests.testbed.attempts import Attempts, eventually_closed
from tests.waiting import wait_until


@pytest.fixture
def attempts(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[Attempts]:
    with eventually_closed(Attempts(embedded_ensemble.hosts, zk_root, tmp_path, None)) as made:
        yield made


@pytest.mark.parametrize(
    ("knobs", "grace_s", "mode", "code"),
    [
        ({"orders": "obey", "batch_holds_s": 1.0}, 30.0, StopMode.BATCH_BOUNDARY, 0),
        ({"orders": "half"}, 3.0, StopMode.SIGTERM, 143),
        ({"orders": "ignore"}, 3.0, StopMode.SIGTERM, 143),
        ({"orders": "half", "ignore_term": True}, 3.0, StopMode.SIGKILL, 137),
        ({}, 30.0, StopMode.SIGTERM, 143),
    ],
    ids=["obeys", "half obeys", "ignores", "ignores all", "takes no orders"],
)
def test_the_ladder(
    attempts: Attempts, knobs: dict[str, object], grace_s: float, mode: StopMode, code: int
) -> None:
    attempt = attempts.assign(knobs=knobs, stop_grace_s=grace_s)
    attempts.wait_running(attempt)
    wait_until(
        lambda: (lease := attempts.lease(attempt)) and lease[0].phase is Phase.RUNNING, 20, "phase running"
    )
    attempts.move(attempt, OwnState.DRAINING)
    own = attempts.wait_state(attempt, OwnState.EXITED, 60)
    assert (own.cause, own.stop_mode, own.exit_code) == (Cause.STOPPED, mode, code)
    assert own.history[-1].detail.startswith(f"{mode.value}: ")
    assert [note["order"] for note in attempt.events("order")] == (["stop"] if knobs else [])
    assert bool(attempt.events("term")) is (mode is StopMode.SIGTERM)
    assert not attempt.living()


def test_one_query_of_several_that_falls_silent_is_stalled(attempts: Attempts) -> None:
    knobs = {"orders": "ignore", "queries": {"hangs": "progress", "failed": "terminated"}, "silent_after": 5}
    attempt = attempts.assign(knobs=knobs, stall_timeout_s=6.0)

    def state_of(query: str) -> QueryState | None:
        lease = attempts.lease(attempt)
        found = [each.state for each in lease[0].queries if each.query == query] if lease else []
        return found[0] if found else None

    wait_until(lambda: state_of("failed") is QueryState.FAILED, 30, "the failed query to be shown")
    own = attempts.wait_state(attempt, OwnState.EXITED, 60)
    assert own.cause is Cause.STALLED and "hangs" in own.reason
    assert "look" in [note["order"] for note in attempt.events("order")]
