"""The pictures of the house are true: every file that ARCHITECTURE.md and SAFETY.md name is there, every package is named.

Links, commands and modules of all pages: ``test_docs``.
"""

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
