"""What a failpoint does to a process: at the n-th pass, before or after the call, in the process of that job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.clients import processes
from tests.crash_points.points import Arm, Control, Point, moments
from tests.crash_points.run import Task
from tests.waiting import wait_until

PROGRAM = """
import sys
from supervisor.clients import run_dir
for number in range(3):
    try:
        run_dir.write_atomically(sys.argv[1], str(number).encode())
    except OSError as error:
        print(number, error.strerror)
"""


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control")


def start(control: Control, target: Path, job: str = "a") -> subprocess.Popen[str]:
    env = {**os.environ, **control.env, "CRASH_POINTS_JOB": job}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, str(target)], env=env, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def rename(control: Control, tmp_path: Path) -> str:
    """The point at which the file appears under its name, as a process says itself."""
    control.record()
    start(control, tmp_path / "recorded").communicate(timeout=60)
    passed = control.recorded()
    control.off()
    (point,) = [point for point in passed if point.op == "os.rename"]
    assert passed[point] == 3 and point.role == "cli"
    return str(point)


def test_passes_are_counted_by_process(control: Control, tmp_path: Path) -> None:
    """Or the middle one of three processes that pass once would be the second, which none of them comes to."""
    control.record()
    for number in range(2):
        start(control, tmp_path / str(number)).communicate(timeout=60)
    (times,) = [times for point, times in control.recorded().items() if point.op == "os.rename"]
    assert times == 3


@pytest.mark.parametrize(("moment", "left"), [("before", "0"), ("after", "1")])
def test_killed_at_the_second_pass(
    control: Control, tmp_path: Path, rename: str, moment: str, left: str
) -> None:
    control.arm(arm := Arm("x", rename, moment, 2, "kill"))
    process = start(control, tmp_path / "file")
    assert process.wait(60) == -signal.SIGKILL
    assert (tmp_path / "file").read_text() == left
    hit = control.hit(arm)
    assert hit is not None and hit.pid == process.pid


def test_it_strikes_once_whoever_comes_by_later(control: Control, tmp_path: Path, rename: str) -> None:
    control.arm(Arm("x", rename, "before", 1, "kill"))
    assert start(control, tmp_path / "file").wait(60) == -signal.SIGKILL
    assert start(control, tmp_path / "file").wait(60) == 0


@pytest.mark.parametrize(("moment", "left"), [("before", "1"), ("after", "2")])
def test_the_call_fails(control: Control, tmp_path: Path, rename: str, moment: str, left: str) -> None:
    control.arm(Arm("x", rename, moment, 3, "raise"))
    out, _ = start(control, tmp_path / "file").communicate(timeout=60)
    assert out == "2 Input/output error\n"
    assert (tmp_path / "file").read_text() == left


def test_a_paused_process_goes_on(control: Control, tmp_path: Path, rename: str) -> None:
    control.arm(arm := Arm("x", rename, "after", 1, "pause"))
    process = start(control, tmp_path / "file")
    hit = wait_until(lambda: control.hit(arm), 60, "the failpoint to be hit")

    def stopped() -> bool:
        found = processes.stat(hit.pid)
        return found is not None and found.state == "T"

    wait_until(stopped, 60, "the process to be stopped")
    assert (tmp_path / "file").read_text() == "0"
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(60) == 0
    assert (tmp_path / "file").read_text() == "2"


def test_only_the_process_of_that_job(control: Control, tmp_path: Path, rename: str) -> None:
    control.arm(Arm("x", rename, "before", 1, "kill", job="b"))
    assert start(control, tmp_path / "file", "a").wait(60) == 0
    assert start(control, tmp_path / "file", "b").wait(60) == -signal.SIGKILL


def test_which_moments_are_runs_of_their_own() -> None:
    reading, writing = Point("cli", "a:f:1", "", "os.stat"), Point("cli", "a:f:1", "", "os.rename")
    assert moments(writing, "kill") == ("before", "after")
    assert moments(reading, "kill") == ("before",) and moments(reading, "pause") == ("after",)
    assert moments(reading, "kill", every=True) == ("before", "after")
    assert moments(Point("starter", "a:f:1", "", "os.execve"), "kill") == ("before",)


def test_a_run_is_read_as_it_is_told() -> None:
    points = (("shim|a:b:1||zookeeper.commit claim", "before", 1), ("cli|c:d:2|e:f:3|os.open", "after", 2))
    for mode, modes in (("kill+pause", ("kill", "pause")), ("kill", ("kill", "kill"))):
        run = Task("launch", mode, points)
        assert Task.parse(f"{run.scenario} {run.title}") == run and run.modes == modes
