"""What the bootstrap leaves as it is, seen from applications that need no Spark: compared with plain Python."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest

from supervisor.clients.run_dir import GATE, StartVerdict, write_verdict
from supervisor.spark import bootstrap
from tests.fakes.report_socket import ReportSocket
from tests.waiting import wait_until


@pytest.fixture
def reports(tmp_path: Path) -> Iterator[ReportSocket]:
    directory = tmp_path / ("long-" * 30)
    directory.mkdir()
    with ReportSocket(directory) as sock:
        yield sock


def run(
    app: Path, *args: str, report: Path | None = None, ours: bool = True
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "SPARK_SUPERVISOR_REPORT": str(report or "")}
    command = [sys.executable, *([bootstrap.__file__] if ours else []), str(app), *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def written(tmp_path: Path, text: str) -> Path:
    app = tmp_path / "app.py"
    app.write_text(text)
    return app


APPLICATIONS = {
    "returns": "print('done')",
    "exits with 7": "import sys; sys.exit(7)",
    "exits with a text": "import sys; sys.exit('no good')",
    "exits with 0": "import sys; sys.exit(0)",
    "raises": "def f():\n    raise ValueError('ä bad value')\nf()",
    "raises from another": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
    "is no Python": "x = = 1",
    "sees its surroundings": (
        "import sys, os\n"
        "print(sys.argv, sys.path, __name__, __file__, __package__, __doc__, __spec__)\n"
        "print(sorted(set(globals()) - {'__annotations__'}))\n"
        "print(sys.modules['__main__'].__dict__ is globals(), type(__loader__).__name__)"
    ),
    "imports a neighbour": "import neighbour; print(neighbour.__file__)",
    "pickles its own": "import pickle\ndef f(): return 4\nprint(pickle.loads(pickle.dumps(f))())",
    "starts a process": (
        "import multiprocessing\ndef f(q): q.put(5)\n"
        "if __name__ == '__main__':\n"
        "    c = multiprocessing.get_context('spawn'); q = c.Queue()\n"
        "    p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()"
    ),
    "leaves a thread": (
        "import threading, time\nword = 'late'\n"
        "def f():\n    time.sleep(0.3)\n    import __main__\n    print(word, __main__.word)\n"
        "threading.Thread(target=f).start()"
    ),
    "prints its errors itself": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\nraise ValueError",
    "is interrupted": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("source", APPLICATIONS.values(), ids=APPLICATIONS.keys())
def test_same_as_without_us(tmp_path: Path, source: str) -> None:
    app = written(tmp_path, source)
    (tmp_path / "neighbour.py").write_text("")
    args = ("a b", "ü\nline", "", "--quoted", "-x")
    with_us, without = run(app, *args), run(app, *args, ours=False)
    assert with_us.stdout == without.stdout
    assert with_us.returncode == without.returncode
    # Python shows our frames there, and ends by the signal as it should
    if source != APPLICATIONS["is interrupted"]:
        assert with_us.stderr == without.stderr


def test_a_missing_application_exits_with_2(tmp_path: Path) -> None:
    done = run(tmp_path / "none.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr


def test_begun_and_ended_are_reported(tmp_path: Path, reports: ReportSocket) -> None:
    run(written(tmp_path, "pass"), report=reports.path)
    assert reports.names() == ["begun", "ended"]


def test_an_uncaught_exception_is_reported(tmp_path: Path, reports: ReportSocket) -> None:
    run(written(tmp_path, "raise ValueError('ü' * 5000)"), report=reports.path)
    assert reports.names() == ["begun", "error"]
    assert reports.taken[1]["kind"] == "ValueError"
    assert reports.taken[1]["message"].startswith("ValueError: üü")


def test_the_telling_word_is_found_anywhere(tmp_path: Path, reports: ReportSocket) -> None:
    run(
        written(tmp_path, "raise Exception('x' * 5000 + 'java.lang.OutOfMemoryError: Java heap')"),
        report=reports.path,
    )
    assert reports.take()[-1]["kind"] == "OutOfMemoryError"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
            "KeyError: 'x' (caused by ZeroDivisionError: division by zero)",
        ),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x')",
            "KeyError: 'x' (caused by ZeroDivisionError:",
        ),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x') from None", "KeyError: 'x'"),
        ("e = ValueError('a')\ne.__cause__ = e\nraise e", "ValueError: a"),
    ],
)
def test_the_root_of_a_chain_of_exceptions_is_reported(
    tmp_path: Path, reports: ReportSocket, source: str, message: str
) -> None:
    run(written(tmp_path, source), report=reports.path)
    assert reports.take()[-1]["message"].startswith(message)


def test_the_root_of_a_chain_stays_when_the_text_is_cut(tmp_path: Path, reports: ReportSocket) -> None:
    source = f"try:\n    raise OSError('no route to db' + 'y' * 5000)\nexcept OSError:\n    raise ValueError('{'x' * 5000}')"
    run(written(tmp_path, source), report=reports.path)
    message = reports.take()[-1]["message"]
    assert message.startswith("ValueError: xx") and "(caused by OSError: no route to db" in message
    assert len(message) <= bootstrap.MESSAGE_MAX_CHARS


@pytest.mark.parametrize("character", ["\U0001f4a5", "\udcff", "\x00"], ids=["emoji", "no UTF-8", "control"])
def test_an_error_of_any_characters_is_reported(
    tmp_path: Path, reports: ReportSocket, character: str
) -> None:
    """A report of too many bytes would be dropped, and the error with it."""
    run(
        written(tmp_path, f"raise type('E' * 9000, (Exception,), {{}})({character!r} * 5000)"),
        report=reports.path,
    )
    assert reports.names() == ["begun", "error"]


def test_python_out_of_memory_is_out_of_memory(tmp_path: Path, reports: ReportSocket) -> None:
    run(written(tmp_path, "raise MemoryError"), report=reports.path)
    assert reports.take()[-1]["kind"] == "OutOfMemoryError"


def test_exit_code_is_reported(tmp_path: Path, reports: ReportSocket) -> None:
    run(written(tmp_path, "raise SystemExit(3)"), report=reports.path)
    assert reports.take()[-1] == {"event": "error", "kind": "SystemExit", "message": "exit 3"}


def test_nobody_listening_does_no_harm(tmp_path: Path) -> None:
    assert run(written(tmp_path, "print(1)"), report=tmp_path / "nowhere" / "report").stdout == "1\n"
    assert run(written(tmp_path, "print(1)"), report=tmp_path / "report").stdout == "1\n"


WORDS = {"yes": StartVerdict(), "no": StartVerdict("bad_checkpoint", "h: the checkpoint is missing")}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("already", ["", "torn", "there"])
def test_the_application_begins_when_the_gate_says_so(
    tmp_path: Path,
    reports: ReportSocket,
    word: str,
    already: str,
) -> None:
    """And never otherwise, nor before it says anything."""
    app, begun = written(tmp_path, "import pathlib; pathlib.Path('begun').touch()"), tmp_path / "begun"
    if already == "there":
        write_verdict(str(tmp_path), WORDS[word])
    elif already:
        (tmp_path / GATE).write_text('{"cau')
    env = {
        "PATH": "/usr/bin:/bin",
        "SPARK_SUPERVISOR_REPORT": str(reports.path),
        "SPARK_SUPERVISOR_GATE": str(tmp_path / GATE),
    }
    command = [sys.executable, bootstrap.__file__, str(app)]
    with subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as driver:
        if already != "there":
            with pytest.raises(subprocess.TimeoutExpired):
                driver.wait(1)
            assert not begun.exists() and reports.names() == ["waiting"]
            write_verdict(str(tmp_path), WORDS[word])
        _, printed = driver.communicate(timeout=60)
    assert (driver.returncode, begun.exists()) == (
        (0, True) if word == "yes" else (bootstrap.NOT_BEGUN, False)
    )
    assert printed == (
        ""
        if word == "yes"
        else "spark-supervisor: the application does not begin: h: the checkpoint is missing\n"
    )
    assert ("begun" in reports.names()) is (word == "yes")


def test_quoted_arguments_arrive_verbatim(tmp_path: Path) -> None:
    args = ["a\r\nb", "ü€😀", "%41", "", " x "]
    app = written(tmp_path, f"import sys\nassert sys.argv[1:] == {args!r}, sys.argv")
    command = [
        sys.executable,
        bootstrap.__file__,
        "--quoted",
        *(quote(arg, safe="/") for arg in (str(app), *args)),
    ]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def source(latest: str | None, end: str | None) -> SimpleNamespace:
    return SimpleNamespace(latestOffset=latest, endOffset=end)


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([source(None, None)], None),
        ([source("5", "3")], None),
        ([source('{"t": {"0": 10, "1": 7}}', '{"t": {"0": 4, "1": 7}}')], 6),
        ([source('{"t": {"0": 10}}', '{"t": {"0": 4}}'), source('{"u": {"0": 2}}', '{"u": {"0": 1}}')], 7),
        ([source('{"t": {"0": 10}, "new": {"0": 1}}', '{"t": {"0": 12}}')], 0),
        ([source('{"logOffset": 5}', '{"logOffset": 4}')], None),
    ],
)
def test_lag(sources: list[SimpleNamespace], lag: int | None) -> None:
    assert bootstrap.lag_of(sources) == lag


@pytest.mark.parametrize(
    ("given", "kept"), [(1.5, 1.5), (math.nan, None), (math.inf, None), (None, None), (0, 0)]
)
def test_rates_are_numbers_or_null(given: float | None, kept: float | None) -> None:
    assert bootstrap.finite(given) == kept


PROXY = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/py4j/clientserver.py", line 617, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^
RuntimeError: boom

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""
JAVA = """\
An error occurred while calling o40.start.
: org.apache.spark.SparkException: [CANNOT_LOAD] Error loading for path=s3a://b/c
\tat org.apache.spark.X.y(X.scala:74)
Caused by: java.lang.RuntimeException: wrapped
\t... 13 more
Caused by: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found
\tat z
"""
JAVA_IN_PROXY = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "/x/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^
py4j.protocol.Py4JJavaError: An error occurred while calling o76.text.
: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not available;
either the data was aged out by Kafka or the topic may have been deleted
\tat org.apache.spark.X.y(X.scala:74)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range
\tat z
Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
"""


