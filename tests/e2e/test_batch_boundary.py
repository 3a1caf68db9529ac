"""Real PySpark is stopped at a batch boundary: nothing is left to be replayed, and the next attempt goes on from there."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Cause, Ownership, OwnState, QueryState, StopMode
from supervisor.spark import bootstrap
from tests.testbed.attempts import Attempt, Attempts, eventually_closed
from tests.testbed.spark_fleet import LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

QUERIES = ("held", "files", "idle", "hourly")
START_S = 300.0

APPLICATION = """
import os, sys, time
from pyspark.sql import SparkSession

home = sys.argv[1]
spark = SparkSession.builder.getOrCreate()

def note(name, what):
    with open(f"{home}/{name}", "a") as file:
        file.write(f"{what}\\n")

def sink(frame, batch_id):
    frame.count()
    note("begun", batch_id)
    while os.path.exists(f"{home}/hold"):
        time.sleep(0.05)
    note("done", batch_id)

def start(name, frame, how):
    writer = frame.writeStream.queryName(name).option("checkpointLocation", f"{home}/ck/{name}")
    return how(writer.trigger(processingTime="500 milliseconds"))

rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
held = start("held", rate, lambda writer: writer.foreachBatch(sink).start())
start("files", rate, lambda writer: writer.format("parquet").start(f"{home}/out"))
start("idle", spark.readStream.schema("a int").json(f"{home}/in"), lambda writer: writer.format("noop").start())
start("hourly", rate, lambda writer: writer.format("noop").trigger(processingTime="1 hour").start())
held.awaitTermination()
note("after", "awaitTermination has returned")
"""


@pytest.fixture
def attempts(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[Attempts]:
    with eventually_closed(Attempts(embedded_ensemble.hosts, zk_root, tmp_path, None)) as made:
        yield made


class Home:
    """What the application and Spark wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "in").mkdir(parents=True)
        (directory / "conf").write_text(LIGHT_PROPERTIES)
        (directory / "app.py").write_text(APPLICATION)

    def argv(self) -> tuple[str, ...]:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        submit = Path(spec.origin).parent / "bin" / "spark-submit"
        options = ("--properties-file", f"{self.directory}/conf", "--master", "local[2]")
        return (str(submit), *options, bootstrap.__file__, f"{self.directory}/app.py", str(self.directory))

    def batches(self, name: str) -> list[int]:
        path = self.directory / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def newest(self, log: str, query: str) -> int:
        return max(
            (int(path.name) for path in (self.directory / "ck" / query / log).glob("[0-9]*")), default=-1
        )

    def logs(self) -> dict[str, tuple[int, int]]:
        return {query: (self.newest("offsets", query), self.newest("commits", query)) for query in QUERIES}

    def hold(self) -> int:
        """The batch that the sink holds from now on."""
        (self.directory / "hold").touch()
        wait_until(lambda: len(self.batches("begun")) > len(self.batches("done")), 120, "a batch to be held")
        return self.batches("begun")[-1]

    def release(self) -> None:
        (self.directory / "hold").unlink()


def log_of(attempt: Attempt) -> str:
    path = Path(attempt.launch.log_path)
    return path.read_text()[-4000:] if path.exists() else ""


def ended(attempts: Attempts, attempt: Attempt) -> Ownership:
    try:
        return attempts.wait_state(attempt, OwnState.EXITED, START_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log_of(attempt)}") from None


def assigned(attempts: Attempts, home: Home, at_least: int, stop_grace_s: float) -> Attempt:
    """An attempt whose busy queries have made some batches."""
    attempt = attempts.assign(
        argv=home.argv(),
        lease_s=60.0,
        start_timeout_s=START_S,
        stall_timeout_s=START_S,
        stop_grace_s=stop_grace_s,
    )
    done = len(home.batches("done"))

    def busy() -> bool:
        return len(home.batches("done")) >= done + at_least and home.newest("commits", "files") >= at_least

    wait_until(busy, START_S, "some batches")
    return attempt


@pytest.mark.timeout(900)
def test_stop_and_go_on(attempts: Attempts, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = assigned(attempts, home, 2, stop_grace_s=200.0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'{"order": "look"}', f"{first.directory}/orders")

    def shown() -> dict[str, QueryState]:
        lease = attempts.lease(first)
        return {query.query or "": query.state for query in lease[0].queries} if lease else {}

    wait_until(
        lambda: shown().get("hourly") is QueryState.IDLE, 60, "the look to find that it waits for its trigger"
    )
    assert set(shown()) == set(QUERIES)

    held = home.hold()
    attempts.move(first, OwnState.DRAINING)
    wait_until(lambda: "asked to stop" in log_of(first), 60, "the order to arrive")
    assert attempts.state(first) is OwnState.DRAINING
    home.release()
    own = ended(attempts, first)
    assert (own.cause, own.stop_mode, own.exit_code) == (Cause.STOPPED, StopMode.BATCH_BOUNDARY, 0), log_of(
        first
    )
    stopped = home.logs()
    assert all(offset == commit for offset, commit in stopped.values()), stopped
    assert stopped["held"][1] == home.batches("done")[-1] >= held
    assert (home.directory / "after").exists()

    second = assigned(attempts, home, 1, stop_grace_s=6.0)
    done = home.batches("done")
    assert done == home.batches("begun")[: len(done)] == list(range(len(done))), (
        "each batch once, none left out"
    )
    held = home.hold()
    attempts.move(second, OwnState.DRAINING)
    own = ended(attempts, second)
    assert own.stop_mode in (StopMode.SIGTERM, StopMode.SIGKILL)
    assert home.logs()["held"] == (held, held - 1), "the batch that did not end in time is to be replayed"
