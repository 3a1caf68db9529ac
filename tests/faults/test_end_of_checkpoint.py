"""The leader's loops beside its passes, in a real fleet: savepoints by schedule, and the end of a checkpoint that its spec asks for."""

from __future__ import annotations

import json
import uuid

from tests.faults.conftest import on_embedded
from tests.testbed.fleet import PATIENCE_S, Fleet
from tests.waiting import wait_until


@on_embedded
def test_a_savepoint_by_schedule_outlives_the_checkpoint_that_goes_with_its_job(
    fleet: Fleet, job: str
) -> None:
    checkpoint = fleet.directory / "checkpoints" / job
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text("v1\n{}\n")
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    jar = fleet.directory / "specs" / f"{job}.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.write_text(json.dumps({"beat_s": 0.05, "batch_s": 0.2}) + "\n")
    fleet.submit(
        job,
        application=jar.name,
        savepoints={"every": "1h", "keep": 2},
        checkpoint_on_cancel="delete",
        **{"class": "example.Counts"},
    )

    def complete() -> list[str]:
        listed = fleet.ok("savepoint", "list", job, "-o", "json").document
        return [each["id"] for each in listed if each["state"] == "complete" and each["scheduled"]]

    (made,) = wait_until(complete, PATIENCE_S, "a savepoint by schedule", period_s=0.5)
    assert fleet.show(job)["savepoints"]["newest"] == made
    assert (checkpoint / "metadata").exists()
    fleet.cancel(job)
    wait_until(lambda: not checkpoint.exists(), PATIENCE_S, "the checkpoint to be deleted")
    assert complete() == [made]
    fleet.ok("savepoint", "verify", job, made)
