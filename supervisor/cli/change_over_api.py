"""Cancels, suspends, resumes and restarts jobs by the API of a supervisor: what ``cli.change`` prints otherwise, after
the same question."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from supervisor.api.client import ApiClient, WantedJobs
from supervisor.api.write_client import WriteClient
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice
from supervisor.cli.remote import refuse_over_api
from supervisor.cli.several import (
    SELECTOR,
    AskedJobs,
    PinnedJobs,
    SeveralChange,
    carry_out_and_report,
    confirm_change,
    exit_code_of,
    known_jobs,
    named,
    of_unreadable,
    print_done,
    taken_of,
)
from supervisor.model.job_row import JobRow
from supervisor.model.labels import Selector
from supervisor.model.records import Promotion
from supervisor.operations.jobs import Done
from supervisor.operations.names import known_name
from supervisor.operations.selection import Jobs, Selected, selector_of, with_replaced


def change_over_api(chosen: Chosen, api: ApiClient, asked: AskedJobs, change: SeveralChange) -> int:
    """Has the server carry out ``change`` of all jobs that ``asked`` is about, and returns the worst exit code."""
    if change.wait:
        refuse_over_api(chosen, "--wait")
    act = partial(_act, WriteClient(api), change)
    if asked.one is not None:
        print_done(chosen, act(named(known_name(asked.one))))
        return 0
    selector = selector_of(SELECTOR, list(asked.selector))
    known = (
        known_jobs(asked.names, partial(_named_at, api, change))
        if selector is None
        else PinnedJobs(taken_of(_selected(api, selector), change, selector))
    )
    confirm_change(known.jobs, asked, change)
    return exit_code_of(carry_out_and_report(chosen, known.jobs, change, act, known.unknown))


def _act(writes: WriteClient, change: SeveralChange, job: Selected) -> Done:
    """Changes one job, and one of several only as the submission that it was before the question."""
    only = {"uid": job.uid} if job.uid else {}
    remote = writes.change(change.verb, job.name, {**change.options, **only})
    for sentence in remote.notices:
        notice(sentence)
    return remote.done


def _named_at(api: ApiClient, change: SeveralChange, name: str) -> Selected:
    """Returns the newest submission of ``name``. Raises NotFound and Corrupt."""
    uid = api.job(known_name(name))["uid"]
    if not uid:
        raise of_unreadable(name, change)
    return replace(named(name), uid=str(uid))


def _selected(api: ApiClient, selector: Selector) -> Jobs:
    rows = api.jobs(WantedJobs(lambda _row: True), with_pause=False).rows
    found = with_replaced(_of_row(row) for row in rows if row.name and row.uid is not None)
    unreadable = tuple(row.name for row in rows if row.name and row.uid is None)
    chosen = {row.name for row in rows if selector.selects(row.labels)}
    return Jobs(tuple(job for job in found if job.name in chosen), unreadable)


def _of_row(row: JobRow) -> Selected:
    """Returns the job of a row. One that has failed has no reference, and nothing is desired of it."""
    place = row.in_place_of
    return Selected(
        row.name or "",
        row.uid or "",
        None if row.desired is None else 0,
        None,
        row.desired == "suspended",
        promotion=None
        if place is None
        else Promotion(over=place["name"], uid=place["uid"], by="", at="", done=True),
    )
