"""What ``savepoint verify --deep`` runs and makes of the answer; with a stand-in for spark-submit."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from supervisor.errors import SupervisorError, TimedOut
from supervisor.settings.spark import SparkSettings
from supervisor.spark.properties import parse_properties
from supervisor.spark.state_reading import StateOf, open_state
from supervisor.spec.job import JobSpec, parse_spec
from supervisor.spec.s3a import S3Access

STORE = {"operator": 0, "name": "dedupe", "store": "default", "partitions": 2, "rows": 7, "error": None}


class Host:
    """With a Spark whose spark-submit is ``script``; its arguments and environment are put beside it."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "spark"
        self.work = directory / "work"
        self.work.mkdir()
        (self.home / "bin").mkdir(parents=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "SPARK_SUPERVISOR_CONFIG": "secret",
            "AWS_PROFILE": "ours",
        }

    def script(self, text: str) -> None:
        path = self.home / "bin" / "spark-submit"
        path.write_text(
            f'#!/bin/sh\nenv > {self.home}/env\nprintf "%s\\n" "$@" > {self.home}/argv\nfor answer; do :; done\n{text}\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def answers(self, body: object) -> None:
        self.script(f"cat > \"$answer\" <<'END'\n{json.dumps(body)}\nEND")

    def open(
        self,
        location: str = "s3://bucket/sp/data",
        job: JobSpec | None = None,
        timeout_s: float = 30.0,
        code: tuple[str, ...] | None = None,
    ):  # type: ignore[no-untyped-def]
        return open_state(
            [StateOf(location, 12)],
            SparkSettings(home=self.home),
            job,
            S3Access("http://s3:9000", "eu-1"),
            self.work,
            self.environ,
            timeout_s,
            code,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_is_run_and_what_comes_of_it(host: Host) -> None:
    host.answers({"queries": [{"location": "s3a://bucket/sp/data", "stores": [STORE]}], "error": None})
    job = parse_spec(
        "name: a\napplication: a.py\ncheckpoint: s3a://bucket/ck\n"
        "env: {AWS_SESSION_TOKEN: '${env:MISSING}', AWS_REGION: fast, LD_PRELOAD: /evil.so}\n"
        "conf: {spark.hadoop.fs.s3a.endpoint: 'http://own:9000', spark.executor.memory: 5g, spark.extraListeners: x.Y}\n",
        "x",
    )
    (opened,) = host.open(job=job)
    assert (opened.operator, opened.name, opened.store, opened.partitions, opened.rows) == (
        0,
        "dedupe",
        "default",
        2,
        7,
    )
    argv = (host.home / "argv").read_text().splitlines()
    assert argv[-3].endswith("/state_reader.py")
    assert json.loads((host.work / "task.json").read_text()) == {
        "queries": [{"location": "s3a://bucket/sp/data", "batch": 12, "format": 1}]
    }
    written = parse_properties((host.work / "spark.properties").read_text())
    assert written["spark.hadoop.fs.s3a.endpoint"] == "http://own:9000"
    assert not written.keys() & {"spark.executor.memory", "spark.extraListeners"}
    env = dict(line.split("=", 1) for line in (host.home / "env").read_text().splitlines() if "=" in line)
    assert (env["SPARK_HOME"], env["AWS_PROFILE"], env["AWS_REGION"]) == (str(host.home), "ours", "fast")
    assert not env.keys() & {"SPARK_SUPERVISOR_CONFIG", "AWS_SESSION_TOKEN", "LD_PRELOAD"}


OWN_CODE = {
    "spark.hadoop.fs.s3a.impl": "x.Own",
    "spark.hadoop.net.topology.script.file.name": "/evil",
    "spark.jars": "/evil.jar",
    "spark.jars.ivySettings": "/evil.xml",
    "spark.driver.extraClassPath": "/evil",
    "spark.driver.extraJavaOptions": "-javaagent:/evil.jar",
    "spark.plugins": "x.Plugin",
    "spark.driver.memory": "1g -version",
    "spark.hadoop.fs.s3a.aws.credentials.provider": "x.Provider",
    "spark.hadoop.fs.s3a.proxy.host": "evil",
    "spark.hadoop.fs.s3a.assumed.role.sts.endpoint": "http://evil",
    "spark.hadoop.fs.s3a.bucket.bucket.assumed.role.sts.endpoint": "http://evil",
    "spark.hadoop.fs.s3a.bucket.bucket.custom.signers": "a:x.Signer",
}
VALUES = {
    "spark.hadoop.fs.s3a.access.key": "k",
    "spark.hadoop.fs.s3a.bucket.bucket.path.style.access": "true",
    "spark.hadoop.fs.s3a.bucket.bucket.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
}


def test_nothing_of_the_jobs_own_code_is_loaded_unless_it_is_asked_for(host: Host) -> None:
    host.answers({"queries": [], "error": None})
    job = JobSpec(
        name="a",
        application="app.jar",
        checkpoint="s3a://bucket/ck",
        conf={**OWN_CODE, **VALUES},
        packages=("g:own:1",),
    )
    host.open(job=job)
    written = parse_properties((host.work / "spark.properties").read_text())
    assert VALUES.items() <= written.items()
    assert not written.keys() & OWN_CODE.keys()
    assert "evil" not in str(written) and "own" not in str(written)
    for file in host.work.iterdir():
        file.unlink()
    host.open(job=job, code=("/job/app.jar",))
    written = parse_properties((host.work / "spark.properties").read_text())
    assert (written["spark.jars"], written["spark.jars.packages"]) == ("/evil.jar,/job/app.jar", "g:own:1")
    assert not written.keys() & {"spark.driver.extraJavaOptions", "spark.plugins", "spark.driver.memory"}


def test_state_that_needs_the_jobs_code_says_so(host: Host) -> None:
    missing = {
        **STORE,
        "rows": None,
        "error": "Py4JJavaError: x | Caused by: java.lang.ClassNotFoundException: com.x.Provider",
    }
    host.answers({"queries": [{"location": "s3a://bucket/sp/data", "stores": [missing]}], "error": None})
    (opened,) = host.open()
    assert opened.error is not None and "com.x.Provider (" in opened.error and "--job-code" in opened.error
    for file in host.work.iterdir():
        file.unlink()
    (opened,) = host.open(code=())
    assert opened.error == missing["error"]


def test_without_a_job_s3_is_where_the_store_is(host: Host) -> None:
    host.answers({"queries": [], "error": None})
    assert host.open() == ()
    assert (
        parse_properties((host.work / "spark.properties").read_text())["spark.hadoop.fs.s3a.endpoint"]
        == "http://s3:9000"
    )


@pytest.mark.parametrize("version", ["3.5.4", "3.5.0-preview"])
def test_a_spark_without_a_reader_for_state_is_refused_with_the_reason(host: Host, version: str) -> None:
    host.answers({"queries": [], "error": None})
    (host.home / "jars").mkdir()
    (host.home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    with pytest.raises(
        SupervisorError, match=f"--deep needs Spark 4.0 or newer, .* is {version}: without --deep"
    ):
        host.open()
    assert not (host.home / "argv").exists(), "nothing was started"


def test_no_spark_here(host: Host) -> None:
    with pytest.raises(
        SupervisorError, match=r"can't be opened on this host: .*spark-submit cannot be executed"
    ):
        host.open()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no room >&2; exit 3", "Spark did not get as far as to open the state: no room"),
        (
            'echo \'{"queries": [], "error": "AnalysisException: no metadata"}\' > "$answer"',
            "can't read .*: AnalysisException",
        ),
    ],
)
def test_spark_that_fails(host: Host, script: str, why: str) -> None:
    host.script(script)
    with pytest.raises(SupervisorError, match=why):
        host.open()


def test_spark_that_hangs(host: Host) -> None:
    host.script("sleep 60")
    with pytest.raises(TimedOut):
        host.open(timeout_s=0.3)
