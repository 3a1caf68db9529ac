"""Implements the command ``show``: shows one job with its history and spec; the live uid, or else the
newest."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from supervisor.cli.history import documents_of
from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.show_screen import LogTail, print_job
from supervisor.operations.context import open_commands
from supervisor.operations.history import find_job
from supervisor.operations.job_view import JobView, view_of
from supervisor.operations.logs import FailureOutput, output_of_failure
from supervisor.savepoints.operations import ScheduleOfJob, schedule_of_job
from supervisor.settings.units import format_duration

All = Annotated[bool, typer.Option("--all", help="Also what is unknown, or as it is by default.")]


@command
def show(chosen: Chosen, name: Name, everything: All = False) -> int:
    """Show a job: its state and why, where it runs, how it failed last, what happened to it, and its spec.

    Shows the live submission of the name, or the newest one if none is live. What is unknown, or as it is by
    default, is left out. Values in the spec that look like secrets are covered; references to secrets are not. What
    it waits for, and what to do about it, says explain.

    \b
    Examples:
      spark-supervisor show clicks
      spark-supervisor show clicks --all
      spark-supervisor show clicks -o json | jq .progress
    """
    known_name(name)
    settings = chosen.settings()
    with open_commands(settings) as context:
        job = find_job(context, name)
        view = view_of(context, job)
        schedule = (
            schedule_of_job(context, job.ref) if job.ref is not None and view.spec is not None else None
        )
        ended_with = None if chosen.document else output_of_failure(context, job)
    document = _document(view, schedule)
    if chosen.document:
        chosen.print_document(document)
        return 0
    print_job(document, _log_tail(name, ended_with), every=everything)
    return 0


def _document(view: JobView, schedule: ScheduleOfJob | None) -> dict[str, Any]:
    ended = view.last_exit
    return {
        **view.row.document(),
        "driver_memory": view.driver_memory,
        "queries": view.queries,
        "more_queries": view.more_queries,
        "stop_mode": view.stop_mode,
        "last_exit": None
        if ended is None
        else {
            "cause": ended.event,
            "attempt": ended.attempt,
            "at": ended.at,
            "why": ended.detail,
        },
        "start": view.start,
        "cluster_wait": view.cluster_wait,
        "update": view.update,
        "fork": view.fork,
        "promotion": view.promotion,
        "starts_cold": view.starts_cold,
        "prepare_lowered": view.prepare_lowered,
        "env_ignored": view.env_ignored,
        "checkpoint_fence": view.checkpoint_fence,
        "class_archive": view.class_archive,
        "user": view.user,
        "limits": view.limits,
        "savepoints": None if schedule is None else _savepoints(schedule),
        "history": documents_of(view.history),
        "spec": view.spec,
        "spec_error": view.spec_error,
    }


def _savepoints(schedule: ScheduleOfJob) -> dict[str, Any]:
    policy = schedule.policy
    return {
        "every": format_duration(policy.every_s),
        "keep": policy.keep,
        "max_age": None if policy.max_age_s is None else format_duration(policy.max_age_s),
        "newest": schedule.newest,
        "next_due_at": schedule.next_due_at,
        "problem": schedule.problem,
    }


def _log_tail(name: str, output: FailureOutput | None) -> LogTail | None:
    """Returns what is printed of the output of the driver that failed last, or None for nothing."""
    if output is None:
        return None
    number, call = output.attempt, f"spark-supervisor logs {name} --attempt {output.attempt}"
    if output.error:
        return LogTail(number, (), f"can't be read here ({output.error}): {call}")
    if output.where:
        return LogTail(number, (), f"attempt {number} ran on {output.where}: there {call}")
    return LogTail(number, output.lines, call)
