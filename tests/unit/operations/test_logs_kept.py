"""``operations.logs``: what an error says of the output that is kept here is bounded, whatever lies in the job's directory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from supervisor.operations import logs
from supervisor.operations.log_parts import has_parts
from supervisor.operations.logs import AttemptOutput, OutputPlace, missing

UID = "20261127-0412-k3v9"


def error_of(directory: Path) -> str:
    output = AttemptOutput("clicks", UID, 4711, directory / f"{UID}.4711.log")
    place = OutputPlace("", "", is_here=False, is_up=False, path=output.path, server="")
    own = SimpleNamespace(uid=UID, attempt=4711)
    job = SimpleNamespace(row=SimpleNamespace(name="clicks"), uid=UID, own=own, result=None)
    return str(missing(cast(Any, job), output, place))


def test_all_attempts_are_named_while_they_are_few(tmp_path: Path) -> None:
    for name in (f"{UID}.1.log", f"{UID}.10.log", f"{UID}.2.log.1", "other.3.log"):
        (tmp_path / name).touch()
    assert error_of(tmp_path).endswith("kept here is that of attempt 1, 2, 10")


def test_of_many_the_newest_are_named(tmp_path: Path) -> None:
    for number in range(1, 2001):
        (tmp_path / f"{UID}.{number}.log").touch()
    said = error_of(tmp_path)
    assert said.endswith("attempt 1993, 1994, 1995, 1996, 1997, 1998, 1999, 2000, and of 1992 earlier ones")
    (tmp_path / "few").mkdir()
    for number in range(1, 10):
        (tmp_path / "few" / f"{UID}.{number}.log").touch()
    assert error_of(tmp_path / "few").endswith("7, 8, 9, and of 1 earlier one")


@pytest.mark.parametrize("odd", ["\u00b2", "\u0663", "9" * 200, "", "-1", "1e3", "1\n", "x"])
def test_a_name_that_a_job_has_made_up_is_no_attempt(tmp_path: Path, odd: str) -> None:
    (tmp_path / f"{UID}.{odd}.log").touch()
    (tmp_path / f"{UID}.4711.log.{odd}").touch()
    (tmp_path / f"{UID}.7.log").touch()
    assert error_of(tmp_path).endswith("attempt 7, 4711")
    assert not has_parts(tmp_path / f"{UID}.4711.log")


def test_so_many_files_are_read_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILES_MAX", 5)
    for number in range(10):
        (tmp_path / f"{UID}.{number}.log").touch()
    assert error_of(tmp_path).rpartition(" of attempt ")[2].count(",") == 4


def test_there_is_no_directory(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none").endswith("nothing of this job is kept here")
