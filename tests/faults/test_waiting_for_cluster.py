"""Thirty jobs whose cluster has no room, on a host that lets two start at once: they hold up nobody, and all go on together when
the cluster is back, each in its first attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import eventually

pytestmark = pytest.mark.timeout(1800)

SLOTS = {"memory": "8g", "drivers": 40, "starting": 2}
WAITING = 30
PATIENCE_S = 400.0


def test_jobs_that_wait_hold_up_nobody_and_start_no_storm(
    embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet, job: str, tmp_path: Path
) -> None:
    fleet = make_fleet(embedded_ensemble, capacity=SLOTS)
    back = tmp_path / "the-cluster-is-back"
    names = [f"a-waits-{i:02}" for i in range(WAITING)]
    knobs = {"executors_when": str(back), "orders": "obey", "beat_s": 2.0, "batch_s": 2.0}
    # Their time-outs are long, and each slot would be held for a minute: the wait alone frees it.
    fleet.submit_many(names, knobs=knobs, master="spark://127.0.0.1:7077", resources={"memory": "64m"})

    def waiting() -> int:
        return sum("waiting for executors of cluster spark://" in row["reason"] for row in fleet.rows())

    eventually(lambda: waiting() == WAITING, PATIENCE_S, "all of them to be told as waiting")
    fleet.submit("z-healthy", resources={"memory": "64m"})
    fleet.wait_state("z-healthy", "running", timeout_s=PATIENCE_S)
    assert waiting() == WAITING
    back.touch()
    for name in names:
        fleet.wait_state(name, "running", timeout_s=PATIENCE_S)
    eventually(lambda: waiting() == 0, PATIENCE_S, "nobody to be told as waiting")
    for name in [*names, "z-healthy"]:
        assert [note.attempt for note in fleet.starts(name)] == [1], name
    back.unlink()
    eventually(lambda: waiting() == WAITING, PATIENCE_S, "the loss to be told")
    assert {row["state"] for row in fleet.rows()} == {"running"}
    fleet.judge()
