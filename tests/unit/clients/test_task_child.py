"""Work in a process of its own: its answer, its end when it is not wanted, too slow, or when we die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.clients import umask
from supervisor.clients.task_child import TaskEnded, run_task
from supervisor.errors import SupervisorError, TimedOut
from tests.waiting import wait_until

CHILD = """
import json, os, sys, time
from pathlib import Path
from supervisor.clients.task_child import serve
def work(task):
    Path(task["pid"]).write_text(f"{os.getpid()} {os.nice(0)}")
    time.sleep(task.get("sleep", 0))
    if task.get("die"):
        os._exit(7)
    return {"twice": 2 * task["number"], "argv": sys.argv, "blob": "x" * task.get("bytes", 0)}
serve(work)
"""

PARENT = """
import sys
from supervisor.clients.task_child import run_task
run_task("some_child", {"number": 1, "pid": sys.argv[1], "sleep": 600}, 600, lambda: True)
"""


@pytest.fixture(autouse=True)
def some_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_child.py").write_text(CHILD)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    )


@pytest.fixture
def pid(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def is_gone(pid: Path) -> bool:
    try:
        os.kill(int(pid.read_text().split()[0]), 0)
    except ProcessLookupError:
        return True
    return False


def test_it_answers_at_low_priority_and_nothing_stands_in_its_argv(pid: Path) -> None:
    answer = run_task("some_child", {"number": 21, "pid": str(pid), "bytes": 1 << 20}, 60, lambda: True)
    assert (answer["twice"], len(answer["blob"]), len(answer["argv"])) == (42, 1 << 20, 2)
    assert int(pid.read_text().split()[1]) >= min(19, os.nice(0) + 10)
    assert is_gone(pid)


def test_it_writes_with_the_umask_of_the_host(pid: Path) -> None:
    before = os.umask(0o022)
    try:
        with umask.private():
            run_task("some_child", {"number": 1, "pid": str(pid)}, 60, lambda: True)
    finally:
        os.umask(before)
    assert pid.stat().st_mode & 0o777 == 0o644


def test_it_is_ended_when_it_is_not_wanted_any_more(pid: Path) -> None:
    with pytest.raises(TaskEnded):
        run_task("some_child", {"number": 1, "pid": str(pid), "sleep": 600}, 600, lambda: not pid.exists())
    assert is_gone(pid)


def test_it_is_ended_when_it_takes_too_long() -> None:
    with pytest.raises(TimedOut, match="not done after"):
        run_task("some_child", {"number": 1, "pid": "/dev/null", "sleep": 600}, 0.5, lambda: True)


def test_one_that_dies_is_told(pid: Path) -> None:
    with pytest.raises(SupervisorError, match="some_child ended with 7"):
        run_task("some_child", {"number": 1, "pid": str(pid), "die": True}, 60, lambda: True)


def test_it_ends_with_us_however_we_die(pid: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(pid)])
    try:
        wait_until(lambda: pid.exists() and pid.read_text(), 30, "the child")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: is_gone(pid), 30, "the end of the child")
