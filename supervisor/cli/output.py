"""What goes to the screen: one JSON or YAML document, or columns; notices and errors on stderr.

Called by every command. Text that came from an application or a record may hold control characters: they never reach
the terminal. Colours, and fitting to the width, only where a person looks; a pipe gets whole cells and plain text.
``rich`` draws on terminals only and is imported there: in a pipe every command starts without it.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

STATE_STYLES = {
    "running": "green", "finished": "green", "failed": "red", "quarantined": "red", "backoff": "yellow",
    "pending": "yellow", "stopping": "cyan", "starting": "cyan", "suspended": "dim", "cancelled": "dim",
}
LAST_MIN = 16
"""Characters that the last column keeps before others are left out for lack of room."""
WIDE_ENOUGH = 10_000


@dataclass(frozen=True)
class Columns:
    """What a table looks like. ``state``: the column that is coloured.

    ``spare``: those that may go where there is no room, first the least; without any, lines may be wider than a terminal.
    """

    head: Sequence[str]
    state: int | None = None
    spare: Sequence[str] = ()


def say(line: str) -> None:
    print(clean(line))


def say_labelled(label: str, text: str) -> None:
    """``label`` and ``text``; on a terminal a long text is broken below itself, in a pipe it is one line."""
    width = terminal_width()
    if width is None:
        say(label + text)
        return
    import textwrap

    for line in textwrap.wrap(clean(text), max(30, width - len(label))) or [""]:
        print(label + line)
        label = " " * len(label)


def notice(line: str) -> None:
    """Something that the user should know and a script should not read."""
    print(clean(line), file=sys.stderr)


def say_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def say_yaml(document: Any) -> None:
    import yaml

    plain = json.loads(json.dumps(document))    # a StrEnum is text to JSON, but nothing that YAML knows
    print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=WIDE_ENOUGH), end="")


def say_table(columns: Columns | Sequence[str], rows: Iterable[Sequence[Any]], *, colour_column: int | None = None) -> None:
    """Columns two spaces apart. On a terminal the last one takes what is left of the width, and is cut to it."""
    if not isinstance(columns, Columns):
        columns = Columns(columns, colour_column)
    lines = cells(rows)
    width = terminal_width()
    if width is not None:
        from rich.console import Console

        Console(highlight=False, width=WIDE_ENOUGH).print(drawn(columns, lines, width))
        return
    whole = [list(columns.head), *lines]
    widths = [max(len(line[n]) for line in whole) for n in range(len(columns.head) - 1)]
    padded = ([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]] for line in whole)
    print("\n".join("  ".join(line).rstrip() for line in padded))


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None in a pipe or file, where nothing is cut or broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cells(rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    """As text without control characters, ``-`` for what is not known."""
    return [[clean(_text(cell)) for cell in row] for row in rows]


def drawn(columns: Columns, lines: Sequence[Sequence[str]], width: int, marked: frozenset[int] = frozenset()) -> Table:
    """For a terminal of ``width``: one line per row, names whole, the last column cut. ``marked``: rows to be seen."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    sizes = [max(cell_len(line[n]) for line in [columns.head, *lines]) for n in range(len(columns.head))]
    kept = _fitting(columns, sizes, width)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    room = width - sum(sizes[n] + 2 for n in kept[:-1])
    for n in kept:      # told each width: left to itself, rich takes from every column alike
        size = sizes[n] if n != kept[-1] else min(sizes[n], max(room, 1 if columns.spare else LAST_MIN))
        table.add_column(columns.head[n], no_wrap=True, overflow="ellipsis", width=size)
    for number, line in enumerate(lines):
        styled = [Text(line[n], STATE_STYLES.get(line[n], "") if n == columns.state else "") for n in kept]
        table.add_row(*styled, style="reverse" if number in marked else None)
    return table


def _fitting(columns: Columns, sizes: Sequence[int], width: int) -> list[int]:
    """The columns that have room beside a readable last one."""
    kept = list(range(len(columns.head)))
    for name in columns.spare:
        if sum(sizes[n] + 2 for n in kept[:-1]) + min(sizes[-1], LAST_MIN) <= width:
            break
        kept.remove(columns.head.index(name))
    return kept


def clean(text: str) -> str:
    """``text`` without control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def age(iso: str | None, now_s: float | None = None) -> str:
    """How long ago (or until) an ISO 8601 time is, in its largest unit: ``42s``, ``5m``, ``3h``, ``2d``."""
    try:
        passed_s = abs((time.time() if now_s is None else now_s) - datetime.fromisoformat(iso or "").timestamp())
    except ValueError:
        return "-"
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if passed_s >= 2 * length_s:
            return f"{int(passed_s // length_s)}{unit}"
    return f"{int(passed_s)}s"


def _text(cell: Any) -> str:
    return "-" if cell is None or cell == "" else str(cell)
