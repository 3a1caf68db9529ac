"""Implements the ``history NAME`` command: prints what happened to a job, newest last, as its records tell
it.

ZooKeeper keeps a bounded story per uid, in which older failures that are alike are one entry
(``model.history``); the whole one is in the logs of the supervisors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, Name, command, over_api
from supervisor.cli.output import local_time, print_labelled, print_table, readable_size, with_local_times
from supervisor.cli.remote import open_gateway
from supervisor.errors import InvalidInput
from supervisor.model.history import first_failure
from supervisor.model.records import HistoryEntry
from supervisor.operations.history import HistoryRequest
from supervisor.operations.names import known_name

Uid = Annotated[str | None, typer.Option("--uid", metavar="UID", help="Of this submission; see list --all.")]
All = Annotated[
    bool, typer.Option("--all", help="Of every submission of the name that is kept, oldest first.")
]

BRIEF = 20
"""``show`` prints this many entries, because the spec comes after them."""

HEAD = Columns(("AT", "EVENT", "ATTEMPT", "DETAIL"), state=1, whole=True)


@command
@over_api
def history(chosen: Chosen, name: Name, uid: Uid = None, every_uid: All = False) -> int:
    """Show what happened to a job, newest last: of the live submission, else of the newest.

    At least the latest 100 entries of each submission are kept, its submit and its end, and the first failure of a series.
    Older failures in a row that are alike are one line: the first of them, with their number. On a terminal times are
    local, else UTC.

    \b
    Examples:
      spark-supervisor history clicks
      spark-supervisor history clicks --all        earlier submissions of the name too
    """
    known_name(name)
    if uid is not None and every_uid:
        raise InvalidInput("--uid names one submission and --all means every one: give one of the two")
    with open_gateway(chosen) as gateway:
        document = gateway.read(HistoryRequest(name, every_uid, uid))
    if chosen.document:
        chosen.print_document(document)
        return 0
    for number, story in enumerate(document["uids"]):
        if number:
            print()
        print_labelled(
            "",
            f"{name}: {story['state']} ({story['uid'] or 'uid unknown'}): {with_local_times(story['headline'])}",
        )
        sys.stdout.flush()
        print_table(HEAD, [line_of(entry) for entry in story["history"]])
    return 0


def line_of(document: dict[str, Any]) -> list[Any]:
    """Returns the table's row for an entry of the document. What a series is comes before its first
    detail."""
    attempt, detail = document["attempt"], document["detail"]
    if document.get("omitted"):
        detail = f"({document['omitted']} entries after it are not kept) {detail}"
    if document.get("count", 1) > 1:
        attempt = f"{attempt}-{document['last_attempt']}"
        detail = f"{document['count']} times until {local_time(document['last_at'])}: {detail}"
    by = f"(by {document['by']})" if document.get("by") else ""
    peak = document.get("memory_max")
    took = f"(it took {readable_size(peak)} of memory at most)" if peak else ""
    return [
        local_time(document["at"]),
        document["event"],
        attempt,
        " ".join(filter(None, (detail, by, took))),
    ]


def brief(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the newest ``BRIEF`` entries, and before them the first failure of the newest series."""
    entries = [
        HistoryEntry(at=each["at"], event=each["event"], attempt=each["attempt"] or 0) for each in documents
    ]
    first = first_failure(entries)
    place = next((n for n, entry in enumerate(entries[:-BRIEF]) if entry is first), None)
    return [*(() if place is None else (documents[place],)), *documents[-BRIEF:]]
