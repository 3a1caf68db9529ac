"""Implements the command ``audit``: who asked for what, and whether the audit is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.completion import job_names
from supervisor.cli.options import Chosen, command
from supervisor.cli.output import local_time, notice, print_line, print_table
from supervisor.operations.audit import AuditReading, audited
from supervisor.operations.context import open_commands
from supervisor.operations.names import known_name

if TYPE_CHECKING:
    from supervisor.model.records import AuditLine

About = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Of this job only.", autocompletion=job_names)
]
Count = Annotated[
    int, typer.Option("-n", metavar="N", min=1, max=10_000, help="So many of the newest lines.")
]

HEAD = Columns(("LINE", "AT", "BY", "WHAT", "JOB", "DETAIL"), whole=True)


@command
def audit(chosen: Chosen, name: About = None, count: Count = 50) -> int:
    """Show who asked for which write, newest last, and verify it. Exit code 1: something is wrong with the audit.

    Each line has the hash of the line before, and ZooKeeper knows the newest: a line that was changed or removed shows,
    among those that are read. A line says what was asked for; show and history say what came of it. A write that met
    another change is tried again, with a line for each try.

    \b
    Examples:
      spark-supervisor audit
      spark-supervisor audit clicks -n 10
    """
    about = known_name(name) if name is not None else None
    with open_commands(chosen.settings()) as context:
        found = audited(context, count, about)
    if chosen.document:
        chosen.print_document(_document(found))
    elif found.lines:
        print_table(HEAD, [_row(line) for line in found.lines])
    else:
        print_line(f"no line is about {about}" if about is not None and found.last else "the audit is empty")
    for flaw in found.flaws:
        notice(f"error: the audit is broken: {flaw}")
    if found.unproven:
        notice(f"not verified: {found.unproven}")
    if not chosen.document and found.last and not found.flaws:
        notice(f"lines {found.first} to {found.last} are whole")
    return 1 if found.flaws else 0


def _row(line: AuditLine) -> list[Any]:
    by = line.by if line.by == line.origin else f"{line.by} ({line.origin})"
    revision = f"revision {line.revision}" if line.revision > 1 else ""
    detail = ", ".join(filter(None, (line.detail, revision)))
    return [str(line.number), local_time(line.at), by, line.what, line.name, detail]


def _document(found: AuditReading) -> dict[str, Any]:
    lines = [
        {
            "number": line.number,
            "at": line.at,
            "by": line.by,
            "origin": line.origin,
            "what": line.what,
            "name": line.name or None,
            "uid": line.uid or None,
            "revision": line.revision or None,
            "detail": line.detail or None,
            "op": line.op,
            "late": line.late,
        }
        for line in found.lines
    ]
    return {
        "lines": lines,
        "first": found.first or None,
        "last": found.last or None,
        "whole": not found.flaws,
        "flaws": list(found.flaws),
        "unproven": found.unproven or None,
    }
