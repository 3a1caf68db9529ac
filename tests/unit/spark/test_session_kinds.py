"""A session of Spark Connect is refused where the application makes it, by whatever way it asks; with real pyspark, no JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.model.spark_session import MARK, SELECTING_VARIABLES
from supervisor.spark import bootstrap
from tests.fakes.report_socket import ReportSocket

BUILDER = "from pyspark.sql import SparkSession\n"
WAYS = {
    "remote": f"{BUILDER}SparkSession.builder.remote('sc://localhost:1/;token=hush').getOrCreate()",
    "create": f"{BUILDER}SparkSession.builder.remote('sc://localhost:1').create()",
    "a server in the tree": f"{BUILDER}SparkSession.builder.remote('local[1]').getOrCreate()",
    "config": f"{BUILDER}SparkSession.builder.config('spark.remote', 'sc://localhost:1').getOrCreate()",
    "config as a map": f"{BUILDER}SparkSession.builder.config(map={{'spark.remote': 'sc://localhost:1'}}).getOrCreate()",
    "api mode": f"{BUILDER}SparkSession.builder.config('spark.api.mode', 'connect').getOrCreate()",
    "an environment of its own": f"import os\nos.environ['SPARK_REMOTE'] = 'sc://localhost:1'\n{BUILDER}SparkSession.builder.getOrCreate()",
    "its api mode": f"import os\nos.environ['SPARK_API_MODE'] = 'connect'\n{BUILDER}SparkSession.builder.getOrCreate()",
    "the import": "from pyspark.sql.connect.session import SparkSession\nSparkSession('sc://localhost:1')",
    "the import, by its builder": (
        "from pyspark.sql.connect.session import SparkSession\nSparkSession.builder.remote('sc://localhost:1').create()"
    ),
    "and goes on": (
        f"{BUILDER}try:\n    SparkSession.builder.remote('sc://localhost:1').getOrCreate()\nexcept Exception:\n    raise SystemExit(9)"
    ),
}
FAKE = "class {name}:\n    def __init__(self, *args): print('made')\n"


def run(app: str, tmp_path: Path, env: dict[str, str] | None = None) -> tuple[list[dict[str, object]], str]:
    """Returns what was reported, and what was printed."""
    (tmp_path / "app.py").write_text(f"print('begun')\n{app}\nprint('went on')")
    with ReportSocket(tmp_path) as reports:
        given = {"PATH": os.environ["PATH"], "SPARK_SUPERVISOR_REPORT": str(reports.path), **(env or {})}
        command = [sys.executable, bootstrap.__file__, str(tmp_path / "app.py")]
        ran = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode != 0, ran.stdout
        return reports.take(), ran.stdout + ran.stderr


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_where_it_is_made(tmp_path: Path, way: str) -> None:
    said, printed = run(WAYS[way], tmp_path)
    assert [report["event"] for report in said] == ["begun", "error"]
    assert MARK in str(said[1]["message"]) and "hush" not in str(said[1]["message"])
    assert "went on" not in printed


@pytest.mark.parametrize("way", ["remote", "create", "a server in the tree", "config", "config as a map"])
def test_it_is_refused_beside_the_master_that_spark_submit_sets(tmp_path: Path, way: str) -> None:
    """pyspark refuses that pair by itself, in words that no restart policy knows."""
    said, printed = run(WAYS[way], tmp_path, {"MASTER": "local[1]"})
    assert [report["event"] for report in said] == ["begun", "error"]
    assert MARK in str(said[1]["message"]) and "hush" not in str(said[1]["message"])
    assert "went on" not in printed


@pytest.mark.parametrize("name", SELECTING_VARIABLES)
def test_in_an_environment_of_that_kind_no_application_begins(tmp_path: Path, name: str) -> None:
    value = "connect" if name == "SPARK_API_MODE" else "1"
    said, printed = run("", tmp_path, {name: value})
    assert [report["event"] for report in said] == ["error"]
    assert f"{MARK}env {name} asks for" in str(said[0]["message"])
    assert "begun" not in printed and name in printed


def test_no_driver_of_it_is_prepared(tmp_path: Path) -> None:
    env = {"SPARK_REMOTE": "sc://x", "SPARK_SUPERVISOR_PREPARED": str(tmp_path / "opening")}
    said, printed = run("", tmp_path, env)
    assert [report["event"] for report in said] == ["unready"]
    assert MARK in str(said[0]["why"]) and "begun" not in printed


@pytest.mark.parametrize("module", ["session", "client/core"])
def test_where_everything_for_it_is_installed_it_is_not_made_and_may_be_looked_at(
    tmp_path: Path, module: str
) -> None:
    """With a double of pyspark, since grpcio may be missing here. Libraries import the class to ask ``isinstance``."""
    name = "SparkSession" if module == "session" else "SparkConnectClient"
    path = tmp_path / "pyspark/sql/connect" / f"{module}.py"
    path.parent.mkdir(parents=True)
    for folder in (path.parent, *path.parent.parents):
        if folder == tmp_path:
            break
        (folder / "__init__.py").touch()
    path.write_text(FAKE.format(name=name))
    dotted = f"pyspark.sql.connect.{module.replace('/', '.')}"
    app = f"from {dotted} import {name}\nprint('looked at:', isinstance(1, {name}))\n{name}('sc://x')"
    said, printed = run(app, tmp_path, {"PYTHONPATH": str(tmp_path)})
    assert "looked at: False" in printed and "went on" not in printed
    assert MARK in str(said[-1]["message"])
