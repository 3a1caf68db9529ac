"""A JVM application runs no code of ours: what its next start has to find is remembered from its commit log alone.

The light driver commits as Spark does; the supervisor of its host looks, the shim renews with what was seen, and the agent of
the next start compares.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from supervisor.model.checkpoint_expectation import queries_of
from supervisor.model.records import Lease
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from tests.faults.conftest import on_embedded
from tests.testbed.fleet import PATIENCE_S, Fleet
from tests.waiting import wait_until

JOB = "jvm"
QUERY = "ff7b2486-db9c-40b5-91ab-94bbc3f36e3d"


def checkpoint_of(fleet: Fleet) -> Path:
    """With two batches that were committed before anybody supervised it."""
    checkpoint = fleet.directory / "checkpoints" / JOB
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        for batch in (0, 1):
            (checkpoint / folder / str(batch)).write_text("v1\n{}\n")
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    return checkpoint


def submitted(fleet: Fleet) -> None:
    jar = fleet.directory / "specs" / f"{JOB}.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.write_text(json.dumps({"beat_s": 0.05, "batch_s": 0.2}) + "\n")
    fleet.submit(JOB, application=jar.name, **{"class": "example.Counts"})


def remembered(fleet: Fleet, job: str = JOB) -> int | None:
    """The newest batch of the query that the next start has to find."""
    path = fleet.layout.lease(job)
    lease = seen(Lease, fleet.read_znode(path), path)
    known = queries_of(lease.record.remembered) if isinstance(lease, Found) else ()
    return next((query.batch_id for query in known if query.id == QUERY), None)


@on_embedded
def test_a_jvm_job_whose_checkpoint_was_emptied_is_not_started_from_nothing(fleet: Fleet) -> None:
    checkpoint = checkpoint_of(fleet)
    submitted(fleet)
    assert wait_until(lambda: remembered(fleet), PATIENCE_S, "the memory of its checkpoint") >= 1
    fleet.ok("suspend", JOB, "--wait")
    for folder in checkpoint.iterdir():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    starts = len(fleet.starts(JOB))
    fleet.ok("resume", JOB)
    reason = fleet.wait_state(JOB, "quarantined")["reason"]
    assert "missing or empty" in reason and QUERY in reason and "--accept-fresh-start" in reason
    assert (len(fleet.starts(JOB)), list(checkpoint.iterdir())) == (starts, []), (
        "no driver, and nothing touched"
    )
    fleet.cancel(JOB)
