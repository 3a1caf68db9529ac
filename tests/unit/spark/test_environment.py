"""What a driver finds in its environment, and what it must not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.model.records import Assignment, Cause
from supervisor.spark.environment import build_environment
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain
from tests.unit.spark.conftest import MakeSpec

REPORT = Path("/run/x/report")


def test_names_of_contract(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    env = build_environment(make_spec(checkpoint="s3://bkt/ck"), assignment, toolchain, environ, REPORT)
    assert {key: value for key, value in env.items() if key not in environ or key == "PYSPARK_PYTHON"} == {
        "SPARK_SUPERVISOR_JOB": "clicks",
        "SPARK_SUPERVISOR_UID": "u1",
        "SPARK_SUPERVISOR_ATTEMPT": "3",
        "SPARK_SUPERVISOR_REVISION": "2",
        "SPARK_SUPERVISOR_CHECKPOINT": "s3a://bkt/ck",
        "SPARK_SUPERVISOR_REPORT": "/run/x/report",
        "SPARK_HOME": "/opt/spark",
        "JAVA_HOME": "/opt/java",
        "PYSPARK_PYTHON": "/usr/bin/python3",
    }


def test_what_passes(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    kept = {
        "AWS_SESSION_TOKEN": "t",
        "https_proxy": "p",
        "SPARK_LOCAL_DIRS": "/scratch",
        "HADOOP_CONF_DIR": "/h",
    }
    dropped = {
        "SPARK_SUPERVISOR_CONFIG": "/c",
        "SPARK_SUPERVISOR__STORE__URL": "s3://b",
        "NOTIFY_SOCKET": "/n",
        "WATCHDOG_USEC": "1",
        "PYSPARK_SUBMIT_ARGS": "x",
        "PYSPARK_GATEWAY_PORT": "1",
        "SPARK_REMOTE": "sc://x",
    }
    env = build_environment(make_spec(), assignment, toolchain, {**environ, **kept, **dropped}, REPORT)
    assert kept.items() <= env.items()
    assert not dropped.keys() & env.keys()


def test_the_job_adds_and_replaces(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("two\nlines\n")
    given = {
        "TOPIC": "ü $HOME",
        "AWS_ACCESS_KEY_ID": "own",
        "KEY": "${env:STORED}",
        "FILE": f"${{file:{secret}}}",
    }
    spec = make_spec(env=given)
    env = build_environment(spec, assignment, toolchain, {**environ, "STORED": "hush"}, REPORT)
    assert (env["TOPIC"], env["AWS_ACCESS_KEY_ID"], env["KEY"], env["FILE"]) == (
        "ü $HOME",
        "own",
        "hush",
        "two\nlines",
    )


def test_spark_and_java_of_a_job_that_an_older_version_registered_do_not_count(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    """Nor is a secret looked up for them."""
    spec = make_spec(env={"SPARK_HOME": "/evil", "JAVA_HOME": "${env:NONE_SUCH}", "OTHER": "x"})
    env = build_environment(spec, assignment, toolchain, environ, REPORT)
    assert (env["SPARK_HOME"], env["JAVA_HOME"], env["OTHER"]) == ("/opt/spark", "/opt/java", "x")
    bare = build_environment(spec, assignment, replace(toolchain, java_home=None), environ, REPORT)
    assert "JAVA_HOME" not in bare


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("${env:NONE_SUCH}", "variable NONE_SUCH"),
        ("${file:/nowhere}", "file /nowhere"),
        ("${file:/dev/zero}", "no regular file"),
    ],
)
def test_a_secret_that_is_not_there(
    make_spec: MakeSpec,
    assignment: Assignment,
    toolchain: Toolchain,
    environ: dict[str, str],
    value: str,
    says: str,
) -> None:
    with pytest.raises(Refused, match=says) as caught:
        build_environment(make_spec(env={"KEY": value}), assignment, toolchain, environ, REPORT)
    assert caught.value.cause is Cause.NOT_STARTED


def test_a_session_is_started_as_spark_submit_would(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    spec = make_spec(launch="session", entry="m:f", env={"PYTHONHASHSEED": "7"})
    env = build_environment(spec, assignment, toolchain, environ, REPORT)
    assert (env["PYTHONUNBUFFERED"], env["PYTHONHASHSEED"]) == ("YES", "7")


@pytest.mark.parametrize("name", ["PYSPARK_SUBMIT_ARGS"])
def test_what_a_job_must_not_set(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str], name: str
) -> None:
    with pytest.raises(Refused, match=name):
        build_environment(make_spec(env={name: "x"}), assignment, toolchain, environ, REPORT)


@pytest.mark.parametrize(
    ("given", "lc_all"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.utf8"}, None),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "C.UTF-8"),
    ],
)
def test_the_locale_can_spell_everything(
    make_spec: MakeSpec,
    assignment: Assignment,
    toolchain: Toolchain,
    given: dict[str, str],
    lc_all: str | None,
) -> None:
    assert build_environment(make_spec(), assignment, toolchain, given, REPORT).get("LC_ALL") == lc_all


def test_to_a_driver_of_another_user_nothing_of_the_supervisors_passes(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    given = {
        **environ,
        "AWS_SECRET_ACCESS_KEY": "s",
        "https_proxy": "p",
        "HOME": "/home/spark",
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "HADOOP_CONF_DIR": "/h",
    }
    of_user = {"HOME": "/home/etl", "USER": "etl", "LOGNAME": "etl"}
    spec = make_spec(env={"TOKEN": "${env:AWS_SECRET_ACCESS_KEY}", "USER": "x"})
    env = build_environment(spec, assignment, toolchain, given, REPORT, own=of_user, of_other_user=True)
    assert {"AWS_SECRET_ACCESS_KEY", "https_proxy"} & env.keys() == set()
    assert (env["HOME"], env["LOGNAME"], env["USER"], env["TOKEN"]) == ("/home/etl", "etl", "x", "s")
    assert (env["PATH"], env["LC_ALL"], env["HADOOP_CONF_DIR"]) == ("/usr/bin", "C.UTF-8", "/h")


def test_no_secret_is_found_among_the_supervisors_own_files(
    make_spec: MakeSpec, assignment: Assignment, toolchain: Toolchain, environ: dict[str, str], tmp_path: Path
) -> None:
    """A job that names the launch file of another one would get its secrets."""
    run, outside = tmp_path / "run", tmp_path / "secret"
    run.mkdir()
    (run / "launch.json").write_text("of another job")
    outside.write_text("its own")
    (tmp_path / "link").symlink_to(run / "launch.json")

    def given(path: Path) -> str:
        spec = make_spec(env={"KEY": f"${{file:{path}}}"})
        return build_environment(spec, assignment, toolchain, environ, REPORT, closed=run)["KEY"]

    assert given(outside) == "its own"
    for path in (run / "launch.json", tmp_path / "link"):
        with pytest.raises(Refused, match="supervisor's own") as caught:
            given(path)
        assert "of another job" not in str(caught.value)
