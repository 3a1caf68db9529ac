"""The tables of README.md and of the page about trust: every test that they name exists, every check is one of ``doctor``, and
what is not stopped has a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from supervisor.cli.doctor.catalogue import listed

TESTS: Final = Path(__file__).parents[1]
README: Final = Path(__file__).with_name("README.md").read_text()
TRUST: Final = (TESTS.parent / "supervisor" / "docs" / "trust.md").read_text()
POSSIBLE: Final = "**possible**"


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| attack |"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_test_that_is_named_exists() -> None:
    there = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in (file.stem, *re.findall(r"^ *def (test_\w+)", file.read_text(), re.MULTILINE))
    }
    named = set(re.findall(r"\b(test_\w+)", README))
    assert named - there == set()
    assert len(named) > 80


def test_each_attack_has_a_test_or_is_named_as_possible_with_a_reason() -> None:
    attacks = list(rows(README))
    assert len({attack for attack, *_ in attacks}) == len(attacks) > 80
    whole, hostile = README.split("## A Unix user of its own")
    for attack, stopped, proof in rows(whole):
        of_a_test = "`test_" in proof or proof == "the same"
        assert of_a_test is (stopped != POSSIBLE), attack
        assert proof, attack
    for attack, ends, why in rows(hostile):
        assert ends and why, attack


def test_the_checklist_before_production_is_what_doctor_checks() -> None:
    _, checklist = TRUST.split("## Before production")
    ticked = re.findall(r"`([a-z0-9-]+)`", "".join(checks for _, checks in rows(checklist)))
    assert sorted(ticked) == sorted(check for _, check, _ in listed())


def test_whoever_could_turn_hostile_has_a_row() -> None:
    """Who can do what, what stops it, and what is accepted."""
    _, table = TRUST.split("## If it turned hostile")
    table, _ = table.split("## The store")
    found = [row for row in rows(table) if row[0] != "who"]
    assert len(found) == 13
    for who, could, stopped, remains in found:
        assert could and stopped, who
        assert remains.startswith("**accepted:** "), who
