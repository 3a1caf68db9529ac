"""The light drivers do what tests/fakes/README.md says, for every test that leans on them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.report_socket import ReportSocket
from tests.waiting import wait_until

SUBMIT = Path(__file__).parent.parent / "fakes" / "spark" / "bin" / "spark-submit"


class Run:
    """One light driver in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self.attempt = 0

    def start(self, *args: str, knobs: dict[str, Any] | None = None, words: tuple[str, ...] = ()) -> None:
        self.attempt += 1
        app = self.directory / "app.py"
        app.write_text(f"# {json.dumps(knobs or {})}\n")
        properties = self.directory / "properties"
        properties.touch(mode=0o600)
        env = {
            "PATH": os.environ["PATH"],
            "PYSPARK_PYTHON": sys.executable,
            "WITNESS": str(self.directory / "witness"),
            "SPARK_SUPERVISOR_JOB": "j",
            "SPARK_SUPERVISOR_UID": "u",
            "SPARK_SUPERVISOR_ATTEMPT": str(self.attempt),
            "SPARK_SUPERVISOR_CHECKPOINT": f"file://{self.directory}/ck",
            "SPARK_SUPERVISOR_REPORT": str(self.directory / "report"),
        }
        options = ("--properties-file", str(properties), "--name", "j")
        command = [str(SUBMIT), *options, "/x/bootstrap.py", *words, str(app), *args]
        self.process = subprocess.Popen(command, env=env)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(30)

    def lines(self, event: str) -> list[dict[str, Any]]:
        path = self.directory / "witness"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in found if line["event"] == event]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
    for line in made.lines("start"):
        if line["role"] != "driver":
            try:
                os.kill(line["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_batches_go_on_where_the_last_attempt_committed(run: Run) -> None:
    with ReportSocket(run.directory) as reports:
        run.start(knobs={"exit_after_batches": 3, "batch_s": 0.02})
        assert run.wait() == 0
        assert reports.names() == ["begun", "session", "query", "progress", "progress", "progress", "ended"]
    run.start("batch_s=0.02", "exit_after_batches=2", "exit_code=5")
    assert run.wait() == 5
    assert [line["batch_id"] for line in run.lines("batch")] == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in (run.directory / "ck" / "commits").iterdir()) == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]
    assert [line["code"] for line in run.lines("stop")] == [0, 5]
    assert all(line.keys() >= {"job", "uid", "attempt", "pid", "boottime", "t"} for line in run.lines("beat"))


def test_stop_on_sigterm(run: Run) -> None:
    run.start()
    wait_until(lambda: run.lines("beat"), 10, "a beat")
    assert run.process is not None
    run.process.terminate()
    assert run.wait() == 143
    assert run.lines("stop")


def test_ignored_sigterm(run: Run) -> None:
    run.start("ignore_term=true", "beat_s=0.02")
    wait_until(lambda: run.lines("beat"), 10, "a beat")
    assert run.process is not None
    run.process.terminate()
    seen = time.clock_gettime(time.CLOCK_BOOTTIME)
    wait_until(lambda: run.lines("beat")[-1]["boottime"] > seen + 0.3, 10, "beats after SIGTERM")
    assert run.process.poll() is None


def test_children_that_survive(run: Run) -> None:
    run.start(
        "child=true", "setsid_child=true", "child_ignores_term=true", "kill_self=9", "exit_after_batches=2"
    )
    assert run.wait() == -9
    starts = wait_until(lambda: len(run.lines("start")) == 3 and run.lines("start"), 10)
    roles = {line["role"]: line["pid"] for line in starts or ()}
    assert set(roles) == {"driver", "child", "setsid_child"}
    assert os.getsid(roles["setsid_child"]) != os.getsid(roles["child"])
    ended = run.lines("stop")[0]["boottime"]
    wait_until(
        lambda: {b["role"] for b in run.lines("beat") if b["boottime"] > ended} == {"child", "setsid_child"},
        10,
    )


def test_a_hanging_submit_says_nothing(run: Run) -> None:
    with ReportSocket(run.directory) as reports:
        run.start("hang_before_begin=true", "beat_s=0.02")
        wait_until(lambda: len(run.lines("beat")) > 5, 10, "beats")
        assert reports.names() == []


def test_a_crash_loop_that_heals(run: Run) -> None:
    for code in (1, 1, 0):
        run.start("fail_attempts=2", "exit_after_batches=1")
        assert run.wait() == code


def test_exit_when_told(run: Run) -> None:
    run.start(f"exit_when={run.directory}/{{job}}.{{attempt}}", "exit_code=4")
    wait_until(lambda: run.lines("batch"), 10, "a batch")
    (run.directory / "j.1").touch()
    assert run.wait() == 4


def test_quoted_words_and_what_was_given(run: Run) -> None:
    app = f"{run.directory}/app.py".replace(".", "%2E")
    run.start(words=("--quoted", app, "record_argv=true", "exit_after_s=0"))
    assert run.wait() == 0
    assert "record_argv=true" in run.lines("start")[0]["argv"]
