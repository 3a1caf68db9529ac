"""When this host makes its class-data archive: once, while no driver is starting, and never again and again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from supervisor.daemon.host import archive_ahead
from supervisor.daemon.host.archive_ahead import AGAIN_S, QUIET_S, ArchiveAhead
from supervisor.metrics import Metrics
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.settings.spark import SparkVersionSettings
from supervisor.spark.class_archive import shelf
from supervisor.spark.class_archive.assign import archives_dir
from supervisor.spark.class_archive.build import MadeArchive
from supervisor.spark.class_archive.key import ArchiveKey

Made = Callable[[ArchiveKey, Path], MadeArchive]


def kept(key: ArchiveKey, directory: Path) -> MadeArchive:
    directory.mkdir(exist_ok=True)
    (directory / "draft").write_bytes(b"classes")
    return MadeArchive(shelf.keep(directory, key, directory / "draft", ()))


class World:
    """A host with a clock; ``makes`` is what a training run comes to."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **spark: str) -> None:
        home, java = tmp_path / "spark", tmp_path / "java"
        for path in (home / "bin" / "spark-submit", java / "bin" / "java"):
            path.parent.mkdir(parents=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        (home / "jars").mkdir()
        (home / "jars" / "spark-core_2.13-4.3.0.jar").touch()
        self.release = java / "release"
        self.release.write_text('JAVA_VERSION="17.0.15"\n')
        body = {
            "cluster": "test",
            "zookeeper": {"hosts": "zk1:2181"},
            "store": {"url": f"file://{tmp_path}/store"},
            "supervisor": {"id": "s1", "runtime_dir": str(tmp_path / "runtime")},
            "spark": {"home": str(home), "java_home": str(java), **spark},
        }
        self.settings = validated(Settings, body, "supervisor.yaml")
        (tmp_path / "runtime").mkdir()
        self.now_s, self.starting, self.runs = 1000.0, False, 0
        self.makes: Made = kept
        self.metrics = Metrics(lambda: self.now_s)
        monkeypatch.setattr(archive_ahead, "boottime_s", lambda: self.now_s)
        monkeypatch.setattr(archive_ahead, "make_archive", self.make)
        self.ahead = self.supervisor()

    @property
    def directory(self) -> Path:
        return archives_dir(self.settings)

    def supervisor(self) -> ArchiveAhead:
        return ArchiveAhead(self.settings, lambda: self.starting, self.metrics, {"PATH": "/usr/bin:/bin"})

    def make(
        self, key: ArchiveKey, python: Path, directory: Path, environ: object, go_on: Callable[[], bool]
    ) -> MadeArchive:
        self.runs += 1
        assert go_on() and directory == self.directory
        return self.makes(key, directory)

    def after(self, seconds: float) -> list[str]:
        self.now_s += seconds
        with structlog.testing.capture_logs() as logs:
            self.ahead.round()
        return [line["event"] for line in logs]

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"spark_supervisor_{name}", labels)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_it_is_made_once_when_it_is_quiet(world: World) -> None:
    assert world.after(1.0) == [] and world.runs == 0
    assert world.value("class_archive_ready") == 0
    assert world.after(QUIET_S) == ["class_archive_made"]
    assert world.after(1000.0) == [] and world.runs == 1
    assert (world.value("class_archive_ready"), world.value("class_archives_total", outcome="made")) == (1, 1)


def test_each_spark_of_the_host_gets_one_the_default_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    default = world.settings.spark.home
    assert default is not None
    older = shutil.copytree(default, tmp_path / "older")
    versions = {"4.1": SparkVersionSettings(home=older), "gone": SparkVersionSettings(home=tmp_path / "gone")}
    spark = world.settings.spark.model_copy(update={"versions": versions})
    world.settings = world.settings.model_copy(update={"spark": spark})
    world.ahead, made = world.supervisor(), []

    def make(key: ArchiveKey, directory: Path) -> MadeArchive:
        made.append(key.home)
        return kept(key, directory)

    world.makes = make
    assert world.after(QUIET_S) == ["class_archive_made"] and world.value("class_archive_ready") == 0
    assert world.after(1.0) == ["class_archive_made"] and world.value("class_archive_ready") == 1
    assert world.after(1000.0) == [] and made == [default, older]
    assert len(list(world.directory.glob("*.jsa"))) == 2, "neither takes the place of the other"


