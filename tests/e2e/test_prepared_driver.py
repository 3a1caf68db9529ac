"""A real PySpark application that runs in a prepared driver sees what it sees in a cold one, and does the same."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening
from supervisor.clock import boottime_s
from supervisor.model.launch import PREPARE_LEVEL, PREPARED
from supervisor.spark import bootstrap
from supervisor.spark.class_archive.choice import OPTIONS_KEY
from supervisor.spark.fence.build import host_jar
from supervisor.spark.gate.agent import SOURCES, with_agent
from supervisor.spark.toolchain import java_of, spark_version
from tests.e2e.test_bootstrap import environment, spark_home
from tests.fakes.report_socket import ReportSocket
from tests.testbed.driver_tree import driver_tree
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

LEVELS = ("", "session", "application")
"""Of the driver; without one it is a cold one."""

ATTEMPT = {"SPARK_SUPERVISOR_ATTEMPT": "7", "SPARK_SUPERVISOR_UID": "uid-1"}
OWNER = {"supervisor.owner": "uid-1.7"}

APPLICATION = r"""
import json, os, signal, sys, threading

def about():
    main = sys.modules["__main__"]
    return {
        "name": __name__,
        "file": __file__,
        "main": main.__file__,
        "argv": sys.argv,
        "path": sys.path,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": oct(os.umask(0o022)),
        "interrupt": str(signal.getsignal(signal.SIGINT)),
        "terminate": str(signal.getsignal(signal.SIGTERM)),
        "children": sorted(open(f"/proc/self/task/{os.getpid()}/children").read().split())[1:],
    }

before = about()
from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession
before["active"] = [str(SparkContext._active_spark_context), str(SparkSession.getActiveSession())]

spark = SparkSession.builder.appName("own name").config("spark.own.key", "own value").config("spark.sql.shuffle.partitions", "3").getOrCreate()
context, jvm = spark.sparkContext, spark._jvm
session = {
    "conf": dict(context.getConf().getAll()),
    "sql": {key: spark.conf.get(key) for key in ("spark.own.key", "spark.sql.shuffle.partitions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation")},
    "app": context.appName,
    "hadoop": context._jsc.hadoopConfiguration().get("supervisor.owner"),
    "java_env": sorted(jvm.java.lang.System.getenv().keySet()),
    "java_attempt": jvm.java.lang.System.getenv("SPARK_SUPERVISOR_ATTEMPT"),
    "properties": sorted(str(key) for key in jvm.java.lang.System.getProperties().keySet() if str(key).startswith("spark.")),
    "listeners": len(spark.streams._jsqm.listListeners()),
    "tables": [table.name for table in spark.catalog.listTables()],
    "views": spark.sql("show views").count(),
    "databases": [each.name for each in spark.catalog.listDatabases()],
    "functions": spark.sql("show user functions").count(),
    "jars": context._jsc.sc().listJars().size(),
    "files": context.listFiles,
    "root": os.path.basename(SparkFiles.getRootDirectory()).split("-")[0],
    "jobs": context.statusTracker().getJobIdsForGroup(None) if False else None,
    "running": len(spark.streams.active),
    "worker": context.parallelize([0], 1).map(lambda _: sorted(os.environ)).collect()[0],
    "worker_attempt": context.parallelize([0], 1).map(lambda _: os.environ.get("SPARK_SUPERVISOR_ATTEMPT")).collect()[0],
    "stage": context._jsc.sc().dagScheduler().nextJobId(),
}
sums = {}

def sink(frame, batch_id):
    sums[batch_id] = sorted((row.key, row["sum(value)"]) for row in frame.collect())

rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
counts = rows.groupBy((rows.value % 3).alias("key")).agg({"value": "sum"})
query = counts.writeStream.queryName("own").outputMode("complete").foreachBatch(sink).option("checkpointLocation", sys.argv[1]).trigger(processingTime="100 milliseconds").start()
session["attempt"] = os.environ["SPARK_SUPERVISOR_ATTEMPT"]
while len(sums) < 3:
    query.awaitTermination(0.1)
