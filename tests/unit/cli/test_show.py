"""``show`` for a person: what is left out, what comes first, and how the driver that failed took its leave."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.model.records import Cause, ClusterWait, OwnState, Progress
from supervisor.operations.log_tail import LINE_MAX_CHARS, OTHER_LINES, TAIL_BYTES, read_tail, tail_lines
from supervisor.spec.job import canonical_json, parse_spec, without_defaults
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal

TRACEBACK = """\
26/11/21 00:46:49 INFO SparkContext: Running Spark version 4.1.0
Traceback (most recent call last):
  File "/work/app.py", line 12, in <module>
    main()
  File "/work/app.py", line 8, in main
    raise ValueError("no such column: password=hush1")
ValueError: no such column: password=hush1
26/11/21 00:46:50 INFO ShutdownHookManager: Shutdown hook called
"""


def wrote(terminal: Terminal, uid: str, text: str, attempt: int = 1) -> Path:
    path = terminal.home / "log" / "a" / f"{uid}.{attempt}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_state_and_reason_come_first_and_defaults_and_nulls_are_left_out(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.run(
        "a",
        progress=Progress(
            query="q",
            batch_id=41,
            input_rows_per_s=1.0,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=None,
        ),
    )
    lines = terminal.run("show", "a").out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["name", "state", "reason"]
    assert lines[1].startswith("state:           running for ")
    text = "\n".join(lines)
    assert "41 of q" in text and "20.25 rows/s done" in text and "checkpoint: s3://bucket/a" in text
    for hidden in ("wanted", "restarts", "fence", "stop mode", "stop_grace", "lease:", "deploy_mode", "null"):
        assert hidden not in text, hidden
    every = terminal.run("show", "a", "--all").out
    for shown in (
        "restarts:        0",
        "stop mode:       -",
        "fence:           auto",
        "deploy_mode: client",
        "lease: 30s",
    ):
        assert shown in every, every
    assert every.splitlines()[:3] == lines[:3]


def test_a_spec_without_its_defaults_says_what_was_written() -> None:
    import json

    text = "{name: a, application: a.py, checkpoint: /c, lease: 40s, restart: {attempts: 3}, conf: {spark.x: '1'}, env: {}}"
    document = json.loads(canonical_json(parse_spec(text, "a.yaml")))
    document["of_a_newer_version"] = 1
    assert without_defaults(document) == {
        "name": "a",
        "application": "a.py",
        "checkpoint": "/c",
        "lease": "40s",
        "restart": {"attempts": 3},
        "conf": {"spark.x": "1"},
        "of_a_newer_version": 1,
    }


def test_the_end_of_the_traceback_is_told_once(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    wrote(terminal, uid, TRACEBACK)
    terminal.bench.exit("a", Cause.USER_ERROR)
    ran = terminal.run("show", "a")
    assert ran.out.count("Traceback") == 1 and 'app.py", line 8, in main' in ran.out and "INFO" not in ran.out
    assert "logs a --attempt 1" in ran.out and "hush" not in ran.out
    # the reason; neither last failure nor history say it again
    assert ran.out.count("exit code 7") == 1, ran.out
    assert "Traceback" not in terminal.run("show", "a", "-o", "json").out


def test_the_output_of_another_host_is_pointed_to(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.exit("a", Cause.USER_ERROR)
    config = terminal.config.read_text()
    assert "output:" not in terminal.run("show", "a").out  # it ran here, and wrote nothing
    terminal.config.write_text(config.replace("id: host-a", "id: host-b"))
    assert (
        "attempt 1 ran on host-a.example: there spark-supervisor logs a --attempt 1"
        in terminal.run("show", "a").out
    )


def test_an_orderly_stop_has_no_last_words(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    wrote(terminal, uid, TRACEBACK)
    terminal.bench.exit("a", Cause.STOPPED)
    assert "Traceback" not in terminal.run("show", "a").out


@pytest.mark.parametrize("state", [OwnState.EXITED, OwnState.VACANT])
def test_a_driver_that_is_gone_waits_for_no_executors(terminal: Terminal, state: OwnState) -> None:
    """Its lease stays behind as it was."""
    terminal.submit("a")
    terminal.bench.run("a", cluster_wait=ClusterWait(cluster="prod", since=AT))
    assert terminal.run("show", "a", "-o", "json").json["cluster_wait"]["cluster"] == "prod"
    terminal.bench.set_own("a", state)
    assert terminal.run("show", "a", "-o", "json").json["cluster_wait"] is None
    assert "waiting for executors" not in terminal.run("show", "a", "--all").out


WORKER = """\
Traceback (most recent call last):
  File "app.py", line 3, in <module>
    query.awaitTermination()
pyspark.errors.StreamingQueryException: [STREAM_FAILED] PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "app.py", line 2, in parse
    int(row)
ValueError: invalid literal

\tat org.apache.spark.Task.run(Task.scala:1)
"""
JVM = (
    'Exception in thread "main" x.A: b\n\tat a.A(A.scala:1)\nCaused by: java.io.IOException: full\n'
    + "\tat b.B(B.scala:1)\n" * 9
)
DEEP = (
    "Traceback (most recent call last):\n"
    + '  File "a.py", line 1, in f\n    f()\n' * 50
    + "RecursionError: too deep\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (
            WORKER,
            [
                "Traceback (most recent call last):",
                '  File "worker.py", line 1, in main',
                "    process()",
                '  File "app.py", line 2, in parse',
                "    int(row)",
                "ValueError: invalid literal",
            ],
        ),
        (JVM, ["Caused by: java.io.IOException: full", *["    at b.B(B.scala:1)"] * 3]),
        (
            DEEP,
            [
                "Traceback (most recent call last):",
                "  ...",
                *['  File "a.py", line 1, in f', "    f()"] * 3,
                "RecursionError: too deep",
            ],
        ),
        ("\n".join(map(str, range(20))), [str(n) for n in range(20 - OTHER_LINES, 20)]),
        ("Traceback (most recent call last):", ["Traceback (most recent call last):"]),
        (
            "x: password=hush1\n" + "token" * TAIL_BYTES,
            ["x: password=*********(redacted)", "token" * (LINE_MAX_CHARS // 5)],
        ),
    ],
)
def test_last_words(text: str, expected: list[str]) -> None:
    assert tail_lines(text) == expected


def test_only_the_end_of_the_files_is_read(tmp_path: Path) -> None:
    old, new = tmp_path / "x.log.1", tmp_path / "x.log"
    old.write_text("old" * TAIL_BYTES)
    new.write_text("the end")
    tail = read_tail(new)
    assert len(tail) == TAIL_BYTES and tail.endswith("oldthe end")
    assert read_tail(tmp_path / "y.log") == ""


@pytest.mark.parametrize("attack", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), Path.mkdir])
def test_what_a_job_puts_in_place_of_its_output_is_neither_read_nor_waited_for(
    terminal: Terminal, attack: Callable[[Path], None]
) -> None:
    """Opening a FIFO would wait for somebody who writes: ``show`` would hang."""
    uid = terminal.submit("a")
    terminal.bench.exit("a")
    output = terminal.home / "log" / "a" / f"{uid}.1.log"
    output.parent.mkdir(parents=True)
    attack(output)
    shown: list[str] = []
    thread = threading.Thread(target=lambda: shown.append(terminal.run("show", "a").out), daemon=True)
    thread.start()
    thread.join(20)
    assert shown, "it waits"
    assert "is a symbolic link or no regular file" in shown[0] and "root:" not in shown[0]
