"""Cancels, suspends, resumes and restarts jobs by the API of a supervisor: what ``cli.change`` prints otherwise, after
the same question."""

from __future__ import annotations

from functools import partial

from supervisor.api.client import ApiClient, WantedJobs
from supervisor.api.write_client import WriteClient
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice
from supervisor.cli.remote import refuse_over_api
from supervisor.cli.several import (
    SELECTOR,
    AskedJobs,
    SeveralChange,
    carry_out_and_report,
    confirm_change,
    exit_code_of,
    named,
    print_done,
    taken_of,
)
from supervisor.model.job_row import JobRow
from supervisor.model.labels import Selector
from supervisor.operations.jobs import Done
from supervisor.operations.names import known_name
from supervisor.operations.selection import Jobs, Selected, selector_of


def change_over_api(chosen: Chosen, api: ApiClient, asked: AskedJobs, change: SeveralChange) -> int:
    """Has the server carry out ``change`` of all jobs that ``asked`` is about, and returns the worst exit code."""
    if change.wait:
        refuse_over_api(chosen, "--wait")
    act = partial(_act, WriteClient(api), change)
    if asked.one is not None:
        print_done(chosen, act(named(known_name(asked.one))))
        return 0
    selector = selector_of(SELECTOR, list(asked.selector))
    jobs = (
        [named(name) for name in asked.names]
        if selector is None
        else taken_of(_selected(api, selector), change, selector)
    )
    confirm_change(jobs, asked, change)
    return exit_code_of(carry_out_and_report(chosen, jobs, change, act))


def _act(writes: WriteClient, change: SeveralChange, job: Selected) -> Done:
    """Changes one job; one that a selector has found only as the submission that it was then."""
    only = {"uid": job.uid} if job.uid else {}
    remote = writes.change(change.verb, job.name, {**change.options, **only})
    for sentence in remote.notices:
        notice(sentence)
    return remote.done


def _selected(api: ApiClient, selector: Selector) -> Jobs:
    rows = api.jobs(WantedJobs(lambda _row: True), with_pause=False).rows
    found = tuple(
        _of_row(row) for row in rows if row.name and row.uid is not None and selector.selects(row.labels)
    )
    return Jobs(found, tuple(row.name for row in rows if row.name and row.uid is None))


def _of_row(row: JobRow) -> Selected:
    """Returns the job of a row. One that has failed has no reference, and nothing is desired of it."""
    version = None if row.desired is None else 0
    return Selected(row.name or "", row.uid or "", version, None, row.desired == "suspended")
