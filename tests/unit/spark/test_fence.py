"""Who gets the storage fence, what the properties say then, and how its jar is made and kept."""

from __future__ import annotations

import shutil
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from supervisor.clients.tools import Ran
from supervisor.daemon.host.fence_ahead import FenceAhead
from supervisor.model.records import Assignment
from supervisor.settings.file import Settings
from supervisor.spark.arguments import Files, build_properties
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.fence import build
from supervisor.spark.fence.build import host_jar
from supervisor.spark.fence.choice import MANAGER, MANAGER_KEY, OWNER_KEY, Fence, owner_of, why_not
from supervisor.spark.toolchain import Toolchain, installed_spark_home, spark_version
from supervisor.spec.s3a import S3Access
from tests.unit.spark.conftest import MakeSpec

FENCE = Fence(Path("/run/fence/f.jar"), "job=clicks uid=u1 attempt=3 host=h1")
CLASS_PATH = "spark.driver.extraClassPath"


@pytest.mark.parametrize(
    ("keys", "defaults", "version", "why"),
    [
        ({}, {}, "4.3.0", ""),
        ({}, {}, "4.1.0", ""),
        ({}, {}, "5.0.0-SNAPSHOT", ""),
        ({"checkpoint": "file:///ck"}, {}, "4.3.0", None),
        ({"checkpoint": "hdfs://nn/ck"}, {}, "4.3.0", None),
        ({"checkpoint": None, "unbounded": False}, {}, "4.3.0", None),
        ({"checkpoint_fence": "off"}, {}, "4.3.0", "checkpoint_fence: off"),
        ({"conf": {MANAGER_KEY: "x.Mine"}}, {}, "4.3.0", "names x.Mine, which counts"),
        ({}, {MANAGER_KEY: "x.Hosts"}, "4.3.0", "names x.Hosts, which counts"),
        ({"conf": {"spark.hadoop.fs.s3a.impl": "com.x.Emr"}}, {}, "4.3.0", "names com.x.Emr, not Hadoop's"),
        (
            {"conf": {"spark.hadoop.fs.s3a.create.conditional.enabled": "false"}},
            {},
            "4.3.0",
            "enabled is false",
        ),
        (
            {"conf": {"spark.hadoop.fs.s3a.bucket.bkt.create.conditional.enabled": "False"}},
            {},
            "4.3.0",
            "enabled is false",
        ),
        ({}, {}, "4.0.1", "Spark is 4.0.1, and the fence needs 4.1"),
        ({}, {}, "3.5.9", "Spark is 3.5.9"),
        ({}, {}, None, "version of Spark is not known"),
    ],
)
def test_who_gets_it(
    make_spec: MakeSpec,
    keys: dict[str, object],
    defaults: dict[str, str],
    version: str | None,
    why: str | None,
) -> None:
    spec = make_spec(**{"checkpoint": "s3a://bkt/ck", **keys})
    found = why_not(spec, {**defaults, **spec.conf}, version)
    if why:
        assert found is not None and why in found
    else:
        assert found == why


def test_the_owner_is_ascii_and_one_line() -> None:
    assert owner_of("clicks", "u1", 3, "hö\nst a") == "job=clicks uid=u1 attempt=3 host=h??st?a"