OF_A_UDF = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "/x/pyspark/errors/exceptions/captured.py", line 262, in deco
    raise converted from None
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/clicks.py", line 32, in <lambda>
    boom = F.udf(lambda v: 1 // (v % 500 - 499), "long")
                           ~~^^~~~~~~~~~~~~~~~~
ZeroDivisionError: integer division or modulo by zero
 SQLSTATE: 38000
"""


TASK = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 "
    "(TID 3) (h executor driver): "
)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (PROXY, "RuntimeError: boom | py4j.Py4JException: An"),
        (OF_A_UDF, "ZeroDivisionError: integer division or modulo by zero | [STREAM_FAILED]"),
        (
            JAVA_IN_PROXY,
            "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range | "
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not "
            "available; | [STREAM_FAILED]",
        ),
        (
            JAVA,
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found | "
            "org.apache.spark.SparkException: [CANNOT_LOAD] Error loading for path=s3a://b/c | An error",
        ),
        (
            f"[STREAM_FAILED] Query [id = 1] terminated with exception: {TASK}org.apache.spark.SparkException: Python worker "
            "exited unexpectedly (crashed). Consider setting 'spark.python.worker.faulthandler.enabled'\n\tat x\n"
            "Caused by: java.io.EOFException\n\tat y",
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider",
        ),
        (
            f"[STREAM_FAILED] Query [id = 1] terminated with exception: {TASK}java.lang.ArithmeticException: / by zero\n\tat x",
            "java.lang.ArithmeticException: / by zero | [STREAM_FAILED]",
        ),
        ("a bad value", "a bad value"),
        ("", ""),
    ],
)
def test_what_went_wrong_comes_first(text: str, begin: str) -> None:
    message = bootstrap.telling(text + "x" * 5000 if text else "")
    assert message.startswith(begin) and len(message) <= bootstrap.MESSAGE_MAX_CHARS


def test_while_the_context_waits_for_its_cluster_it_is_said_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On YARN: getOrCreate returns when the application was taken on."""
    monkeypatch.setattr(bootstrap, "WITHOUT_EVERY_S", 0.01)
    sent: list[tuple[str, dict[str, Any]]] = []

    class Builder:
        def getOrCreate(self) -> object:
            if awaited:
                wait_until(lambda: len(sent) > 2, 30, "three reports")
            return object()

    awaited = True
    watch = bootstrap.Watch(cast(Any, SimpleNamespace(send=lambda event, **more: sent.append((event, more)))))
    monkeypatch.setattr(watch, "seen", lambda session: watch.sessions.add(session))
    watch.sessions = cast(Any, set())
    watch._wrap_builder(Builder)
    monkeypatch.setenv("SPARK_SUPERVISOR_AWAITS_CONTEXT", "1")
    Builder().getOrCreate()
    assert sent[:2] == [("executors", {"count": 0})] * 2
    time.sleep(0.1)
    said = len(sent)
    awaited = False
    Builder().getOrCreate()
    monkeypatch.delenv("SPARK_SUPERVISOR_AWAITS_CONTEXT")
    watch.sessions.clear()
    Builder().getOrCreate()
    time.sleep(0.1)
    assert len(sent) == said, "it has a session, or another cluster"


def test_a_session_is_made_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit of the kernel on the threads of this driver must not become an error of its application."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(bootstrap, "_thread", SimpleNamespace(allocate_lock=Lock, start_new_thread=refuse))
    with bootstrap.WithoutExecutor(cast(Any, None)):
        pass
    assert "can't start new thread" in capsys.readouterr().err


def test_a_progress_has_the_rows_and_the_memory_of_the_state() -> None:
    operators = [
        SimpleNamespace(numRowsTotal=3, memoryUsedBytes=1000),
        SimpleNamespace(numRowsTotal=4, memoryUsedBytes=24),
    ]
    assert bootstrap.state_bytes_of(operators) == 1024
    assert bootstrap.state_bytes_of([]) is None
    assert bootstrap.state_bytes_of([SimpleNamespace(numRowsTotal=3)]) == 0, "of a Spark that does not say it"


# -- what a query and a session say of themselves -------------------------------------------------------------------------


class JavaTrigger:
    """A trigger of the JVM, as py4j shows it."""

    def __init__(self, name: str, interval_ms: int | None) -> None:
        self._name, self._interval_ms = name, interval_ms

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: self._name)

    def intervalMs(self) -> int:
        assert self._interval_ms is not None, "it has no such method"
        return self._interval_ms

    batchDurationMs = intervalMs


