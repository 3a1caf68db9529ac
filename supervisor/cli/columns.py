"""Defines what a table looks like, on a terminal and in a pipe, for ``cli.output`` and ``cli.drawing``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NUMBERS = frozenset(
    {
        "ATTEMPT",
        "BATCH",
        "BATCH MS",
        "BATCH S",
        "CPU %",
        "DRIVER",
        "DRIVERS",
        "FAILURES",
        "LAG",
        "LOAD %",
        "MEMORY",
        "OBJECTS",
        "OFFERED",
        "PARTITIONS",
        "PEAKS",
        "RESERVED",
        "RESTARTS",
        "REVISION",
        "ROWS",
        "ROWS/S DONE",
        "ROWS/S IN",
        "SIZE",
        "STATE ROWS",
        "STORES",
        "TRIGGER",
        "USED",
    }
)
"""Lists the heads of columns that hold numbers, in any table: they are aligned to the right."""
WIDE_ENOUGH = 10_000


@dataclass(frozen=True)
class Columns:
    """Defines what a table looks like. ``state`` is the index of the column that is coloured.

    ``spare`` names the columns that may be left out for lack of room, the least important first; without any,
    lines may be wider than a terminal. With ``whole``, the last column is a sentence, or empty: one that has no
    room beside its row, even without the spare columns, stands below it, and is not cut. With ``below_max``, it has
    that many lines there at most, of which the last one then ends in an ellipsis. ``outliers`` names a column of names, of
    which those that are much longer than most are cut in the middle where another column would be left out for them.
    """

    head: Sequence[str]
    state: int | None = None
    spare: Sequence[str] = ()
    whole: bool = False
    below_max: int | None = None
    outliers: str = ""


def last_cell(columns: Columns, line: Sequence[str]) -> str:
    """Returns what stands in the last column of ``line``."""
    return "" if columns.whole and line[-1] == "-" else line[-1]


def padded(columns: Columns, n: int, text: str, room: int) -> str:
    """Returns ``text`` with ``room`` more spaces; numbers are aligned to the right."""
    return " " * room + text if columns.head[n].strip() in NUMBERS else text + " " * room
