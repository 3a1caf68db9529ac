"""``stacks``: thread dumps of a driver of this host, and where to ask for those of another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.model.records import OwnState
from tests.fakes.running_driver import running_driver_of
from tests.unit.cli.conftest import Terminal


@pytest.fixture
def uid(terminal: Terminal) -> str:
    uid = terminal.submit("a")
    terminal.bench.run("a")
    return uid


def test_the_threads_of_the_driver_are_printed_as_often_as_asked(terminal: Terminal) -> None:
    uid = terminal.submit("rate-counts")
    terminal.bench.run("rate-counts")
    with running_driver_of(terminal.home / "run", "rate-counts", uid):
        ran = terminal.run("stacks", "rate-counts", "--times", "2", "--every", "100ms")
        assert ran.code == 0, ran.err
        assert ran.out.count("at waits_for_its_sink (<string>:") == 2
        assert ran.out.startswith("== thread dump 1 of 2 of python") and "== memory" not in ran.out
        assert "== thread dump" not in terminal.run("stacks", "rate-counts", "--jvm").out
        assert "at waits_for_its_sink" in terminal.run("stacks", "rate-counts", "--python").out
        document = json.loads(terminal.run("stacks", "rate-counts", "-o", "json").out)
        assert (document["name"], document["attempt"]) == ("rate-counts", 1)
        assert "at waits_for_its_sink" in document["stacks"]


def test_a_job_without_a_driver_has_no_threads(terminal: Terminal, uid: str) -> None:
    terminal.bench.set_own("a", OwnState.EXITED)
    ran = terminal.run("stacks", "a")
    assert (ran.code, "a has no driver now" in ran.err, "explain a" in ran.err) == (3, True, True)
    assert terminal.run("stacks", "b").code == 3


def test_a_driver_of_another_host_is_asked_there(terminal: Terminal, uid: str) -> None:
    terminal.bench.set_own("a", OwnState.CLAIMED, attempt=1, supervisor="host-b", host="host-b.example")
    ran = terminal.run("stacks", "a")
    assert ran.code == 1
    assert "attempt 1 of a runs on host-b.example: ssh host-b.example spark-supervisor stacks a" in ran.err


def test_a_run_directory_that_is_gone_or_is_none_is_an_error(terminal: Terminal, uid: str) -> None:
    assert "the attempt may just be ending" in terminal.run("stacks", "a").err
    directory = terminal.home / "run" / "attempts" / f"{uid}.1"
    directory.mkdir(parents=True)
    (directory / run_dir.LAUNCH).symlink_to("/etc/passwd")
    assert "does not exist" in terminal.run("stacks", "a").err
    (directory / run_dir.LAUNCH).unlink()
    (directory / run_dir.LAUNCH).write_text("{")
    assert "can't be read" in terminal.run("stacks", "a").err


def test_a_driver_that_has_just_ended(terminal: Terminal, uid: str, tmp_path: Path) -> None:
    with running_driver_of(terminal.home / "run", "a", uid):
        pass
    ran = terminal.run("stacks", "a")
    assert (ran.code, "nothing of the driver of a is seen here now" in ran.err) == (3, True)


@pytest.mark.parametrize(
    "wrong", [["--times", "0"], ["--times", "99"], ["--every", "1h"], ["--every", "soon"]]
)
def test_what_would_take_too_long_is_refused(terminal: Terminal, uid: str, wrong: list[str]) -> None:
    assert terminal.run("stacks", "a", *wrong).code == 2
