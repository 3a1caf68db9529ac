"""Logs of shims end up beside those of their drivers, and the store's state in the metrics; neither can stop the thread."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from supervisor.daemon.host.housekeeping import (
    ATTEMPTS_KEPT,
    ENDED,
    PREPARED_KEPT,
    Housekeeper,
    prune,
    put_aside,
)
from supervisor.errors import Unreachable
from supervisor.metrics import Metrics
from tests.waiting import wait_until


class Home:
    def __init__(self, directory: Path) -> None:
        self.ended, self.log_dir = directory / "run" / ENDED, directory / "log"
        self.ended.parent.mkdir()
        self.metrics = Metrics(lambda: 100.0)
        self.down = False
        self.keeper = Housekeeper(self.ended, self.log_dir, self.check, self.metrics)

    def check(self) -> None:
        if self.down:
            raise Unreachable("the store does not answer")

    def store_ok(self) -> float | None:
        return self.metrics.registry.get_sample_value("spark_supervisor_store_ok")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_log_is_kept_beside_the_drivers_output(home: Home) -> None:
    home.keeper.keep_logs()  # nothing was put aside yet
    log = home.ended.parent / "shim.log"
    log.write_text("{}\n")
    put_aside(log, home.ended, "clicks", "01abc-12.3")
    assert not log.exists()
    home.keeper.keep_logs()
    assert (home.log_dir / "clicks" / "01abc-12.3.shim.log").read_text() == "{}\n"
    assert list(home.ended.iterdir()) == []


def test_what_cannot_be_moved_stays_for_later(home: Home) -> None:
    log = home.ended.parent / "shim.log"
    log.write_text("{}\n")
    put_aside(log, home.ended, "clicks", "01abc-12.3")
    home.log_dir.write_text("a file where a directory should be")
    home.keeper.keep_logs()
    assert len(list(home.ended.iterdir())) == 1
    home.log_dir.unlink()
    home.keeper.keep_logs()
    assert (home.log_dir / "clicks" / "01abc-12.3.shim.log").exists()


def test_the_store_is_asked(home: Home) -> None:
    home.keeper.ask_store()
    assert home.store_ok() == 1
    home.down = True
    home.keeper.ask_store()
    assert home.store_ok() == 0
    home.down = False
    home.keeper.ask_store()
    assert home.store_ok() == 1


def test_what_nobody_foresaw_does_not_end_the_thread(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.daemon.host.housekeeping.PERIOD_S", 0.01)
    kept = threading.Event()

    def check() -> None:
        if not kept.is_set():
            kept.set()
            raise ZeroDivisionError("a defect in a library")

    home.keeper._check_store = check
    monkeypatch.setattr("supervisor.daemon.host.housekeeping.SELDOM_S", 0.0)
    home.keeper.start()
    wait_until(lambda: home.store_ok() == 1, 20, "the next question")
    home.keeper.stop()


def test_a_crash_loop_does_not_fill_the_disk(home: Home) -> None:
    """Of each job the newest attempts' logs are kept, all files of an attempt or none."""
    directory = home.log_dir / "clicks"
    directory.mkdir(parents=True)
    for attempt in range(1, ATTEMPTS_KEPT + 11):
        for name in (f"01abc-12.{attempt}.log", f"01abc-12.{attempt}.log.1"):
            (directory / name).write_text("output")
            os.utime(directory / name, (attempt, attempt))
    prune(directory)
    kept = {int(path.name.split(".")[1]) for path in directory.iterdir()}
    assert kept == set(range(11, ATTEMPTS_KEPT + 11))
    assert len(list(directory.iterdir())) == 2 * ATTEMPTS_KEPT


def test_what_the_guardian_did_not_put_there_is_left_alone(home: Home) -> None:
    home.ended.mkdir()
    home.log_dir.mkdir()
    for number in range(ATTEMPTS_KEPT + 5):
        (home.log_dir / f"supervisor.log.{number}").write_text("")
    (home.ended / ".log").write_text("of no job: its directory would be that of all logs")
    (home.ended / "clicks.01abc.log").write_text("of no attempt")
    os.mkfifo(home.ended / "clicks.01abc.1.log")
    (home.ended / "clicks.01abc.2.log").symlink_to("nowhere")
    home.keeper.keep_logs()
    assert len(list(home.ended.iterdir())) == 4
    assert len(list(home.log_dir.iterdir())) == ATTEMPTS_KEPT + 5


def test_logs_of_prepared_drivers_that_had_no_attempt_are_few_and_push_out_none_of_an_attempt(
    home: Home,
) -> None:
    directory = home.log_dir / "clicks"
    directory.mkdir(parents=True)
    for number in range(ATTEMPTS_KEPT):
        (directory / f"01abc-12.{number}.log").write_text("output")
    waiting = home.ended.parent / "attempts" / "01abc-12.pa0"
    waiting.mkdir(parents=True)
    for number in range(PREPARED_KEPT + 4):
        for name in (f"01abc-12.pa{number}.log", f"01abc-12.pa{number}.shim.log"):
            (directory / name).write_text("output")
            os.utime(directory / name, (number, number))
    log = home.ended.parent / "shim.log"
    log.write_text("{}\n")
    put_aside(log, home.ended, "clicks", "01abc-12.pb")
    home.keeper.keep_logs()
    assert len([*directory.glob("01abc-12.[0-9]*.log")]) == ATTEMPTS_KEPT
    kept = {path.name.split(".")[1] for path in directory.glob("01abc-12.p*.log")}
    assert kept == {"pa0", "pb", "pa5", "pa6"}, "the newest, and the one that still waits"


def test_a_prepared_driver_that_waits_takes_no_others_place(tmp_path: Path) -> None:
    """Also if it was the last to write."""
    for number in range(PREPARED_KEPT + 2):
        (tmp_path / f"01abc-12.pa{number}.log").write_text("output")
        os.utime(tmp_path / f"01abc-12.pa{number}.log", (number, number))
    newest = PREPARED_KEPT + 1
    prune(tmp_path, {f"01abc-12.pa{newest}"})
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {f"01abc-12.pa{number}.log" for number in range(1, newest + 1)}


def test_an_attempt_is_as_new_as_the_newest_of_its_files(tmp_path: Path) -> None:
    """What has rotated away is old, and which file is listed first is not known."""
    for attempt in range(ATTEMPTS_KEPT):
        (tmp_path / f"01abc-12.{attempt}.log").write_text("output")
        os.utime(tmp_path / f"01abc-12.{attempt}.log", (500 + attempt, 500 + attempt))
    newest = range(100, 108)
    for attempt in newest:
        for name, at_s in (("log", 1000 * (attempt % 2) + 1), ("log.1", 1000 * (1 - attempt % 2) + 1)):
            (tmp_path / f"01abc-12.{attempt}.{name}").write_text("output")
            os.utime(tmp_path / f"01abc-12.{attempt}.{name}", (at_s, at_s))
    prune(tmp_path)
    kept = {int(path.name.split(".")[1]) for path in tmp_path.iterdir()}
    assert kept == {*newest, *range(len(newest), ATTEMPTS_KEPT)}