def query_with(trigger: Any) -> Any:
    return SimpleNamespace(
        id="q1",
        name=None,
        _jsq=SimpleNamespace(streamingQuery=lambda: SimpleNamespace(trigger=lambda: trigger)),
    )


@pytest.mark.parametrize(
    ("trigger", "wanted"),
    [
        (JavaTrigger("ProcessingTimeTrigger", 10_000), {"q1": 10.0}),
        (JavaTrigger("ProcessingTimeTrigger", 0), {}),
        (JavaTrigger("ContinuousTrigger", 1000), {}),
        (JavaTrigger("RealTimeTrigger", 300_000), {}),
        (JavaTrigger("AvailableNowTrigger$", None), {}),
        (None, {"q1": 7.0}),
    ],
    ids=["by time", "as soon as possible", "continuous", "real time", "what there is", "another Spark"],
)
def test_the_interval_of_a_trigger_by_time(trigger: Any, wanted: dict[str, float]) -> None:
    watch = bootstrap.Watch(bootstrap.Reports(None))
    watch.intervals["q1"] = 7.0  # of the run before
    watch.note_trigger(query_with(trigger))
    assert watch.intervals == wanted


@pytest.mark.parametrize(
    ("trigger", "told"),
    [
        (JavaTrigger("ProcessingTimeTrigger", 600_000), {"kind": "processing", "interval_s": 600.0}),
        (JavaTrigger("ProcessingTimeTrigger", 0), {"kind": "processing"}),
        (JavaTrigger("ContinuousTrigger", 1000), {"kind": "continuous", "interval_s": 1.0}),
        (JavaTrigger("RealTimeTrigger", 300_000), {"kind": "real_time", "interval_s": 300.0}),
        (JavaTrigger("AvailableNowTrigger$", None), {"kind": "available_now"}),
        (JavaTrigger("OneTimeTrigger$", None), {"kind": "once"}),
    ],
)
def test_what_begins_the_batches_of_a_query_is_reported(
    trigger: Any, told: dict[str, Any], reports: ReportSocket
) -> None:
    bootstrap.Watch(bootstrap.Reports(str(reports.path))).note_trigger(query_with(trigger))
    reports.take()
    assert reports.taken == [{"event": "trigger", "query": "q1", "id": "q1", **told}]


