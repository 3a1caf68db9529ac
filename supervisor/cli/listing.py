"""``list``: every job with its state, where it runs, how far it is, and why. A full and fresh read each time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.options import Chosen, Output, command
from supervisor.cli.output import Columns, age, notice, say_table
from supervisor.errors import InvalidInput

if TYPE_CHECKING:
    from supervisor.observe.listing import JobRow
    from supervisor.wiring import Office

NARROW = Columns(
    ("NAME", "STATE", "SINCE", "ATTEMPT", "HOST", "BATCH", "ROWS/S", "REASON"),
    state=1, spare=("ROWS/S", "ATTEMPT", "BATCH", "HOST", "SINCE"),
)
WIDE = Columns((
    "NAME", "UID", "STATE", "SINCE", "ATTEMPT", "RESTARTS", "FAILURES", "SUPERVISOR", "HOST", "DRIVER", "BATCH", "ROWS/S",
    "NEXT", "CHECKPOINT", "REASON",
), state=2)
WIDE_SPARE = (
    "CHECKPOINT", "UID", "NEXT", "DRIVER", "SUPERVISOR", "FAILURES", "RESTARTS", "ROWS/S", "ATTEMPT", "BATCH", "HOST",
    "SINCE",
)
"""What stays in place on a screen must fit on it; printed once, every column is there."""

Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", help="Every 2 s, until Ctrl-C: in place on a terminal, a line per change in a pipe."),
]
All = Annotated[bool, typer.Option("--all", help="Every uid that is kept, cancelled and finished ones included.")]


@command
def list_jobs(chosen: Chosen, watch: Watch = False, every_uid: All = False) -> int:
    """List the jobs; of each name the live uid, or the newest if it failed.

    SINCE: for how long in this state. BATCH, ROWS/S: of the query that reported last. A narrow terminal leaves columns
    out; nothing is cut in a pipe.

    \b
    Examples:
      spark-supervisor list -o wide
      spark-supervisor list --watch
      spark-supervisor list -o json | jq -r '.[] | select(.state == "backoff").name'
    """
    if watch and chosen.document:
        raise InvalidInput("--watch has no end, so it can't be one document: leave out -o, or call list in a loop")
    settings = chosen.settings()
    from supervisor.wiring import open_commands

    columns, row_cells = (WIDE, _wide) if chosen.output is Output.WIDE else (NARROW, _narrow)
    if watch:
        columns = columns if columns.spare else replace(columns, spare=WIDE_SPARE)
        with open_commands(settings) as office:
            _watch(columns, lambda: _rows(office, every_uid), row_cells)
        return 0
    with collector_at_rest():
        with open_commands(settings) as office:
            rows = _rows(office, every_uid)
            if not rows and office.check() is None:
                notice(f"nothing was ever submitted at {settings.zookeeper.root}")
        if chosen.document:
            chosen.say([row.document() for row in rows])
        else:
            say_table(columns, [row_cells(row) for row in rows])
    return 0


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No garbage collection meanwhile: nothing of what is read is garbage, and to look through it for some takes long."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _watch(columns: Columns, take: Callable[[], list[JobRow]], row_cells: Callable[[JobRow], list[Any]]) -> None:
    from supervisor.cli.watch import watch_lines, watch_screen

    try:
        if sys.stdout.isatty():
            watch_screen(columns, take, row_cells)
        else:
            watch_lines(take)
    except KeyboardInterrupt:
        return


def _rows(office: Office, every_uid: bool) -> list[JobRow]:
    from supervisor.clock import boottime_s, wall_s
    from supervisor.model.records import LeaderHint
    from supervisor.observe.listing import take_rows, with_reasons
    from supervisor.observe.observer import Observer
    from supervisor.registry.reading import seen

    if office.check() is None:
        return []
    zoo = office.zoo()
    view = Observer(zoo, office.layout, boottime_s, epoch=0).take_view(None)
    rows = take_rows(zoo, office.layout, view, wall_s(), every_uid=every_uid)

    def reasons() -> dict[str, str]:
        from supervisor.cli.reasons import reasons_of

        path = office.layout.leader
        return reasons_of(view, seen(LeaderHint, zoo.read(path), path))

    return with_reasons(rows, reasons)


def _narrow(row: JobRow) -> list[Any]:
    batch, rate = _progress(row)
    return [row.name, row.state, age(row.since), row.attempt, row.host, batch, rate, row.reason]


def _wide(row: JobRow) -> list[Any]:
    batch, rate = _progress(row)
    coming = f"in {age(row.next_attempt_at)}" if row.next_attempt_at and row.state == "backoff" else None
    return [
        row.name, row.uid, row.state, age(row.since), row.attempt, row.restarts, row.failures, row.supervisor, row.host,
        row.driver_pid, batch, rate, coming, row.checkpoint, row.reason,
    ]


def _progress(row: JobRow) -> tuple[int | None, str | None]:
    if row.progress is None:
        return None, None
    rate = row.progress.processed_rows_per_s
    return row.progress.batch_id, None if rate is None else f"{rate:.1f}"
