"""Real queries of which a later revision fails in its first batch: what it leaves is clean, and the revision of before goes
on without a row lost; or it is not clean, and is said so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
PROVIDER = "org.apache.spark.sql.execution.streaming.state"
PLAIN = ("foreach_batch", "udf", "missing_column", "bad_sink")


@pytest.fixture(scope="module", params=["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    home, directory = installed_spark_home(), tmp_path_factory.mktemp("failing")
    assert home is not None
    file = directory / "spark.properties"
    file.write_text(
        render_properties(
            {
                "spark.master": "local[1]",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "512m",
                "spark.sql.streaming.stateStore.providerClass": f"{PROVIDER}.{request.param}",
            }
        ),
        encoding="ascii",
    )
    program = ROOT / "tests" / "testbed" / "failing_revisions.py"
    done = subprocess.run(
        (str(home / "bin" / "spark-submit"), "--properties-file", str(file), str(program), str(directory)),
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {line["case"]: line for line in lines}


def test_a_batch_that_fails_leaves_nothing_and_no_row_is_lost(outcomes: dict[str, dict[str, Any]]) -> None:
    for name in PLAIN:
        found = outcomes[name]
        assert found["failed"] and (found["left"], found["goes_on"]) == ("", ""), (name, found)
        assert sorted(row["n"] for row in found["rows"]) == found["expected"], name


def test_state_of_the_failed_batch_is_replaced(outcomes: dict[str, dict[str, Any]]) -> None:
    found = outcomes["state"]
    assert found["failed"] and (found["left"], found["goes_on"]) == ("", ""), found
    newest: dict[int, int] = {}
    for row in found["rows"]:
        newest[row["k"]] = max(row["c"], newest.get(row["k"], 0))
    assert newest == Counter(number % 5 for number in found["expected"])


@pytest.mark.parametrize("case", ["another_operator", "another_key"])
def test_another_shape_of_the_state_is_not_clean_or_harmless(
    outcomes: dict[str, dict[str, Any]], case: str
) -> None:
    found = outcomes[case]
    assert found["failed"] and found["goes_on"] == "", found
    print(case, "|", found["failed"][:160], "|", found["left"])
    if not found["left"]:
        newest = {row["k"]: row["c"] for row in found["rows"] if isinstance(row["k"], int)}
        assert newest == Counter(number % 5 for number in found["expected"])


@pytest.mark.parametrize("case", ["state_added", "another_source"])
def test_another_query_is_not_clean_or_the_revision_of_before_goes_on_without_a_row_lost(
    outcomes: dict[str, dict[str, Any]], case: str
) -> None:
    """Spark 4.3 refuses both before it has written anything; an earlier one may leave state, or files of its plan."""
    found = outcomes[case]
    assert found["failed"] and found["goes_on"] == "", found
    if not found["left"]:
        assert sorted(row["n"] for row in found["rows"]) == found["expected"], case
