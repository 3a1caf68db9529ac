"""The output that a host keeps has a limit for each job and one for all: the oldest goes first, what is being written never."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.daemon.host.housekeeping import ENDED, Housekeeper
from supervisor.daemon.host.log_limits import LogLimit, list_logs, remove_surplus
from supervisor.metrics import Metrics

KIB = 1024


class Logs:
    """A log directory whose files have one KiB each; the later one is written, the newer it is."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._written = directory, 1000.0

    def write(self, job: str, *names: str) -> None:
        (self.directory / job).mkdir(parents=True, exist_ok=True)
        for name in names:
            path = self.directory / job / name
            path.write_bytes(b"x" * KIB)
            self._written += 1.0
            os.utime(path, (self._written, self._written))

    def left(self, job: str) -> set[str]:
        return {path.name for path in (self.directory / job).iterdir()}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "log")


def test_the_oldest_of_a_job_goes_first(logs: Logs) -> None:
    logs.write(
        "clicks",
        "01abc-12.1.log",
        "01abc-12.1.shim.log",
        "01abc-12.2.log.1",
        "01abc-12.2.log",
        "01abc-12.3.log",
    )
    logs.write("other", "01abd-34.1.log")
    gone = remove_surplus(logs.directory, LogLimit(3 * KIB, 100 * KIB), ())
    assert gone == {"clicks": 2 * KIB}
    assert logs.left("clicks") == {"01abc-12.2.log.1", "01abc-12.2.log", "01abc-12.3.log"}
    assert logs.left("other") == {"01abd-34.1.log"}


def test_the_oldest_of_the_host_goes_first(logs: Logs) -> None:
    logs.write("clicks", "01abc-12.1.log", "01abc-12.2.log")
    logs.write("other", "01abd-34.1.log", "01abd-34.2.log")
    assert remove_surplus(logs.directory, LogLimit(100 * KIB, 3 * KIB), ()) == {"clicks": KIB}
    assert logs.left("clicks") == {"01abc-12.2.log"}


def test_what_is_being_written_is_never_removed(logs: Logs) -> None:
    """Also if it has not been written to for long, and there is no room for it."""
    logs.write("clicks", "01abc-12.p7.log", "01abc-12.3.log", "01abc-12.3.diagnostics.txt")
    logs.write("clicks", "01abc-12.3.log.2", "01abc-12.3.log.1", "01abc-12.2.log", "01abc-12.1.log")
    there = {"01abc-12.3", "01abc-12.p7"}
    remove_surplus(logs.directory, LogLimit(KIB, KIB), there)
    kept = {"01abc-12.p7.log", "01abc-12.3.log", "01abc-12.3.diagnostics.txt"}
    assert logs.left("clicks") == kept | {
        "01abc-12.1.log"
    }  # the newest of a job: another supervisor may write it


def test_what_a_supervisor_has_not_written_stays(logs: Logs) -> None:
    logs.write("clicks", "notes.txt", "01abc-12.1.log")
    logs.write(".uploads", "01abc-12.1.log")
    (logs.directory / "clicks" / "01abc-12.2.log").symlink_to("/etc/passwd")
    assert [file.path.name for file in list_logs(logs.directory)] == ["01abc-12.1.log"]
    assert remove_surplus(logs.directory, LogLimit(0, 0), ()) == {}


def test_a_driver_that_writes_fast_takes_no_more_than_its_limit(logs: Logs, tmp_path: Path) -> None:
    attempts = tmp_path / "run" / "attempts"
    attempts.mkdir(parents=True)
    limit = LogLimit(50 * KIB, 80 * KIB)
    keeper = Housekeeper(
        tmp_path / "run" / ENDED, logs.directory, lambda: None, Metrics(lambda: 1.0), limit=limit
    )
    for number in range(1, 101):
        (attempts / f"01abc-12.{number}").mkdir()
        logs.write("clicks", *(f"01abc-12.{number}.log{end}" for end in (".4", ".3", ".2", ".1", "")))
        logs.write(f"job{number % 3}", f"01abd-34.{number}.log")
        keeper.limit_logs()
        assert len(logs.left("clicks")) <= 50
        assert sum(file.size_bytes for file in list_logs(logs.directory)) <= 80 * KIB
        assert f"01abc-12.{number}.log" in logs.left("clicks")
        (attempts / f"01abc-12.{number}").rmdir()


def test_of_a_job_stays_what_its_driver_wrote_last(logs: Logs) -> None:
    """Not what a shim or a dump of the same attempt has written since: nobody goes on with these."""
    logs.write("clicks", "01abc-12.1.log", "01abc-12.1.shim.log", "01abc-12.1.diagnostics.txt")
    remove_surplus(logs.directory, LogLimit(0, 0), ())
    assert logs.left("clicks") == {"01abc-12.1.log"}


def test_what_goes_for_its_job_leaves_room_for_the_others(logs: Logs) -> None:
    logs.write("other", "01abd-34.1.log", "01abd-34.2.log")
    logs.write("clicks", *(f"01abc-12.{number}.log" for number in range(1, 5)))
    assert remove_surplus(logs.directory, LogLimit(2 * KIB, 4 * KIB), ()) == {"clicks": 2 * KIB}
    assert logs.left("other") == {"01abd-34.1.log", "01abd-34.2.log"}


def test_what_frees_no_room_stays(logs: Logs) -> None:
    """An empty output says that the driver wrote nothing."""
    logs.write("clicks", "01abc-12.1.log", "01abc-12.2.log", "01abc-12.3.log")
    (logs.directory / "clicks/01abc-12.1.log").write_bytes(b"")
    os.utime(logs.directory / "clicks/01abc-12.1.log", (1.0, 1.0))
    remove_surplus(logs.directory, LogLimit(KIB, KIB), ())
    assert logs.left("clicks") == {"01abc-12.1.log", "01abc-12.3.log"}


def test_a_link_to_a_directory_is_no_job(logs: Logs, tmp_path: Path) -> None:
    elsewhere = Logs(tmp_path / "elsewhere")
    elsewhere.write("clicks", "01abc-12.1.log", "01abc-12.2.log")
    logs.directory.mkdir()
    (logs.directory / "clicks").symlink_to(elsewhere.directory / "clicks")
    assert remove_surplus(logs.directory, LogLimit(0, 0), ()) == {}
    assert len(elsewhere.left("clicks")) == 2


def test_only_what_went_is_told(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.write("clicks", "01abc-12.1.log", "01abc-12.2.log", "01abc-12.3.log")
    unlink = Path.unlink

    def refused(path: Path) -> None:
        if path.name == "01abc-12.1.log":
            raise PermissionError(13, "no")
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refused)
    assert remove_surplus(logs.directory, LogLimit(0, 0), ()) == {"clicks": KIB}
