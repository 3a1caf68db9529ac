"""``demo`` and ``dev`` as a user runs them: real ZooKeeper, real supervisors, real Spark, in a process of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.program import LONG_S, Start
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_demo_shows_all_of_its_story(start: Start) -> None:
    demo = start("demo", "--fast")
    assert demo.process.wait(600) == 0, demo.text
    text = " ".join(demo.text.split())
    for printed in (
        "1/7 Start a fleet",
        "alpha leads, beta stands by",
        "2/7 Submit a job",
        "clicks: submitted",
        "batch: number 0",
        "3/7 Kill the leader",
        "beta leads",
        "the driver is still process",
        "4/7 Kill the driver",
        "noticed after",
        "attempt 2",
        "5/7 Change the job while it runs",
        "clicks: updated to revision 2",
        "attempt 3",
        "given up: ",
        "SyntaxError",
        "attempt 4",
        "6/7 Cancel the job",
        "clicks: cancelled",
        "the driver is gone",
        "7/7 Kill the leader again",
        "alpha has read the registry",
        "no process of the job on this machine",
        "NAME STATE",
        "What was observed",
    ):
        assert printed in text, f"{printed!r} is not in:\n{demo.text}"
    assert len(re.findall(r"^  ok ", demo.text, re.MULTILINE)) == 11 and "FAILED" not in text
    assert "\033" not in demo.text
    assert not demo.directory.exists() and demo.left() == []


def test_a_demo_that_is_killed_leaves_nothing_behind(start: Start) -> None:
    demo = start("demo", "--fast")
    demo.wait_for("has started the driver")
    assert len(demo.left()) >= 3 + 2 + 1
    demo.process.kill()
    wait_until(lambda: demo.left() == [], 60, "the end of everything")
    wait_until(lambda: not demo.directory.exists(), 60, "the removal of the directory")


def test_a_demo_that_is_interrupted_ends_everything(start: Start) -> None:
    demo = start("demo", "--keep")
    demo.wait_for("clicks: submitted")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(120) == 130, demo.text
    assert demo.left() == []
    assert (demo.directory / "alpha" / "supervisor.log").exists() and "Traceback" not in demo.text


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_dev_is_there_to_be_used(start: Start, tmp_path: Path) -> None:
    dev = start("dev")
    dev.wait_for("Ctrl-C here ends everything")
    config = re.search(r"export SPARK_SUPERVISOR_CONFIG=(\S+)", dev.text)
    leader = re.search(r"(\w+) +leads +pid (\d+) +(http://127\.0\.0\.1:\d+)", dev.text)
    assert (
        config is not None
        and leader is not None
        and len(re.findall(r"http://127\.0\.0\.1:\d+", dev.text)) == 2
    )
    environ = os.environ | {"SPARK_SUPERVISOR_CONFIG": config[1]}

    def command(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "supervisor.cli.main", *arguments],
            cwd=dev.directory,
            env=environ,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "clicks: submitted" in command("submit", "jobs/clicks.yaml", "--wait", "--timeout", "5m")
    wait_until(lambda: (dev.directory / "record.jsonl").exists(), LONG_S, "a batch of the sample job")
    wait_until(lambda: "running" in command("list"), LONG_S, "a committed batch of it", period_s=1.0)
    os.kill(int(leader[2]), signal.SIGKILL)
    dev.wait_for(f"supervisor {leader[1]} is started: pid ")
    assert f"(pid {leader[2]}) has ended" in dev.text
    wait_until(
        lambda: answers(f"{leader[3]}/livez"),
        LONG_S,
        "the new one at the address of the old one",
        period_s=1.0,
    )
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(120) == 0, dev.text
    assert "nothing was left behind" in dev.text
    assert dev.left() == [] and not dev.directory.exists()


def test_without_java_the_remedy_is_told(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    for name in ("demo", "dev"):
        running = start(name)
        assert running.process.wait(60) == 1
        assert running.text.count("\n") == 1 and "install Java 17" in running.text
        assert list(tmp_path.glob("spark-supervisor-*")) == []
