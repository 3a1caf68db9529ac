"""A job goes back to a savepoint while its leader is killed: real supervisors and shims, a JVM application's commit log."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults import checker
from tests.faults.test_lost_jvm_checkpoint import JOB, checkpoint_of, remembered, submitted
from tests.testbed.fleet import PATIENCE_S, Fleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow]


class ReturningFleet(Fleet):
    """Its job goes back, so batches come twice. In an attempt they follow each other, and the test says where it begins."""

    def judge(self) -> None:
        notes = self.notes()
        found = [
            *checker.overlaps(notes),
            *checker.revived(notes, self.acknowledged),
            *checker.outlived(notes, self.acknowledged, self.grace_s),
            *checker.misnumbered(notes),
        ]
        for attempt in {note.attempt for note in notes}:
            made = self.made_by(attempt)
            if made != [*range(made[0] if made else 0, made[-1] + 1 if made else 0)]:
                found.append(f"attempt {attempt} made {made}")
        assert not found, "\n".join(found)

    def made_by(self, attempt: int) -> list[int]:
        """The batches of that attempt, in order."""
        return [
            note.batch_id for note in self.notes(JOB) if note.batch_id is not None and note.attempt == attempt
        ]


@pytest.fixture
def returning(
    embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReturningFleet]:
    with ReturningFleet(
        embedded_ensemble, f"/back-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("back")
    ) as fleet:
        yield fleet


def commits(checkpoint: Path) -> set[int]:
    return {int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()}


def test_back_to_a_savepoint_while_the_leader_is_killed(returning: ReturningFleet) -> None:
    """It goes on with the batch after that of the savepoint, in a location of its own, and is looked after there."""
    fleet = returning
    old = checkpoint_of(fleet)
    submitted(fleet)
    wait_until(lambda: remembered(fleet), PATIENCE_S, "the memory of its checkpoint")
    document = fleet.ok("suspend", JOB, "--savepoint", "one", "-o", "json").document
    assert (document["did"], document["savepoint"]) == ("suspended", "one")
    (query,) = fleet.ok("savepoint", "show", JOB, "one", "-o", "json").document["queries"]
    assert query["batch"] == max(commits(old)), "of all that it has committed, since it has stopped"

    fleet.ok("resume", JOB)
    fleet.wait_batches(JOB)
    refused = fleet.cli("resume", JOB, "--from-savepoint", "one")
    assert (refused.code, "suspend it first" in refused.err) == (4, True)
    fleet.ok("suspend", JOB, "--wait")
    left = commits(old)

    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    location = fleet.ok("resume", JOB, "--from-savepoint", "one", "-o", "json").document["checkpoint"]
    fresh = Path(location.removeprefix("file://"))
    wait_until(lambda: len(fleet.made_by(3)) > 1, PATIENCE_S, "batches after the savepoint")
    assert fleet.made_by(3)[0] == query["batch"] + 1 and commits(old) == left
    fleet.wait_new_leader(epoch)
    assert wait_until(lambda: remembered(fleet), PATIENCE_S, "the memory of the copy") >= query["batch"]
    fleet.restart_all()

    fleet.ok("suspend", JOB, "--wait")
    shutil.rmtree(fresh)
    starts = len(fleet.starts(JOB))
    fleet.ok("resume", JOB)
    reason = fleet.wait_state(JOB, "quarantined")["reason"]
    assert "missing or empty" in reason and "--from-savepoint" in reason
    assert len(fleet.starts(JOB)) == starts and not fresh.exists()
    fleet.ok("resume", JOB, "--from-savepoint", "one")
    wait_until(lambda: fleet.starts(JOB)[starts:], PATIENCE_S, "another start")
    last = fleet.starts(JOB)[-1].attempt
    assert wait_until(lambda: fleet.made_by(last), PATIENCE_S, "its batches")[0] == query["batch"] + 1
    fleet.cancel(JOB)
