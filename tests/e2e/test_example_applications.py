"""The example applications of conf/, run with real Spark and no network, as their specs say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from supervisor.spec.files import read_spec_file
from supervisor.spec.job import JobSpec
from tests.testbed.driver_tree import kill_session
from tests.testbed.spark_fleet import LIGHT_JVM
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

CONF = Path(__file__).parents[2] / "conf"
SPARK_HOME = Path(pyspark.__file__).parent

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program in a session of its own, which is gone when the test ends."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str], **env: str) -> subprocess.Popen[bytes]:
        log = (tmp_path / f"{len(begun)}.log").open("wb")
        environ = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, **env}
        process = subprocess.Popen(
            argv,
            cwd=tmp_path,
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    kill_session(process.pid)
    process.wait(30)


def submit(name: str, tmp_path: Path) -> list[str]:
    """spark-submit of an example spec, with its output and checkpoint below ``tmp_path``."""
    spec = read_spec_file(CONF / "jobs" / f"{name}.yaml")
    conf = [part for key, value in spec.conf.items() for part in ("--conf", f"{key}={value}")]
    application = str((CONF / "jobs" / spec.application).resolve())
    return [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--master",
        spec.master,
        *conf,
        "--driver-java-options",
        LIGHT_JVM,
        application,
        *moved(spec, tmp_path),
    ]


def moved(spec: JobSpec, tmp_path: Path) -> list[str]:
    assert spec.checkpoint is not None
    home = spec.checkpoint.rpartition("/")[0]
    return [arg.replace(home, tmp_path.as_uri()) for arg in spec.application_args()]


def committed(checkpoint: Path) -> int:
    """The newest committed batch, -1 if there is none."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def test_rate_counts_goes_on_where_it_was_killed(start: Start, tmp_path: Path) -> None:
    argv, checkpoint = submit("rate-counts", tmp_path), tmp_path / "checkpoint"
    first = start(argv)
    wait_until(lambda: committed(checkpoint) >= 2 or first.poll() is not None, 240, "two batches")
    kill(first)
    before = committed(checkpoint)
    assert before >= 2, (tmp_path / "0.log").read_text()[-3000:]
    second = start(argv)
    wait_until(
        lambda: committed(checkpoint) >= before + 2 or second.poll() is not None, 240, "two batches more"
    )
    newest = committed(checkpoint)
    assert newest >= before + 2, (tmp_path / "1.log").read_text()[-3000:]
    written = {int(path.name.removeprefix("batch=")) for path in (tmp_path / "output").glob("batch=*")}
    assert set(range(newest + 1)) <= written


@pytest.mark.slow
def test_backfill_ends_by_itself_with_0(start: Start, tmp_path: Path) -> None:
    process = start(submit("backfill", tmp_path))
    assert process.wait(120) == 0, (tmp_path / "0.log").read_text()[-3000:]
    assert committed(tmp_path / "checkpoint") >= 2


@pytest.mark.slow
def test_session_counts_runs_with_a_session_of_ours(start: Start, tmp_path: Path) -> None:
    spec = read_spec_file(CONF / "jobs" / "session-counts.yaml")
    module, _, function = (spec.entry or "").partition(":")
    program = (
        f"import importlib; from pyspark.sql import SparkSession; spark = SparkSession.builder.getOrCreate(); "
        f"importlib.import_module({module!r}).{function}(spark); spark.streams.awaitAnyTermination()"
    )
    application = (CONF / "jobs" / spec.application).resolve()
    conf = [part for key, value in spec.conf.items() for part in ("--conf", f"{key}={value}")]
    process = start(
        [sys.executable, "-c", program, *moved(spec, tmp_path)],
        PYTHONPATH=str(application.parent),
        PYSPARK_SUBMIT_ARGS=shlex.join(
            ["--master", spec.master, *conf, "--driver-java-options", LIGHT_JVM, "pyspark-shell"]
        ),
        SPARK_SUPERVISOR_CHECKPOINT=(tmp_path / "checkpoint").as_uri(),
    )
    wait_until(lambda: committed(tmp_path / "checkpoint") >= 1 or process.poll() is not None, 240, "a batch")
    assert committed(tmp_path / "checkpoint") >= 1, (tmp_path / "0.log").read_text()[-3000:]
    assert (tmp_path / "output" / "_spark_metadata").is_dir()
