"""Two Sparks and two Pythons side by side under one supervisor, and updates across them by hand-over.

The witness of the drivers says which Spark and which Python each of them had, and is judged after each test: no two at once,
no hole, no batch with another content.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.moto import MotoServer
from tests.testbed.other_python import base_python, other_venv, packed_venv
from tests.testbed.other_spark import VERSION, other_spark
from tests.testbed.spark_fleet import SparkFleet

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

OLD, BROKEN, NOWHERE = "4.1", "broken", "9.9"
ARGS = ["{checkpoint}", "1 seconds"]


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkFleet]:
    directory, other = tmp_path_factory.mktemp("versions"), other_spark()
    for name in ("empty", "fleet"):
        (directory / name).mkdir()
    settings = {
        "versions": {
            OLD: {"home": str(other.home), "s3a_jars": str(other.s3a_jars)},
            BROKEN: {"home": str(directory / "empty")},
        },
        "pythons": [f"{other_venv()}/bin/python", str(base_python())],
        "environments_dir": str(directory / "environments"),
    }
    with SparkFleet.on_moto(
        embedded_ensemble, moto_server, directory / "fleet", lease_s=60.0, settings=settings, size=1
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def judged(fleet: SparkFleet) -> Iterator[None]:
    yield
    fleet.judge()


def had(fleet: SparkFleet, name: str, attempt: int = 1) -> dict[str, Any]:
    """What that attempt's driver had."""
    fleet.wait_batch_of(name, attempt)
    return next(line for line in fleet.lines(name, "session") if line["attempt"] == attempt)


def python_version(venv: Path) -> list[int]:
    (directory,) = venv.glob("lib/python3.*")
    return [3, int(directory.name.removeprefix("python3."))]


def test_two_sparks_and_two_pythons_side_by_side(fleet: SparkFleet, tmp_path: Path) -> None:
    venv, own = other_venv(), list(sys.version_info[:2])
    packed_venv(tmp_path / "env.tar.gz")
    archive = {"archive": str(tmp_path / "env.tar.gz")}
    fleet.submit("old", args=ARGS, spark=OLD)
    fleet.submit("old-named", args=ARGS, spark=OLD, python={"interpreter": str(venv / "bin" / "python")})
    assert had(fleet, "old")["spark"] == VERSION and had(fleet, "old")["python"] == own
    named = had(fleet, "old-named")
    assert (named["spark"], named["python"], named["prefix"]) == (VERSION, python_version(venv), str(venv))
    fleet.submit("new", args=ARGS)
    fleet.submit("new-packed", args=ARGS, python=archive)
    new, packed = had(fleet, "new"), had(fleet, "new-packed")
    assert new["spark"] == packed["spark"] != VERSION
    assert (new["python"], packed["python"]) == (own, python_version(venv))
    unpacked = Path(packed["prefix"])
    assert unpacked.parent.parent == Path(fleet.spark["environments_dir"])
    for name in ("old", "old-named", "new", "new-packed"):
        fleet.wait_batches(name)
    (member,) = fleet.status()["supervisors"]
    assert member["sparks"] == [OLD, BROKEN]
    shown = fleet.ok("show", "new-packed", "-o", "json").document
    assert shown["spec"]["python"]["archive"].startswith("store:")
    for name in ("old", "old-named", "new", "new-packed"):
        fleet.ok("cancel", name, "--wait")


def test_an_update_to_another_spark_is_a_hand_over_and_one_that_no_host_has_stops_nothing(
    fleet: SparkFleet,
) -> None:
    job = "moves"
    fleet.submit(job, args=ARGS, spark=OLD)
    assert had(fleet, job)["spark"] == VERSION
    fleet.wait_batches(job)

    ran = fleet.cli("apply", str(fleet.spec_file(job, args=ARGS)), "--wait")
    assert ran.code == 0, ran.err
    assert had(fleet, job, 2)["spark"] != VERSION
    assigned = [each for each in fleet.show(job)["history"] if each["event"] == "assigned"][-1]
    assert assigned["detail"].endswith("where a driver is prepared")

    # a version that this host has, and that does not work, is given up
    ran = fleet.cli("apply", str(fleet.spec_file(job, args=ARGS, spark=BROKEN)), "--wait")
    assert ran.code == 1 and "spark.versions.broken.home is" in ran.err, ran.err
    assert (fleet.show(job)["attempt"], fleet.show(job)["revision"]) == (2, 2)

    # one that no host has waits for a host, and is taken back by a person
    ran = fleet.cli("apply", str(fleet.spec_file(job, args=ARGS, spark=NOWHERE)))
    assert ran.code == 0 and f"no host that is up has spark {NOWHERE} (spark.versions)" in ran.err
    explained = " ".join(fleet.cli("explain", job).out.split())
    assert f"changed as soon as there is a host with spark {NOWHERE} (spark.versions)" in explained
    assert f"spark.versions.{NOWHERE} in the supervisor.yaml of a host" in explained
    fleet.wait_batches(job)
    back = fleet.cli("rollback", job)
    assert back.code == 0, back.err
    fleet.wait_batches(job)
    assert fleet.show(job)["attempt"] == 2 and "spark" not in fleet.show(job)["reason"]
    fleet.ok("cancel", job, "--wait")


def test_a_job_whose_spark_no_host_has_waits_and_is_not_tried(fleet: SparkFleet) -> None:
    fleet.submit("waits", args=ARGS, spark=NOWHERE)
    shown = fleet.wait_state("waits", "pending")
    assert shown["attempt"] in (0, None) and f"no host has spark {NOWHERE}" in shown["reason"]
    fleet.ok("cancel", "waits", "--wait")
