"""A job of a real fleet, and on its checkpoint a second, foreign driver that no lease keeps away: the storage fence does.

The foreign one is prepared as an agent would prepare it, and started past every supervisor: as if another cluster did it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Assignment, BlobRef
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spec.job import parse_spec
from tests.e2e.test_s3a_driver import APPLICATION
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import CONF, START_S, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkFleet]:
    directory = tmp_path_factory.mktemp("fence")
    (directory / "app.py").write_text(APPLICATION)
    with SparkFleet.on_moto(embedded_ensemble, moto_server, directory) as made:
        yield made


def running(fleet: SparkFleet, job: str) -> int:
    """Submit it, on a back-off so long that no second attempt comes between; the batch that it has come to."""
    fleet.submit(
        job,
        application=fleet.directory / "app.py",
        args=["{checkpoint}", str(fleet.directory / f"{job}.sink")],
        restart={"initial": "5m", "max": "5m"},
    )
    return progress(fleet, job, 2)


def progress(fleet: SparkFleet, job: str, least: int) -> int:
    def moved() -> int | None:
        shown = fleet.show(job)["progress"]
        return shown["batch_id"] if shown is not None and (shown["batch_id"] or 0) >= least else None

    return wait_until(moved, START_S, f"batch {least} of {job}", period_s=0.5)


def conflict(fleet: SparkFleet, job: str) -> str:
    """What ``show`` says of the end of its first attempt."""

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] | None = fleet.show(job)["last_exit"]
        return found

    last = wait_until(ended, START_S, f"the end of {job}", period_s=0.5)
    assert (last["cause"], last["attempt"]) == ("checkpoint_conflict", 1), last
    return str(last["why"])


def test_who_else_wrote_is_said_before_the_job_starts_again(
    fleet: SparkFleet, moto_server: MotoServer
) -> None:
    """An entry of somebody else lies where the driver will write soon; that driver dies, and its job waits."""
    job = "beaten"
    batch = running(fleet, job)
    client = moto_server.client()
    client.put_object(
        Bucket=fleet.bucket,
        Key=f"checkpoints/{job}/commits/{batch + 10}",
        Body=b'v1\n{"nextBatchWatermarkMs":0}',
        Metadata={"spark-supervisor-owner": "job=other uid=u9 attempt=7 host=elsewhere"},
    )
    why = conflict(fleet, job)
    assert why.startswith(f"attempt 7 of other (uid u9) on elsewhere wrote commits/{batch + 10} at "), why
    assert "attempt 7 of other (uid u9) on elsewhere" in fleet.ok("explain", job).out
    assert fleet.show(job)["state"] == "backoff"
    fleet.cancel(job)


def test_of_two_real_drivers_one_lives(fleet: SparkFleet, moto_server: MotoServer, tmp_path: Path) -> None:
    job = "raced"
    running(fleet, job)
    foreign, log = start_foreign(fleet, moto_server, tmp_path, job)
    try:
        wait_until(
            lambda: foreign.poll() is not None or fleet.show(job)["last_exit"] is not None,
            START_S,
            "an end of the race",
        )
        if foreign.poll() is None:
            assert conflict(fleet, job).startswith("attempt 1 of foreign (uid f1) on abroad wrote ")
            batches = sink_of(tmp_path / "foreign.sink")
            wait_until(
                lambda: len(sink_of(tmp_path / "foreign.sink")) > len(batches) + 2,
                START_S,
                "the foreign driver to go on",
            )
        else:
            uid = fleet.show(job)["uid"]
            assert re.search(
                rf"checkpoint fence: \S+ was written by \[job={job} uid={uid} attempt=1 host=",
                log.read_text(),
            )
            progress(fleet, job, progress(fleet, job, 0) + 2)
            assert fleet.show(job)["last_exit"] is None
    finally:
        if foreign.poll() is None:
            os.killpg(foreign.pid, signal.SIGKILL)
        foreign.wait()
    both = set(sink_of(tmp_path / "foreign.sink")) & set(sink_of(fleet.directory / f"{job}.sink"))
    assert len(both) <= 1, "at most the batch during which the other one came"
    fleet.cancel(job)


def start_foreign(
    fleet: SparkFleet, moto: MotoServer, directory: Path, job: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """The same application on the same checkpoint."""
    body = {
        "cluster": "abroad",
        "zookeeper": {"hosts": "nowhere:2181"},
        "store": {"url": f"s3://{fleet.bucket}/abroad", "endpoint_url": moto.endpoint_url},
        "supervisor": {"id": "abroad", "runtime_dir": str(directory / "runtime")},
        "spark": {"s3a_jars": str(s3a_jars())},
    }
    spec = parse_spec(
        f"""
        name: foreign
        application: app.py
        args: ["{{checkpoint}}", {directory / "foreign.sink"}]
        master: local[1]
        conf: {{{", ".join(f"{key}: {value}" for key, value in CONF.items())}}}
        checkpoint: {fleet.checkpoint(job)}
        """,
        "foreign.yaml",
    ).model_copy(update={"application": "store:app.py"})
    log = directory / "foreign.log"
    launch = make_launch(
        DriverStart(
            spec,
            Assignment(
                name="foreign",
                uid="f1",
                attempt=1,
                revision=1,
                job_version=0,
                own_version=0,
                spec=BlobRef(key="k", sha256="", bytes=0),
                memory=0,
            ),
            validated(Settings, body, "supervisor.yaml"),
            AttemptPlace("abroad", directory / "run", directory / "work", log, state_dir=directory / "state"),
        ),
        lambda key: fleet.directory / "app.py",
    )
    with log.open("w") as out:
        return subprocess.Popen(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ), log


def sink_of(path: Path) -> list[int]:
    return [int(line.partition(" ")[0]) for line in path.read_text().splitlines()] if path.exists() else []
