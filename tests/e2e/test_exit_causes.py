"""Real deaths of PySpark drivers: what the bootstrap reports of them, and what the sentence advises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.model.exit_evidence import ExitEvidence
from supervisor.model.exits import ExitVerdict, classify
from supervisor.model.records import Cause
from supervisor.shim.reports import parse
from tests.e2e.test_bootstrap import reports, submit
from tests.fakes.report_socket import ReportSocket

pytestmark = pytest.mark.spark
__all__ = ["reports"]

QUERY = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.CONFIG.getOrCreate()

@udf("long")
def crash(value):
    if value >= CRASH_AT:
        import ctypes
        ctypes.string_at(0)
    return value

rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
rows.select(crash("value")).writeStream.format("noop").trigger(TRIGGER).start().awaitTermination()
"""


def source(
    crash_at: int = 10**9, config: str = 'config("a", "b")', trigger: str = 'processingTime="0 seconds"'
) -> str:
    return QUERY.replace("CRASH_AT", str(crash_at)).replace("CONFIG", config).replace("TRIGGER", trigger)


def verdict(reports: ReportSocket, status: int, output: str) -> ExitVerdict:
    """As the shim classifies what it was told."""
    reported = [parse(json.dumps(each).encode()) for each in reports.taken]
    last = next(each for each in reversed(reported) if each is not None and each.event in ("error", "ended"))
    return classify(
        ExitEvidence(
            status,
            unbounded=True,
            error=last.error,
            tail=output[-16384:],
            raised=last.event == "error",
            returned=last.event == "ended",
            drained=any(each is not None and each.trigger == "available_now" for each in reported),
            session=True,
        )
    )


@pytest.mark.parametrize("faulthandler", [False, True])
def test_a_python_worker_that_crashes_in_native_code(
    tmp_path: Path, reports: ReportSocket, faulthandler: bool
) -> None:
    config = (
        'config("spark.python.worker.faulthandler.enabled", "true")' if faulthandler else 'config("a", "b")'
    )
    ended = submit(tmp_path, reports, source(20, config))
    found = verdict(reports, ended.returncode, ended.stdout)
    assert found.cause is Cause.USER_ERROR, found
    advice = (
        "native code crashed in a Python worker; see the log; exit code 1: "
        if faulthandler
        else "a Python worker died, most likely in native code: set spark.python.worker.faulthandler.enabled=true to see where"
    )
    assert found.reason.startswith(advice), found
    assert "Python worker exited unexpectedly" in found.reason and "EOFException" not in found.reason[:300]
    assert not faulthandler or "Segmentation fault" in ended.stdout


def test_an_address_that_is_none_of_the_host(tmp_path: Path, reports: ReportSocket) -> None:
    ended = submit(tmp_path, reports, source(config='config("spark.driver.bindAddress", "10.11.12.13")'))
    found = verdict(reports, ended.returncode, ended.stdout)
    assert found.cause is Cause.USER_ERROR
    assert found.reason.startswith(
        "spark.driver.bindAddress, else SPARK_LOCAL_IP, else what the host's name"
    ), found


def test_what_reads_what_is_there_and_ends(tmp_path: Path, reports: ReportSocket) -> None:
    ended = submit(tmp_path, reports, source(trigger="availableNow=True"))
    found = verdict(reports, ended.returncode, ended.stdout)
    assert found == (
        Cause.EXITED_ZERO,
        "exit code 0 of an unbounded job: its queries read all there was and ended (availableNow, once): "
        "say unbounded: false",
        False,
    )
