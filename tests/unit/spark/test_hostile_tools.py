"""What a job's env names is executed by nothing of the supervisor, also where the record was there before submit refused it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from supervisor.cli.doctor.catalogue import AREAS
from supervisor.cli.doctor.examine import ReportLine, examine
from supervisor.cli.doctor.subject import Subject
from supervisor.errors import SupervisorError
from supervisor.model.records import Assignment
from supervisor.settings.file import Settings
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.state_reading import StateOf, open_state
from supervisor.spec.job import JobSpec, canonical_json, from_canonical
from supervisor.spec.s3a import S3Access
from tests.testbed.hostile_tools import HostileTools, make_hostile_tools
from tests.unit.spark.conftest import MakeSpec


@pytest.fixture
def hostile(tmp_path: Path) -> HostileTools:
    return make_hostile_tools(tmp_path / "hostile")


@pytest.fixture
def planted(hostile: HostileTools, make_spec: MakeSpec) -> JobSpec:
    """As an older version registered it."""
    return from_canonical(canonical_json(make_spec(checkpoint="s3a://bkt/ck", env=hostile.env)), "key")


@pytest.fixture
def host_java(java_home: Path, tmp_path: Path) -> Path:
    """The host's, which says in its turn that it was run."""
    (java_home / "bin" / "java").write_text(f"#!/bin/sh\necho ran >> {tmp_path}/host-ran\nexit 1\n")
    return tmp_path / "host-ran"


@pytest.mark.parametrize("java_by_path", [False, True])
def test_the_daemon_prepares_the_start_with_the_hosts(
    planted: JobSpec,
    hostile: HostileTools,
    assignment: Assignment,
    settings: Settings,
    tmp_path: Path,
    environ: dict[str, str],
    spark_home: Path,
    java_home: Path,
    host_java: Path,
    java_by_path: bool,
) -> None:
    """The storage fence is compiled, by the host's Java; the driver gets the host's Spark and Java and the job's Python."""
    if java_by_path:
        settings = settings.model_copy(
            update={"spark": settings.spark.model_copy(update={"java_home": None})}
        )
        environ = {**environ, "PATH": f"{java_home}/bin:/usr/bin:/bin"}
    (tmp_path / "app.py").touch()
    settings = settings.model_copy(
        update={
            "supervisor": settings.supervisor.model_copy(update={"runtime_dir": tmp_path / "runtime"}),
        }
    )
    place = AttemptPlace(
        "h1",
        tmp_path / "run",
        tmp_path / "work",
        tmp_path / "log",
        environ=environ,
        state_dir=tmp_path / "state",
    )
    launch = make_launch(DriverStart(planted, assignment, settings, place), lambda _key: tmp_path / "app.py")
    assert (host_java.read_text(), hostile.ran()) == ("ran\n", "")
    assert launch.argv[0] == str(spark_home / "bin" / "spark-submit")
    assert (launch.env["SPARK_HOME"], launch.env["JAVA_HOME"]) == (str(spark_home), str(java_home))
    assert launch.env["PYSPARK_PYTHON"] == hostile.env["PYSPARK_PYTHON"]


def test_a_deep_verify_runs_the_hosts(
    planted: JobSpec,
    hostile: HostileTools,
    settings: Settings,
    tmp_path: Path,
    environ: dict[str, str],
    spark_home: Path,
) -> None:
    environ.pop("PYSPARK_PYTHON")
    (spark_home / "bin" / "spark-submit").write_text(
        f'#!/bin/sh\nenv > {tmp_path}/env\n. "${{SPARK_CONF_DIR:-/nowhere}}/spark-env.sh"; "$PYSPARK_PYTHON" -V; java -version\n'
    )
    for code in (None, ()):
        work = tmp_path / f"verify-{code}"
        work.mkdir()
        with pytest.raises(SupervisorError, match="Spark did not get as far"):
            open_state(
                [StateOf("s3a://bkt/sp", 1)], settings.spark, planted, S3Access(), work, environ, code=code
            )
        assert hostile.ran() == ""
        env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
        assert (env["SPARK_HOME"], env["PYSPARK_PYTHON"], env["PATH"]) == (
            str(spark_home),
            sys.executable,
            environ["PATH"],
        )


def test_doctor_runs_the_hosts(
    planted: JobSpec, hostile: HostileTools, settings: Settings, tmp_path: Path
) -> None:
    """Of the job's Python it says that it is there, and was not run."""
    areas = [area for area in AREAS if area.id in ("java", "spark", "job", "directories")]
    assert len(areas) == 4
    found: dict[str, ReportLine] = {
        line.check: line
        for line in examine(Subject(settings, dict(os.environ), planted, tmp_path / "a.yaml"), areas)
    }
    assert hostile.ran() == ""
    assert "was not run here" in found["python"].finding.found and found["python"].finding.verdict == "ok"
    assert found["pyspark"].finding.verdict == "skipped"
    named = from_canonical(
        canonical_json(planted.model_copy(update={"env": {"PATH": hostile.env["PATH"]}})), "key"
    )
    examine(Subject(settings, {**os.environ, "PYSPARK_PYTHON": "python3"}, named, tmp_path / "a.yaml"), areas)
    assert hostile.ran() == ""


def test_the_mark_is_left_by_whoever_runs_it(hostile: HostileTools) -> None:
    """Else the tests above would prove nothing."""
    from supervisor.clients.tools import run_tool

    for name in ("java", "spark-submit", "python3"):
        run_tool((str(hostile.home / "bin" / name),), {}, 30.0)
        assert hostile.ran().splitlines()[-1].startswith(f"{hostile.home}/bin/{name}")
