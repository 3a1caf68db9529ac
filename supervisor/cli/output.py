"""What goes to the screen: one JSON or YAML document, or columns; notices and errors on stderr.

Called by every command. Text that came from an application or a record may hold control characters: they never reach
the terminal. Colours, and fitting to the width, only where a person looks; a pipe gets whole cells and plain text.
``rich`` draws on terminals only and is imported there: in a pipe every command starts without it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

STATE_STYLES = {
    "running": "green",
    "finished": "green",
    "failed": "red",
    "quarantined": "red",
    "backoff": "yellow",
    "pending": "yellow",
    "stopping": "cyan",
    "starting": "cyan",
    "suspended": "dim",
    "cancelled": "dim",
}
LAST_MIN = 16
"""Characters that the last column keeps before others are left out for lack of room."""
INDENT = "  "
_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
NUMBERS = frozenset(
    {
        "ATTEMPT",
        "BATCH",
        "BATCH MS",
        "DONE/S",
        "DRIVER",
        "DRIVERS",
        "FAILURES",
        "IN/S",
        "LAG",
        "OBJECTS",
        "PARTITIONS",
        "RESTARTS",
        "REVISION",
        "ROWS",
        "ROWS/S",
        "SIZE",
        "STORES",
    }
)
"""Heads of columns that hold numbers, of whatever table: they stand to the right."""
WIDE_ENOUGH = 10_000


@dataclass(frozen=True)
class Columns:
    """What a table looks like. ``state``: the column that is coloured.

    ``spare``: those that may go where there is no room, first the least; without any, lines may be wider than a terminal.
    ``whole``: the last column is a sentence, or empty, and is never cut: one that has no room beside its row, even without
    the spare columns, stands below it.
    """

    head: Sequence[str]
    state: int | None = None
    spare: Sequence[str] = ()
    whole: bool = False


def say(line: str) -> None:
    print(clean(line))


def print_labelled(label: str, text: str) -> None:
    """``label`` and ``text``; on a terminal a long text is broken below itself, in a pipe it is one line."""
    width = terminal_width()
    if width is None:
        say(label + text)
        return
    for line in textwrap.wrap(clean(text), max(30, width - len(label))) or [""]:
        print(label + line)
        label = " " * len(label)


def notice(line: str) -> None:
    """Something that the user should know and a script should not read."""
    print(clean(line), file=sys.stderr)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def print_table(
    columns: Columns | Sequence[str], rows: Iterable[Sequence[Any]], *, colour_column: int | None = None
) -> None:
    """Columns two spaces apart. On a terminal the last one takes what is left of the width, and is cut or broken to it."""
    if not isinstance(columns, Columns):
        columns = Columns(columns, colour_column)
    lines = cells(rows)
    width = terminal_width()
    if width is not None:
        from rich.console import Console

        Console(highlight=False, width=WIDE_ENOUGH).print(drawn(columns, lines, width))
        return
    whole = [list(columns.head), *([*line[:-1], _last(columns, line)] for line in lines)]
    widths = [max(len(line[n]) for line in whole) for n in range(len(columns.head))]
    widths[-1] = widths[-1] if columns.head[-1].strip() in NUMBERS else 0
    for line in whole:
        padded = [_padded(columns, n, text, widths[n] - len(text)) for n, text in enumerate(line)]
        print("  ".join(padded).rstrip())


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None in a pipe or file, where nothing is cut or broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cells(rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    """As text without control characters, ``-`` for what is not known."""
    return [[clean(_text(cell)) for cell in row] for row in rows]


def drawn(
    columns: Columns, lines: Sequence[Sequence[str]], width: int, marked: frozenset[int] = frozenset()
) -> Group:
    """For a terminal of ``width``: names whole, the last column cut or, if it is to be whole, broken below its row.

    ``marked``: rows to be seen.
    """
    from rich.cells import cell_len
    from rich.console import Console, Group
    from rich.text import Text

    last = len(columns.head) - 1
    lasts = [_last(columns, line) for line in lines]
    sizes = [max(cell_len(line[n]) for line in [columns.head, *lines]) for n in range(last)]
    needed = [cell_len(text) for text in lasts]
    told = [n for n in range(last) if any(line[n] != "-" for line in lines)]
    kept = _fitting(columns, sizes, needed, width, told)
    room = width - sum(sizes[n] + 2 for n in kept)
    room = room if columns.whole else max(room, 1 if columns.spare else LAST_MIN)
    last_size = min(room, max([cell_len(columns.head[last]), *needed]))

    def drawn_line(texts: Sequence[str], end: str, style: str, state: int | None) -> Text:
        line = Text(no_wrap=True, style=style)
        for n in kept:
            line.append(_padded(columns, n, texts[n], sizes[n] - cell_len(texts[n]))).append("  ")
            if n == state:
                line.stylize(STATE_STYLES.get(texts[n], ""), len(line) - 2 - sizes[n], len(line) - 2)
        shown = Text(_padded(columns, last, end, last_size - cell_len(end)))
        shown.truncate(max(0, room), overflow="ellipsis")
        line.append(shown)
        line.rstrip()
        return line

    console = Console(width=width)
    head = columns.head[last]
    page = [
        drawn_line(columns.head, head if not columns.whole or cell_len(head) <= room else "", "bold", None)
    ]
    for number, line in enumerate(lines):
        style = "reverse" if number in marked else ""
        beside = not columns.whole or needed[number] <= max(room, 0)
        page.append(drawn_line(line, lasts[number] if beside else "", style, columns.state))
        if not beside:
            broken = Text(lasts[number]).wrap(console, max(1, width - len(INDENT)))
            page.extend(Text(f"{INDENT}{part.plain.rstrip()}", style, no_wrap=True) for part in broken)
    return Group(*page)


def _fitting(
    columns: Columns,
    sizes: Sequence[int],
    needed: Sequence[int],
    width: int,
    told: Sequence[int],
) -> list[int]:
    """The columns with room beside a last one that can be read. ``sizes``: of the others; ``needed``: by each last cell;
    ``told``: the columns that are not empty, and so go last."""
    kept = list(range(len(sizes)))
    spare = sorted((columns.head.index(name) for name in columns.spare), key=lambda n: n in told)
    least = width - sum(sizes[n] + 2 for n in kept if n not in spare)
    if columns.whole:
        wish = max((size for size in needed if size <= least), default=0)
    else:
        wish = min(max([len(columns.head[-1]), *needed]), LAST_MIN)

    def fits(columns_kept: Iterable[int]) -> bool:
        return sum(sizes[n] + 2 for n in columns_kept) + (wish or -2) <= width

    for column in spare:
        if fits(kept):
            break
        kept.remove(column)
    for column in reversed(spare):  # one that went before a wider one may have room again
        if column not in kept and fits([*kept, column]):
            kept.append(column)
    return sorted(kept)


def _last(columns: Columns, line: Sequence[str]) -> str:
    return "" if columns.whole and line[-1] == "-" else line[-1]


def _padded(columns: Columns, n: int, text: str, room: int) -> str:
    """``text`` with ``room`` more: numbers stand to the right."""
    return " " * room + text if columns.head[n].strip() in NUMBERS else text + " " * room


def clean(text: str) -> str:
    """``text`` without control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def age(iso: str | None, now_s: float | None = None) -> str:
    """How long ago (or until) an ISO 8601 time is, in its largest unit: ``42s``, ``5m``, ``3h``, ``2d``."""
    try:
        passed_s = abs(
            (time.time() if now_s is None else now_s) - datetime.fromisoformat(iso or "").timestamp()
        )
    except (ValueError, OverflowError):
        return "-"
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if passed_s >= 2 * length_s:
            return f"{int(passed_s // length_s)}{unit}"
    return f"{int(passed_s)}s"


def span(seconds: float) -> str:
    """A time to wait for, in its two largest units: ``24s``, ``3m 24s``, ``2h 5m``, ``3d 4h``."""
    left = max(0, round(seconds))
    parts = []
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length_s)
        parts.append(f"{count}{unit}" if count else "")
    first = next((n for n, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join(part for part in parts[first : first + 2] if part) or "0s"


def local_time(iso: str | None, now_s: float | None = None) -> str:
    """When something was: for a person at a terminal in local time, with the date if it is not today; in a pipe as it is."""
    if terminal_width() is None:
        return iso or "-"
    try:
        moment = datetime.fromisoformat(iso or "").astimezone()
    except (ValueError, OverflowError):
        return iso or "-"
    today = datetime.fromtimestamp(time.time() if now_s is None else now_s).astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def with_local_times(text: str) -> str:
    """``text`` with the times in it as ``local_time`` has them."""
    return _ISO.sub(lambda found: local_time(found[0]), text) if terminal_width() is not None else text


def _text(cell: Any) -> str:
    return "-" if cell is None or cell == "" else str(cell)