query.stop()
with open("seen.json", "w") as file:
    json.dump({"before": before, "session": session, "sums": [sums[number] for number in range(3)]}, file)
sys.exit(7)
"""


@dataclass
class Seen:
    """What became of one run. ``reports``: the names of what it reported, in order. ``not_warm``: why it was not warmed."""

    code: int
    log: str
    reports: list[str]
    document: Any
    not_warm: str = ""


def argv_of(home: Path, application: Path, *args: str) -> list[str]:
    words = [quote(word, safe="/") for word in (str(application), *args)]
    options = ["--properties-file", str(home / "conf"), "--master", "local[1]"]
    return [str(spark_home() / "bin" / "spark-submit"), *options, bootstrap.__file__, "--quoted", *words]


def run(
    home: Path,
    level: str,
    argv: list[str],
    more: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Seen:
    """Run to the end; a prepared driver is opened when it is ready. Nobody but it knows of the attempt before that."""
    more_properties = {**(properties or {})}
    if level == "application":
        more_properties[OPTIONS_KEY] = agent_options(home / "jars", home / run_dir.OPENING)
    own = "".join(f"{name}={value}\n" for name, value in more_properties.items())
    (home / "conf").write_text(LIGHT_PROPERTIES + own + ("" if level else owner_properties()))
    opening = home / run_dir.OPENING
    with ReportSocket(home) as reports:
        env = {**environment(reports), **(more or {})}
        env.pop("PYTEST_CURRENT_TEST", None)
        env |= {PREPARED: str(opening), PREPARE_LEVEL: level} if level else ATTEMPT

        def over() -> bool:
            names = reports.names()
            if level and "ready" in names and not opening.exists():
                assert set(names) == {"ready"}, names
                assert run_dir.write_opening(str(home), Opening("c", boottime_s() + 60.0, ATTEMPT, OWNER))
            return process.poll() is not None

        with driver_tree(argv, env=env, cwd=home, log=home / "log") as process:
            wait_until(over, 240, "the driver to end")
        reports.take()
        names = [each["event"] for each in reports.taken]
        not_warm = "".join(str(each.get("why") or "") for each in reports.taken if each["event"] == "ready")
    seen = home / "seen.json"
    document = json.loads(seen.read_text()) if seen.exists() else None
    return Seen(process.returncode, (home / "log").read_text(), names, document, not_warm)


def agent_options(directory: Path, opening: Path) -> str:
    """The options of a JVM with the gate of queries."""
    home, java = spark_home(), java_of(None, os.environ)
    built = host_jar(home, java, spark_version(home) or "", directory, os.environ, 240.0, of=SOURCES)
    assert built.jar is not None, built.why
    return with_agent("", built.jar, opening)


def owner_properties() -> str:
    return "".join(f"spark.hadoop.{name}={value}\n" for name, value in OWNER.items())


def made_home(parent: Path, level: str) -> Path:
    home = parent / (level or "cold")
    home.mkdir()
    return home


def compared(document: Any, home: Path) -> Any:
    """``document`` without what differs between any two runs: names of the directory, ports, ids, instants."""
    text = json.dumps(document, sort_keys=True).replace(str(home), "<home>")
    text = re.sub(
        r'"(spark\.app\.(id|startTime|submitTime)|spark\.driver\.port)": "[^"]*"', r'"\1": ""', text
    )
    text = re.sub(r"(spark-|blockmgr-|userFiles-|pyspark-|/tmp/tmp)[0-9a-z_-]+", r"\1x", text)
    text = re.sub(
        r'"(PYSPARK_GATEWAY_PORT|PYSPARK_GATEWAY_SECRET|_PYSPARK_DRIVER_CALLBACK_HOST|_PYSPARK_DRIVER_CONN_INFO_PATH)": "[^"]*"',
        r'"\1": ""',
        text,
    )
    return json.loads(text)


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = made_home(tmp_path_factory.mktemp("prepared"), "")
    (home / "app.py").write_text(APPLICATION)
    seen = run(home, "", argv_of(home, home / "app.py", f"{home}/ck", "a b", "ü", ""))
    assert seen.code == 7, seen.log[-3000:]
    return compared(seen.document, home), seen


@pytest.mark.parametrize("level", ["session", pytest.param("application", marks=pytest.mark.slow)])
def test_an_application_sees_in_a_prepared_driver_what_it_sees_in_a_cold_one(
    tmp_path: Path, cold: Any, level: str
) -> None:
    """``__main__``, arguments, environment, configuration, names, listeners, results, exit code. At the level application the
    code before the first query runs before there is an attempt: it alone cannot see the attempt."""
    home = made_home(tmp_path, level)
    (home / "app.py").write_text(APPLICATION)
    seen = run(home, level, argv_of(home, home / "app.py", f"{home}/ck", "a b", "ü", ""))
    assert seen.code == 7, seen.log[-3000:]
    (expected, first), found = cold, compared(seen.document, home)
    if level == "application":
        for document in (expected := json.loads(json.dumps(expected)), found):
            forget_the_attempt(document)
    assert differences(found, expected) == []
    assert "spark-supervisor:" not in seen.log
    assert [name for name in seen.reports if name != "progress"][:1] == ["ready"]
    assert without_progress(seen.reports[1:], "opened") == without_progress(first.reports)


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """What is not the same, each with its place in the document."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return [
            line
            for name in sorted(found.keys() | expected.keys())
            for line in differences(found.get(name), expected.get(name), f"{where}/{name}")
        ]
    return [] if found == expected else [f"{where}: {found!r}, cold {expected!r}"]


