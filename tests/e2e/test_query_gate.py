"""A driver that is prepared up to its first query starts none before its opening, whoever asks for it; with real Spark.

The application starts queries past Python's ``DataStreamWriter``: through the JVM's own writer, by a library in Java that
comes as a jar, from a thread of that library, and by DStreams. The last thing it does is one of Python's own.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening
from supervisor.clock import boottime_s
from supervisor.model.launch import PREPARE_LEVEL, PREPARED
from tests.e2e.test_bootstrap import environment, spark_home
from tests.e2e.test_prepared_driver import agent_options, argv_of
from tests.fakes.report_socket import ReportSocket
from tests.testbed.driver_tree import driver_tree
from tests.testbed.spark_fleet import LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

LIBRARY = """
package example;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

public final class Streams {
    public static void start(Dataset<Row> rows, String checkpoint) throws Exception {
        rows.writeStream().format("noop").option("checkpointLocation", checkpoint).start();
    }

    public static void startLater(Dataset<Row> rows, String checkpoint) {
        new Thread(() -> {
            try {
                rows.sparkSession().newSession();
                start(rows, checkpoint);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }).start();
    }
}
"""
BEGIN = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
place = sys.argv[1]
"""
STARTS = {
    "the JVM's writer": 'rows._jdf.writeStream().format("noop").option("checkpointLocation", place).start()',
    "a sink of files": 'rows._jdf.writeStream().format("json").option("checkpointLocation", place).start(place + "-out")',
    "a library": "spark._jvm.example.Streams.start(rows._jdf, place)",
    "a thread of a library": "spark._jvm.example.Streams.startLater(rows._jdf, place); time.sleep(3600)",
    "DStreams": (
        "java = spark._jvm.org.apache.spark.streaming\n"
        "context = java.api.java.JavaStreamingContext(spark.sparkContext._jsc, java.Duration(200))\n"
        "queue = spark._jvm.java.util.LinkedList()\n"
        "queue.add(spark.sparkContext._jsc.emptyRDD())\n"
        "context.queueStream(queue).print()\n"
        "context.start()"
    ),
    "Python": 'rows.writeStream.format("noop").option("checkpointLocation", place).start()',
}


def jar_of_library(directory: Path) -> Path:
    """Compiles the library as its author would. Skips where there is no JDK."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no javac")
    (directory / "Streams.java").write_text(LIBRARY)
    made = directory / "classes"
    command = [javac, "-d", str(made), "-cp", f"{spark_home()}/jars/*", str(directory / "Streams.java")]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    jar = directory / "library.jar"
    with zipfile.ZipFile(jar, "w") as out:
        for file in sorted(made.rglob("*.class")):
            out.write(file, str(file.relative_to(made)))
    return jar


def begun(home: Path) -> list[str]:
    """Returns what any query has written; DStreams print what each batch has."""
    batches = ["a batch"] if "Time: " in (home / "log").read_text() else []
    return batches + sorted(path.name for path in home.iterdir() if path.name.startswith("ck"))


@pytest.mark.parametrize("way", STARTS)
def test_no_query_starts_before_the_opening(tmp_path: Path, way: str) -> None:
    opening = tmp_path / run_dir.OPENING
    (tmp_path / "app.py").write_text(
        f"{BEGIN}{STARTS[way]}\nprint('STARTED', flush=True)\ntime.sleep(3600)\n"
    )
    conf = f"{LIGHT_PROPERTIES}spark.driver.extraJavaOptions={agent_options(tmp_path / 'jars', opening)}\n"
    if "library" in way:
        conf += f"spark.jars={jar_of_library(tmp_path)}\n"
    (tmp_path / "conf").write_text(conf)
    with ReportSocket(tmp_path) as reports:
        env = {**environment(reports), PREPARED: str(opening), PREPARE_LEVEL: "application"}
        env.pop("PYTEST_CURRENT_TEST", None)
        argv = argv_of(tmp_path, tmp_path / "app.py", f"{tmp_path}/ck")
        with driver_tree(argv, env=env, cwd=tmp_path, log=tmp_path / "log") as process:
            wait_until(lambda: "ready" in reports.names() or process.poll() is not None, 540, "it is ready")
            said = (tmp_path / "log").read_text()
            assert reports.names() == ["ready"], said[-3000:]
            assert not any(report.get("why") for report in reports.taken), reports.taken
            assert begun(tmp_path) == [] and "STARTED" not in said
            assert run_dir.write_opening(str(tmp_path), Opening("c", boottime_s() + 600.0, {}, {}))
            wait_until(lambda: begun(tmp_path) != [], 300, "the query to begin")
            assert reports.names()[:2] == ["ready", "opened"] and "begun" in reports.names()


def test_without_the_gate_the_application_does_not_begin_before_its_opening(tmp_path: Path) -> None:
    """The level is given up, with the reason, where nobody proves that every query is held."""
    opening = tmp_path / run_dir.OPENING
    (tmp_path / "app.py").write_text("print('BEGUN', flush=True)\n")
    (tmp_path / "conf").write_text(LIGHT_PROPERTIES)
    with ReportSocket(tmp_path) as reports:
        env = {**environment(reports), PREPARED: str(opening), PREPARE_LEVEL: "application"}
        argv = argv_of(tmp_path, tmp_path / "app.py")
        with driver_tree(argv, env=env, cwd=tmp_path, log=tmp_path / "log") as process:
            wait_until(lambda: "ready" in reports.names() or process.poll() is not None, 540, "it is ready")
            (ready,) = [report for report in reports.take() if report["event"] == "ready"]
            assert "its queries could not be held" in ready["why"]
            assert "BEGUN" not in (tmp_path / "log").read_text()
