"""Which Spark, Java and Python are found, and what is said when one is missing."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from supervisor.errors import Unreachable
from supervisor.model.records import Cause
from supervisor.settings.spark import SparkSettings, SparkVersionSettings
from supervisor.spark import toolchain
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain, defaults_of, find_toolchain, java_major, java_version


def find(
    environ: dict[str, str],
    home: Path | None = None,
    java: Path | None = None,
    s3a: Path | None = None,
    job: dict[str, str] | None = None,
    versions: dict[str, SparkVersionSettings] | None = None,
    version: str | None = None,
    interpreter: str | None = None,
) -> Toolchain:
    settings = SparkSettings(home=home, java_home=java, s3a_jars=s3a, versions=versions or {})
    return find_toolchain(
        settings, version=version, job_env=job or {}, environ=environ, interpreter=interpreter
    )


def refusal(*args: object, **more: object) -> str:
    with pytest.raises(Refused) as caught:
        find(*args, **more)  # type: ignore[arg-type]
    assert caught.value.cause is Cause.NO_SPARK
    return str(caught.value)


def test_as_configured(environ: dict[str, str], spark_home: Path, java_home: Path) -> None:
    found = find(environ, spark_home, java_home)
    assert found == Toolchain(spark_home, Path(sys.executable), java_home, "4.1.2")
    assert found.submit == spark_home / "bin" / "spark-submit"
    assert found.is_4_1


def test_order_of_places(environ: dict[str, str], spark_home: Path, java_home: Path, tmp_path: Path) -> None:
    environ |= {"SPARK_HOME": str(spark_home), "JAVA_HOME": str(java_home)}
    assert find(environ).home == spark_home
    assert find(environ).java_home == java_home
    other = tmp_path / "other"
    assert f"spark.home is {other}" in refusal(environ, other)
    assert (
        find(
            environ, spark_home, java_home, job={"SPARK_HOME": str(other), "JAVA_HOME": str(other)}
        ).java_home
        == java_home
    )
    assert "spark.java_home" in refusal(environ, spark_home, other)


def test_the_installed_pyspark_is_a_spark_home(environ: dict[str, str], java_home: Path) -> None:
    before = "pyspark" in sys.modules
    found = find(environ, java=java_home)
    assert found.home.name == "pyspark"
    assert found.version is not None and found.version.startswith("4.")
    assert ("pyspark" in sys.modules) == before


def test_no_spark_at_all(environ: dict[str, str], java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "installed_spark_home", lambda: None)
    assert "install pyspark" in refusal(environ, java=java_home)


def test_no_java(environ: dict[str, str], spark_home: Path, tmp_path: Path) -> None:
    assert "install Java 17" in refusal({**environ, "PATH": str(tmp_path)}, spark_home)


def test_the_path_of_a_job_finds_no_java(
    environ: dict[str, str], spark_home: Path, java_home: Path, tmp_path: Path
) -> None:
    """Its driver gets the one that was looked at: that of the host's PATH, by JAVA_HOME."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "java").write_text("#!/bin/sh\n")
    (own / "java").chmod(0o755)
    environ["PATH"] = f"{tmp_path / 'links'}:{environ['PATH']}"
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(java_home / "bin" / "java")
    assert find(environ, spark_home).java_home is None
    assert find(environ, spark_home, job={"PATH": str(own)}).java_home == java_home
    assert "install Java 17" in refusal({**environ, "PATH": "/nowhere"}, spark_home, job={"PATH": str(own)})


