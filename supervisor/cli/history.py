"""``history NAME``: what happened to a job, newest last, as its records tell it.

ZooKeeper keeps a short ring per uid (the latest entries; the whole story is in the logs of the supervisors).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.output import Columns, say, say_table
from supervisor.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from supervisor.model.records import Entry
    from supervisor.observe.listing import OneJob
    from supervisor.wiring import Office

Uid = Annotated[str | None, typer.Option("--uid", metavar="UID", help="Of this submission; see list --all.")]
All = Annotated[bool, typer.Option("--all", help="Of every submission of the name that is kept, oldest first.")]

HEAD = Columns(("AT", "EVENT", "ATTEMPT", "DETAIL"), state=1)


@command
def history(chosen: Chosen, name: Name, uid: Uid = None, every_uid: All = False) -> int:
    """Show what happened to a job, newest last: of the live submission, else of the newest.

    The latest 10 entries of each submission are kept, and its submit and its end besides. Times are UTC.

    \b
    Examples:
      spark-supervisor history clicks
      spark-supervisor history clicks --all        earlier submissions of the name too
    """
    known_name(name)
    if uid is not None and every_uid:
        raise InvalidInput("--uid names one submission and --all means every one: give one of the two")
    settings = chosen.settings()
    from supervisor.wiring import open_commands

    with open_commands(settings) as office:
        jobs = _jobs(office, name) if office.check() is not None else []
    if not jobs:
        raise NotFound(f"no job is named {name}: see spark-supervisor list --all")
    if uid is not None:
        jobs = [job for job in jobs if job.uid == uid]
        if not jobs:
            raise NotFound(f"{name} has no submission {uid} that is kept: see spark-supervisor history {name} --all")
    elif not every_uid:
        jobs = jobs[-1:]
    stories = [_story(job) for job in jobs]
    if chosen.document:
        chosen.say({"name": name, "uids": stories})
        return 0
    for number, story in enumerate(stories):
        if number:
            print()
        say(f"{name}: {story['state']} ({story['uid'] or 'uid unknown'}): {story['reason']}")
        say_table(HEAD, [list(entry.values()) for entry in story["history"]])
    return 0


def _jobs(office: Office, name: str) -> list[OneJob]:
    """Oldest first; the live or newest uid is the last."""
    from supervisor.observe.listing import read_ended, read_job

    newest = read_job(office.zoo(), office.layout, name)
    if newest is None:
        return []
    return [*(job for job in read_ended(office.zoo(), office.layout, newest.row) if job.uid != newest.uid), newest]


def _story(job: OneJob) -> dict[str, Any]:
    from supervisor.clock import wall_s
    from supervisor.observe.listing import job_row

    row = job_row(job, wall_s())
    return {"uid": job.uid or None, "state": row.state, "reason": row.reason, "history": documents_of(entries_of(job))}


def entries_of(job: OneJob) -> tuple[Entry, ...]:
    """What happened to the uid of ``job``, oldest first."""
    from supervisor.model.seen import Found
    from supervisor.model.state import history_of

    result = job.result.record if isinstance(job.result, Found) else None
    ref = job.ref if job.ref is not None and job.ref.uid == job.uid else None
    return history_of(ref, job.own, result, job.uid)


def documents_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """``attempt`` is null for what is about none."""
    return [
        {"at": entry.at, "event": entry.event, "attempt": entry.attempt or None, "detail": entry.detail} for entry in entries
    ]
