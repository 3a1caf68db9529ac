"""The bootstrap with real PySpark: what it reports, and that the application does not notice it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from supervisor.clients.run_dir import GATE, StartVerdict, write_verdict
from supervisor.model.web_address import web_address
from supervisor.spark import bootstrap
from tests.fakes.report_socket import ReportSocket
from tests.testbed.driver_tree import driver_tree
from tests.testbed.spark_fleet import LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

QUERIES = """
import os, sys, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

OFFSET = 1000

@udf(LongType())
def shifted(value):
    return value + OFFSET

def sink(frame, batch_id):
    rows = frame.select(shifted("value").alias("v")).collect()
    assert all(row.v >= OFFSET for row in rows)
    frame.foreach(lambda row: row.value + OFFSET)

assert sys.argv[1:] == ["--topic", "a b", "ü\\r\\nline", "it's \\"$HOME\\" `id` *\\\\", "\\U0001F600", ""], sys.argv
spark = SparkSession.builder.appName("own name").getOrCreate()
assert SparkSession.builder.getOrCreate() is spark
other = spark.newSession()

def start(session, name):
    rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    return rate.writeStream.queryName(name).foreachBatch(sink).trigger(processingTime="200 milliseconds").start()

first, second = start(spark, "first"), start(other, "second")
deadline = time.time() + 150
while time.time() < deadline and not all((q.lastProgress or {"batchId": 0})["batchId"] >= 2 for q in (first, second)):
    time.sleep(0.1)
first.stop()
second.stop()
while time.time() < deadline and not os.path.exists("told"):      # Spark tells its listeners later
    time.sleep(0.1)
sys.exit(7)
"""


@pytest.fixture
def reports(tmp_path: Path) -> Iterator[ReportSocket]:
    with ReportSocket(tmp_path) as sock:
        yield sock


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def environment(reports: ReportSocket) -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_SUPERVISOR_REPORT": str(reports.path)}


def run(
    command: list[str], env: dict[str, str], cwd: Path, reports: ReportSocket
) -> subprocess.CompletedProcess[str]:
    """Read the reports while the process runs: the kernel keeps only some of them for a reader who is away.

    The file ``told`` in ``cwd`` says to the process that the end of two queries has been reported.
    """

    def over() -> bool:
        reports.take()
        if reports.names().count("terminated") == 2:
            (cwd / "told").touch()
        return process.poll() is not None

    with driver_tree(command, env=env, cwd=cwd, log=cwd / "log") as process:
        wait_until(over, 240, "the driver to end")
    return subprocess.CompletedProcess(command, process.wait(), (cwd / "log").read_text())


def submit(
    tmp_path: Path, reports: ReportSocket, source: str, *args: str
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "conf").write_text(LIGHT_PROPERTIES)
    (tmp_path / "app.py").write_text(source)
    words = [quote(word, safe="/") for word in (str(tmp_path / "app.py"), *args)]
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        "--properties-file",
        str(tmp_path / "conf"),
        "--master",
        "local[1]",
        bootstrap.__file__,
        "--quoted",
        *words,
    ]
    return run(command, environment(reports), tmp_path, reports)


def test_an_application_reports_and_notices_nothing(tmp_path: Path, reports: ReportSocket) -> None:
    """UDF, foreachBatch and lambdas of ``__main__``, two sessions, odd arguments, an exit code of its own."""
    done = submit(
        tmp_path, reports, QUERIES, "--topic", "a b", "ü\r\nline", 'it\'s "$HOME" `id` *\\', "\U0001f600", ""
    )
    assert done.returncode == 7, done.stdout[-3000:]
    names = reports.names()
    assert names[:3] == ["begun", "session", "query"]
    assert names.count("begun") == 1
    assert "spark_ui" not in reports.taken[1], "these properties turn it off"
    assert names[-1] == "error"
    assert reports.taken[-1]["kind"] == "SystemExit"
    for query in ("first", "second"):
        of_query = [event for event in reports.taken if event.get("query") == query]
        assert of_query[0]["event"] == "query"
        assert of_query[-1]["event"] == "terminated"
        assert of_query[-1]["error"] is None
        batches = [event["batch_id"] for event in of_query if event["event"] == "progress"]
        assert batches == list(range(len(batches))), reports.taken
        assert len(batches) >= 3
    progress = next(event for event in reports.taken if event["event"] == "progress")
    assert progress["batch_ms"] > 0
    last = [event for event in reports.taken if event["event"] == "progress"][-1]
    assert "/temporary-" in last["checkpoint"], "no option names one"
    assert last["trigger_interval_s"] == 0.2
    assert "spark-supervisor:" not in done.stdout


def test_a_failing_query_ends_the_application_with_1(tmp_path: Path, reports: ReportSocket) -> None:
    source = """