def test_it_waits_for_starts_and_then_half_a_minute(world: World) -> None:
    world.starting = True
    assert world.after(1000.0) == []
    world.starting = False
    assert world.after(QUIET_S - 1) == [] and world.runs == 0
    assert world.after(1.0) == ["class_archive_made"]


def test_one_that_was_given_up_is_begun_again_when_it_is_quiet(world: World) -> None:
    def given_up(_key: ArchiveKey, _directory: Path) -> MadeArchive:
        world.starting = True
        assert not world.ahead._may_go_on()
        return MadeArchive(why="x", interrupted=True)

    world.makes = given_up
    assert world.after(QUIET_S) == ["class_archive_given_up"]
    assert world.after(QUIET_S) == []
    world.starting, world.makes = False, kept
    assert world.after(QUIET_S - 1) == []
    assert world.after(1.0) == ["class_archive_made"]
    assert world.value("class_archives_total", outcome="given_up") == 1


def test_a_failure_is_not_repeated_for_six_hours_but_for_another_java(world: World) -> None:
    world.makes = lambda _key, _directory: MadeArchive(why="no room")
    assert world.after(QUIET_S) == ["class_archive_not_made"]
    assert world.after(AGAIN_S - 1) == [] and world.runs == 1
    assert world.after(1.0) == ["class_archive_not_made"]
    world.release.write_text('JAVA_VERSION="21.0.1"\n')
    assert world.after(1.0) == ["class_archive_not_made"] and world.runs == 3


def test_another_java_gets_an_archive_of_its_own(world: World) -> None:
    world.after(QUIET_S)
    world.release.write_text('JAVA_VERSION="21.0.1"\n')
    assert world.after(1.0) == ["class_archive_made"]
    assert len(list(world.directory.glob("*.jsa"))) == 2


def test_the_next_supervisor_compares_it_with_its_checksum_and_makes_a_damaged_one_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.after(QUIET_S)
    world.ahead = world.supervisor()
    assert world.after(QUIET_S) == [] and world.runs == 1
    monkeypatch.setattr(shelf, "is_whole", lambda _note: False)
    assert world.after(QUIET_S) == [], "it is read once"
    world.ahead = world.supervisor()
    assert world.after(QUIET_S) == ["class_archive_damaged", "class_archive_made"]


def test_one_that_was_truncated_meanwhile_is_made_anew(world: World) -> None:
    world.after(QUIET_S)
    (file,) = world.directory.glob("*.jsa")
    file.chmod(0o600)
    file.write_bytes(b"")
    assert world.after(1.0) == ["class_archive_made"]


def test_an_untidy_directory_is_no_reason_to_stop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise PermissionError(13, "denied", "x")

    monkeypatch.setattr(shelf, "tidy", broken)
    assert world.after(QUIET_S) == ["class_archives_untidy", "class_archive_made", "class_archives_untidy"]


def test_without_spark_there_is_nothing_to_do(world: World) -> None:
    (world.settings.spark.home or Path()).joinpath("bin", "spark-submit").unlink()
    assert world.after(1000.0) == [] and world.runs == 0


def test_off_means_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch, class_archive="off")
    world.ahead.start()
    assert not world.ahead._thread.is_alive()
    world.ahead.stop()


def test_the_thread_ends_with_its_training_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_ahead, "PERIOD_S", 0.0)

    def until_stopped(_key: ArchiveKey, _directory: Path) -> MadeArchive:
        while world.ahead._may_go_on():
            pass
        return MadeArchive(why="x", interrupted=True)

    world.makes, world.now_s = until_stopped, 2000.0
    world.ahead.start()
    world.ahead.stop()
    assert not world.ahead._thread.is_alive()
