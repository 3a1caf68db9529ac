"""Prints what goes to the screen: one JSON or YAML document, or columns; notices and errors go to stderr.

Called by every command. Text that came from an application or a record may hold control characters: they
never reach the terminal. There are colours and fitting to the width only on a terminal; a pipe gets whole
cells and plain text. ``rich`` draws on terminals only (``cli.drawing``, imported there): in a pipe every
command starts without it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
import types
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from supervisor.cli.columns import NUMBERS, Columns, last_cell, padded
from supervisor.operations.spans import age as age
from supervisor.operations.spans import span as span

_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def drawing_on_terminal() -> types.ModuleType:
    """Returns ``cli.drawing``, which is loaded when something is drawn."""
    from supervisor.cli import drawing  # rich takes 40 ms to load: a pipe starts without it

    return drawing


def print_line(line: str) -> None:
    print(clean(line))


def print_labelled(label: str, text: str) -> None:
    """Prints ``label`` and ``text``.

    A long text is broken below itself on a terminal, and one line in a pipe.
    """
    width = terminal_width()
    if width is None:
        print_line(label + text)
        return
    for line in textwrap.wrap(clean(text), max(30, width - len(label))) or [""]:
        print(label + line)
        label = " " * len(label)


def notice(line: str) -> None:
    """Prints something that the user should know and a script should not read."""
    print(clean(line), file=sys.stderr)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def print_table(
    columns: Columns | Sequence[str], rows: Iterable[Sequence[Any]], *, colour_column: int | None = None
) -> bool:
    """Prints columns two spaces apart.

    On a terminal the last column takes what is left of the width, and is cut or broken to it. Returns whether a
    sentence is cut there (``Columns.below_max``).
    """
    if not isinstance(columns, Columns):
        columns = Columns(columns, colour_column)
    lines = cells(rows)
    width = terminal_width()
    if width is not None:
        is_cut: bool = drawing_on_terminal().print_drawn(columns, lines, width)
        return is_cut
    whole = [list(columns.head), *([*line[:-1], last_cell(columns, line)] for line in lines)]
    widths = [max(len(line[n]) for line in whole) for n in range(len(columns.head))]
    widths[-1] = widths[-1] if columns.head[-1].strip() in NUMBERS else 0
    for line in whole:
        texts = [padded(columns, n, text, widths[n] - len(text)) for n, text in enumerate(line)]
        print("  ".join(texts).rstrip())
    return False


def terminal_width() -> int | None:
    """Returns the columns of the terminal that stdout is, or None in a pipe or file: there nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cells(rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    """Returns the rows as text without control characters, with ``-`` for what is not known."""
    return [[clean(_text(cell)) for cell in row] for row in rows]


def clean(text: str) -> str:
    """Returns ``text`` without control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def readable_size(count: int) -> str:
    """Returns a number of bytes for people: ``512 B``, ``1.5 GiB``."""
    size, units = float(count), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    for larger in units:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def local_time(iso: str | None, now_s: float | None = None) -> str:
    """Returns a time for a person at a terminal in local time, with the date if not today; else as it is."""
    if terminal_width() is None:
        return iso or "-"
    try:
        moment = datetime.fromisoformat(iso or "").astimezone()
    except (ValueError, OverflowError):
        return iso or "-"
    today = datetime.fromtimestamp(time.time() if now_s is None else now_s).astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def with_local_times(text: str) -> str:
    """Returns ``text`` with the times in it as ``local_time`` has them."""
    return _ISO.sub(lambda found: local_time(found[0]), text) if terminal_width() is not None else text


def _text(cell: Any) -> str:
    return "-" if cell is None or cell == "" else str(cell)