from pyspark.sql import SparkSession

def fail(frame, batch_id):
    raise ValueError("bad batch")

spark = SparkSession.builder.config("spark.ui.enabled", "true").config("spark.ui.port", "0").getOrCreate()
rate = spark.readStream.format("rate").load()
rate.writeStream.queryName("q").foreachBatch(fail).start().awaitTermination()
"""
    done = submit(tmp_path, reports, source)
    assert done.returncode == 1, done.stdout[-3000:]
    assert "bad batch" in done.stdout
    assert "bootstrap.py" not in done.stdout.partition("StreamingQueryException")[0].partition("Traceback")[2]
    names = reports.names()
    assert names[:3] == ["begun", "session", "query"]
    assert web_address(reports.taken[1]["spark_ui"])
    assert names[-1] == "error"
    assert "bad batch" in str(reports.taken[-1]["message"]) or reports.taken[-1]["kind"]
    terminated = [event for event in reports.taken if event["event"] == "terminated"]
    assert all("bad batch" in event["error"] for event in terminated)


SESSION = """
import helper
import sys

def fail(frame, batch_id):
    raise ValueError("bad batch")

def sink(frame, batch_id):
    assert frame.count() == 4

def main(spark):
    assert sys.argv[1:] == ["x"]
    assert spark.conf.get("spark.own.key") == "a \\u00fc value"
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    query = rate.writeStream.queryName("good").foreachBatch(sink).trigger(processingTime="100 milliseconds").start()
    helper.stop_after(query, 2)

def failing(spark):
    main(spark)
    spark.readStream.format("rate").load().writeStream.queryName("bad").foreachBatch(fail).start()
"""

HELPER = """
import threading, time

def stop_after(query, batch_id):
    def wait():
        while not query.lastProgress or query.lastProgress["batchId"] < batch_id:
            time.sleep(0.05)
        query.stop()
    threading.Thread(target=wait).start()
"""


@pytest.mark.parametrize(
    ("function", "code"), [("main", 0), pytest.param("failing", 1, marks=pytest.mark.slow)]
)
def test_session(tmp_path: Path, reports: ReportSocket, function: str, code: int) -> None:
    """The queries that the function leaves running are waited for; a failed one ends the process with 1."""
    (tmp_path / "conf").write_text(LIGHT_PROPERTIES + "spark.own.key=a \\u00fc value\n")
    (tmp_path / "jobs.py").write_text(SESSION)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper.py").write_text(HELPER)
    words = [
        "--properties-file",
        str(tmp_path / "conf"),
        "--master",
        "local[1]",
        "--py-files",
        str(tmp_path / "lib" / "helper.py"),
        "pyspark-shell",
    ]
    command = [
        sys.executable,
        bootstrap.__file__,
        "--session",
        f"jobs:{function}",
        str(tmp_path / "jobs.py"),
        "x",
    ]
    done = run(command, {**environment(reports), "PYSPARK_SUBMIT_ARGS": shlex.join(words)}, tmp_path, reports)
    assert done.returncode == code, done.stdout[-3000:]
    names = reports.names()
    assert names[:3] == ["begun", "session", "query"]
    assert ("error" if code else "ended") in names
    batches = [e["batch_id"] for e in reports.taken if e["event"] == "progress" and e["query"] == "good"]
    assert batches == list(range(len(batches)))
    assert code or len(batches) >= 3


@pytest.mark.slow
def test_the_function_of_a_session_is_not_called_when_the_gate_says_no(
    tmp_path: Path, reports: ReportSocket
) -> None:
    """Spark is up by then; what Spark leaves at its end is no word of the application."""
    (tmp_path / "conf").write_text(LIGHT_PROPERTIES)
    (tmp_path / "jobs.py").write_text(
        "import pathlib\n\ndef main(spark):\n    pathlib.Path('begun').touch()\n"
    )
    write_verdict(str(tmp_path), StartVerdict("bad_checkpoint", "h: it is missing"))
    words = ["--properties-file", str(tmp_path / "conf"), "--master", "local[1]", "pyspark-shell"]
    command = [sys.executable, bootstrap.__file__, "--session", "jobs:main", str(tmp_path / "jobs.py")]
    env = {
        **environment(reports),
        "PYSPARK_SUBMIT_ARGS": shlex.join(words),
        "SPARK_SUPERVISOR_GATE": str(tmp_path / GATE),
    }
    done = run(command, env, tmp_path, reports)
    assert done.returncode == bootstrap.NOT_BEGUN, done.stdout[-3000:]
    assert not {"begun", "session"} & set(reports.names())
    assert not list(tmp_path.rglob("begun"))
