"""An update that has failed is rolled back to the savepoint that the leader made before the hand-over: real Spark, real S3 calls.

The batches up to the savepoint, and those of the revision before from there on, must be those of a run that nobody disturbed. What
came between counts for nothing, and stays where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.e2e.test_savepoint_resume import HEALTH, PATIENCE_S, ReturningFleet, objects
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

JOB = "backward"
GOOD_BATCHES = 2
FAILS = f"""
    def write(batch: Any, batch_id: int) -> None:
        if write.calls >= {GOOD_BATCHES}:
            raise ValueError('not this one')
        write.calls += 1
"""
"""The sink of the new revision takes some batches, and fails at the next."""


@pytest.fixture
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReturningFleet]:
    directory = tmp_path_factory.mktemp("backward")
    with ReturningFleet.on_moto(embedded_ensemble, moto_server, directory, lease_s=60.0) as made:
        yield made


def failing(directory: Path) -> Path:
    text = (APPLICATIONS / "counts.py").read_text()
    begins = "\n    def write(batch: Any, batch_id: int) -> None:\n"
    assert text.count(begins) == 1
    sink = '    query = counts.writeStream.queryName("counts")'
    assert text.count(sink) == 1
    path = directory / "counts.py"
    path.write_text(text.replace(begins, FAILS).replace(sink, f"    write.calls = 0\n{sink}"))
    return path


def test_back_to_the_savepoint_that_was_made_before_the_hand_over(
    fleet: ReturningFleet, moto_server: MotoServer, tmp_path: Path
) -> None:
    s3, update = moto_server.client(), {"rollback": "savepoint"}
    fleet.submit(JOB, health=HEALTH, update=update, savepoints={"sink": "repeats"})
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    old = fleet.show(JOB)["checkpoint"]
    path = fleet.spec_file(
        JOB, application=failing(tmp_path), health=HEALTH, update=update, savepoints={"sink": "repeats"}
    )
    fleet.ok("apply", str(path))

    def rolled_back() -> bool:
        shown = fleet.show(JOB)["update"]
        return shown is not None and shown["state"] == "rolled_back"

    wait_until(rolled_back, PATIENCE_S, "the roll back")
    shown = fleet.show(JOB)
    savepoint = shown["update"]["savepoint"]
    assert (shown["revision"], savepoint.startswith("update-2-")) == (3, True)
    assert savepoint in shown["update"]["why"]
    (query,) = json.loads(fleet.ok("savepoint", "show", JOB, savepoint, "-o", "json").out)["queries"]
    assert shown["checkpoint"].startswith(f"{old}.from-{savepoint}-")
    left = objects(s3, old)

    first = fleet.wait_batch_of(JOB, 3)
    made = SparkFleet.batches(fleet, JOB)
    assert first.batch_id == query["batch"] + 1
    assert sum(each.attempt == 2 for each in made) == GOOD_BATCHES
    fleet.judged_batches, fleet.kept = sum(each.attempt < 3 for each in made), query["batch"]
    fleet.wait_batches(JOB, timeout_s=PATIENCE_S)
    fleet.judge()
    assert objects(s3, old) == left, "the old place stays as it was left"
    fleet.ok("checkpoint", "verify", JOB)

    again = fleet.ok("apply", str(path)).out  # the file names the old place
    assert "had this spec and was rolled back" in again
    newest, failed, stable = json.loads(fleet.ok("revisions", JOB, "-o", "json").out)
    assert (newest["state"], failed["state"], stable["state"]) == ("running", "rolled_back", "superseded")
    assert newest["why"] == f"revision 1 again, from savepoint {savepoint}"
    assert newest["by"].startswith("supervisor:")
    plain = fleet.spec_file(JOB, health=HEALTH, update=update, savepoints={"sink": "repeats"})
    assert "unchanged" in fleet.ok("apply", str(plain)).out
    fleet.ok("cancel", JOB, "--wait")
