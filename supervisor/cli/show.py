"""Implements the command ``show``: shows one job with its history and spec; the live uid, or else the
newest."""

from __future__ import annotations

from typing import Annotated

import typer

from supervisor.api.job_document import JobDetailRequest
from supervisor.cli.options import Chosen, Name, command, over_api
from supervisor.cli.remote import open_gateway
from supervisor.cli.show_screen import LogTail, print_job
from supervisor.operations.logs import FailureOutput, FailureOutputRequest
from supervisor.operations.names import known_name

All = Annotated[bool, typer.Option("--all", help="Also what is unknown, or as it is by default.")]


@command
@over_api
def show(chosen: Chosen, name: Name, everything: All = False) -> int:
    """Show a job: its state and why, where it runs, how it failed last, what happened to it, and its spec.

    Shows the live submission of the name, or the newest one if none is live. What is unknown, or as it is by
    default, is left out. Values in the spec that look like secrets are covered; references to secrets are not. What
    it waits for, and what to do about it, says explain. Over --server, the end of its output is left out.

    \b
    Examples:
      spark-supervisor show clicks
      spark-supervisor show clicks --all
      spark-supervisor show clicks -o json | jq .progress
    """
    known_name(name)
    with open_gateway(chosen) as gateway:
        document = gateway.read(JobDetailRequest(name))
        ended_with = None if chosen.document else gateway.read_here(FailureOutputRequest(name))
    if chosen.document:
        chosen.print_document(document)
    else:
        print_job(document, _log_tail(name, ended_with), every=everything)
    return 0


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
