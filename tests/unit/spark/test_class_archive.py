"""Class-data archives: who gets one, how it is named, merged, kept and made. A real JVM: ``tests/e2e/test_class_archive``."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients.tools import Ran, run_unhurried
from supervisor.model.records import Assignment
from supervisor.settings.file import Settings
from supervisor.spark.arguments import Files, build_properties
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.class_archive import build, shelf
from supervisor.spark.class_archive.assign import OFF, archives_dir
from supervisor.spark.class_archive.build import driver_command, environment, make_archive, properties_of
from supervisor.spark.class_archive.choice import (
    CLASS_PATH_KEY,
    LATE_C2,
    OPTIONS_KEY,
    ClassArchive,
    conflicting,
    why_not,
    why_not_this_conf_dir,
)
from supervisor.spark.class_archive.key import ArchiveKey, ArchiveKind, archive_key
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.fence.choice import Fence
from supervisor.spark.properties import parse_properties
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.s3a import S3Access
from tests.unit.spark.conftest import MakeSpec

ARCHIVE = ClassArchive(
    Path("/run/x.jsa"), ArchiveKind.SHARED, ("/opt/spark/jars/slf4j-api-2.jar", "/opt/spark/jars/*")
)
NAMES = ("org", "META-INF", "core-default.xml")


# -- who gets it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conf", "env", "more", "why"),
    [
        ({}, {}, {}, ""),
        ({OPTIONS_KEY: "-Dx=1 -XX:+UseG1GC -XX:+UseParallelGC"}, {}, {}, ""),
        ({"spark.driver.memory": "31g"}, {}, {}, ""),
        ({CLASS_PATH_KEY: "/mine/*"}, {}, {}, "stands first in the class path"),
        ({}, {}, {"brings_s3a": True}, "S3A jars of its own"),
        (
            {OPTIONS_KEY: "-Da=b -XX:SharedArchiveFile=/mine.jsa"},
            {},
            {},
            f"conf {OPTIONS_KEY} has -XX:Shared",
        ),
        ({OPTIONS_KEY: "-XX:AOTCache=/mine.aot"}, {}, {}, "has -XX:AOTCache"),
        ({OPTIONS_KEY: "-Xshare:off"}, {}, {}, "has -Xshare:off"),
        ({OPTIONS_KEY: "-XX:+UseZGC"}, {}, {}, "has -XX:+UseZGC"),
        ({OPTIONS_KEY: "-XX:-UseCompressedOops"}, {}, {}, "has -XX:-UseCompressedOops"),
        ({OPTIONS_KEY: "'-Dx=a b' -Xshare:dump"}, {}, {}, "has -Xshare:dump"),
        ({OPTIONS_KEY: "-Dodd=' -Xshare:off"}, {}, {}, "has -Xshare:off"),
        ({"spark.driver.defaultJavaOptions": "-Xshare:off"}, {}, {}, "defaultJavaOptions has"),
        ({}, {"SPARK_SUBMIT_OPTS": "-XX:+UseZGC"}, {}, "SPARK_SUBMIT_OPTS has -XX:+UseZGC"),
        ({}, {"JAVA_TOOL_OPTIONS": "-Xshare:off"}, {}, "JAVA_TOOL_OPTIONS has"),
        ({}, {"JDK_JAVA_OPTIONS": "@/etc/options"}, {}, "JDK_JAVA_OPTIONS has @"),
        ({}, {"SPARK_DIST_CLASSPATH": "/hadoop/*"}, {}, "SPARK_DIST_CLASSPATH changes"),
        ({"spark.driver.memory": "40g"}, {}, {}, "no compressed references"),
        ({"spark.driver.memory": "1g"}, {}, {"driver_memory": 64 * 1024**3}, "no compressed references"),
    ],
)
def test_who_gets_it(conf: dict[str, str], env: dict[str, str], more: dict[str, int], why: str) -> None:
    found = why_not(conf, env, **{"brings_s3a": False, **more})
    assert (why in found) if why else found == ""


def test_an_option_is_told_in_short() -> None:
    assert conflicting("-XX:SharedArchiveFile=" + "x" * 500) == ("-XX:SharedArchiveFile=" + "x" * 500)[:60]
    assert conflicting("-Dmail=a@b -Dy=-Xshare:off") == ""


def test_a_conf_directory_may_come_after_the_jars_unless_it_has_what_they_have(tmp_path: Path) -> None:
    assert why_not_this_conf_dir(tmp_path / "none", NAMES) == ""
    (tmp_path / "log4j2.properties").touch()
    assert why_not_this_conf_dir(tmp_path, NAMES) == ""
    (tmp_path / "core-default.xml").touch()
    assert "has core-default.xml, as Spark's jars have" in why_not_this_conf_dir(tmp_path, NAMES)
    assert why_not_this_conf_dir(tmp_path / "core-default.xml", NAMES) == ""


# -- what the driver is told -------------------------------------------------------------------------------------------


def test_our_options_come_before_the_users_and_in_place_of_none() -> None:
    assert ARCHIVE.with_options("") == " ".join(
        ("-Xlog:cds=off -Xlog:cds+dynamic=off -XX:SharedArchiveFile=/run/x.jsa", *LATE_C2)
    )
    assert ARCHIVE.with_options(" -Da=b ").endswith(f"{LATE_C2[-1]} -Da=b")
    assert ClassArchive(why="x").with_options("-Da=b") == "-Da=b"
    aot = ClassArchive(Path("/a b.aot"), ArchiveKind.AOT).options
    assert '"-XX:AOTCache=/a b.aot"' in aot and "Tier4" not in aot
    assert [one.said for one in (ARCHIVE, ClassArchive(why="x"), ClassArchive())] == ["x.jsa", "off: x", ""]


def test_the_class_path_is_that_of_the_dump_then_the_fence(make_spec: MakeSpec, toolchain: Toolchain) -> None:
    thin = replace(toolchain, s3a_jars=(Path("/thin/hadoop-aws-3.jar"),))
    spec = make_spec(checkpoint="s3a://bkt/ck", conf={OPTIONS_KEY: "-Dmine=1"})
    fence = Fence(Path("/run/fence.jar"), "o")
    found = build_properties(spec, Files("/f/app.py"), thin, S3Access(), 0, fence, ARCHIVE)
    jars = "/opt/spark/jars/slf4j-api-2.jar:/opt/spark/jars/*"
    assert found[CLASS_PATH_KEY] == f"/thin/*:{jars}:/run/fence.jar"
    assert found[OPTIONS_KEY].endswith(f"-XX:SharedArchiveFile=/run/x.jsa {' '.join(LATE_C2)} -Dmine=1")
    assert "spark.jars" not in found
    alone = build_properties(spec, Files("/f/app.py"), toolchain, S3Access(), archive=ARCHIVE)
    assert alone[CLASS_PATH_KEY] == jars
    without = build_properties(spec, Files("/f/app.py"), toolchain, S3Access(), archive=ClassArchive(why="x"))
    assert CLASS_PATH_KEY not in without and without[OPTIONS_KEY] == "-Dmine=1"


# -- the key -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def real_toolchain(spark_home: Path, java_home: Path) -> Toolchain:
    return Toolchain(spark_home, Path(sys.executable), java_home, "4.1.2")


def key_of(toolchain: Toolchain) -> ArchiveKey:
    key = archive_key(toolchain, {})
    assert isinstance(key, ArchiveKey), key
    return key


def test_the_key_is_of_java_spark_and_every_jar(real_toolchain: Toolchain, tmp_path: Path) -> None:
    first = key_of(real_toolchain)
    assert (first, first.kind, first.with_s3a) == (key_of(real_toolchain), ArchiveKind.SHARED, False)
    names = [first.name]

    def changed(change: Callable[[], object]) -> None:
        change()
        names.append(key_of(real_toolchain).name)

    assert real_toolchain.java_home is not None
    jars, java = real_toolchain.home / "jars", real_toolchain.java_home
    changed(lambda: (jars / "more.jar").write_text("x"))
    changed(lambda: (jars / "more.jar").write_text("xy"))
    changed(lambda: os.utime(jars / "more.jar", (1, 1)))
    changed(lambda: (java / "release").write_text('JAVA_VERSION="17.0.16"\n'))
    changed(lambda: (java / "bin" / "java").write_text("#!/bin/sh\n# another\n"))
    assert len(set(names)) == len(names)
    (jars / "no.txt").touch()
    assert key_of(real_toolchain).name == names[-1]
    thin = tmp_path / "thin"
    thin.mkdir()
    (thin / "hadoop-aws-3.jar").touch()
    with_s3a = key_of(replace(real_toolchain, s3a_jars=(thin / "hadoop-aws-3.jar",)))
    assert with_s3a.with_s3a and with_s3a.class_path == f"{thin}/*:{jars}/*" and with_s3a.name not in names
    (jars / "slf4j-api-2.0.17.jar").touch()
    assert key_of(real_toolchain).class_path == f"{jars}/slf4j-api-2.0.17.jar:{jars}/*"


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ('JAVA_VERSION="25.0.1"', ArchiveKind.AOT),
        ('JAVA_VERSION="21"', ArchiveKind.SHARED),
        ("", "not known"),
        ('JAVA_VERSION="11.0"', "Java 11"),
    ],
)
def test_what_java_makes(real_toolchain: Toolchain, release: str, said: str) -> None:
    assert real_toolchain.java_home is not None
    (real_toolchain.java_home / "release").write_text(f"{release}\n")
    found = archive_key(real_toolchain, {})
    assert (found.kind if isinstance(found, ArchiveKey) else found).find(said) >= 0


def test_what_can_have_none_is_a_reason(real_toolchain: Toolchain, tmp_path: Path) -> None:
    assert "no spark-core jar" in str(archive_key(replace(real_toolchain, version=None), {}))
    odd = replace(real_toolchain, s3a_jars=(tmp_path / "a:b" / "hadoop-aws-3.jar",))
    assert "colon" in str(archive_key(odd, {}))
    gone = replace(real_toolchain, s3a_jars=(tmp_path / "gone" / "hadoop-aws-3.jar",))
    assert "cannot be read" in str(archive_key(gone, {}))


# -- the shelf ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shelved(real_toolchain: Toolchain, tmp_path: Path) -> tuple[Path, ArchiveKey, Path]:
    """A directory with the archive of a key."""
    directory, key = tmp_path / "archives", key_of(real_toolchain)
    directory.mkdir(mode=0o700)
    (directory / "draft").write_bytes(b"classes" * 100)
    return directory, key, shelf.keep(directory, key, directory / "draft", NAMES)


def test_what_was_kept_is_found_whole_and_private(shelved: tuple[Path, ArchiveKey, Path]) -> None:
    directory, key, file = shelved
    found = shelf.find(directory, key)
    assert not isinstance(found, str) and (found.file, found.names) == (file, frozenset(NAMES))
    assert shelf.is_whole(found)
    assert sorted(path.name for path in directory.iterdir()) == [file.name, f"{key.name}.json"]
    assert [path.stat().st_mode & 0o777 for path in (file, directory / f"{key.name}.json")] == [0o444, 0o600]


def damage_cut(file: Path) -> None:
    os.truncate(file, 10)


def damage_garbled(file: Path) -> None:
    file.write_bytes(b"garbage" * 100)


def damage_link(file: Path) -> None:
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


def damage_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def damage_copied(file: Path) -> None:
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)


def damage_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "damage",
    [damage_cut, damage_garbled, damage_link, damage_directory, damage_copied, damage_fifo, Path.unlink],
)
@pytest.mark.parametrize("of", ["archive", "note"])
def test_what_is_not_the_file_that_was_made_is_not_used(
    shelved: tuple[Path, ArchiveKey, Path], damage: Callable[[Path], object], of: str
) -> None:
    directory, key, file = shelved
    victim = file if of == "archive" else directory / f"{key.name}.json"
    victim.chmod(0o600)
    damage(victim)
    found = shelf.find(directory, key)
    if of == "note" and damage is damage_copied:
        assert not isinstance(found, str), "the note itself may be copied"
    else:
        assert isinstance(found, str) and found


@pytest.mark.parametrize(
    "note", ["", "[]", "{}", '{"identity": ["x"], "names": []}', '{"identity": 1, "names": []}', "\0"]
)
def test_an_odd_note_is_none(shelved: tuple[Path, ArchiveKey, Path], note: str) -> None:
    directory, key, _ = shelved
    (directory / f"{key.name}.json").write_text(note)
    assert isinstance(shelf.find(directory, key), str)


def test_what_others_may_write_to_is_not_used(shelved: tuple[Path, ArchiveKey, Path]) -> None:
    directory, key, file = shelved
    body = json.loads((directory / f"{key.name}.json").read_text())
    file.chmod(0o666)
    body["identity"][4] = file.stat().st_ctime_ns
    (directory / f"{key.name}.json").write_text(json.dumps(body))
    assert "is not the file that was made here" in str(shelf.find(directory, key))


def test_content_that_changed_under_the_same_times_is_seen_by_its_checksum(
    shelved: tuple[Path, ArchiveKey, Path],
) -> None:
    directory, key, file = shelved
    file.chmod(0o600)
    file.write_bytes(b"Classes" * 100)
    note = directory / f"{key.name}.json"
    body = json.loads(note.read_text())
    body["identity"] = shelf._identity(file.stat())
    note.write_text(json.dumps(body))
    found = shelf.find(directory, key)
    assert not isinstance(found, str) and not shelf.is_whole(found)


def test_making_it_anew_leaves_the_old_one_to_those_that_have_mapped_it(
    shelved: tuple[Path, ArchiveKey, Path],
) -> None:
    directory, key, file = shelved
    with file.open("rb") as mapped:
        (directory / "draft").write_bytes(b"new")
        shelf.keep(directory, key, directory / "draft", NAMES)
        assert (mapped.read(), file.read_bytes()) == (b"classes" * 100, b"new")


def put(directory: Path, number: int, size: int = 1) -> str:
    name = f"{number:024x}"
    (directory / f"{name}.json").write_text("{}")
    with (directory / f"{name}.jsa").open("wb") as file:
        file.truncate(size)
    os.utime(directory / f"{name}.jsa", (number, number))
    os.utime(directory / f"{name}.json", (number, number))
    return name


def archives(directory: Path) -> set[str]:
    return {path.stem for path in directory.iterdir() if re.fullmatch("[0-9a-f]{24}", path.stem)}


def test_the_newest_four_are_kept_and_the_one_in_use(tmp_path: Path) -> None:
    names = [put(tmp_path, number) for number in range(1, 8)]
    shelf.tidy(tmp_path, {names[0]})
    assert archives(tmp_path) == {names[0], *names[-3:]}
    shelf.tidy(tmp_path)
    assert archives(tmp_path) == {names[0], *names[-3:]}


def test_all_in_use_are_kept(tmp_path: Path) -> None:
    names = [put(tmp_path, number, 900 * 2**20) for number in range(1, 8)]
    shelf.tidy(tmp_path, names[:3])
    assert archives(tmp_path) == set(names[:3])


def test_they_are_kept_within_two_gibibytes(tmp_path: Path) -> None:
    names = [put(tmp_path, number, 900 * 2**20) for number in range(1, 5)]
    shelf.tidy(tmp_path, {names[-1]})
    assert archives(tmp_path) == set(names[-2:])
    big = put(tmp_path, 9, 3 * 2**30)
    shelf.tidy(tmp_path, {big})
    assert archives(tmp_path) == {big}, "the one in use stays, whatever it has"


def test_nothing_that_is_not_its_own_is_removed(tmp_path: Path) -> None:
    directory, abroad = tmp_path / "archives", tmp_path / "abroad"
    directory.mkdir()
    abroad.mkdir()
    (abroad / "precious").write_text("x")
    for number in range(1, 10):
        put(directory, number)
    old = f"{0:024x}"
    (directory / f"{old}.jsa").symlink_to(abroad / "precious")
    (directory / f"{old}.json").mkdir()
    (directory / f"{old}.json" / "kept").touch()
    (directory / ".making-link").symlink_to(abroad)
    (directory / "notes.txt").touch()
    (directory / f"{old}.txt").touch()
    (directory / "abc.jsa").touch()
    os.mkfifo(directory / f"{old[:-1]}f.aot")
    (directory / ".making-1").mkdir()
    (directory / ".making-1" / "link").symlink_to(abroad)
    (directory / ".making-2.json").touch()
    shelf.tidy(directory)
    left = {path.name for path in directory.iterdir()} - {
        f"{n:024x}.{end}" for n in range(6, 10) for end in ("jsa", "json")
    }
    assert left == {
        f"{old}.jsa", f"{old}.json", f"{old}.txt", ".making-link", "notes.txt", "abc.jsa", f"{old[:-1]}f.aot"
    }  # fmt: skip
    assert (abroad / "precious").read_text() == "x" and (directory / f"{old}.json" / "kept").exists()


def test_a_missing_directory_is_tidy_and_an_unreadable_one_is_an_error(tmp_path: Path) -> None:
    shelf.tidy(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        shelf.tidy(tmp_path / "file")


# -- making one --------------------------------------------------------------------------------------------------------

PRINTED = "\0\n/usr/bin/java\0-cp\0/conf:/jars/*\0-XX:X\0org.apache.spark.deploy.SparkSubmit\0a.py\0"


def test_the_launchers_command_gets_the_class_path_of_the_dump(real_toolchain: Toolchain) -> None:
    key = key_of(real_toolchain)
    submit = "org.apache.spark.deploy.SparkSubmit"
    wanted = ("/usr/bin/java", "-cp", key.class_path, "-XX:X", submit, "a.py")
    assert driver_command(PRINTED, key) == wanted
    assert [driver_command(text, key) for text in ("", "\0\n", "Exception: x", "\0\njava\0x\0")] == [()] * 4


def test_the_training_run_gets_nothing_of_jobs_credentials_or_hadoop(
    real_toolchain: Toolchain, tmp_path: Path
) -> None:
    key = key_of(real_toolchain)
    given = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "s",
        "HADOOP_CONF_DIR": "/h",
        "JAVA_TOOL_OPTIONS": "-Dx",
        "LANG": "C",
    }
    env = environment(key, Path("/py"), tmp_path, given)
    assert not {"AWS_SECRET_ACCESS_KEY", "HADOOP_CONF_DIR", "JAVA_TOOL_OPTIONS"} & env.keys()
    assert (env["LANG"], env["JAVA_HOME"], env["SPARK_LOCAL_IP"]) == ("C", str(key.java_home), "127.0.0.1")
    assert not Path(env["SPARK_CONF_DIR"]).exists() and env["SPARK_SCALA_VERSION"] == "2.13"
    properties = properties_of(key, tmp_path, tmp_path / "a.jsa")
    assert properties["spark.driver.bindAddress"] == "127.0.0.1"
    assert f'"-XX:ArchiveClassesAtExit={tmp_path}/a.jsa"' in properties[OPTIONS_KEY]


@pytest.fixture
def maker(
    real_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., build.MadeArchive]:
    """Makes an archive with tools that are played. ``trained`` gets the draft, and returns what became of the run."""

    def make(
        trained: Callable[[Path], Ran | None], *, launcher: str = PRINTED, check: int = 0, said: str = ""
    ) -> build.MadeArchive:
        key, runs = key_of(real_toolchain), []

        def tool(argv: tuple[str, ...], *_: object) -> Ran:
            runs.append(argv)
            return Ran(0, launcher, "") if len(runs) == 1 else Ran(check, said, "")

        def unhurried(_argv: object, _env: object, _max: float, _go_on: object, cwd: str) -> Ran | None:
            return trained(Path(cwd) / key.file_name)

        monkeypatch.setattr(build, "run_tool", tool)
        monkeypatch.setattr(build, "run_unhurried", unhurried)
        monkeypatch.setattr(build, "names_in_jars", lambda _key: frozenset(NAMES))
        return make_archive(key, Path("/py"), tmp_path / "archives", {}, lambda: True)

    return make


def wrote(draft: Path) -> Ran:
    draft.write_bytes(b"x" * build.ARCHIVE_MIN_BYTES)
    return Ran(0, "", "")


def test_an_archive_is_made_checked_and_kept(
    maker: Callable[..., build.MadeArchive], real_toolchain: Toolchain, tmp_path: Path
) -> None:
    made = maker(wrote)
    assert made.file is not None and not made.why
    assert not isinstance(shelf.find(tmp_path / "archives", key_of(real_toolchain)), str)
    assert (tmp_path / "archives").stat().st_mode & 0o777 == 0o700
    assert not [path for path in (tmp_path / "archives").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("trained", "keys", "why"),
    [
        (lambda _draft: None, {}, "being started"),
        (lambda _draft: Ran(0, "", ""), {}, "made none"),
        (lambda draft: draft.write_bytes(b"x") and Ran(0, "", ""), {}, "made none"),
        (lambda draft: wrote(draft) and Ran(1, "", "boom"), {}, "made none: boom"),
        (lambda _draft: Ran(None, "", "", "it did not end within 3 s", late=True), {}, "did not end within"),
        (wrote, {"launcher": "no"}, "says no command"),
        (wrote, {"check": 1, "said": "mismatch"}, "its own JVM does not take it: mismatch"),
        (wrote, {"said": "An error has occurred while processing the AOT cache"}, "does not take it"),
    ],
)
def test_what_cannot_be_made_is_a_reason_and_leaves_nothing(
    maker: Callable[..., build.MadeArchive],
    tmp_path: Path,
    trained: Callable[[Path], Ran | None],
    keys: dict[str, object],
    why: str,
) -> None:
    made = maker(trained, **keys)
    assert made.file is None and why in made.why
    assert made.interrupted == (why == "being started")
    assert list((tmp_path / "archives").iterdir()) == []


def test_a_directory_that_cannot_be_used_is_a_reason(real_toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = make_archive(key_of(real_toolchain), Path("/py"), tmp_path / "file" / "x", {}, lambda: True)
    assert made.file is None and "file" in made.why


def test_a_full_file_system_is_a_reason(
    real_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FREE_BYTES", 2**62)
    made = make_archive(key_of(real_toolchain), Path("/py"), tmp_path / "archives", {}, lambda: True)
    assert "MiB free" in made.why


# -- the unhurried tool ------------------------------------------------------------------------------------------------


def test_an_unhurried_tool_runs_at_nice_19(tmp_path: Path) -> None:
    ran = run_unhurried(("nice",), {"PATH": os.environ["PATH"]}, 30.0, lambda: True, str(tmp_path))
    assert ran is not None and (ran.code, ran.out.strip()) == (0, "19")
    missing = run_unhurried(("/no/such",), {"PATH": os.environ["PATH"]}, 30.0, lambda: True, str(tmp_path))
    assert missing is not None and missing.code not in (0, None)


@pytest.mark.parametrize(("go_on", "timeout_s"), [(False, 60.0), (True, 0.0)])
def test_an_unhurried_tool_is_killed_with_its_children(tmp_path: Path, go_on: bool, timeout_s: float) -> None:
    argv = ("sh", "-c", "sleep 600 & echo $! >child; wait")
    ready = tmp_path / "child"

    def asked() -> bool:
        deadline_at_s = time.monotonic() + 30
        while not (ready.exists() and ready.read_text().strip()) and time.monotonic() < deadline_at_s:
            time.sleep(0.01)
        return go_on

    ran = run_unhurried(argv, {"PATH": os.environ["PATH"]}, timeout_s, asked, str(tmp_path))
    assert ran is None if not go_on else ran is not None and ran.late
    child = Path("/proc") / ready.read_text().strip()
    deadline_at_s = time.monotonic() + 10
    while (
        child.exists() and (child / "stat").read_text().split()[2] != "Z" and time.monotonic() < deadline_at_s
    ):
        time.sleep(0.01)
    assert not child.exists() or (child / "stat").read_text().split()[2] == "Z"


# -- a start -----------------------------------------------------------------------------------------------------------


def test_a_start_gets_the_archive_of_its_host(
    make_spec: MakeSpec,
    assignment: Assignment,
    settings: Settings,
    real_toolchain: Toolchain,
    environ: dict[str, str],
    tmp_path: Path,
) -> None:
    runtime = settings.supervisor.model_copy(update={"runtime_dir": tmp_path / "runtime"})
    spark = settings.spark.model_copy(update={"class_archive": "auto"})
    settings = settings.model_copy(update={"supervisor": runtime, "spark": spark})
    (tmp_path / "app.py").touch()

    def started(settings: Settings = settings, **keys: object) -> tuple[str, dict[str, str]]:
        place = AttemptPlace(
            "h1",
            tmp_path / "run",
            tmp_path / "work",
            tmp_path / "log",
            environ=environ,
            state_dir=tmp_path / "state",
        )
        launch = make_launch(
            DriverStart(make_spec(**keys), assignment, settings, place), lambda key: tmp_path / "app.py"
        )
        return launch.class_archive, parse_properties((tmp_path / "work" / "spark.properties").read_text())

    assert started()[0] == "off: none has been made yet"
    directory, key = archives_dir(settings), key_of(real_toolchain)
    directory.mkdir(parents=True)
    (directory / "draft").write_bytes(b"x")
    file = shelf.keep(directory, key, directory / "draft", NAMES)
    said, properties = started(conf={OPTIONS_KEY: "-Dmine=1"})
    assert said == file.name
    assert properties[OPTIONS_KEY].endswith(f"-XX:SharedArchiveFile={file} {' '.join(LATE_C2)} -Dmine=1")
    assert properties[CLASS_PATH_KEY] == f"{real_toolchain.home}/jars/*"
    said, properties = started(conf={OPTIONS_KEY: "-XX:+UseZGC"})
    assert said.startswith("off: conf") and properties[OPTIONS_KEY].endswith("/t -XX:+UseZGC")
    off = settings.model_copy(update={"spark": settings.spark.model_copy(update={"class_archive": "off"})})
    assert started(off)[0] == f"off: {OFF}"
    (real_toolchain.home / "conf").mkdir()
    (real_toolchain.home / "conf" / "org").mkdir()
    assert "has org, as Spark's jars have" in started()[0]
