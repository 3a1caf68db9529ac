"""Prepares what ``list`` shows for people: what the reader must know before any row, and which supervisor is
meant by a host that has several.

Called by ``cli.listing`` and ``cli.watch``.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.cli.output import local_time
from supervisor.operations.job_list import JobList


def head_of(listed: JobList) -> str:
    """Returns what the reader must know before any row if the cluster is paused; else it is empty."""
    if not listed.paused:
        return ""
    sentences = "" if listed.pause is None else f" by {listed.pause.by} since {local_time(listed.pause.at)}"
    sentences += f" ({listed.pause.reason})" if listed.pause is not None and listed.pause.reason else ""
    return (
        f"the cluster is paused{sentences}: nothing is started or cleaned; spark-supervisor unpause ends it"
    )


def with_supervisors(listed: JobList) -> JobList:
    """Returns the list for people: a HOST with several supervisors is shown with the one that has the job."""
    rows = [
        replace(row, host=f"{row.host} ({row.supervisor})") if row.host in listed.shared else row
        for row in listed.rows
    ]
    return replace(listed, rows=rows)
