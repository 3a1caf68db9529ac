"""``demo`` and ``dev`` are commands too: the terminal of the CLI's tests is theirs."""

from __future__ import annotations

from tests.unit.cli.conftest import terminal

__all__ = ["terminal"]
