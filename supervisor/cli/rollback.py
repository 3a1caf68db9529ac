"""Implements ``rollback``: a job becomes what an earlier revision of it was.

``operations`` decides and writes. A roll back is an update to a spec that is stored already (protocol §9.2).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.change import RunWait, change_job, until_running
from supervisor.cli.options import Chosen, Name, SignWith, Timeout, command, seconds
from supervisor.cli.sink_options import RolledBack, SinkOption, said_by
from supervisor.cli.with_savepoint import NO_NEW_SPEC, resume_from
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import Did
from supervisor.operations.revisions import roll_back_to, spec_to_go_back_to
from supervisor.operations.signing import require_signature
from supervisor.operations.waiting import why_given_up

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done

To = Annotated[
    int | None,
    typer.Option("--to", metavar="REVISION", min=1, help="To this one; else to the last stable one."),
]
FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint",
        metavar="ID|LOCATION",
        help="Go on from a copy of it, in a fresh location; only for a job without a driver.",
    ),
]


@command
def rollback(
    chosen: Chosen,
    name: Name,
    to: To = None,
    from_savepoint: FromSavepoint = None,
    wait: RunWait = False,
    timeout: Timeout = "10m",
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
    sign_with: SignWith = None,
) -> int:
    """Make a job what it was before its newest update, or at any revision that is kept, as a new revision.

    The checkpoint stays as it is: what was committed since stays committed. An update that still waits for its driver is
    withdrawn; then nothing is stopped. revisions lists what --to can name.

    With --from-savepoint it goes on from a copy of the savepoint, which becomes its checkpoint; what came after the
    savepoint is handed to the sink again. For that its driver must be gone: suspend it first. It is refused where the sink
    would skip batches that it has seen; --sink and --sink-rolled-back say what only the sink's owner knows.

    \b
    Examples:
      spark-supervisor rollback clicks --wait
      spark-supervisor rollback clicks --to 3
      spark-supervisor rollback clicks --from-savepoint before-upgrade
    """
    timeout_s = seconds("--timeout", timeout)
    if sign_with is not None and from_savepoint is None:
        raise InvalidInput(NO_NEW_SPEC)
    said = said_by(sink, sink_rolled_back, goes_back=from_savepoint is not None)

    def act(context: CommandContext) -> Done:
        if from_savepoint is not None:
            back = partial(spec_to_go_back_to, context, name, to)
            by = context.author
            return resume_from(chosen, context, name, from_savepoint, None, by, back, sign_with, said)
        if to is not None:
            return roll_back_to(context, name, to, context.author)
        return context.commands.roll_back(
            name, context.author, partial(require_signature, context.settings, name)
        )

    def afterwards(context: CommandContext, done: Done) -> None:
        until_running(wait, timeout_s)(context, done)
        given_up = why_given_up(context, name) if wait and done.did is Did.ROLLED_BACK else ""
        if given_up:
            raise SupervisorError(f"{name} runs on as it was: {given_up}")

    return change_job(chosen, name, act, afterwards, announced=from_savepoint is not None)