def test_the_address_of_sparks_ui_is_reported_with_the_session(reports: ReportSocket) -> None:
    watch = bootstrap.Watch(bootstrap.Reports(str(reports.path)))
    watch.announce_session()
    watch.spark_ui = bootstrap.ui_of(
        SimpleNamespace(sparkContext=SimpleNamespace(uiWebUrl="http://host:4040"))
    )
    watch.announce_session()
    reports.take()
    assert reports.taken == [{"event": "session"}, {"event": "session", "spark_ui": "http://host:4040"}]
    assert bootstrap.ui_of(SimpleNamespace(sparkContext=SimpleNamespace(uiWebUrl=None))) == ""
    assert bootstrap.ui_of(SimpleNamespace()) == "", "Connect has no context here"


def test_the_master_that_the_code_has_set_is_reported_with_the_session(reports: ReportSocket) -> None:
    watch = bootstrap.Watch(bootstrap.Reports(str(reports.path)))
    watch.seen(LocalSession())
    reports.take()
    assert {"event": "session", "master": "local[1]"} in reports.taken
    assert bootstrap.master_of(SimpleNamespace()) == "", "Connect has no context here"


class LocalSession:
    """A session that can be held weakly, as PySpark's."""

    sparkContext = SimpleNamespace(uiWebUrl=None, master="local[1]")


