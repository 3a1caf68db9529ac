"""Implements the ``list`` command: prints every job with its state, where it runs, how far it is, and why.

Each time it is a full and fresh read.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.gateway import Gateway
from supervisor.cli.global_options import OutputFormat
from supervisor.cli.list_view import head_of, with_supervisors
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import (
    age,
    notice,
    print_labelled,
    print_table,
    span,
    terminal_width,
    with_local_times,
)
from supervisor.cli.remote import open_gateway
from supervisor.cli.several import SELECTOR, Names, SelectorOption
from supervisor.errors import InvalidInput, NotFound, SupervisorError
from supervisor.model.job_row import JobRow
from supervisor.model.present_rate import present_rate
from supervisor.operations.history import HistoryRequest
from supervisor.operations.job_list import JobList, WantedJobs
from supervisor.operations.listing import JobsRequest
from supervisor.operations.selection import selector_of
from supervisor.operations.spans import seconds_since

NARROW = Columns(
    ("NAME", "STATE", "SINCE", "ATTEMPT", "HOST", "BATCH", "ROWS/S IN", "REASON"),
    state=1,
    spare=("ROWS/S IN", "ATTEMPT", "BATCH", "HOST", "SINCE"),
    whole=True,
    below_max=1,
    outliers="NAME",
)
WIDE = Columns(
    (
        "NAME",
        "UID",
        "STATE",
        "SINCE",
        "ATTEMPT",
        "RESTARTS",
        "FAILURES",
        "SUPERVISOR",
        "HOST",
        "DRIVER",
        "BATCH",
        "ROWS/S IN",
        "LAG",
        "NEXT",
        "CHECKPOINT",
        "LABELS",
        "REASON",
    ),
    state=2,
    whole=True,
    below_max=1,
    outliers="NAME",
)
WIDE_SPARE = (
    "LABELS",
    "CHECKPOINT",
    "UID",
    "NEXT",
    "LAG",
    "DRIVER",
    "SUPERVISOR",
    "FAILURES",
    "RESTARTS",
    "ROWS/S IN",
    "ATTEMPT",
    "BATCH",
    "HOST",
    "SINCE",
)
"""A table that stays in place on a screen must fit on it; one that is printed once has every column."""

Watch = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Every 2 s, until Ctrl-C: in place on a terminal, a line per change in a pipe."
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Every uid that is kept, cancelled and finished ones included.")
]


@command
@over_api
def list_jobs(
    chosen: Chosen,
    names: Names = None,
    selector: SelectorOption = None,
    watch: Watch = False,
    every_uid: All = False,
) -> int:
    """List the jobs, or those that are named or have labels; of each name the live uid, or the newest if it failed.

    SINCE: for how long in this state. BATCH, ROWS/S IN (rows that arrive in a second), LAG (records): of the query that
    reported last. REASON: what is not well, in short; explain has all of it. A narrow terminal leaves other columns out,
    and cuts names that are much longer than the others (…).

    \b
    Examples:
      spark-supervisor list -o wide
      spark-supervisor list -l team=web
      spark-supervisor list --watch
      spark-supervisor list -o json | jq -r '.[] | select(.state == "backoff").name'
    """
    if watch and chosen.document:
        raise InvalidInput(
            "--watch has no end, so it can't be one document: leave out -o, or call list in a loop"
        )
    if names and selector:
        raise InvalidInput("give names of jobs, or -l with a label, not both")
    is_wanted = _wanted(names, selector)
    wanted = WantedJobs(is_wanted, tuple(names or ()), tuple(selector or ()), every_uid)
    columns, row_cells = (WIDE, _wide) if chosen.output is OutputFormat.WIDE else (NARROW, _narrow)
    if watch:
        columns = columns if columns.spare else replace(columns, spare=WIDE_SPARE)
        with open_gateway(chosen) as gateway:
            take = gateway.job_lister(JobsRequest(wanted), with_pause=True)
            _watch(columns, lambda: with_supervisors(take()), row_cells)
        return 0
    with collector_at_rest():
        with open_gateway(chosen) as gateway:
            listed = gateway.job_lister(JobsRequest(wanted), with_pause=not chosen.document)()
        if not listed.is_bootstrapped:
            notice(f"nothing was ever submitted at {chosen.settings().zookeeper.root}")
        elif not listed.rows and selector:
            notice(f"no job has {','.join(selector)}")
        if chosen.document:
            chosen.print_document(listed.document())
        else:
            _print_pause(listed)
            is_cut = print_table(columns, [row_cells(row) for row in with_supervisors(listed).rows])
            _print_remedies(listed, is_cut)
    return _print_missing(chosen, names or (), listed)


def _wanted(names: list[str] | None, selector: list[str] | None) -> Callable[[JobRow], bool]:
    """Returns what says which rows are listed. Raises InvalidInput."""
    if names:
        wanted = frozenset(names)
        return lambda row: row.name in wanted
    parsed = selector_of(SELECTOR, selector)
    return (lambda _: True) if parsed is None else (lambda row: parsed.selects(row.labels))


def _print_missing(chosen: Chosen, names: Iterable[str], listed: JobList) -> int:
    """Says which of ``names`` are not in the list, and returns the exit code."""
    found = {row.name for row in listed.rows}
    missing = [name for name in dict.fromkeys(names) if name not in found]
    if missing:
        with open_gateway(chosen) as gateway:
            for name in missing:
                notice(f"error: {_why_missing(gateway, name)}")
    return NotFound.exit_code if missing else 0


def _why_missing(gateway: Gateway, name: str) -> str:
    try:
        gateway.read(HistoryRequest(name))
    except NotFound as error:
        return str(error)
    except SupervisorError:
        pass
    return f"no job {name} is listed: see spark-supervisor list --all"


def _print_remedies(listed: JobList, is_cut: bool) -> None:
    """Tells a person which command has the whole of a reason, and helps with jobs that wait for a person."""
    needs_somebody = any(row.state in ("failed", "quarantined") for row in listed.rows)
    said = ["has the whole of a reason that is cut (…)"] if is_cut else []
    said += ["says what to do about a job that is failed or quarantined"] if needs_somebody else []
    if terminal_width() is not None and said:
        print()
        print_labelled("", f"spark-supervisor explain NAME {', and '.join(said)}")


def _print_pause(listed: JobList) -> None:
    """Prints the pause before all else; a script that reads the table in a pipe does not get it."""
    head = head_of(listed)
    if head and terminal_width() is None:
        notice(head)
    elif head:
        print_labelled("", head)
        print(flush=True)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Switches off garbage collection meanwhile: nothing that is read is garbage.

    Searching it would take long.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _watch(columns: Columns, take: Callable[[], JobList], row_cells: Callable[[JobRow], list[Any]]) -> None:
    # rich takes 40 ms to load: a list that is printed once in a pipe starts without it
    from supervisor.cli.watch import watch_lines, watch_screen

    try:
        if sys.stdout.isatty():
            watch_screen(columns, take, row_cells)
        else:
            watch_lines(take)
    except KeyboardInterrupt:
        return


def trouble_of(row: JobRow, now_s: float | None = None) -> str:
    """Returns the cell REASON: what is not well, and when it is tried again."""
    text = row.reason if row.trouble is None else row.trouble
    text = with_local_times(text)
    if row.state != "backoff" or row.next_attempt_at is None:
        return text
    left_s = datetime.fromisoformat(row.next_attempt_at).timestamp() - (
        time.time() if now_s is None else now_s
    )
    return f"{text}; next try in {span(left_s)}"


def _narrow(row: JobRow) -> list[Any]:
    batch, rate = _progress(row)
    return [row.name, row.state, age(row.since), row.attempt, row.host, batch, rate, trouble_of(row)]


def _wide(row: JobRow) -> list[Any]:
    batch, rate = _progress(row)
    coming = f"in {age(row.next_attempt_at)}" if row.next_attempt_at and row.state == "backoff" else None
    lag = None if row.progress is None or row.progress.lag is None else int(row.progress.lag)
    return [
        row.name,
        row.uid,
        row.state,
        age(row.since),
        row.attempt,
        row.restarts,
        row.failures,
        row.supervisor,
        row.host,
        row.driver_pid,
        batch,
        rate,
        lag,
        coming,
        row.checkpoint,
        ",".join(row.labels),
        trouble_of(row),
    ]


def _progress(row: JobRow) -> tuple[int | None, str | None]:
    if row.progress is None:
        return None, None
    rate = present_rate(row.progress, seconds_since(row.progress.at))
    return row.progress.batch_id, None if rate is None else f"{rate:.1f}"
