"""The pictures of the house are true: every file that ARCHITECTURE.md and SAFETY.md name is there, every package is named.

Links, commands and modules of all pages: ``test_docs``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from supervisor.model.state import UpdateState

ROOT = Path(__file__).parent.parent.parent
WALK = (ROOT / "supervisor" / "ARCHITECTURE.md").read_text()
ARGUMENT = (ROOT / "supervisor" / "SAFETY.md").read_text()


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)", WALK + ARGUMENT)))
)
def test_what_the_walk_names_is_there(name: str) -> None:
    assert (ROOT / "supervisor" / name).exists() or (ROOT / name).exists()


def test_the_walk_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "supervisor").glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}" not in WALK} == set()


def test_the_walk_fits_on_a_page_or_two() -> None:
    """What only one room needs stands in the docstring of its package."""
    lines = WALK.splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


def test_every_room_says_what_it_is() -> None:
    """And which of its files to open first."""
    silent = [
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "supervisor").rglob("__init__.py")
        if path.parent.parent != ROOT and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_every_state_of_an_update_has_a_row() -> None:
    assert {state for state in UpdateState if f"`{state}`" not in WALK} == set()
