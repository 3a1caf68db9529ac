"""From an assignment to a Launch: files, properties, and which failures are refusals."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from supervisor.clients.access import ENTER, READ, WRITE, granted
from supervisor.daemon.host.fence_ahead import FenceAhead
from supervisor.errors import AccessDenied, Corrupt, NotFound, SupervisorError, Unreachable
from supervisor.model.application_tag import tags_of
from supervisor.model.driver_user import DriverUser
from supervisor.model.launch import AWAITS_CONTEXT, NOT_HELD, PREPARE_LEVEL
from supervisor.model.records import Assignment, Cause, PrepareLevel
from supervisor.records.codec import encode
from supervisor.settings.file import Settings, StoreSettings
from supervisor.settings.policy import PolicySettings
from supervisor.settings.spark import SparkVersionSettings
from supervisor.spark import host_jars
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.fence.build import Built
from supervisor.spark.fetched_files import files_of
from supervisor.spark.host_jars import make_fence_ahead
from supervisor.spark.properties import parse_properties
from supervisor.spark.refusal import Refused
from tests.testbed.moto import MotoServer
from tests.unit.clients.test_environment_archive import PYTHON, UNPACKS, packed
from tests.unit.spark.conftest import MakeSpec

Fetch = Callable[[str], Path]


@pytest.fixture
def place(tmp_path: Path, environ: dict[str, str]) -> AttemptPlace:
    return AttemptPlace(
        "host1",
        tmp_path / "attempts" / "u1.3",
        tmp_path / "work" / "u1.3",
        tmp_path / "log",
        environ=environ,
        state_dir=tmp_path / "state",
    )


@pytest.fixture
def stored(tmp_path: Path) -> Fetch:
    def fetch(key: str) -> Path:
        path = tmp_path / "cache" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass")
        return path

    return fetch


def test_on_yarn_the_properties_name_registry_job_and_attempt_beside_the_jobs_own_tags(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    spec = make_spec(conf={"spark.yarn.tags": "ours"}).model_copy(
        update={"master": "yarn", "cluster": "prod"}
    )
    there = replace(place, registry="f00")
    launch = make_launch(DriverStart(spec, assignment, settings, there), stored)
    found = parse_properties((place.work_dir / "spark.properties").read_text())
    tags = ("ours", *tags_of("f00", assignment.uid, assignment.attempt))
    assert found["spark.yarn.tags"] == ",".join(tags)
    assert launch.on_cluster == "prod"
    make_launch(DriverStart(spec, replace(assignment, attempt=0), settings, there), stored)
    found = parse_properties((place.work_dir / "spark.properties").read_text())
    assert found["spark.yarn.tags"] == "ours", "a prepared driver has no attempt yet"


def test_a_launch(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    tmp_path: Path,
) -> None:
    spec = make_spec(conf={"spark.x": "ü"}, lease="20s", py_files=["store:k/lib.zip"], jars=["store:k/a.jar"])
    zookeeper = settings.zookeeper.model_copy(update={"root": "/root/test"})
    start = DriverStart(spec, assignment, settings.model_copy(update={"zookeeper": zookeeper}), place)
    launch = make_launch(start, stored)
    assert launch == make_launch(start, stored)
    properties = place.work_dir / "spark.properties"
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.work_dir.stat().st_mode) == 0o700
    found = parse_properties(properties.read_text())
    assert found["spark.x"] == "ü"
    assert found["spark.submit.pyFiles"] == f"{tmp_path}/cache/k/lib.zip"
    assert found["spark.jars"] == f"{tmp_path}/cache/k/a.jar"
    assert str(properties) in launch.argv
    assert launch.argv[-1] == f"{tmp_path}/cache/k/app.py"
    assert (launch.cluster, launch.hosts, launch.root, launch.supervisor) == (
        "test",
        "zk1:2181",
        "/root/test",
        "s1",
    )
    assert (launch.lease_s, launch.host, launch.reports, launch.unbounded) == (20.0, "host1", True, True)
    assert Path(launch.cwd).is_dir()
    assert launch.env["SPARK_SUPERVISOR_REPORT"] == str(place.run_dir / "report")
    assert not place.run_dir.exists()


def test_a_launch_knows_what_its_secrets_are(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    """By any name: the shim covers them in what the driver prints and reports."""
    given = replace(
        place, environ={**place.environ, "JOB_DSN": "of-the-environment", "JOB_KEY": "of-a-property"}
    )
    spec = make_spec(
        env={"DSN": "${env:JOB_DSN}", "PLAIN": "visible"},
        conf={"spark.x": "${env:JOB_KEY}", "spark.y": "${env:NOT_THERE}", "spark.z": "visible"},
    )
    launch = make_launch(DriverStart(spec, assignment, settings, given), stored)
    assert launch.secrets == ("of-a-property", "of-the-environment")


def test_a_launch_says_whether_its_output_is_uploaded(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    assert make_launch(DriverStart(make_spec(), assignment, settings, place), stored).log_uploads_kept == 0
    spec = make_spec(logs={"upload": "on_exit", "keep": 7})
    launch = make_launch(DriverStart(spec, assignment, settings, place), stored)
    assert (launch.log_uploads_kept, launch.log_upload_every_s) == (7, 0.0)
    spec = make_spec(logs={"upload": "on_exit", "every": "5m"})
    assert make_launch(DriverStart(spec, assignment, settings, place), stored).log_upload_every_s == 300.0


def test_a_session(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    launch = make_launch(
        DriverStart(make_spec(launch="session", entry="m:f"), assignment, settings, place), stored
    )
    assert str(place.work_dir / "spark.properties") in launch.env["PYSPARK_SUBMIT_ARGS"]


def test_a_driver_on_a_cluster_knows_which_and_for_how_long_it_may_wait(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    health = {"cluster_timeout": "20m"}
    there = make_launch(
        DriverStart(make_spec(master="spark://m1:7077", health=health), assignment, settings, place), stored
    )
    assert (there.on_cluster, there.cluster_timeout_s, there.is_counted) == ("spark://m1:7077", 1200.0, True)
    assert AWAITS_CONTEXT not in there.env
    here = make_launch(DriverStart(make_spec(health=health), assignment, settings, place), stored)
    assert (here.on_cluster, here.cluster_timeout_s, here.is_counted) == ("", 0.0, False)
    on_yarn = make_spec().model_copy(update={"cluster": "yarn", "master": "yarn"})
    waits = make_launch(DriverStart(on_yarn, assignment, settings, place), stored)
    assert (waits.on_cluster, waits.cluster_timeout_s) == ("yarn", 0.0)
    assert waits.env[AWAITS_CONTEXT] == "1"


def test_files_in_place(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    tmp_path: Path,
) -> None:
    (tmp_path / "app.jar").touch()
    spec = make_spec(application=f"local:{tmp_path}/app.jar", jars=[f"local:{tmp_path}/app.jar"])
    launch = make_launch(DriverStart(spec, assignment, settings, place), stored)
    assert launch.argv[-1] == f"{tmp_path}/app.jar"
    assert not launch.reports
    found = parse_properties((place.work_dir / "spark.properties").read_text())
    assert found["spark.jars"] == f"local:{tmp_path}/app.jar"


def test_a_missing_local_file(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    with pytest.raises(Refused, match="local:/none.py") as caught:
        make_launch(DriverStart(make_spec(application="local:/none.py"), assignment, settings, place), stored)
    assert caught.value.cause is Cause.BAD_ARTIFACT


def test_an_application_on_s3(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    moto_server: MotoServer,
    s3_bucket: str,
) -> None:
    boto3.client("s3", endpoint_url=moto_server.endpoint_url).put_object(
        Bucket=s3_bucket, Key="d/app.py", Body=b"pass"
    )
    conf = {"spark.hadoop.fs.s3a.endpoint": moto_server.endpoint_url}
    spec = make_spec(application=f"s3a://{s3_bucket}/d/app.py", conf=conf)
    with pytest.raises(Refused, match=r"policy\.endpoints"):
        make_launch(DriverStart(spec, assignment, settings, place), stored)
    settings = settings.model_copy(update={"policy": PolicySettings(endpoints=(moto_server.endpoint_url,))})
    launch = make_launch(DriverStart(spec, assignment, settings, place), stored)
    assert Path(launch.argv[-1]).read_bytes() == b"pass"
    missing = make_spec(application=f"s3a://{s3_bucket}/d/none.py", conf=conf)
    with pytest.raises(Refused) as caught:
        make_launch(DriverStart(missing, assignment, settings, place), stored)
    assert caught.value.cause is Cause.BAD_ARTIFACT


@pytest.mark.parametrize("error", [NotFound("gone"), Corrupt("other bytes")])
def test_a_bad_artifact_is_refused(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    error: SupervisorError,
) -> None:
    def fetch(key: str) -> Path:
        raise error

    with pytest.raises(Refused, match=str(error)) as caught:
        make_launch(DriverStart(make_spec(), assignment, settings, place), fetch)
    assert caught.value.cause is Cause.BAD_ARTIFACT


@pytest.mark.parametrize("error", [Unreachable("store"), AccessDenied("keys")])
def test_an_unreachable_store_is_no_refusal(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    error: SupervisorError,
) -> None:
    def fetch(key: str) -> Path:
        raise error

    with pytest.raises(type(error)):
        make_launch(DriverStart(make_spec(), assignment, settings, place), fetch)


def test_a_directory_that_cannot_be_made_is_no_refusal(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    tmp_path: Path,
) -> None:
    (tmp_path / "work").touch()
    with pytest.raises(Unreachable, match="cannot be made"):
        make_launch(DriverStart(make_spec(), assignment, settings, place), stored)


def test_no_spark_is_refused(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    spark_home: Path,
) -> None:
    (spark_home / "bin" / "spark-submit").unlink()
    with pytest.raises(Refused) as caught:
        make_launch(DriverStart(make_spec(), assignment, settings, place), stored)
    assert caught.value.cause is Cause.NO_SPARK


def test_a_host_that_cannot_be_read_just_now_ends_no_thread_of_the_supervisor(
    settings: Settings, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start tries again, and says what is in the way."""

    def unreadable(*_given: object, **_named: object) -> None:
        raise Unreachable("spark-defaults.conf cannot be read: too many open files")

    monkeypatch.setattr(host_jars, "find_toolchain", unreadable)
    assert make_fence_ahead(settings, environ) is None