def forget_the_attempt(document: Any) -> None:
    for name in ATTEMPT:
        document["before"]["env"].pop(name, None)
    session = document["session"]
    session["java_env"] = [name for name in session["java_env"] if name not in ATTEMPT]
    session["worker"] = [name for name in session["worker"] if name not in ATTEMPT]
    for name in ("java_attempt", "worker_attempt", "hadoop"):
        session[name] = None
    for name in ("spark.hadoop.supervisor.owner", OPTIONS_KEY):
        session["conf"].pop(name, None)
    session["properties"] = [
        name for name in session["properties"] if "supervisor.owner" not in name and name != OPTIONS_KEY
    ]


def without_progress(names: list[str], *more: str) -> list[str]:
    """The order of what is reported, each event once: how often some are told is a matter of time, and so is whether the end of
    a query is told before that of the application."""
    return list(
        dict.fromkeys(name for name in names if name not in ("progress", "idle", "terminated", *more))
    )


SESSION = """
import json, os, sys

def main(spark):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    seen = []
    def sink(frame, batch_id):
        seen.append([batch_id, frame.count()])
    query = rows.writeStream.queryName("q").foreachBatch(sink).trigger(processingTime="100 milliseconds").start()
    while len(seen) < 3:
        query.awaitTermination(0.1)
    query.stop()
    with open("seen.json", "w") as file:
        json.dump({"seen": seen[:3], "argv": sys.argv, "app": spark.sparkContext.appName, "attempt": os.environ["SPARK_SUPERVISOR_ATTEMPT"],
                   "owner": spark.sparkContext._jsc.hadoopConfiguration().get("supervisor.owner")}, file)
"""


@pytest.mark.slow
def test_launch_session_is_the_same_prepared(tmp_path: Path) -> None:
    documents = []
    for level in LEVELS:
        home = made_home(tmp_path, level)
        (home / "jobs.py").write_text(SESSION)
        words = [
            "--properties-file",
            str(home / "conf"),
            "--master",
            "local[1]",
            "--name",
            "own",
            "pyspark-shell",
        ]
        argv = [sys.executable, bootstrap.__file__, "--session", "jobs:main", str(home / "jobs.py"), "x"]
        seen = run(home, level, argv, {"PYSPARK_SUBMIT_ARGS": shlex.join(words)})
        assert seen.code == 0, seen.log[-3000:]
        documents.append(compared(seen.document, home))
    assert documents[0] == documents[1] == documents[2]


