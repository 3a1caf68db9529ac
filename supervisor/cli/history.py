"""Implements the ``history NAME`` command: prints what happened to a job, newest last, as its records tell
it.

ZooKeeper keeps a bounded story per uid, in which older failures that are alike are one entry
(``model.history``); the whole one is in the logs of the supervisors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.output import local_time, print_labelled, print_table, with_local_times
from supervisor.clock import wall_s
from supervisor.errors import InvalidInput, NotFound
from supervisor.model.history import Series, first_failure
from supervisor.model.records import HistoryEntry
from supervisor.model.seen import Found
from supervisor.model.state import history_of
from supervisor.observe.listing import OneJob, job_row, read_ended, read_job
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.names import no_job

Uid = Annotated[str | None, typer.Option("--uid", metavar="UID", help="Of this submission; see list --all.")]
All = Annotated[
    bool, typer.Option("--all", help="Of every submission of the name that is kept, oldest first.")
]

BRIEF = 20
"""``show`` prints this many entries, because the spec comes after them."""

HEAD = Columns(("AT", "EVENT", "ATTEMPT", "DETAIL"), state=1, whole=True)


@command
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
    settings = chosen.settings()
    with open_commands(settings) as context:
        jobs = _jobs(context, name) if context.check() is not None else []
        if not jobs:
            raise no_job(context.zoo(), context.layout, name)
    if uid is not None:
        jobs = [job for job in jobs if job.uid == uid]
        if not jobs:
            raise NotFound(
                f"{name} has no submission {uid} that is kept: see spark-supervisor history {name} --all"
            )
    elif not every_uid:
        jobs = jobs[-1:]
    if chosen.document:
        chosen.print_document({"name": name, "uids": [_story(job)[0] for job in jobs]})
        return 0
    for number, job in enumerate(jobs):
        if number:
            print()
        story, reason = _story(job)
        print_labelled(
            "", f"{name}: {story['state']} ({story['uid'] or 'uid unknown'}): {with_local_times(reason)}"
        )
        sys.stdout.flush()
        print_table(HEAD, [line_of(entry) for entry in story["history"]])
    return 0


def _jobs(context: CommandContext, name: str) -> list[OneJob]:
    """Returns the submissions, oldest first; the live or newest uid is the last."""
    newest = read_job(context.zoo(), context.layout, name)
    if newest is None:
        return []
    return [
        *(job for job in read_ended(context.zoo(), context.layout, newest.row) if job.uid != newest.uid),
        newest,
    ]


def _story(job: OneJob) -> tuple[dict[str, Any], str]:
    """Returns the document of one submission, and its reason in its shortest form."""
    row = job_row(job, wall_s())
    story = {
        "uid": job.uid or None,
        "state": row.state,
        "reason": row.reason,
        "history": documents_of(entries_of(job)),
    }
    return story, row.trouble or row.reason


def entries_of(job: OneJob) -> tuple[HistoryEntry, ...]:
    """Returns what happened to the uid of ``job``, oldest first."""
    result = job.result.record if isinstance(job.result, Found) else None
    ref = job.ref if job.ref is not None and job.ref.uid == job.uid else None
    return history_of(ref, job.own, result, job.uid)


def documents_of(entries: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """Returns the entries as documents. ``attempt`` is null for what is about none.

    A series also has how many there were, the last one, and how many entries are left out.
    """
    documents: list[dict[str, Any]] = []
    for entry in entries:
        each: dict[str, Any] = {"at": entry.at, "event": entry.event, "attempt": entry.attempt or None}
        each["detail"] = entry.detail
        if isinstance(entry, Series):
            each |= {"count": entry.count, "last_at": entry.last_at or entry.at}
            each |= {"last_attempt": entry.last_attempt or entry.attempt, "omitted": entry.omitted}
        documents.append(each)
    return documents


def line_of(document: dict[str, Any]) -> list[Any]:
    """Returns the table's row for an entry of the document. What a series is comes before its first
    detail."""
    attempt, detail = document["attempt"], document["detail"]
    if document.get("omitted"):
        detail = f"({document['omitted']} entries after it are not kept) {detail}"
    if document.get("count", 1) > 1:
        attempt = f"{attempt}-{document['last_attempt']}"
        detail = f"{document['count']} times until {local_time(document['last_at'])}: {detail}"
    return [local_time(document["at"]), document["event"], attempt, detail]


def brief(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the newest ``BRIEF`` entries, and before them the first failure of the newest series."""
    entries = [
        HistoryEntry(at=each["at"], event=each["event"], attempt=each["attempt"] or 0) for each in documents
    ]
    first = first_failure(entries)
    place = next((n for n, entry in enumerate(entries[:-BRIEF]) if entry is first), None)
    return [*(() if place is None else (documents[place],)), *documents[-BRIEF:]]
