"""Real PySpark as another user: batches, a hand-over to a prepared driver, a stop at a batch boundary."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.attacks.test_attacks import Site, alive_of, site_of
from tests.testbed.spark_fleet import CONF, START_S
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.users, pytest.mark.timeout(1200)]

USER = "nobody"
"""Hadoop asks for the name of its user, so that one has to have an entry."""

APPLICATION = """\
import getpass, os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
print("runs as", os.getuid(), getpass.getuser(), os.environ["HOME"], flush=True)
query = stream.writeStream.format("noop").option("checkpointLocation", sys.argv[1]).trigger(processingTime="1 second").start()
query.awaitTermination()
"""


@pytest.fixture
def site(embedded_ensemble: EmbeddedEnsemble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site_of(embedded_ensemble, monkeypatch, spark={}) as made:
        yield made


def output(site: Site) -> str:
    """What all drivers of the job have written."""
    return "".join(path.read_text() for path in (site.fleet.members[0].directory / "log").glob("*/*.log"))


def test_a_job_lives_as_another_user(site: Site) -> None:
    fleet, name, uid = site.fleet, "clicks", pwd.getpwnam(USER).pw_uid
    before = set(alive_of(uid))
    path = fleet.spec_file(
        name,
        run_as=USER,
        args=["{checkpoint}"],
        conf={**CONF, "spark.driver.memory": "512m"},
        checkpoint=f"file://{site.directory}/open/checkpoint",
        resources={"memory": "1g"},
        stop_grace="60s",
    )
    Path(path).with_suffix(".py").write_text(APPLICATION)
    fleet.ok("submit", str(path))

    def runs() -> bool:
        document = fleet.show(name)
        assert not document["failures"], (document["last_exit"], output(site)[-3000:])
        return bool(document["state"] == "running")

    wait_until(runs, START_S, "the first batch", period_s=1.0)
    assert f"runs as {uid} {USER} " in output(site)
    assert os.stat(site.directory / "open" / "checkpoint" / "metadata").st_uid == uid

    fleet.ok("restart", name)

    def handed_over() -> bool:
        document = fleet.show(name)
        return document["attempt"] == 2 and document["state"] == "running"

    wait_until(handed_over, START_S, "the next attempt to run", period_s=1.0)
    events = [entry["event"] for entry in fleet.show(name)["history"]]
    assert "prepared_lost" not in events
    assert "attempt_handed_over" in fleet.members[0].log

    fleet.ok("suspend", name)
    document = fleet.wait_state(name, "suspended", timeout_s=START_S)
    assert document["stop_mode"] == "batch_boundary"
    # what removes the working directory, as that user, may still be at it
    wait_until(lambda: set(alive_of(uid)) <= before, START_S, "no process of the user", period_s=0.5)