def test_java_that_is_too_old(environ: dict[str, str], spark_home: Path, java_home: Path) -> None:
    (java_home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    assert java_major(java_home / "bin" / "java") == 8
    assert java_version(java_home / "bin" / "java") == "1.8.0_402"
    assert "Java 8" in refusal(environ, spark_home, java_home)
    (java_home / "release").unlink()
    assert find(environ, spark_home, java_home).java_home == java_home


def test_the_job_brings_its_python(environ: dict[str, str], spark_home: Path, java_home: Path) -> None:
    job = {"PYSPARK_PYTHON": "/bin/sh"}
    assert find(environ, spark_home, java_home, job=job).python == Path("/bin/sh")
    assert "PYSPARK_PYTHON is /nowhere" in refusal(
        environ, spark_home, java_home, job={"PYSPARK_PYTHON": "/nowhere"}
    )


def test_s3a_jars(environ: dict[str, str], spark_home: Path, java_home: Path, tmp_path: Path) -> None:
    thin = tmp_path / "thin"
    thin.mkdir()
    assert "no hadoop-aws jar" in refusal(environ, spark_home, java_home, thin)
    for name in ("s3-2.jar", "hadoop-aws-3.jar"):
        (thin / name).touch()
    jars = (thin / "hadoop-aws-3.jar", thin / "s3-2.jar")
    assert find(environ, spark_home, java_home, thin).s3a_jars == jars
    assert find({**environ, "SPARK_SUPERVISOR_S3A_JARS": str(thin)}, spark_home, java_home).s3a_jars == jars
    (spark_home / "jars" / "hadoop-aws-3.5.0.jar").touch()
    assert find(environ, spark_home, java_home, thin).s3a_jars == ()


def test_spark_defaults_that_can_not_be_read_now_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Want of descriptors passes; a refusal would keep the job quarantined until somebody comes (F56)."""

    def no_more(*_arguments: object, **_named: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(Path, "read_text", no_more)
    with pytest.raises(Unreachable, match="Too many open files"):
        defaults_of(tmp_path, {}, {})


def test_spark_defaults_are_read(
    environ: dict[str, str], spark_home: Path, java_home: Path, tmp_path: Path
) -> None:
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / "spark-defaults.conf").write_text("# of the host\nspark.a  1\nhive.x 2\n")
    assert find(environ, spark_home, java_home).defaults == (("spark.a", "1"),)
    own = tmp_path / "own"
    own.mkdir()
    (own / "spark-defaults.conf").write_text("spark.b=2")
    assert find(environ, spark_home, java_home, job={"SPARK_CONF_DIR": str(own)}).defaults == (
        ("spark.b", "2"),
    )


def test_a_pipe_instead_of_the_defaults_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A job names the directory: reading a pipe there would take a place of those who start attempts, for ever."""
    os.mkfifo(tmp_path / "spark-defaults.conf")
    with pytest.raises(Refused, match="no regular file"):
        defaults_of(tmp_path, {"SPARK_CONF_DIR": str(tmp_path)}, {})


# -- spark.versions -------------------------------------------------------------------------------------------------


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A second Spark home, with its own pyspark."""
    home = tmp_path / "older"
    for file in ("bin/spark-submit", "jars/spark-core_2.13-4.0.1.jar", *PYTHON_LIBS):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).touch(0o755)
    return home


PYTHON_LIBS = ("python/lib/pyspark.zip", "python/lib/py4j-0.10.9.9-src.zip")


def test_a_version_that_the_job_asks_for(
    environ: dict[str, str], spark_home: Path, java_home: Path, older: Path
) -> None:
    versions = {"4.0": SparkVersionSettings(home=older)}
    environ |= {"SPARK_HOME": "/nowhere", "SPARK_SUPERVISOR_S3A_JARS": "/nowhere"}
    found = find(environ, spark_home, java_home, versions=versions, version="4.0")
    assert (found.home, found.version, found.java_home) == (older, "4.0.1", java_home)
    assert found.python_path == tuple(older / lib for lib in PYTHON_LIBS)
    default = find({**environ, "SPARK_SUPERVISOR_S3A_JARS": ""}, spark_home, java_home, versions=versions)
    assert (default.home, default.python_path) == (spark_home, ())


def test_a_version_has_its_own_java_and_jars_and_never_those_jars_of_another(
    environ: dict[str, str], spark_home: Path, java_home: Path, older: Path, tmp_path: Path
) -> None:
    thin = tmp_path / "thin"
    thin.mkdir()
    (thin / "hadoop-aws-3.jar").touch()
    bare = {"4.0": SparkVersionSettings(home=older)}
    assert find(environ, spark_home, java_home, thin, versions=bare, version="4.0").s3a_jars == ()
    own = {"4.0": SparkVersionSettings(home=older, java_home=java_home, s3a_jars=thin)}
    found = find(environ, spark_home, Path("/nowhere"), versions=own, version="4.0")
    assert (found.java_home, found.s3a_jars) == (java_home, (thin / "hadoop-aws-3.jar",))


def test_what_a_version_lacks_is_said_with_its_key(
    environ: dict[str, str], spark_home: Path, java_home: Path, older: Path, tmp_path: Path
) -> None:
    given = {"environ": environ, "home": spark_home, "java": java_home, "version": "4.0"}
    none = refusal(**given)
    assert "asks for spark 4.0, and spark.versions of supervisor.yaml on this host has none" in none
    assert "add spark.versions.4.0" in none
    other = {"4.3": SparkVersionSettings(home=older), "4.1": SparkVersionSettings(home=older)}
    assert "on this host has 4.1, 4.3" in refusal(**given, versions=other)
    gone = {"4.0": SparkVersionSettings(home=tmp_path / "gone")}
    assert f"spark.versions.4.0.home is {tmp_path / 'gone'}" in refusal(**given, versions=gone)
    no_java = {"4.0": SparkVersionSettings(home=older, java_home=tmp_path)}
    assert f"spark.versions.4.0.java_home is {tmp_path}" in refusal(**given, versions=no_java)
    no_jars = {"4.0": SparkVersionSettings(home=older, s3a_jars=tmp_path)}
    assert f"spark.versions.4.0.s3a_jars is {tmp_path}" in refusal(**given, versions=no_jars)


def test_an_interpreter_that_the_job_names_imports_the_pyspark_of_its_spark(
    environ: dict[str, str], spark_home: Path, java_home: Path, older: Path
) -> None:
    found = find(environ, older, java_home, interpreter="/bin/sh")
    assert (found.python, found.python_path) == (Path("/bin/sh"), tuple(older / lib for lib in PYTHON_LIBS))
    assert find(environ, spark_home, java_home, interpreter="/bin/sh").python_path == ()
    assert "python.interpreter is /nowhere" in refusal(environ, older, java_home, interpreter="/nowhere")
