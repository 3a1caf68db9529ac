"""argv and properties: what is where, what is joined, and that nothing of the job is overridden."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.model.records import Cause
from supervisor.spark.arguments import BOOTSTRAP, Files, build_argv, build_properties, session_arguments
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.s3a import S3Access
from tests.unit.spark.conftest import MakeSpec

PROPERTIES = Path("/run/x/spark.properties")
PYTHON = Files("/f/app.py")
NOWHERE = S3Access()
MINIO = S3Access("http://minio:9000", "eu-1")


def test_python(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(args=["--ck", "{checkpoint}/q", "a b", "$HOME", "{x}", ""], master="local[1]")
    assert build_argv(spec, PYTHON, toolchain, PROPERTIES) == (
        "/opt/spark/bin/spark-submit",
        "--properties-file",
        "/run/x/spark.properties",
        "--master",
        "local[1]",
        "--deploy-mode",
        "client",
        "--name",
        "clicks",
        str(BOOTSTRAP),
        "/f/app.py",
        "--ck",
        "file:///ck/q",
        "a b",
        "$HOME",
        "{x}",
        "",
    )


def test_bootstrap_is_a_file_of_its_own() -> None:
    assert BOOTSTRAP.name == "bootstrap.py"
    imports = [line for line in BOOTSTRAP.read_text().splitlines() if line.startswith(("import", "from"))]
    assert imports and not any("supervisor" in line for line in imports)


def test_jvm(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(application="store:k/a.jar", **{"class": "com.example.Main"}, args=["ü\n"])
    argv = build_argv(spec, Files("/f/a.jar"), toolchain, PROPERTIES)
    assert argv[-4:] == ("--class", "com.example.Main", "/f/a.jar", "ü\n")


def test_session(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(launch="session", entry="clicks:main", args=["x"])
    argv = build_argv(spec, PYTHON, toolchain, PROPERTIES)
    assert argv == ("/usr/bin/python3", str(BOOTSTRAP), "--session", "clicks:main", "/f/app.py", "x")
    words = shlex.split(session_arguments(spec, Path("/a b/p")))
    assert words[:2] == ["--properties-file", "/a b/p"]
    assert words[-1] == "pyspark-shell"


@pytest.mark.parametrize("arg", ["ü", "a\rb", "😀\n"])
def test_what_scripts_or_locale_would_lose_is_quoted(
    make_spec: MakeSpec, toolchain: Toolchain, arg: str
) -> None:
    argv = build_argv(make_spec(args=[arg, "100%"]), PYTHON, toolchain, PROPERTIES)
    assert argv[argv.index(str(BOOTSTRAP)) + 1] == "--quoted"
    assert argv[-1] == "100%25"
    assert all(word.isascii() and "\r" not in word for word in argv)


def test_a_carriage_return_is_refused_where_it_would_be_lost(
    make_spec: MakeSpec, toolchain: Toolchain
) -> None:
    spec = make_spec(application="store:k/a.jar", args=["a\rb"])
    with pytest.raises(Refused, match="carriage return") as caught:
        build_argv(spec, Files("/f/a.jar"), toolchain, PROPERTIES)
    assert caught.value.cause is Cause.NOT_STARTED


def test_nothing_of_conf_is_in_argv(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(
        conf={"spark.hadoop.fs.s3a.secret.key": "hush", "spark.x": "y"}, env={"PASSWORD": "${env:P}"}
    )
    assert "hush" not in " ".join(build_argv(spec, PYTHON, toolchain, PROPERTIES))
    assert build_properties(spec, PYTHON, toolchain, NOWHERE)["spark.hadoop.fs.s3a.secret.key"] == "hush"


def test_the_users_name_is_kept(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(conf={"spark.app.name": "mine"})
    assert "--name" not in build_argv(spec, PYTHON, toolchain, PROPERTIES)


def test_lists_are_joined_with_the_hosts(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    host = replace(
        toolchain,
        defaults=(
            ("spark.jars", "/h.jar"),
            ("spark.a", "host"),
            ("spark.b", "host"),
            ("spark.files", "/h"),
            ("spark.master", "yarn"),
        ),
    )
    spec = make_spec(
        conf={"spark.b": "job"}, packages=["g:a:1"], jars=["store:k/x.jar"], py_files=["store:k/y.py"]
    )
    found = build_properties(spec, Files("/f/app.py", ("/f/y.py",), ("/f/x.jar",)), host, NOWHERE)
    assert found == {
        "spark.a": "host",
        "spark.b": "job",
        "spark.jars": "/h.jar,/f/x.jar",
        "spark.jars.packages": "g:a:1",
        "spark.submit.pyFiles": "/f/y.py",
        "spark.files": "/h,/f/app.py",
        "spark.port.maxRetries": "200",
    }


def test_the_job_is_never_overridden(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    conf = {
        "spark.port.maxRetries": "3",
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Dx=1 -Dy",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "own",
    }
    spec = make_spec(conf=conf, checkpoint="s3a://bkt/ck")
    found = build_properties(spec, PYTHON, replace(toolchain, version="4.1.1"), MINIO)
    assert {key: found[key] for key in conf} == conf


@pytest.mark.parametrize(
    ("application", "step", "given", "options"),
    [
        ("a.jar", True, None, "-XX:+ExitOnOutOfMemoryError"),
        ("a.jar", True, "-Dx=1", "-Dx=1 -XX:+ExitOnOutOfMemoryError"),
        ("a.jar", True, "-XX:-ExitOnOutOfMemoryError", "-XX:-ExitOnOutOfMemoryError"),
        ("a.jar", False, "-Dx=1", "-Dx=1"),
        ("a.py", True, None, None),
    ],
)
def test_a_jvm_tells_that_it_got_no_memory_where_more_is_given_then(
    make_spec: MakeSpec,
    toolchain: Toolchain,
    application: str,
    step: bool,
    given: str | None,
    options: str | None,
) -> None:
    key = "spark.driver.extraJavaOptions"
    restart = {"memory_step": 1.5, "memory_max": "8g"} if step else {}
    more = {"class": "com.example.Main"} if application.endswith(".jar") else {}
    spec = make_spec(
        application=f"store:k/{application}", restart=restart, conf={key: given} if given else {}, **more
    )
    assert build_properties(spec, Files(f"/f/{application}"), toolchain, NOWHERE).get(key) == options


@pytest.mark.parametrize(
    ("version", "conf", "value"),
    [
        ("4.1.1", {}, "false"),
        ("4.3.0", {}, None),
        (None, {}, None),
        ("4.1.1", {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}, None),
    ],
)
def test_checksums_are_off_where_they_harm(
    make_spec: MakeSpec, toolchain: Toolchain, version: str | None, conf: dict[str, str], value: str | None
) -> None:
    found = build_properties(make_spec(conf=conf), PYTHON, replace(toolchain, version=version), NOWHERE)
    assert found.get("spark.sql.streaming.checkpoint.fileChecksum.enabled") == value


@pytest.mark.parametrize("of", ["the spec", "its environment", "the host"])
def test_spark_connect_is_refused(make_spec: MakeSpec, toolchain: Toolchain, of: str) -> None:
    conf = {"spark.remote": "sc://x"}
    given: dict[str, Any] = {
        "the spec": {"conf": conf},
        "its environment": {"env": {"SPARK_REMOTE": "sc://x"}},
    }.get(of, {})
    tools = replace(toolchain, defaults=conf) if of == "the host" else toolchain
    with pytest.raises(Refused, match=r"(spark\.remote|SPARK_REMOTE) asks for a Spark Connect server"):
        build_properties(make_spec(**given), PYTHON, tools, NOWHERE)


def test_s3_is_where_the_store_is(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(checkpoint="S3://Bkt/ck", args=["{checkpoint}"])
    found = build_properties(spec, PYTHON, toolchain, MINIO)
    assert {
        key.removeprefix("spark.hadoop.fs.s3a."): value for key, value in found.items() if "s3a" in key
    } == {
        "endpoint": "http://minio:9000",
        "endpoint.region": "eu-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    assert build_argv(spec, PYTHON, toolchain, PROPERTIES)[-1] == "s3a://bkt/ck"


def test_s3_is_where_the_job_says(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    for key in ("spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.bucket.bkt.endpoint"):
        spec = make_spec(checkpoint="s3a://bkt/ck", conf={key: "https://elsewhere"})
        found = build_properties(spec, PYTHON, toolchain, MINIO)
        assert {k for k in found if "s3a" in k} == {key}


def test_no_s3_settings_for_other_checkpoints(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    assert not any("s3a" in key for key in build_properties(make_spec(), PYTHON, toolchain, MINIO))


def test_thin_jars(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    thin = replace(toolchain, s3a_jars=(Path("/thin/hadoop-aws-3.jar"), Path("/thin/s3.jar")))
    class_path = "spark.driver.extraClassPath"
    assert build_properties(make_spec(), PYTHON, thin, NOWHERE)[class_path] == "/thin/*"
    own = build_properties(make_spec(conf={class_path: "/own"}), PYTHON, thin, NOWHERE)
    assert own[class_path] == "/own:/thin/*"
    assert "spark.jars" not in own
    cluster = build_properties(make_spec(master="spark://h:7077"), PYTHON, thin, NOWHERE)
    assert cluster["spark.jars"] == "/thin/hadoop-aws-3.jar,/thin/s3.jar"
    brings = build_properties(
        make_spec(packages=["org.apache.hadoop:hadoop-aws:3.5.0"]), PYTHON, thin, NOWHERE
    )
    assert class_path not in brings


def test_python_of_the_spec_comes_before_that_of_the_host(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    """spark-submit would prefer these properties to the interpreter, without a message."""
    of_host = (("spark.pyspark.python", "/host/python"), ("spark.pyspark.driver.python", "/host/driver"))
    host = replace(toolchain, defaults=(*of_host, ("spark.x", "1")))
    chosen = build_properties(make_spec(python={"interpreter": "/opt/python"}), PYTHON, host, NOWHERE)
    assert set(chosen) & set(dict(of_host)) == set() and chosen["spark.x"] == "1"
    assert dict(of_host).items() <= build_properties(make_spec(), PYTHON, host, NOWHERE).items()
    own = make_spec(conf={"spark.pyspark.python": "/own"})
    assert build_properties(own, PYTHON, host, NOWHERE)["spark.pyspark.python"] == "/own"
