"""Implements the command ``show``: shows one job with its history and spec; the live uid, or else the
newest."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from supervisor.cli.history import documents_of, entries_of
from supervisor.cli.log_tail import read_tail, tail_lines
from supervisor.cli.logs import is_here, output_of
from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.show_screen import LogTail, print_job
from supervisor.clock import wall_s
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model import driver_memory
from supervisor.model.host_tools import why_ignored
from supervisor.model.records import PLANNED_CAUSES, BlobRef, Lease
from supervisor.model.secret import redacted
from supervisor.model.seen import Found
from supervisor.model.state import last_exit_of
from supervisor.observe.listing import OneJob, read_job
from supervisor.observe.queries import queries_of
from supervisor.observe.start import start_of
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.listing import row_of_job
from supervisor.operations.names import no_job
from supervisor.savepoints.operations import schedule_of
from supervisor.settings.units import format_duration
from supervisor.spark.fence.choice import why_not_wanted

All = Annotated[bool, typer.Option("--all", help="Also what is unknown, or as it is by default.")]


@command
def show(chosen: Chosen, name: Name, everything: All = False) -> int:
    """Show a job: its state and why, where it runs, how it failed last, what happened to it, and its spec.

    Of the live submission of the name, else of the newest. What is unknown, or as it is by default, is left out. Values
    in the spec that look like secrets are covered; references to secrets are not. What it waits for, and what to do
    about it, says explain.

    \b
    Examples:
      spark-supervisor show clicks
      spark-supervisor show clicks --all
      spark-supervisor show clicks -o json | jq .progress
    """
    known_name(name)
    settings = chosen.settings()
    with open_commands(settings) as context:
        job = read_job(context.zoo(), context.layout, name) if context.check() is not None else None
        if job is None:
            raise no_job(context.zoo(), context.layout, name)
        document = _document(context, job)
        tail = None if chosen.document else _log_tail(context, job, document)
    if chosen.document:
        chosen.print_document(document)
        return 0
    print_job(document, tail, every=everything)
    return 0


def _document(context: CommandContext, job: OneJob) -> dict[str, Any]:
    result = job.result.record if isinstance(job.result, Found) else None
    queries, more = queries_of(job, wall_s())
    history = entries_of(job)
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec, why_not = _spec(context, ref)
    ended = last_exit_of(history)
    raised = (
        driver_memory.raise_of_memory(job.ref, job.own)
        if job.ref is not None and job.own is not None
        else None
    )
    return {
        **row_of_job(context, job).document(),
        "driver_memory": raised,
        "queries": queries,
        "more_queries": more,
        "stop_mode": job.own.stop_mode if job.own is not None and job.own.uid == job.uid else None,
        "last_exit": None
        if ended is None
        else {
            "cause": ended.event,
            "attempt": ended.attempt,
            "at": ended.at,
            "why": ended.detail,
        },
        "start": start_of(job.row),
        "env_ignored": _env_ignored(spec),
        "checkpoint_fence": _fence(spec, job.row.lease_of_owner),
        "savepoints": _savepoints(context, job) if spec is not None else None,
        "history": documents_of(history),
        "spec": None if spec is None else redacted(spec),
        "spec_error": why_not,
    }


def _spec(context: CommandContext, ref: BlobRef | None) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the stored spec, or None and why it can't be shown: that must not hide the rest."""
    if ref is None:
        return None, "its records do not say where the spec is"
    try:
        spec = json.loads(context.blobs().read_spec(ref))
        if not isinstance(spec, dict):
            raise Corrupt(f"{ref.key} is no spec")
        return spec, None
    except ValueError:
        return None, f"{ref.key} is not JSON"
    except SupervisorError as error:
        return None, str(error)


def _env_ignored(spec: dict[str, Any] | None) -> str | None:
    """Returns what of the spec's env does not count, and why: an older version registered it.

    None means that all of it counts.
    """
    env = spec.get("env") if spec is not None else None
    return why_ignored(env) if isinstance(env, dict) else None


def _fence(spec: dict[str, Any] | None, lease: Lease | None) -> str | None:
    """Returns why the running driver has no storage fence; else, as far as the spec says, ``auto`` or why
    not.

    None means that there is no checkpoint on S3.
    """
    if lease is not None and lease.not_fenced:
        return f"off: {lease.not_fenced}"
    conf, place = (spec.get(key) for key in ("conf", "checkpoint")) if spec is not None else (None, None)
    if spec is None or not isinstance(conf, dict) or not isinstance(place, str):
        return None
    why = why_not_wanted(place, str(spec.get("checkpoint_fence", "auto")), conf)
    return f"off: {why}" if why else None if why is None else "auto"


def _savepoints(context: CommandContext, job: OneJob) -> dict[str, Any] | None:
    """Returns what the leader makes by itself (spec key ``savepoints``), the newest, and when the next is
    due."""
    terms = job.ref.terms if job.ref is not None else None
    if job.ref is None or terms is None or terms.savepoints is None or terms.checkpoint is None:
        return None
    policy = terms.savepoints
    summary: dict[str, Any] = {
        "every": format_duration(policy.every_s),
        "keep": policy.keep,
        "max_age": None if policy.max_age_s is None else format_duration(policy.max_age_s),
        "newest": None,
        "next_due_at": None,
        "problem": None,
    }
    try:
        newest, due_at = schedule_of(context.settings, job.row.name, terms.checkpoint, policy)
    except SupervisorError as error:
        return {**summary, "problem": str(error)}
    return {**summary, "newest": newest, "next_due_at": due_at}


def _log_tail(context: CommandContext, job: OneJob, document: dict[str, Any]) -> LogTail | None:
    """Returns how the output of the driver that failed last ends, if it is on this host; else where it is."""
    ended = document["last_exit"]
    if ended is None or ended["cause"] in PLANNED_CAUSES:
        return None
    number, call = ended["attempt"], f"spark-supervisor logs {job.row.name} --attempt {ended['attempt']}"
    try:
        lines = tail_lines(read_tail(output_of(context, job, number).files()))
    except OSError as error:
        return LogTail(number, (), f"can't be read here ({error.strerror}): {call}")
    if lines:
        return LogTail(number, tuple(lines), call)
    here, where = is_here(context, job, number)
    return (
        None if here or not where else LogTail(number, (), f"attempt {number} ran on {where}: there {call}")
    )