class Writer:
    """A writer of streams, as PySpark's: each method of it is noted as its module comes in."""

    def __init__(self, root: str | None) -> None:
        self._spark = SimpleNamespace(conf=SimpleNamespace(get=lambda key, other: root))
        self.started = False

    def option(self, key: str, value: Any) -> Writer:
        return self

    def options(self, **options: Any) -> Writer:
        return self

    def queryName(self, queryName: str) -> Writer:
        return self

    def start(self, path: Any = None, *args: Any, **options: Any) -> Any:
        self.started = True
        return SimpleNamespace(id="q1", runId="r1")

    toTable = start


@pytest.fixture
def writer_class(monkeypatch: pytest.MonkeyPatch) -> type[Writer]:
    monkeypatch.setenv("SPARK_SUPERVISOR_CHECKPOINT", "file:///data/ck")
    return type("Fresh", (Writer,), dict(vars(Writer)))


@pytest.mark.parametrize(
    ("root", "calls", "args", "options", "anew"),
    [
        ("file:/data/ck", {}, (), {}, True),
        ("file:///data/ck/below", {"option": ("path", "x")}, (), {}, True),
        ("file:///data/ck2", {}, (), {}, False),
        (None, {}, (), {}, False),
        ("file:/data/ck", {"queryName": ("q",)}, (), {}, False),
        ("file:/data/ck", {"option": ("checkpointLocation", "/data/ck/q")}, (), {}, False),
        ("file:/data/ck", {"option": ("CHECKPOINTLOCATION", "/data/ck/q")}, (), {}, False),
        ("file:/data/ck", {}, (), {"queryName": "q"}, False),
        ("file:/data/ck", {}, (None, None, None, "q"), {}, False),
        ("file:/data/ck", {}, (None, None, None, None), {}, True),
        ("file:/data/ck", {}, (), {"checkpointLocation": "/data/ck/q"}, False),
    ],
)
def test_which_query_begins_anew_at_each_start(
    writer_class: type[Writer],
    root: str | None,
    calls: dict[str, tuple[Any, ...]],
    args: tuple[Any, ...],
    options: dict[str, Any],
    anew: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is so with a root for checkpoints, and neither a name nor a place: its directory has a random name."""
    watch = bootstrap.Watch(bootstrap.Reports(None))
    watch._wrap_writer(writer_class)
    writer = writer_class(root)
    for name, given in calls.items():
        getattr(writer, name)(*given)
    monkeypatch.setattr(bootstrap, "UNNAMED_WAIT_S", 0.0)
    writer.start(None, *args, **options)
    assert (writer.started, watch.unnamed) == (True, {"q1"} if anew else set())
    monkeypatch.setenv("SPARK_SUPERVISOR_UNNAMED", "0a1b2c3d")
    writer.started = False
    if anew:
        with pytest.raises(RuntimeError, match="give it a queryName"):
            writer.start(None, *args, **options)
    else:
        writer.start(None, *args, **options)
    assert writer.started is not anew


def test_a_query_that_was_not_let_begin_is_reported(
    reports: ReportSocket, writer_class: type[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "UNNAMED_WAIT_S", 0.0)
    monkeypatch.setenv("SPARK_SUPERVISOR_UNNAMED", "0a1b2c3d")
    bootstrap.Watch(bootstrap.Reports(str(reports.path)))._wrap_writer(writer_class)
    with pytest.raises(RuntimeError):
        writer_class("file:/data/ck").toTable("t")
    reports.take()
    assert reports.taken[-1] == {"event": "unnamed"}


@pytest.mark.parametrize(
    ("place", "location", "within"),
    [
        ("s3a://bucket/ck/", "s3://bucket/ck", True),
        ("s3a://bucket/ck2", "s3://bucket/ck", False),
        ("/data/ck/x", "file:///data/ck", True),
        ("s3a://other/ck", "s3a://bucket/ck", False),
        ("/data/ck", "", False),
    ],
)
def test_what_is_inside_of_the_checkpoint(place: str, location: str, within: bool) -> None:
    assert bootstrap.is_within(place, location) is within


def test_the_server_of_accumulators_looks_often_whether_it_is_to_end() -> None:
    asked: list[float] = []

    class Server:
        def serve_forever(self, poll_interval: float = 0.5) -> None:
            asked.append(poll_interval)

    bootstrap.hasten_shutdown(SimpleNamespace(AccumulatorTCPServer=Server))
    Server().serve_forever()
    bootstrap.hasten_shutdown(SimpleNamespace())  # another pyspark than we know
    assert asked == [bootstrap.SHUTDOWN_POLL_S]
