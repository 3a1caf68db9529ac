"""The table of ``model.exits``: one row per way in which a driver was seen to end."""

from __future__ import annotations

import pytest

from supervisor.model.exits import REASON_MAX_BYTES, Evidence, classify, how
from supervisor.model.records import Cause

TRACEBACK = """\
26/11/21 01:32:24 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Traceback (most recent call last):
  File "/x/app.py", line 8, in <module>
    raise ValueError("bad row")
ValueError: bad row
"""
JVM_TRACE = """\
Exception in thread "main" org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query x terminated
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)
"""
CONFLICT = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 4."
HEAP = "java.lang.OutOfMemoryError: Java heap space"
NO_S3A = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


@pytest.mark.parametrize(
    ("evidence", "cause", "says"),
    [
        # bounded or not
        (Evidence(0, unbounded=False), Cause.FINISHED, "exit code 0"),
        (Evidence(0, unbounded=True), Cause.EXITED_ZERO, "swallowed"),
        (Evidence(0, unbounded=True, tail=TRACEBACK), Cause.EXITED_ZERO, "ValueError: bad row"),
        # a stop was asked for: nothing else counts
        (Evidence(0, unbounded=False, stop_requested=True), Cause.STOPPED, "stopped on request"),
        (Evidence(143, unbounded=True, stop_requested=True), Cause.STOPPED, "SIGTERM (exit code 143)"),
        (Evidence(-9, unbounded=True, stop_requested=True, tail=HEAP), Cause.STOPPED, "SIGKILL"),
        (Evidence(1, unbounded=True, stop_requested=True, killed_for=(Cause.STOPPED, "it did not stop within 30 s")),
         Cause.STOPPED, "did not stop within 30 s"),
        # we killed it
        (Evidence(-9, unbounded=True, killed_for=(Cause.STALLED, "no progress for 600 s")), Cause.STALLED, "600 s"),
        (Evidence(0, unbounded=False, killed_for=(Cause.LEASE_EXPIRED, "no renewal")), Cause.LEASE_EXPIRED, "no renewal"),
        # second writer
        (Evidence(1, unbounded=True, error="CONCURRENT_STREAM_LOG_UPDATE: x"), Cause.CHECKPOINT_CONFLICT, "second writer"),
        (Evidence(1, unbounded=True, tail=CONFLICT), Cause.CHECKPOINT_CONFLICT, "another driver"),
        (Evidence(0, unbounded=True, tail=CONFLICT), Cause.CHECKPOINT_CONFLICT, "another driver"),
        # memory
        (Evidence(1, unbounded=True, tail=HEAP), Cause.OUT_OF_MEMORY, "Java heap space"),
        (Evidence(52, unbounded=True, error="OutOfMemoryError: heap"), Cause.OUT_OF_MEMORY, "heap"),
        (Evidence(1, unbounded=True, tail="MemoryError"), Cause.OUT_OF_MEMORY, "MemoryError"),
        (Evidence(-9, unbounded=True, oom_killed=True), Cause.OUT_OF_MEMORY, "by the kernel"),
        (Evidence(137, unbounded=True, oom_killed=True), Cause.OUT_OF_MEMORY, "by the kernel"),
        (Evidence(137, unbounded=True), Cause.OUT_OF_MEMORY, "unless somebody did it"),
        # signals
        (Evidence(-9, unbounded=True, oom_killed=False), Cause.KILLED, "SIGKILL, not by the supervisor"),
        (Evidence(137, unbounded=True, oom_killed=False), Cause.KILLED, "SIGKILL (exit code 137)"),
        (Evidence(143, unbounded=True), Cause.KILLED, "SIGTERM"),
        (Evidence(134, unbounded=True), Cause.KILLED, "SIGABRT"),
        (Evidence(-11, unbounded=False), Cause.KILLED, "SIGSEGV"),
        # not executable
        (Evidence(127, unbounded=True, begun=False, tail="spark-class: line 71: java: command not found"),
         Cause.NOT_STARTED, "java: command not found"),
        (Evidence(127, unbounded=True, begun=True, tail="x: command not found"), Cause.USER_ERROR, "exit code 127"),
        (Evidence(127, unbounded=True, tail="bye"), Cause.USER_ERROR, "bye"),
        # the application's own failure
        (Evidence(1, unbounded=True, tail=TRACEBACK), Cause.USER_ERROR, "exit code 1: ValueError: bad row"),
        (Evidence(1, unbounded=True, error="ValueError: told", tail=TRACEBACK), Cause.USER_ERROR, "ValueError: told"),
        (Evidence(7, unbounded=True, error="SystemExit: exit 7"), Cause.USER_ERROR, "exit code 7"),
        (Evidence(1, unbounded=True, tail=JVM_TRACE), Cause.USER_ERROR, "STREAM_FAILED"),
        (Evidence(1, unbounded=True, tail=NO_S3A), Cause.USER_ERROR, "spark.s3a_jars"),
        (Evidence(2, unbounded=True, tail="python3: can't open file 'x'\n\n"), Cause.USER_ERROR, "can't open file"),
        (Evidence(None, unbounded=True), Cause.USER_ERROR, "exit code unknown"),
        (Evidence(1, unbounded=True), Cause.USER_ERROR, "exit code 1"),
    ],
)
def test_cause_and_sentence(evidence: Evidence, cause: Cause, says: str) -> None:
    verdict = classify(evidence)
    assert verdict.cause is cause
    assert says in verdict.reason
    assert "\n" not in verdict.reason
    assert verdict.permanent is (cause is Cause.NOT_STARTED)


def test_the_sentence_is_bounded() -> None:
    verdict = classify(Evidence(1, unbounded=True, error="ValueError: " + "ü" * 5000))
    assert len(verdict.reason.encode()) <= REASON_MAX_BYTES


@pytest.mark.parametrize(
    ("status", "text"),
    [(0, "exit code 0"), (1, "exit code 1"), (-15, "killed by SIGTERM"), (143, "killed by SIGTERM (exit code 143)"),
     (255, "exit code 255"), (None, "exit code unknown")],
)
def test_how(status: int | None, text: str) -> None:
    assert how(status) == text