@pytest.mark.parametrize("text", ["def main(:\n", None], ids=["no Python", "no file"])
def test_an_application_that_cannot_begin_is_told_before_a_jvm_is_started(
    tmp_path: Path, text: str | None
) -> None:
    home = made_home(tmp_path, "session")
    path = home / "broken.py"
    if text is not None:
        path.write_text(text)
    seen = run(home, "session", argv_of(home, path))
    assert (seen.code, seen.reports) == (78, ["unready"])
    assert "SyntaxError: invalid syntax" in seen.log if text else "FileNotFoundError" in seen.log


@pytest.mark.parametrize(
    "reachable", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["reachable", "proxied"]
)
def test_the_warm_up_of_s3a_asks_nothing_of_the_jobs_store(tmp_path: Path, reachable: bool) -> None:
    home = made_home(tmp_path, "session")
    (home / "nothing.py").write_text("import pyspark\n")
    with words_served([]) as (port, connected):
        properties = {
            "spark.driver.extraClassPath": f"{s3a_jars()}/*",
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.server-side-encryption-algorithm": "SSE-KMS",
        }
        if not reachable:
            properties |= {
                "spark.hadoop.fs.s3a.proxy.host": "127.0.0.1",
                "spark.hadoop.fs.s3a.proxy.port": str(port),
            }
        argv = argv_of(home, home / "nothing.py")
        seen = run(home, "session", argv, {"SPARK_SUPERVISOR_CHECKPOINT": "s3a://job/checkpoint"}, properties)
        assert (seen.code, seen.not_warm, connected) == (0, "", []), seen.log[-3000:]


# -- Spark's own examples ----------------------------------------------------------------------------------------------


@contextmanager
def words_served(lines: list[str]) -> Iterator[tuple[int, list[socket.socket]]]:
    """Whoever connects gets all lines at once; the connection stays open. Yields the port and the connections."""
    server = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            open_ones.append(connection)
            connection.sendall("".join(f"{line}\n" for line in lines).encode())

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1], open_ones
    finally:
        server.close()
        for each in open_ones:
            each.close()


def example(name: str) -> Path:
    path = spark_home() / "examples" / "src" / "main" / "python" / name
    assert path.exists(), f"this PySpark has no {name}"
    return path


@pytest.mark.parametrize("level", ["", "session", pytest.param("application", marks=pytest.mark.slow)])
def test_a_batch_example_of_spark_gives_the_same(tmp_path: Path, level: str) -> None:
    (tmp_path / "text").write_text("to be or not to be\n")
    home = made_home(tmp_path, level)
    # An application without a query has no first query: at the level application it can't be prepared.
    seen = run(
        home, "session" if level else "", argv_of(home, example("wordcount.py"), str(tmp_path / "text"))
    )
    assert seen.code == 0, seen.log[-3000:]
    assert {"to: 2", "be: 2", "or: 1", "not: 1"} <= set(seen.log.splitlines())


@pytest.mark.parametrize("level", ["", pytest.param("session", marks=pytest.mark.slow), "application"])
def test_a_streaming_example_of_spark_gives_the_same(tmp_path: Path, level: str) -> None:
    """structured_network_wordcount.py, unchanged; it runs until it is killed."""
    home = made_home(tmp_path, level)
    expected = {("to", "2"), ("be", "2"), ("or", "1"), ("not", "1")}
    with words_served(["to be or", "not to be"]) as (port, _):
        argv = argv_of(home, example("sql/streaming/structured_network_wordcount.py"), "127.0.0.1", str(port))
        done = threading.Event()

        def end_when_counted() -> None:
            while not done.wait(0.2):
                log = (home / "log").read_text() if (home / "log").exists() else ""
                last = log.rpartition("Batch: ")[2]
                if expected <= set(re.findall(r"\|\s*(\w+)\|\s*(\d+)\|", last)):
                    kill_driver(home)
                    return

        thread = threading.Thread(target=end_when_counted)
        thread.start()
        try:
            seen = run(home, level, argv)
        finally:
            done.set()
            thread.join()
    assert expected <= set(re.findall(r"\|\s*(\w+)\|\s*(\d+)\|", seen.log.rpartition("Batch: ")[2]))


def kill_driver(home: Path) -> None:
    """End the processes whose working directory is ``home``."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid() and (entry / "cwd").readlink() == home:
                os.kill(int(entry.name), 9)
        except OSError:
            continue
