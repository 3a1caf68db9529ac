"""Implements the ``suspend`` and ``resume`` commands like those of ``cli.change``, plus their savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.change import (
    Afterwards,
    GoneWait,
    RunWait,
    change_asked,
    change_job,
    until_gone,
    until_running,
)
from supervisor.cli.confirm import Yes
from supervisor.cli.options import Chosen, SignWith, Timeout, command, over_api, seconds
from supervisor.cli.output import notice
from supervisor.cli.remote import refuse_over_api
from supervisor.cli.several import AskedJobs, Names, SelectorOption, SeveralChange, print_done
from supervisor.cli.sink_options import RolledBack, SinkOption, fields_of_request, said_by
from supervisor.cli.with_savepoint import NO_NEW_SPEC, resume_from, save_stopped, savepoint_document
from supervisor.errors import InvalidInput
from supervisor.model.going_back import Said
from supervisor.operations.context import CommandContext
from supervisor.operations.job_requests import ResumeRequest, SuspendRequest
from supervisor.savepoints.suspend import check_before

if TYPE_CHECKING:
    from pathlib import Path

    from supervisor.operations.jobs import Done
    from supervisor.operations.selection import Selected

FreshStart = Annotated[
    bool,
    typer.Option("--accept-fresh-start", help="Start once with the checkpoint as it is, or with none."),
]

FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint", metavar="ID|LOCATION", help="Go on from a copy of it, in a fresh location."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="LOCATION", help="Where that is; else beside the present checkpoint."),
]
Save = Annotated[
    bool,
    typer.Option("--savepoint", help="Then save its checkpoint, verified; with --timeout as for --wait."),
]


@command
@over_api
def suspend(
    chosen: Chosen,
    names: Names = None,
    selector: SelectorOption = None,
    wait: GoneWait = False,
    yes: Yes = False,
    timeout: Timeout = "5m",
    savepoint: Save = False,
) -> int:
    """Stop jobs but keep them registered; resume runs them again, from their checkpoints.

    With --savepoint, which is for one job, it waits until the driver is gone, and copies what that has left. A second word
    is the id of the savepoint; else one is made from the time. Interrupted, the job is suspended, and the same command goes
    on. Of more than one job it is asked first.

    \b
    Examples:
      spark-supervisor suspend clicks --wait      until its driver is gone
      spark-supervisor suspend clicks --savepoint before-upgrade
      spark-supervisor suspend -l team=web --yes
    """
    timeout_s = seconds("--timeout", timeout)
    if savepoint:
        refuse_over_api(chosen, "--savepoint")
        name, which = _job_and_savepoint(names, selector)
        return _suspend_and_save(chosen, name, which, timeout_s)
    change = SeveralChange(
        SuspendRequest(""),
        "suspended",
        lambda job: job.version is not None,
        "registered job",
        wait,
        timeout_s,
        gone=True,
    )
    return change_asked(chosen, AskedJobs.of(names, selector, yes), change)


def _job_and_savepoint(names: list[str] | None, selector: list[str] | None) -> tuple[str, str | None]:
    """Returns the job and the id of the savepoint, if one was given. Raises InvalidInput."""
    if not names or selector or len(names) > 2:
        raise InvalidInput("--savepoint is for one job: give its name, and perhaps an id for the savepoint")
    return names[0], names[1] if len(names) == 2 else None


@command
@over_api
def resume(
    chosen: Chosen,
    names: Names = None,
    selector: SelectorOption = None,
    wait: RunWait = False,
    yes: Yes = False,
    timeout: Timeout = "10m",
    accept_fresh_start: FreshStart = False,
    from_savepoint: FromSavepoint = None,
    to: To = None,
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
    sign_with: SignWith = None,
) -> int:
    """Run suspended, failed or quarantined jobs again, from their checkpoints, with a fresh restart budget.

    A job whose checkpoint is missing, or not the one that it left, is not started. With --accept-fresh-start the next
    start takes what is there: nothing means from the beginning, and what was counted so far is lost.

    With --from-savepoint it goes on from a copy of the savepoint, which becomes its checkpoint; the old one stays as it
    is. Interrupted, the same command goes on. A LOCATION may be a savepoint of another job. Both are for one job; of more
    than one job it is asked first.

    Both are refused where the sink would skip batches that it has seen, and so is a job in whose place another has run
    since a promotion. --sink and --sink-rolled-back say what only the sink's owner knows.

    \b
    Examples:
      spark-supervisor resume clicks --wait       until its first batch is committed
      spark-supervisor resume clicks --accept-fresh-start
      spark-supervisor resume clicks --from-savepoint before-upgrade
      spark-supervisor resume -l team=web --yes
    """
    timeout_s = seconds("--timeout", timeout)
    asked = AskedJobs.of(names, selector, yes)
    _require_consistent(asked, accept_fresh_start, from_savepoint, to, sign_with)
    said = said_by(sink, sink_rolled_back)  # another may have run in its place since
    if asked.one is not None and from_savepoint is not None:
        refuse_over_api(chosen, "--from-savepoint")
        afterwards = until_running(wait, timeout_s)
        return _resume_from(chosen, asked.one, from_savepoint, to, sign_with, afterwards, said)
    change = SeveralChange(
        ResumeRequest("", accept_fresh_start=accept_fresh_start, **fields_of_request(said)),
        "resumed",
        lambda job: not job.is_left_replaced,
        "job",
        wait,
        timeout_s,
        gone=False,
        why_left=_why_left,
    )
    return change_asked(chosen, asked, change)


def _why_left(job: Selected) -> str:
    if not job.is_left_replaced:
        return ""
    return f"{job.replaced_by} was promoted over it; resume {job.name}, by its name, runs it beside"


def _require_consistent(
    asked: AskedJobs,
    accept_fresh_start: bool,
    from_savepoint: str | None,
    to: str | None,
    sign_with: Path | None,
) -> None:
    """Raises InvalidInput where options do not go together."""
    if asked.one is None:
        for given, option in (
            (accept_fresh_start, "--accept-fresh-start"),
            (from_savepoint, "--from-savepoint"),
        ):
            if given:
                raise InvalidInput(
                    f"{option} is for one job, whose checkpoint you have looked at: give one name"
                )
    if from_savepoint is None and to is not None:
        raise InvalidInput("--to is where --from-savepoint copies to: give that, too")
    if from_savepoint is None and sign_with is not None:
        raise InvalidInput(NO_NEW_SPEC)
    if from_savepoint is not None and accept_fresh_start:
        raise InvalidInput("--from-savepoint says what the start shall find: leave out --accept-fresh-start")


def _resume_from(
    chosen: Chosen,
    name: str,
    which: str,
    to: str | None,
    sign_with: Path | None,
    afterwards: Afterwards,
    said: Said,
) -> int:
    def act(context: CommandContext) -> Done:
        return resume_from(chosen, context, name, which, to, context.author, sign_with=sign_with, said=said)

    return change_job(chosen, name, act, afterwards, announced=True)


def _suspend_and_save(chosen: Chosen, name: str, which: str | None, timeout_s: float) -> int:
    known: list[Done] = []

    def act(context: CommandContext) -> Done:
        check_before(context, name, which)
        known.append(context.commands.suspend(name))
        if not chosen.document:
            print_done(chosen, known[0])
        return known[0]

    def afterwards(context: CommandContext, done: Done) -> None:
        until_gone(True, timeout_s)(context, done)
        save_stopped(chosen, context, done, which)

    try:
        return change_job(chosen, name, act, afterwards, announced=True)
    except BaseException:
        if known:
            notice(
                f"{name} is suspended, and there is no savepoint of it yet: the same command goes on; resume {name} runs it "
                "without"
            )
            if chosen.document:
                chosen.print_document(savepoint_document(known[0], None))
        raise
