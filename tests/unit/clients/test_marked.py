"""Processes are found by what they were born with, wherever they went, and nobody else is touched."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from supervisor.clients import processes
from supervisor.clients.marked import find_marked, is_marked, kill_marked
from tests.waiting import wait_until

MARKER = "TEST_MARKER"


@pytest.fixture
def value() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def stranger(value: str) -> Iterator[subprocess.Popen[bytes]]:
    """Its marker only begins like ours."""
    with subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: f"{value}x"}) as process:
        yield process
        process.kill()


def test_a_tree_is_found_and_killed(value: str, stranger: subprocess.Popen[bytes]) -> None:
    program = "import os, time; os.fork() or (os.setsid(), os.fork()); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], env=os.environ | {MARKER: value}) as root:
        wait_until(lambda: len(find_marked(MARKER, value)) == 3, 20, "three processes")
        assert root.pid in [process.pid for process in find_marked(MARKER, value)]
        assert kill_marked(MARKER, value, 10.0)
        assert find_marked(MARKER, value) == []
    assert stranger.poll() is None


def test_this_process_is_never_found(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_marked(os.getpid(), MARKER, value)
    name, present = next(iter(os.environ.items()))
    assert os.getpid() not in [process.pid for process in find_marked(name, present)]


def test_one_that_cannot_be_signalled_keeps_no_other_alive(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill, refused = processes.kill, list[int]()

    def kill_but_the_first(process: processes.ProcessId) -> None:
        if not refused or process.pid in refused:
            refused[:] = [process.pid]
            raise OSError(errno.EMFILE, "too many open files")
        kill(process)

    marked = os.environ | {MARKER: value}
    with (
        subprocess.Popen(["sleep", "60"], env=marked) as one,
        subprocess.Popen(["sleep", "60"], env=marked) as two,
    ):
        wait_until(lambda: len(find_marked(MARKER, value)) == 2, 20, "two processes")
        with monkeypatch.context() as patch:
            patch.setattr(processes, "kill", kill_but_the_first)
            assert not kill_marked(MARKER, value, 0.5)
        assert {one.poll() is None, two.poll() is None} == {True, False}
        assert kill_marked(MARKER, value, 10.0)


def test_a_scan_that_fails_proves_nothing(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> object:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(processes, "all_stats", refused)
    assert not kill_marked(MARKER, value, 0.1)


def test_nobody_is_there_to_be_killed(value: str) -> None:
    assert kill_marked(MARKER, value, 0.0)
    assert not is_marked(2**22 + 1, MARKER, value)
