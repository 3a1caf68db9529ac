"""The pictures of the house are true: every file that ARCHITECTURE.md and README name is there, every package is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()))
def test_what_the_readme_links_to_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#]+)\)", ARGUMENT))
def test_what_the_safety_argument_links_to_is_there(name: str) -> None:
    assert (ROOT / "supervisor" / name).exists()


@pytest.mark.parametrize(
    "module", sorted(set(re.findall(r"python -m ([a-z0-9._]+)", ARGUMENT + (ROOT / "README.md").read_text())))
)
def test_what_is_said_to_be_a_command_is_one(module: str) -> None:
    place = ROOT / Path(*module.split("."))
    assert place.with_suffix(".py").exists() or (place / "__main__.py").exists() or module in ("venv",)
