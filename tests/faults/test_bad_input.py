"""What a spec may hold reaches the application as it is written, and what cannot be started says why, on real supervisors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from supervisor.model import host_tools
from supervisor.spark.arguments import BOOTSTRAP
from tests.faults.conftest import on_embedded
from tests.testbed.fleet import FAKE_SPARK, Fleet
from tests.testbed.hostile_tools import make_hostile_tools

ODD = [
    "",
    " ",
    "a b",
    "it's",
    'say "no"',
    "back\\slash\\",
    "two\nlines\n",
    "tab\there",
    "cr\r\nlf",
    "$HOME `id` $(id) !! ~ * ? [a]",
    ";|&<>#%",
    "-leading",
    "--conf=x",
    "--quoted",
    "ünïcödé 日本 \U0001f600 \u202e",
    "{checkpoint}x{other}",
    "a=b=c",
    "%41%00",
    "\\u0041",
    "\x01\x7f",
]

CANNOT_START = [
    ({"PYSPARK_PYTHON": "no-such-python"}, "PYSPARK_PYTHON is no-such-python"),
    ({"KEY": "${env:NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE"),
    ({"KEY": "${file:/no/such/secret}"}, "/no/such/secret"),
]


def started(fleet: Fleet, name: str) -> dict[str, Any]:
    """What the driver saw of itself."""
    fleet.wait_attempt(name, 1)
    lines = [json.loads(line) for line in fleet.witness_file.read_text().splitlines()]
    return next(line for line in lines if line["event"] == "start" and line["job"] == name)


def application_words(argv: list[str]) -> list[str]:
    """What follows the application's name, as our bootstrap gives it to the application."""
    at = next(n for n, word in enumerate(argv) if word == str(BOOTSTRAP))
    if argv[at + 1] == "--quoted":
        return [unquote(word) for word in argv[at + 3 :]]
    return argv[at + 2 :]


@on_embedded
@pytest.mark.parametrize(
    "odd", [ODD, [text for text in ODD if text.isascii() and "\r" not in text]], ids=["all", "ascii"]
)
def test_args_and_env_arrive_as_they_are(fleet: Fleet, job: str, odd: list[str]) -> None:
    env = {f"ODD_{number}": text for number, text in enumerate(odd)}
    fleet.submit(job, args=odd, env=env, knobs={"record_argv": True})
    seen = started(fleet, job)
    location = f"file://{fleet.directory}/checkpoints/{job}"
    assert application_words(seen["argv"]) == [text.replace("{checkpoint}", location) for text in odd]
    assert {name: seen["env"].get(name) for name in env} == env
    fleet.wait_state(job, "running")


@on_embedded
def test_spark_and_java_of_a_job_that_an_older_version_registered_are_not_run(
    fleet: Fleet,
    job: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs with its host's, which says so; submit refuses such a job."""
    hostile = make_hostile_tools(tmp_path / "hostile")
    env = {name: str(hostile.home) for name in ("SPARK_HOME", "JAVA_HOME")}
    refused = fleet.cli("submit", str(fleet.spec_file(job, env=env)))
    assert refused.code == 2 and "env must not set SPARK_HOME and JAVA_HOME" in refused.err
    with monkeypatch.context() as older:  # the command runs in this process
        older.setattr(host_tools, "why_refused", lambda _env: None)
        fleet.submit(job, env=env, knobs={"record_argv": True})
    seen = started(fleet, job)
    assert seen["env"]["SPARK_HOME"] == str(FAKE_SPARK)
    assert fleet.wait_state(job, "running")["env_ignored"].startswith("SPARK_HOME and JAVA_HOME ignored")
    assert any("tools_of_job_ignored" in line and job in line for line in fleet.host_of(job).log.splitlines())
    assert hostile.ran() == ""


@on_embedded
def test_what_cannot_be_started_is_quarantined_with_the_reason(fleet: Fleet, job: str) -> None:
    for number, (env, _) in enumerate(CANNOT_START):
        fleet.submit(f"{job}-{number}", env=env)
    for number, (_, says) in enumerate(CANNOT_START):
        name = f"{job}-{number}"
        row = fleet.wait_state(name, "quarantined")
        assert says in row["reason"] and row["attempt"] == 1, row
        assert fleet.starts(name) == []
    repaired = f"{job}-0"
    fleet.cancel(repaired)
    fleet.submit(repaired)
    fleet.wait_state(repaired, "running")
