"""Implements the ``suspend`` and ``resume`` commands like those of ``cli.change``, plus their savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.change import GoneWait, RunWait, change_job, print_done, until_gone, until_running
from supervisor.cli.options import Chosen, Name, Timeout, command, seconds
from supervisor.cli.output import notice
from supervisor.cli.with_savepoint import resume_from, save_stopped, savepoint_document
from supervisor.errors import InvalidInput
from supervisor.operations.context import CommandContext
from supervisor.savepoints.suspend import check_before

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done

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
SaveId = Annotated[
    str | None, typer.Argument(metavar="ID", help="Of the savepoint; else one made from the time.")
]


@command
def suspend(
    chosen: Chosen,
    name: Name,
    which: SaveId = None,
    wait: GoneWait = False,
    timeout: Timeout = "5m",
    savepoint: Save = False,
) -> int:
    """Stop a job but keep it registered; resume runs it again, from its checkpoint.

    With --savepoint it waits until the driver is gone, and copies what that has left. Interrupted, the job is suspended,
    and the same command goes on.

    \b
    Examples:
      spark-supervisor suspend clicks --wait      until its driver is gone
      spark-supervisor suspend clicks --savepoint before-upgrade
    """
    timeout_s = seconds("--timeout", timeout)
    if savepoint:
        return _suspend_and_save(chosen, name, which, timeout_s)
    if which is not None:
        raise InvalidInput(f"{which} would be the id of a savepoint: give --savepoint, too")
    return change_job(
        chosen, name, lambda context: context.commands.suspend(name), until_gone(wait, timeout_s)
    )


@command
def resume(
    chosen: Chosen,
    name: Name,
    wait: RunWait = False,
    timeout: Timeout = "10m",
    accept_fresh_start: FreshStart = False,
    from_savepoint: FromSavepoint = None,
    to: To = None,
) -> int:
    """Run a suspended, failed or quarantined job again, from its checkpoint, with a fresh restart budget.

    A job whose checkpoint is missing, or not the one that it left, is not started. With --accept-fresh-start the next
    start takes what is there: nothing means from the beginning, and what was counted so far is lost.

    With --from-savepoint it goes on from a copy of the savepoint, which becomes its checkpoint; the old one stays as it
    is. Interrupted, the same command goes on. A LOCATION may be a savepoint of another job.

    \b
    Examples:
      spark-supervisor resume clicks --wait       until its first batch is committed
      spark-supervisor resume clicks --accept-fresh-start
      spark-supervisor resume clicks --from-savepoint before-upgrade
    """
    timeout_s = seconds("--timeout", timeout)
    afterwards = until_running(wait, timeout_s)
    if from_savepoint is None:
        if to is not None:
            raise InvalidInput("--to is where --from-savepoint copies to: give that, too")
        return change_job(
            chosen,
            name,
            lambda context: context.commands.resume(name, fresh_start=accept_fresh_start),
            afterwards,
        )
    if accept_fresh_start:
        raise InvalidInput("--from-savepoint says what the start shall find: leave out --accept-fresh-start")

    def act(context: CommandContext) -> Done:
        return resume_from(chosen, context, name, from_savepoint, to)

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
