"""The table of incidents names tests that exist, and every test of this directory stands in it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = (TESTS / "incidents" / "README.md").read_text()
NAMED = re.findall(r"`([\w/]+\.py)::(?:Test\w+::)?(test_\w+)`", TABLE)
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| incident")]


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_test_that_the_table_names_exists() -> None:
    assert [f"{file}::{name}" for file, name in NAMED if name not in named_in(file)] == []


def test_every_incident_names_a_test() -> None:
    assert len(ROWS) > 30
    assert [row[:40] for row in ROWS if not re.search(r"`[\w/]+\.py::", row.split("|")[-2])] == []
    assert [row[:40] for row in ROWS if row.count("|") != 5] == []


def test_every_replay_of_this_directory_stands_in_the_table() -> None:
    for replays in ("incidents/test_flink.py", "incidents/test_clients.py"):
        assert {name for file, name in NAMED if file == replays} == named_in(replays)


def test_the_incidents_that_the_project_must_know_are_there() -> None:
    flink = (
        2354,
        5193,
        9494,
        9573,
        10011,
        10052,
        10255,
        10329,
        11665,
        11813,
        19154,
        24038,
        27382,
        33500,
        39704,
    )
    wanted = [
        *(f"FLINK-{number}" for number in flink),
        "CURATOR-460",
        "CURATOR-644",
        "CURATOR-645",
        "kazoo #42",
        "Airwallex",
        "SPARK-26425",
    ]
    assert [name for name in wanted if not any(name in row.split("|")[1] for row in ROWS)] == []