def test_what_the_driver_is_told(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    spec = make_spec(checkpoint="s3a://bkt/ck")
    found = build_properties(spec, Files("/f/app.py"), toolchain, S3Access(), fence=FENCE)
    assert found[MANAGER_KEY] == MANAGER
    assert found[OWNER_KEY] == FENCE.owner
    assert found[CLASS_PATH] == "/run/fence/f.jar"
    assert "spark.jars" not in found
    none = build_properties(spec, Files("/f/app.py"), toolchain, S3Access(), fence=Fence(why="x"))
    assert not {MANAGER_KEY, OWNER_KEY, CLASS_PATH} & none.keys()


def test_the_class_path_is_joined_and_executors_elsewhere_get_the_jar(
    make_spec: MakeSpec, toolchain: Toolchain
) -> None:
    """A state store on an executor asks for the same manager."""
    thin = replace(toolchain, s3a_jars=(Path("/thin/hadoop-aws-3.jar"),))
    spec = make_spec(checkpoint="s3a://bkt/ck", master="spark://h:7077", conf={CLASS_PATH: "/own"})
    found = build_properties(spec, Files("/f/app.py", jars=("/f/x.jar",)), thin, S3Access(), fence=FENCE)
    assert found[CLASS_PATH] == "/own:/thin/*:/run/fence/f.jar"
    assert found["spark.jars"] == "/f/x.jar,/thin/hadoop-aws-3.jar,/run/fence/f.jar"
    brings = make_spec(
        checkpoint="s3a://bkt/ck", master="spark://h:7077", packages=["org.apache.hadoop:hadoop-aws:3.5.0"]
    )
    found = build_properties(brings, Files("/f/app.py"), thin, S3Access(), fence=FENCE)
    assert (found[CLASS_PATH], found["spark.jars"]) == ("/run/fence/f.jar", "/run/fence/f.jar")


@pytest.fixture
def spark_and_java() -> tuple[Path, Path, str]:
    home, java = installed_spark_home(), shutil.which("java")
    assert home is not None and java is not None
    return home, Path(java), spark_version(home) or ""


def test_janino_compiles_it_once(
    spark_and_java: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, java, version = spark_and_java
    built = host_jar(home, java, version, tmp_path / "fence", {"PATH": "/usr/bin:/bin"})
    assert built.jar is not None, built.why
    with zipfile.ZipFile(built.jar) as jar:
        assert f"{MANAGER.replace('.', '/')}.class" in jar.namelist()
    assert built.jar.name.startswith(f"fence-{version}-")
    assert [path.name for path in built.jar.parent.iterdir()] == [built.jar.name]
    monkeypatch.setattr(build, "run_tool", lambda *_: pytest.fail("it is there already"))
    assert host_jar(home, java, version, tmp_path / "fence", {}) == built


def test_what_one_spark_or_java_makes_is_no_others(
    spark_home: Path, java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of one version of Spark. A link is what it leads to, and a Java that was replaced in its place is another."""
    calls: list[str] = []

    def compiled(argv: tuple[str, ...], *_: object) -> Ran:
        calls.append(argv[0])
        (Path(argv[argv.index("-d") + 1]) / "A.class").write_text(argv[0])
        return Ran(0, "", "")

    def jar(home: Path, java: Path) -> Path:
        built = host_jar(home, java / "bin" / "java", "4.1.2", tmp_path / "fence", {})
        assert built.jar is not None, built.why
        return built.jar

    monkeypatch.setattr(build, "run_tool", compiled)
    other_spark, other_java = tmp_path / "other-spark", tmp_path / "other-java"
    shutil.copytree(spark_home, other_spark)
    shutil.copytree(java_home, other_java)
    made = [jar(home, java) for home in (spark_home, other_spark) for java in (java_home, other_java)]
    assert (len(set(made)), len(calls)) == (4, 4)
    (tmp_path / "link").symlink_to(spark_home)
    (tmp_path / "jdk").symlink_to(java_home)
    assert jar(tmp_path / "link", tmp_path / "jdk") == made[0] and len(calls) == 4
    (java_home / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert jar(spark_home, java_home) not in made


def test_what_cannot_be_made_is_said_and_not_tried_at_every_start(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    monkeypatch.setattr(
        build, "run_tool", lambda *_: tried.append(1) or Ran(1, "", "x\nCompileException: no such\n y")
    )
    for _ in range(2):
        built = host_jar(spark_home, Path("/usr/bin/java"), "4.1.2", tmp_path / "fence", {})
        assert built.jar is None and "CompileException: no such" in built.why
    assert len(tried) == 1
    assert list((tmp_path / "fence").iterdir()) == []


def test_a_directory_that_cannot_be_written_is_a_reason(spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "fence").write_text("a file")
    built = host_jar(spark_home, Path("/usr/bin/java"), "4.1.2", tmp_path / "fence" / "x", {})
    assert built.jar is None and str(tmp_path / "fence") in built.why


@pytest.fixture
def prepared(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    tmp_path: Path,
    environ: dict[str, str],
) -> Callable[..., tuple[str, list[str]]]:
    def prepared_(**keys: object) -> tuple[str, list[str]]:
        """The properties of a job with a checkpoint on S3, and what was told."""
        runtime = settings.supervisor.model_copy(update={"runtime_dir": tmp_path / "runtime"})
        (tmp_path / "app.py").touch()
        place = AttemptPlace(
            "h1",
            tmp_path / "run",
            tmp_path / "work",
            tmp_path / "log",
            environ=environ,
            state_dir=tmp_path / "state",
        )
        launch = make_launch(
            DriverStart(
                make_spec(checkpoint="s3a://bkt/ck", **keys),
                assignment,
                settings.model_copy(update={"supervisor": runtime}),
                place,
            ),
            lambda key: tmp_path / "app.py",
        )
        return (tmp_path / "work" / "spark.properties").read_text(), [
            launch.not_fenced
        ] if launch.not_fenced else []

    return prepared_


def test_a_start_gets_the_fence(
    prepared: Callable[..., tuple[str, list[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(argv: tuple[str, ...], *_: object) -> Ran:
        (Path(argv[argv.index("-d") + 1]) / "A.class").write_bytes(b"x")
        return Ran(0, "", "")

    monkeypatch.setattr(build, "run_tool", compiled)
    text, messages = prepared()
    assert messages == []
    assert f"{OWNER_KEY}=job=clicks uid=u1 attempt=3 host=h1" in text.replace("\\", "")
    assert str(tmp_path / "runtime" / "fence") in text


@pytest.fixture
def on_s3(settings: Settings, spark_home: Path, tmp_path: Path) -> Settings:
    """Of a host whose store is on S3."""
    return settings.model_copy(
        update={
            "supervisor": settings.supervisor.model_copy(update={"runtime_dir": tmp_path / "runtime"}),
            "store": settings.store.model_copy(update={"url": "s3://bkt/p"}),
        }
    )


def test_the_first_start_finds_it_made(
    prepared: Callable[..., tuple[str, list[str]]],
    on_s3: Settings,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def compiled(argv: tuple[str, ...], *_: object) -> Ran:
        calls.append(argv)
        (Path(argv[argv.index("-d") + 1]) / "A.class").write_bytes(b"x")
        return Ran(0, "", "")

    monkeypatch.setattr(build, "run_tool", compiled)
    with structlog.testing.capture_logs() as logs:
        FenceAhead(on_s3, environ).make()
    assert ([line["event"] for line in logs], len(calls)) == (["fence_made"], 1)
    text, messages = prepared()
    assert MANAGER in text and (messages, len(calls)) == ([], 1)


def test_what_could_not_be_made_ahead_is_tried_by_the_first_start(
    prepared: Callable[..., tuple[str, list[str]]],
    on_s3: Settings,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    monkeypatch.setattr(
        build, "run_tool", lambda *_: calls.append(1) or Ran(1, "", "CompileException: no such")
    )
    with structlog.testing.capture_logs() as logs:
        FenceAhead(on_s3, environ).make()
    assert [line["event"] for line in logs] == ["fence_not_made"]
    _text, messages = prepared()
    assert len(calls) == 2 and "CompileException" in messages[0]


def test_a_host_that_has_nothing_on_s3_makes_none(
    on_s3: Settings,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "run_tool", lambda *_: pytest.fail("nobody needs it"))
    here = on_s3.model_copy(update={"store": on_s3.store.model_copy(update={"url": "file:///store"})})
    with structlog.testing.capture_logs() as logs:
        FenceAhead(here, environ).make()
        FenceAhead(
            on_s3.model_copy(update={"spark": on_s3.spark.model_copy(update={"home": Path("/nowhere")})}),
            environ,
        ).make()
    assert logs == []


def test_who_needs_another_jar_does_not_wait_for_one_that_takes_long(
    spark_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(argv: tuple[str, ...], *_: object) -> Ran:
        if "slow" in argv[argv.index("-d") + 1]:
            begun.set()
            assert go_on.wait(60)
        (Path(argv[argv.index("-d") + 1]) / "A.class").write_bytes(b"x")
        return Ran(0, "", "")

    monkeypatch.setattr(build, "run_tool", slow)
    java = Path("/usr/bin/java")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(host_jar, spark_home, java, "4.1.2", tmp_path / "slow", {})
        assert begun.wait(60)
        assert host_jar(spark_home, java, "4.1.2", tmp_path / "other", {}).jar is not None
        assert not first.done()
        go_on.set()
        assert first.result().jar is not None


def test_no_start_fails_for_want_of_it(prepared: Callable[..., tuple[str, list[str]]]) -> None:
    """There is no Janino in this Spark home: it starts all the same, and the reason is told."""
    text, messages = prepared()
    assert MANAGER not in text
    assert len(messages) == 1 and "cannot compile it" in messages[0]
    text, messages = prepared(checkpoint_fence="off")
    assert messages == ["the job says checkpoint_fence: off"]
