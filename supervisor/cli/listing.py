"""``list``: every job with its state, where it runs, how far it is, and why. A full and fresh read each time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.options import Chosen, Output, command
from supervisor.cli.output import age, notice, say_json, say_table
from supervisor.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    from supervisor.observe.listing import JobRow
    from supervisor.wiring import Office

WATCH_PERIOD_S = 2.0
HEAD = ("NAME", "STATE", "SINCE", "ATTEMPT", "HOST", "BATCH", "ROWS/S", "REASON")
WIDE = (
    "NAME", "UID", "STATE", "SINCE", "ATTEMPT", "RESTARTS", "FAILURES", "SUPERVISOR", "HOST", "DRIVER", "BATCH", "ROWS/S",
    "NEXT", "CHECKPOINT", "REASON",
)

Watch = Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")]
All = Annotated[bool, typer.Option("--all", help="Every uid that is kept, cancelled and finished ones included.")]


@command
def list_jobs(chosen: Chosen, watch: Watch = False, every_uid: All = False) -> int:
    """List the jobs; of each name the live uid, or the newest if it failed."""
    if watch and chosen.json:
        raise InvalidInput("--watch shows a table again and again: leave out -o json, or call list in a loop")
    settings = chosen.settings()
    from supervisor.wiring import open_commands

    with open_commands(settings) as office:
        rows = _rows(office, every_uid)
        if not watch:
            _show(chosen, rows)
            return 0
        while True:
            _redraw(chosen, rows)
            time.sleep(WATCH_PERIOD_S)
            try:
                rows = _rows(office, every_uid)
            except Unreachable as error:
                notice(f"{error}; trying again")


def _rows(office: Office, every_uid: bool) -> list[JobRow]:
    from supervisor.cli.reasons import reasons_of
    from supervisor.clock import boottime_s, wall_s
    from supervisor.observe.listing import take_rows
    from supervisor.observe.observer import Observer

    if office.check() is None:
        notice(f"nothing was ever submitted at {office.settings.zookeeper.root}")
        return []
    zoo = office.zoo()
    view = Observer(zoo, office.layout, boottime_s, epoch=0).take_view(None)
    reasons = reasons_of(view, has_leader=zoo.read(office.layout.leader) is not None)
    return take_rows(zoo, office.layout, view, wall_s(), every_uid=every_uid, reasons=reasons)


def _redraw(chosen: Chosen, rows: list[JobRow]) -> None:
    if sys.stdout.isatty():
        print("\033[H\033[2J", end="")
    _show(chosen, rows)
    sys.stdout.flush()


def _show(chosen: Chosen, rows: list[JobRow]) -> None:
    if chosen.json:
        say_json([row.document() for row in rows])
    elif chosen.output is Output.WIDE:
        say_table(WIDE, [_wide(row) for row in rows], colour_column=2)
    else:
        say_table(HEAD, [_narrow(row) for row in rows], colour_column=1)


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
