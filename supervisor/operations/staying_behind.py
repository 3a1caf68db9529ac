"""Tells who moves a job what stays on the host that it leaves: its working directory, which no other host has."""

from __future__ import annotations

from supervisor.model.seen import Found
from supervisor.model.working_directory import stays_behind
from supervisor.observe.listing import read_job
from supervisor.observe.usage import usage_of
from supervisor.operations.context import CommandContext


def warn_of_directory(context: CommandContext, name: str, to: str) -> None:
    """Warns if the job has written to its working directory on another host than ``to``. Raises Unreachable."""
    job = read_job(context.zoo(), context.layout, name)
    own = None if job is None else job.row.own
    if job is None or not isinstance(own, Found) or own.record.supervisor == to:
        return
    seen = usage_of(job.row, job.uid)
    why = "" if seen is None else stays_behind(seen.usage, own.record.host)
    if why:
        context.warn(why)
