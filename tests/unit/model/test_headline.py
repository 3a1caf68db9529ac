"""The shortest true form of a failure: each error once, without wrappers and tracebacks."""

from __future__ import annotations

import pytest

from supervisor.model.exit_evidence import ExitEvidence
from supervisor.model.exits import classify
from supervisor.model.headline import headline

STREAM_FAILED = "[STREAM_FAILED] Query [id = 1f0c, runId = 77aa] terminated with exception: "
STAGE = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 "
    "(TID 1) (host-a executor driver): "
)
PYTHON = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/x/worker.py", line 1247, in main\n    process()\nValueError: bad row 17\n'
)


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        # as the bootstrap reports it: what went wrong first, then all of it again
        (
            ExitEvidence(
                1,
                True,
                error=f"STREAM_FAILED: StreamingQueryException: ValueError: bad row 17 | {STREAM_FAILED}{STAGE}{PYTHON}",
            ),
            "ValueError: bad row 17",
        ),
        (
            ExitEvidence(
                1,
                True,
                error=f"STREAM_FAILED: StreamingQueryException: java.lang.IllegalStateException: no topic clicks | {STREAM_FAILED}",
            ),
            "IllegalStateException: no topic clicks",
        ),
        (
            ExitEvidence(
                1,
                True,
                error=f"StreamingQueryException: {STREAM_FAILED}{STAGE}java.lang.RuntimeException: boom SQLSTATE: XXKST",
            ),
            "RuntimeException: boom",
        ),
        (
            ExitEvidence(1, True, error=f"StreamingQueryException: {STREAM_FAILED}the broker is gone"),
            "the broker is gone",
        ),
        (
            ExitEvidence(
                1,
                True,
                error="Py4JJavaError: java.io.IOException: No space left on device | An error occurred while calling o4.x.\n: y",
            ),
            "IOException: No space left on device",
        ),
        (ExitEvidence(1, True, error="ValueError: told"), "ValueError: told"),
        (ExitEvidence(1, True, error="KeyError: 'x: y'"), "KeyError: 'x: y'"),
        (ExitEvidence(7, True, error="ValueError: told"), "exit code 7: ValueError: told"),
        (ExitEvidence(7, True, error="SystemExit: exit 7"), "exit code 7: the application called sys.exit"),
        (ExitEvidence(1, True, error="SystemExit: exit no topic"), "no topic"),
        (ExitEvidence(1, True), "exit code 1"),
        (
            ExitEvidence(1, True, tail='Exception in thread "main" org.apache.spark.SparkException: no'),
            "from the output: SparkException: no",
        ),
        (ExitEvidence(-15, True), "killed by SIGTERM, not by the supervisor"),
        # an advice needs no evidence beside it
        (
            ExitEvidence(1, True, error="System memory 419430400 must be at least 471859200."),
            "driver memory 400 MiB, Spark needs 450 MiB; raise spark.driver.memory and submit it again",
        ),
        (
            ExitEvidence(
                52,
                True,
                error=f"OutOfMemoryError: {STREAM_FAILED}java.lang.OutOfMemoryError: Java heap space",
            ),
            "Java heap is full: raise spark.driver.memory, and resources.memory with it",
        ),
        (
            ExitEvidence(1, True, error="x: org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
            "the jars for s3a:// are missing: set spark.s3a_jars",
        ),
    ],
)
def test_each_error_once_and_no_traceback(evidence: ExitEvidence, says: str) -> None:
    assert headline(classify(evidence).reason) == says


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (
            "exit code 1: ValueError: x | more; restart budget is spent (5 restarts)",
            "ValueError: x; restart budget is spent (5 restarts)",
        ),
        ("exit code 1: ValueError: x; restarts are off", "ValueError: x; restarts are off"),
        (
            "restarts are off: exit code 7: ValueError: x | more",
            "exit code 7: ValueError: x; restarts are off",
        ),
        (
            "exit code 3; restart budget (fixed, attempts 2) is spent",
            "exit code 3; restart budget (fixed, attempts 2) is spent",
        ),
        (
            "pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `n`",
            "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `n`",
        ),
        ("no room; no room; no Java", "no room; no Java"),
        ("s3://b: no answer; is the store up?", "s3://b: no answer; is the store up?"),
        ("", ""),
    ],
)
def test_what_is_not_of_a_driver_stays(reason: str, says: str) -> None:
    assert headline(reason) == says