def test_a_launch_of_another_user(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    """What it is started with is granted to that user alone, below directories that it can only pass."""
    user = DriverUser(name="etl", uid=20001, gid=20001)
    spec = make_spec(resources={"memory": "1g", "memory_limit": "2g"})
    for _ in range(2):
        launch = make_launch(
            DriverStart(spec, assignment, settings, replace(place, user=user, not_limited="memory: no")),
            stored,
        )
    work, channel = place.work_dir, str(place.work_dir / "channel")
    assert (launch.user, launch.channel, launch.not_limited) == (user, channel, "memory: no")
    assert launch.limits is not None and launch.limits.memory == 2 * 2**30
    assert launch.env["SPARK_SUPERVISOR_REPORT"] == f"{channel}/report"
    assert launch.env["SPARK_SUPERVISOR_ORDERS"] == f"{channel}/driver/orders"
    job = place.state_dir / "jobs" / f"{assignment.uid}@20001"
    scratch = place.state_dir / "tmp" / "u1.3" / "t"
    assert (launch.env["HOME"], launch.env["USER"], launch.cwd) == (str(scratch), "etl", str(job / "cwd"))
    for directory in (job / "cwd", scratch):
        assert granted(str(directory)) == {20001: READ | WRITE | ENTER}
        assert granted(str(directory.parent)) == {20001: ENTER}
        assert stat.S_IMODE(directory.parent.parent.stat().st_mode) == 0o711
        assert (directory.parent / "user").read_text() == "20001\n"
    assert stat.S_IMODE(work.parent.stat().st_mode) == 0o711
    assert granted(str(work)) == {20001: READ | ENTER}
    assert granted(str(work / "spark.properties")) == {20001: READ}
    assert stat.S_IMODE((work / "spark.properties").stat().st_mode) & 0o007 == 0
    assert stat.S_IMODE((work / "files").stat().st_mode) == 0o755


def test_a_launch_of_the_supervisors_user_is_as_ever(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    launch = make_launch(DriverStart(make_spec(), assignment, settings, place), stored)
    assert (launch.user, launch.channel, launch.limits, launch.not_limited) == (None, "", None, "")
    assert not {b"user", b"channel", b"limits"} & set(re.findall(rb'"(\w+)":', encode(launch, 1 << 20)))
    assert not (place.work_dir / "channel").exists()


def properties_of(place: AttemptPlace) -> dict[str, str]:
    return parse_properties((place.work_dir / "spark.properties").read_text())


def test_the_working_directory_is_the_jobs_and_the_temporary_one_the_attempts(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    first = make_launch(DriverStart(make_spec(), assignment, settings, place), stored)
    assert first.cwd == str(place.state_dir / "jobs" / assignment.uid / "cwd")
    assert properties_of(place)["spark.sql.warehouse.dir"] == f"file://{first.cwd}/spark-warehouse"
    scratch = place.state_dir / "tmp" / "u1.3" / "t"
    assert properties_of(place)["spark.driver.extraJavaOptions"] == f"-Djava.io.tmpdir={scratch}"
    assert (first.env["TMPDIR"], scratch.is_dir()) == (str(scratch), True)
    assert "spark.local.dir" not in properties_of(place), "executors of a cluster would get it"
    Path(first.cwd, "rows").write_text("57")
    next_place = replace(place, work_dir=place.work_dir.with_name("u1.4"))
    second = make_launch(
        DriverStart(make_spec(), replace(assignment, attempt=4), settings, next_place), stored
    )
    assert second.cwd == first.cwd and Path(second.cwd, "rows").read_text() == "57"
    assert second.env["TMPDIR"] != first.env["TMPDIR"]


def test_what_the_job_says_of_its_temporary_directory_and_warehouse_wins(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    options = "-Djava.io.tmpdir=/mnt/tmp"
    conf = {"spark.driver.extraJavaOptions": options, "spark.sql.warehouse.dir": "s3a://b/w"}
    launch = make_launch(
        DriverStart(make_spec(conf=conf, env={"TMPDIR": "/mnt/python"}), assignment, settings, place), stored
    )
    found = properties_of(place)
    assert (found["spark.driver.extraJavaOptions"], found["spark.sql.warehouse.dir"]) == (
        options,
        "s3a://b/w",
    )
    assert launch.env["TMPDIR"] == "/mnt/python"


def test_files_are_beside_the_application_in_its_directory_and_with_spark(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    spec = make_spec(files=["store:k/etl_config.json", "store:k/log4j2.xml"])
    launch = make_launch(DriverStart(spec, assignment, settings, place), stored)
    assert Path(launch.cwd, "etl_config.json").read_text() == "pass"
    application = Path(launch.argv[-1])
    assert application.name == "app.py" and (application.parent / "log4j2.xml").read_text() == "pass"
    of_spark = properties_of(place)["spark.files"].split(",")
    assert [Path(file).name for file in of_spark] == ["app.py", "etl_config.json", "log4j2.xml"]
    assert launch == make_launch(DriverStart(spec, assignment, settings, place), stored)


def test_a_file_of_the_host_is_read_once_and_kept(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    tmp_path: Path,
) -> None:
    """Whoever can change it later must not have the supervisor read another file for the job."""
    there = tmp_path / "etl_config.json"
    there.write_text("of the host")
    launch = make_launch(
        DriverStart(make_spec(files=[f"local:{there}"]), assignment, settings, place), stored
    )
    named = properties_of(place)["spark.files"].split(",")[1]
    assert Path(named).is_relative_to(place.work_dir) and Path(named).read_text() == "of the host"
    assert Path(launch.cwd, there.name).read_text() == "of the host"


def test_a_prepared_driver_gets_no_other_files_than_those_of_the_driver_that_runs(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    old, new = make_spec(files=["store:k/a.json"]), make_spec(files=["store:k/b.json"])
    launch = make_launch(DriverStart(old, assignment, settings, place), stored)
    beside = replace(place, work_dir=place.work_dir.with_name("u1.p7"), is_alone=False)
    nobody = replace(assignment, attempt=0)
    make_launch(DriverStart(old, nobody, settings, beside), stored)
    with pytest.raises(Refused, match="its files differ") as refused:
        make_launch(DriverStart(new, nobody, settings, beside), stored)
    assert refused.value.cause is Cause.NOT_STARTED
    assert sorted(os.listdir(launch.cwd)) == ["a.json"]
    make_launch(DriverStart(new, nobody, settings, replace(beside, is_alone=True)), stored)
    assert sorted(os.listdir(launch.cwd)) == ["b.json"]


# -- more than one Spark, more than one Python ------------------------------------------------------------------------


def with_spark(settings: Settings, **keys: object) -> Settings:
    return settings.model_copy(update={"spark": settings.spark.model_copy(update=keys)})


def pyspark_of(home: Path) -> tuple[Path, ...]:
    libs = tuple(home / "python" / "lib" / name for name in ("pyspark.zip", "py4j-1-src.zip"))
    for lib in libs:
        lib.parent.mkdir(parents=True, exist_ok=True)
        lib.touch()
    return libs


def test_a_job_gets_the_spark_that_it_asks_for_and_its_pyspark(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    spark_home: Path,
    tmp_path: Path,
) -> None:
    other = shutil.copytree(spark_home, tmp_path / "other")
    two = with_spark(settings, versions={"4.1": SparkVersionSettings(home=other)})
    libs = pyspark_of(other)
    spec = make_spec(spark="4.1", env={"PYTHONPATH": "/own"})
    launch = make_launch(DriverStart(spec, assignment, two, place), stored)
    assert launch.argv[0] == str(other / "bin" / "spark-submit")
    assert launch.env["SPARK_HOME"] == str(other)
    assert launch.env["PYTHONPATH"] == f"{libs[0]}:{libs[1]}:/own"
    default = make_launch(DriverStart(make_spec(), assignment, two, place), stored)
    assert default.env["SPARK_HOME"] == str(spark_home) and "PYTHONPATH" not in default.env
    with pytest.raises(Refused, match=r"spark\.versions") as caught:
        make_launch(DriverStart(make_spec(spark="4.2"), assignment, two, place), stored)
    assert caught.value.cause is Cause.NO_SPARK


def test_a_driver_runs_with_the_interpreter_that_it_names(
    make_spec: MakeSpec, assignment: Assignment, settings: Settings, place: AttemptPlace, stored: Fetch
) -> None:
    for launch in ("submit", "session"):
        more = {"launch": "session", "entry": "m:f"} if launch == "session" else {}
        made = make_launch(
            DriverStart(make_spec(python={"interpreter": "/bin/sh"}, **more), assignment, settings, place),
            stored,
        )
        assert made.env["PYSPARK_PYTHON"] == "/bin/sh" and "PYSPARK_DRIVER_PYTHON" not in made.env
        assert made.argv[0] == "/bin/sh" or launch == "submit"


@UNPACKS
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_a_packed_environment_is_for_the_driver_and_on_a_cluster_for_executors(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    spark_home: Path,
    tmp_path: Path,
    master: str,
) -> None:
    libs = pyspark_of(spark_home)
    here = with_spark(settings, environments_dir=tmp_path / "environments")
    archive = packed(tmp_path / "env.tar.gz", PYTHON)

    def fetch(key: str) -> Path:
        if key.endswith(".tar.gz"):
            return archive
        (tmp_path / "app.py").touch()
        return tmp_path / "app.py"

    conf = {"spark.archives": "hdfs:/a.zip"}
    spec = make_spec(python={"archive": "store:00/env.tar.gz"}, master=master, conf=conf)
    launch = make_launch(DriverStart(spec, assignment, here, place), fetch)
    (unpacked,) = (tmp_path / "environments").glob("*/*")
    python = str(unpacked / "bin" / "python")
    found = parse_properties((place.work_dir / "spark.properties").read_text())
    assert launch.env["PYTHONPATH"] == f"{libs[0]}:{libs[1]}"
    assert (place.work_dir / "environment").read_text() == unpacked.name
    if master.startswith("local"):
        assert launch.env["PYSPARK_PYTHON"] == python and "PYSPARK_DRIVER_PYTHON" not in launch.env
        assert found["spark.archives"] == "hdfs:/a.zip"
    else:
        assert launch.env["PYSPARK_DRIVER_PYTHON"] == python
        assert launch.env["PYSPARK_PYTHON"] == "./environment/bin/python"
        assert found["spark.archives"] == f"hdfs:/a.zip,{archive}#environment"


def test_the_fence_is_made_ahead_for_each_spark(
    settings: Settings,
    environ: dict[str, str],
    spark_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = shutil.copytree(spark_home, tmp_path / "other")
    (spark_home / "jars" / "hadoop-aws-3.5.0.jar").touch()
    two = with_spark(settings, versions={"4.1": SparkVersionSettings(home=other)})
    two = two.model_copy(update={"store": StoreSettings(url="s3://bucket/store")})
    made: list[Path] = []

    def host_jar(home: Path, *_arguments: object, **_named: object) -> Built:
        made.append(home)
        return Built(home)

    monkeypatch.setattr(host_jars, "host_jar", host_jar)
    FenceAhead(two, environ).make()
    assert made == [spark_home, other]


def test_a_spark_that_was_replaced_in_its_place_is_another_file(
    make_spec: MakeSpec, spark_home: Path, tmp_path: Path
) -> None:
    before = files_of(make_spec(), tmp_path, str(spark_home))
    (jar,) = spark_home.glob("jars/spark-core_*.jar")
    jar.write_text("newer")
    assert files_of(make_spec(), tmp_path, str(spark_home)) != before


@pytest.mark.parametrize("level", PrepareLevel)
@pytest.mark.parametrize("prepared", ["", "uid.p1"])
@pytest.mark.parametrize("built", [Built(Path("/run/fence/query-gate-4.jar")), Built(None, "no compiler")])
def test_an_application_runs_up_to_its_first_query_only_where_every_query_is_held(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    place: AttemptPlace,
    stored: Fetch,
    monkeypatch: pytest.MonkeyPatch,
    level: PrepareLevel,
    prepared: str,
    built: Built,
) -> None:
    monkeypatch.setattr(host_jars, "host_jar", lambda *_, **__: built)
    spec = make_spec(conf={"spark.driver.extraJavaOptions": "-Dx=y"})
    launch = make_launch(DriverStart(spec, assignment, settings, place, level if prepared else None), stored)
    options = parse_properties((place.work_dir / "spark.properties").read_text())[
        "spark.driver.extraJavaOptions"
    ]
    asked = prepared and level is PrepareLevel.APPLICATION
    held = asked and built.jar is not None
    agent = f" -javaagent:{built.jar}={place.run_dir}/opening" if held else ""
    assert options.endswith("-Dx=y" + agent)
    assert launch.env.get(PREPARE_LEVEL) == (("application" if held else "session") if prepared else None)
    assert launch.env.get(NOT_HELD) == ("no compiler" if asked and not held else None)
