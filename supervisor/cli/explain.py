"""Implements the ``explain [NAME]`` command: tells the state of a job, why, what comes next and when, and
what to do about it; with ``--verbose`` also as the plan has it.

It prints what ``plan.explain`` says, in the words of ``operations.explain_words``, and decides nothing. It works without
any supervisor.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from supervisor.api.job_document import JobDetailRequest
from supervisor.cli.capacity_screen import capacity_lines
from supervisor.cli.columns import Columns
from supervisor.cli.completion import job_names
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import notice, print_labelled, print_table, with_local_times
from supervisor.cli.remote import open_gateway
from supervisor.errors import InvalidInput
from supervisor.operations.explain_document import ExplainAllRequest, ExplainJobRequest
from supervisor.operations.explain_screen import (
    ExplainAllScreenRequest,
    ExplainJobScreenRequest,
    ExplainScreen,
)
from supervisor.operations.names import known_name

MaybeName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Name of a job; else all.", autocompletion=job_names),
]

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also what it rests on: attempt, lease, hosts, rule of the plan, epoch."
    ),
]

Capacity = Annotated[
    bool,
    typer.Option(
        "--capacity", help="What its driver takes, what it could run with, how much more input it bears."
    ),
]

LABEL = 13
HEAD = Columns(("NAME", "STATE", "NEXT", "WHY"), state=1, spare=("NEXT",), whole=True)


@command
@over_api
def explain(
    chosen: Chosen, name: MaybeName = None, verbose: Verbose = False, capacity: Capacity = False
) -> int:
    """Say what becomes of a job, and why: of one, else of all that do not simply run.

    For a job that waits: for what, and until when. For one that is stuck: the command that helps. The answer comes from
    the leader's own plan, made here from what ZooKeeper holds now; nothing of it is carried out.

    \b
    Examples:
      spark-supervisor explain               what needs a look, most urgent first
      spark-supervisor explain clicks        why clicks does not run
      spark-supervisor explain clicks -v     and by which rule of the plan
      spark-supervisor explain clicks --capacity    whether it has too much, or too little
      spark-supervisor explain -o json | jq '.jobs[] | select(.state == "quarantined").remedies'
    """
    if name is not None:
        known_name(name)
    if capacity:
        return _explain_capacity(chosen, name)
    with open_gateway(chosen) as gateway:
        if chosen.document:
            wanted = ExplainAllRequest() if name is None else ExplainJobRequest(name)
            chosen.print_document(gateway.read(wanted))
        elif name is not None:
            _print(gateway.read(ExplainJobScreenRequest(name, verbose)), of_one=True)
        else:
            _print(gateway.read(ExplainAllScreenRequest(verbose)), of_one=False)
    return 0


def _explain_capacity(chosen: Chosen, name: str | None) -> int:
    """Prints what the driver of a job takes, and what follows from it: a part of the document of ``show``."""
    if name is None:
        raise InvalidInput("--capacity is about one job: name it", "spark-supervisor top shows all jobs")
    with open_gateway(chosen) as gateway:
        job = gateway.read(JobDetailRequest(name))
    usage = job.get("usage")
    if chosen.document:
        chosen.print_document({"name": name, "uid": job["uid"], "state": job["state"], "usage": usage})
        return 0
    for label, text in (("job", f"{name}, {job['state']}"), *capacity_lines(usage)):
        print_labelled(f"  {label:<{LABEL}}", text)
    return 0


def _print(screen: ExplainScreen, *, of_one: bool) -> None:
    """Prints a screen, with the times in it as local ones. The sentence about one job has no label."""
    for label, text in screen.lines:
        width = f"  {label:<{LABEL}}" if label else ""
        print_labelled(width if of_one else f"{label:<9}", with_local_times(text))
    if screen.rows:
        print()
        sys.stdout.flush()
        print_table(HEAD, [[*cells, with_local_times(why or "")] for *cells, why in screen.rows])
    for sentence in screen.notices:
        notice(sentence)
