"""Implements the command ``revisions``: which specs a job has had, and how each went."""

from __future__ import annotations

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, Name, command
from supervisor.cli.output import local_time, print_table
from supervisor.operations.context import open_commands, require_submitted
from supervisor.operations.names import known_name
from supervisor.operations.revisions import RevisionRow, revisions_of

HEAD = Columns(("REVISION", "AT", "BY", "STATE", "CHANGED", "WHY"), state=3, whole=True)
KEYS_MAX = 4


@command
def revisions(chosen: Chosen, name: Name) -> int:
    """Show the revisions of a job, newest first: when, by whom, what changed, and how it went.

    The newest 20 are kept, as long as the job is registered or its end is remembered. running is the one that the job shall
    run; failed: no driver of it could be prepared, and nothing was stopped; rolled_back: its driver failed while it was
    observed. rollback --to makes the spec of any of them a new revision.

    \b
    Examples:
      spark-supervisor revisions clicks
      spark-supervisor rollback clicks --to 3
    """
    known_name(name)
    with open_commands(chosen.settings()) as context:
        require_submitted(context, name)
        rows = revisions_of(context, name)
    if chosen.document:
        chosen.print_document([row.document() for row in rows])
        return 0
    print_table(HEAD, [_line(row) for row in rows])
    return 0


def _line(row: RevisionRow) -> list[str]:
    keys = row.changed or ()
    more = f" (+{len(keys) - KEYS_MAX})" if len(keys) > KEYS_MAX else ""
    changed = "?" if row.changed is None else ", ".join(keys[:KEYS_MAX]) + more
    at = local_time(row.entry.at) if row.entry.at else "-"
    return [str(row.entry.revision), at, row.entry.by or "-", row.state.value, changed or "-", row.why or "-"]
