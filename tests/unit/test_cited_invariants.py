"""Every invariant that a harness cites has a heading in ``docs/protocol.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
HARNESSES = ("explore", "simulation", "chaos", "crash_points", "fuzz", "faults")
DEFINED = set(
    re.findall(
        r"^### (I\d+) ", (TOP / "supervisor/docs/protocol.md").read_text(encoding="utf-8"), re.MULTILINE
    )
)


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_harness_cites_only_invariants_of_the_protocol(harness: str) -> None:
    files = [path for path in (TOP / "tests" / harness).rglob("*") if path.suffix in (".py", ".md")]
    assert files
    for path in files:
        cited = set(re.findall(r"\bI\d+\b", path.read_text(encoding="utf-8")))
        assert cited <= DEFINED, f"{path.relative_to(TOP)} cites {sorted(cited - DEFINED)}"
