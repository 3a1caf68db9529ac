"""Tells who submits or updates a job that a failed update of it could not go back to its savepoint, by the sinks that its
driver has reported. The driver of a new job reports them with its first batch; then ``list`` and ``explain`` say it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from supervisor.errors import SupervisorError
from supervisor.operations.context import CommandContext
from supervisor.operations.sink_grounds import grounds_of
from supervisor.operations.submit import Prepared
from supervisor.spec.way_back import why_spec_has_no_way_back


def warn_of_way_back(context: CommandContext, jobs: Iterable[Prepared]) -> None:
    """Warns of each of ``jobs`` that asks for such a way back and has written to a sink where there is none. It says nothing
    that the spec alone shows, nor if ZooKeeper does not answer now: what was submitted stands."""
    for job in jobs:
        if job.spec.goes_back_to_savepoint and not why_spec_has_no_way_back(job.spec):
            with suppress(SupervisorError):
                _warn(context, job)


def _warn(context: CommandContext, job: Prepared) -> None:
    grounds = grounds_of(context, job.name)
    newest = {each.query: each.sink for each in grounds.sinks} if grounds is not None else {}
    why = why_spec_has_no_way_back(job.spec, newest.values())
    if why:
        context.warn(f"{job.source}: {why}")
