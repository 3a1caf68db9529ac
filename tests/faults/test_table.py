"""README.md's table says which test does what to which ensembles: it must be so."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.faults.conftest import on_embedded

ROW = re.compile(
    r"^\| (?P<what>.+?) \| `(?P<file>\w+)\.py::(?P<test>\w+)` \| (?P<where>.+?) \|$", re.MULTILINE
)
ROWS = [match.groupdict() for match in ROW.finditer((Path(__file__).with_name("README.md")).read_text())]
ON_BOTH = {"ensemble", "fleet", "fragile", "behind_proxies", "stage"}
"""Fixtures with both kinds of ensemble as parameters."""


TESTS = Path(__file__).resolve().parents[1]
FAULTS_PAGE = (TESTS.parent / "supervisor/docs/faults.md").read_text()


def test_each_fault_of_the_catalogue_has_its_row_and_a_test() -> None:
    rows = [line for line in FAULTS_PAGE.splitlines() if line.startswith("| F")]
    assert [row.split("|")[1].strip() for row in rows] == [f"F{number}" for number in range(1, 64)]
    assert [row[:40] for row in rows if "`" not in row.split("|")[4]] == []


def test_each_test_that_the_catalogue_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", FAULTS_PAGE)
    assert len(named) > 100
    assert [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"def {test}\b", (TESTS / file).read_text())
    ] == []


def test_the_table_is_there() -> None:
    assert len(ROWS) > 35


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["test"])
def test_a_line_is_true(row: dict[str, str]) -> None:
    module = importlib.import_module(f"tests.faults.{row['file']}")
    test = getattr(module, row["test"])
    marks = [*getattr(test, "pytestmark", []), *getattr(module, "pytestmark", [])]
    once = on_embedded.mark in marks or not ON_BOTH & set(inspect.signature(test).parameters)
    assert row["where"].startswith("both") is not once
