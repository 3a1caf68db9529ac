"""Implements the ``list --watch`` command: shows a table that stays in place on a terminal, and a line for
each change in a pipe.

It ends with Ctrl-C only. Called by ``list``. If ZooKeeper is away, this is said, and waited for: what was
seen last stays on the screen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from supervisor.cli.columns import Columns
from supervisor.cli.drawing import drawn
from supervisor.cli.list_view import head_of
from supervisor.cli.output import cells, clean, notice
from supervisor.errors import Unreachable
from supervisor.model.job_row import JobRow
from supervisor.operations.job_list import JobList

PERIOD_S = 2.0
MARKED_READS = 3
"""A changed row is marked for this many readings."""
AROUND = 4
"""This many lines of the screen are not rows: the head, the foot, the prompt."""

Key = tuple[str | None, str | None]
Take = Callable[[], JobList]


def watch_screen(columns: Columns, take: Take, row_cells: Callable[[JobRow], list[Any]]) -> None:
    """Shows the table until KeyboardInterrupt. ``row_cells`` returns the cells of a row."""
    console = Console(highlight=False, markup=False)
    listed, trouble, changes = take(), "", RowChanges()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            marked = changes.seen(listed.rows)
            marks = frozenset(n for n, row in enumerate(listed.rows) if _key(row) in marked)
            head = head_of(listed)
            height = console.size.height - AROUND - (1 if head else 0)
            lines = cells(row_cells(row) for row in listed.rows[: max(1, height)])
            count = len(lines)
            table = drawn(columns, lines[:count], console.size.width, marks)
            while len(table.renderables) - 1 > height and count > 1:  # reasons that stand below their rows
                count -= 1
                table = drawn(columns, lines[:count], console.size.width, marks)
            live.update(_page(head, table, len(listed.rows) - count, trouble), refresh=True)
            _pause()
            try:
                listed, trouble = take(), ""
            except Unreachable as error:
                trouble = trouble or f"since {time.strftime('%H:%M:%S')} {error}; trying again"


def _page(head: str, table: RenderableType, more: int, trouble: str) -> RenderableType:
    hidden = f"… and {more} more (a taller window, or spark-supervisor list); " if more else ""
    foot = Text(
        f"{hidden}{time.strftime('%H:%M:%S')}, every {PERIOD_S:g} s, Ctrl-C ends", "dim", no_wrap=True
    )
    last = Text(clean(trouble), "bold red", no_wrap=True, overflow="ellipsis") if trouble else foot
    first = [Text(clean(head), "bold yellow", no_wrap=True, overflow="ellipsis")] if head else []
    return Group(*first, table, last)


class RowChanges:
    """Finds which rows differ from what was seen before; the first reading marks none."""

    def __init__(self) -> None:
        self._before: dict[Key, tuple[Any, ...]] | None = None
        self._marks: dict[Key, int] = {}

    def seen(self, rows: Sequence[JobRow]) -> frozenset[Key]:
        now = {_key(row): (row.state, row.attempt, row.host) for row in rows}
        before = self._before
        self._marks = {key: left - 1 for key, left in self._marks.items() if left > 1 and key in now}
        if before is not None:
            self._marks |= {key: MARKED_READS for key, what in now.items() if before.get(key) != what}
        self._before = now
        return frozenset(self._marks)


def watch_lines(take: Take) -> None:
    """Prints what there is, and then each change of state, attempt, host or reason, until
    KeyboardInterrupt."""
    before: dict[Key, str] = {}
    away = False
    rows = take().rows
    while True:
        now = {_key(row): _line(row) for row in rows}
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for key, line in now.items():
            if before.get(key) != line:
                print(f"{at} {line}")
        for name, _ in before.keys() - now.keys():
            print(f"{at} {name} is not listed any more; see spark-supervisor history {name}")
        sys.stdout.flush()
        before = now
        _pause()
        try:
            rows = take().rows
            if away:
                notice("ZooKeeper answers again")
            away = False
        except Unreachable as error:
            if not away:
                notice(f"{error}; trying again")
            away = True


def _key(row: JobRow) -> Key:
    return row.name, row.uid


def _line(row: JobRow) -> str:
    where = f" on {row.host}" if row.host else ""
    attempt = f" attempt {row.attempt}{where}" if row.attempt else ""
    shown_trouble = row.reason if row.trouble is None else row.trouble
    return clean(f"{row.name} {row.state}{attempt}" + (f": {shown_trouble}" if shown_trouble else ""))


def _pause() -> None:
    time.sleep(PERIOD_S)
