"""Draws on a terminal, with ``rich``, tables that fit its width, bars, and a line that changes.

Called by ``cli.output``, ``cli.narrator``, ``cli.progress`` and ``cli.watch``, only for output that a person
reads: ``rich`` is slow to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median_low

from rich.cells import cell_len
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text

from supervisor.cli.columns import WIDE_ENOUGH, Columns, last_cell, padded

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
"""The last column keeps this many characters before others are left out for lack of room."""
NAME_MIN = 24
"""A name of so many characters is never cut."""
INDENT = "  "


class DrawnTable(Group):
    """Is a table for a terminal. ``is_cut`` says whether sentences below their rows are not whole."""

    is_cut = False


def print_drawn(columns: Columns, lines: Sequence[Sequence[str]], width: int) -> bool:
    """Prints what ``drawn`` returns, and returns its ``is_cut``."""
    table = drawn(columns, lines, width)
    Console(highlight=False, width=WIDE_ENOUGH).print(table)
    return table.is_cut


def drawn(
    columns: Columns, lines: Sequence[Sequence[str]], width: int, marked: frozenset[int] = frozenset()
) -> DrawnTable:
    """Draws a table for a terminal of ``width``.

    Names are whole, but outliers among them (``Columns.outliers``); the last column is cut or, if it is to be whole, broken
    below its row. ``marked`` are the numbers of the rows that are highlighted.
    """
    last = len(columns.head) - 1
    lines = _without_outliers(columns, lines, width)
    lasts = [last_cell(columns, line) for line in lines]
    sizes, needed, kept = _measured(columns, lines, width)
    room = width - sum(sizes[n] + 2 for n in kept)
    room = room if columns.whole else max(room, 1 if columns.spare else LAST_MIN)
    last_size = min(room, max([cell_len(columns.head[last]), *needed]))

    def drawn_line(texts: Sequence[str], end: str, style: str, state: int | None) -> Text:
        line = Text(no_wrap=True, style=style)
        for n in kept:
            line.append(padded(columns, n, texts[n], sizes[n] - cell_len(texts[n]))).append("  ")
            if n == state:
                line.stylize(STATE_STYLES.get(texts[n], ""), len(line) - 2 - sizes[n], len(line) - 2)
        shown = Text(padded(columns, last, end, last_size - cell_len(end)))
        shown.truncate(max(0, room), overflow="ellipsis")
        line.append(shown)
        line.rstrip()
        return line

    head = columns.head[last]
    page = [
        drawn_line(columns.head, head if not columns.whole or cell_len(head) <= room else "", "bold", None)
    ]
    is_cut = False
    for number, line in enumerate(lines):
        style = "reverse" if number in marked else ""
        beside = not columns.whole or needed[number] <= max(room, 0)
        page.append(drawn_line(line, lasts[number] if beside else "", style, columns.state))
        if not beside:
            broken, is_cut_here = _broken(lasts[number], max(1, width - len(INDENT)), columns.below_max)
            page.extend(Text(f"{INDENT}{part}", style, no_wrap=True) for part in broken)
            is_cut = is_cut or is_cut_here
    table = DrawnTable(*page)
    table.is_cut = is_cut
    return table


def _measured(
    columns: Columns, lines: Sequence[Sequence[str]], width: int
) -> tuple[list[int], list[int], list[int]]:
    """Returns the widths of the columns before the last one, that of each last cell, and which columns have room."""
    last = len(columns.head) - 1
    sizes = [max(cell_len(line[n]) for line in [columns.head, *lines]) for n in range(last)]
    needed = [cell_len(last_cell(columns, line)) for line in lines]
    filled = [n for n in range(last) if any(line[n] != "-" for line in lines)]
    return sizes, needed, _fitting(columns, sizes, needed, width, filled)


def _without_outliers(
    columns: Columns, lines: Sequence[Sequence[str]], width: int
) -> Sequence[Sequence[str]]:
    """Returns ``lines`` with the longest names cut, if more columns have room then."""
    if not columns.outliers or not lines:
        return lines
    at = columns.head.index(columns.outliers)
    names = [len(line[at]) for line in lines]
    most = max(NAME_MIN, median_low(names))
    if max(names) <= most:
        return lines
    cut = [[*line[:at], _middle_cut(line[at], most), *line[at + 1 :]] for line in lines]
    gains = len(_measured(columns, cut, width)[2]) > len(_measured(columns, lines, width)[2])
    return cut if gains else lines


def _middle_cut(name: str, most: int) -> str:
    """Returns ``name`` in ``most`` characters, with an ellipsis in its middle: names that begin alike differ at the end."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - 1) // 2 :]}"


def _broken(text: str, width: int, lines_max: int | None) -> tuple[list[str], bool]:
    """Returns the lines of ``text``, and whether there are more than ``lines_max``: then the last one of these is cut."""
    lines = [part.plain.rstrip() for part in Text(text).wrap(Console(width=width), width)]
    if lines_max is None or len(lines) <= lines_max:
        return lines, False
    last = Text(" ".join(lines[lines_max - 1 :]))
    last.truncate(width, overflow="ellipsis")
    return [*lines[: lines_max - 1], last.plain], True


def _fitting(
    columns: Columns,
    sizes: Sequence[int],
    needed: Sequence[int],
    width: int,
    filled: Sequence[int],
) -> list[int]:
    """Returns the indices of the columns that have room beside a readable last column.

    ``sizes`` are the widths of the others, ``needed`` that of each last cell. ``filled`` are the columns that
    are not empty, and so are left out last.
    """
    kept = list(range(len(sizes)))
    spare = sorted((columns.head.index(name) for name in columns.spare), key=lambda n: n in filled)
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


class StatusLine:
    """Shows a line on stderr that changes in place. It begins at once."""

    def __init__(self) -> None:
        self._status = Status("", console=Console(stderr=True, highlight=False, markup=False))
        self._status.start()

    def show(self, line: str) -> None:
        self._status.update(Text(line, no_wrap=True, overflow="ellipsis"))

    def end(self) -> None:
        self._status.stop()


@contextmanager
def counting_bar() -> Iterator[Callable[[int], None]]:
    """Shows on stderr how many objects were listed so far."""
    columns = (BarColumn(), TextColumn("{task.completed:.0f} objects"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("listing", total=None)
        yield lambda count: bar.advance(task, count)


@contextmanager
def share_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows on stderr how many of how many objects are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
