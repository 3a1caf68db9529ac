"""``restart.memory_step`` from end to end: what is raised reaches the driver, survives everybody, and counts for placement."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from supervisor.spark.properties import parse_properties
from tests.faults.conftest import on_embedded
from tests.testbed.fleet import DRIVER, Fleet

pytestmark = on_embedded

RUNS_OUT = {"fail_attempts": 2, "error": "OutOfMemoryError: Java heap space"}


def driver_memory(fleet: Fleet, job: str) -> str | None:
    """What the newest attempt's driver was really given."""
    argv = json.loads((fleet.run_dir(job) / "launch.json").read_bytes())["argv"]
    return parse_properties(Path(argv[argv.index("--properties-file") + 1]).read_text()).get(
        "spark.driver.memory"
    )


def test_an_attempt_that_ran_out_is_followed_by_one_with_more(fleet: Fleet, job: str) -> None:
    restart = {"strategy": "fixed", "initial": "100ms", "memory_step": 1.5, "memory_max": "1000m"}
    spec = {"restart": restart, "conf": {"spark.driver.memory": "500m"}, "resources": {"memory": "600m"}}
    fleet.submit(job, knobs=RUNS_OUT, **spec)
    fleet.wait_attempt(job, 3)
    row = fleet.wait_state(job, "running")
    said = "1000m (raised twice from 500m after out_of_memory)"
    assert row["driver_memory"] == said and driver_memory(fleet, job) == "1000m"
    assert row["last_exit"]["cause"] == "out_of_memory"
    assert "raise spark.driver.memory" in row["last_exit"]["why"]
    details = [entry["detail"] for entry in row["history"] if entry["event"] == "memory raised"]
    assert details == [
        f"driver memory {had} → {has} after out_of_memory"
        for had, has in (("500m", "750m"), ("750m", "1000m"))
    ]

    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.signal(fleet.process(job, DRIVER), signal.SIGKILL)
    fleet.wait_attempt(job, 4)
    assert driver_memory(fleet, job) == "1000m", "another cause raises nothing and forgets nothing"
    fleet.restart_all()
    fleet.ok("restart", job)
    fleet.wait_attempt(job, 5)
    fleet.wait_state(job, "running")
    assert driver_memory(fleet, job) == "1000m"
    assert fleet.show(job)["driver_memory"] == said

    fleet.cancel(job)
    fleet.submit(job, knobs={**RUNS_OUT, "fail_attempts": 0}, **spec)
    fleet.wait_attempt(job, 1)
    assert fleet.wait_state(job, "running")["driver_memory"] is None
    assert driver_memory(fleet, job) == "500m", "a new submit begins with what its spec says"
    fleet.judge()


def test_what_fits_no_host_any_more_is_pending_with_the_reason(fleet: Fleet, job: str) -> None:
    fleet.submit(
        job,
        knobs={**RUNS_OUT, "fail_attempts": 1},
        conf={"spark.driver.memory": "2g"},
        resources={"memory": "3g"},
        restart={"strategy": "fixed", "initial": "100ms", "memory_step": 2, "memory_max": "8g"},
    )
    reason = fleet.wait_state(job, "pending")["reason"]
    assert "4096m free, 5120m needed" in reason.replace("4096m of 4096m free", "4096m free"), reason
    assert "its driver memory was raised to 4g after out_of_memory" in reason
    assert [note.attempt for note in fleet.starts(job)] == [1]
    fleet.judge()
