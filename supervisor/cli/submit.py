"""Implements ``submit``: passes the specs of one call to ``operations.submit``, and prints a line for each.

The exit code is the worst of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.completion import files
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, SignWith, Timeout, command, seconds
from supervisor.cli.output import notice, print_line
from supervisor.cli.progress import progress
from supervisor.cli.sink_options import RolledBack, SinkOption, said_by
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.live_sparks import warn_of_missing_sparks
from supervisor.operations.signing import signed
from supervisor.operations.submit import BeginsWith, Submitted, SubmitWish, prepare_all, submit_all
from supervisor.operations.waiting import wait_running
from supervisor.operations.way_back_warning import warn_of_way_back
from supervisor.savepoints.begin import begins_with, restore_for

if TYPE_CHECKING:
    from supervisor.spec.job import JobSpec

Specs = Annotated[
    list[Path],
    typer.Argument(metavar="SPEC.yaml", help="Job specs; many are stored in parallel.", autocompletion=files),
]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Until each job has its first batch (exit code 1: one failed, 7: too late)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, store nothing.")]
Suspended = Annotated[bool, typer.Option("--suspended", help="Register without starting; resume starts it.")]
FreshStart = Annotated[
    bool,
    typer.Option(
        "--accept-fresh-start", help="Take the checkpoint as it is, also if the name left another one."
    ),
]

FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint", metavar="ID|LOCATION", help="Begin with a copy of it, at an empty checkpoint."
    ),
]


@command
def submit(
    chosen: Chosen,
    specs: Specs,
    wait: Wait = False,
    dry_run: DryRun = False,
    suspended: Suspended = False,
    timeout: Timeout = "10m",
    accept_fresh_start: FreshStart = False,
    from_savepoint: FromSavepoint = None,
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
    sign_with: SignWith = None,
) -> int:
    """Submit jobs. The same spec again changes nothing; a live name with another spec is refused.

    Local files that a spec names are stored with it, so that any host can start the job. Done when the command returns,
    also while no supervisor is up; one bad file does not keep the others from being submitted. With --from-savepoint the
    savepoint is first copied to the checkpoint of the spec, where nothing may be yet, and compared. That and
    --accept-fresh-start are refused where the sink would skip batches that it has seen; --sink and --sink-rolled-back say
    what only the sink's owner knows.

    \b
    Examples:
      spark-supervisor submit clicks.yaml --wait
      spark-supervisor submit jobs/*.yaml
      spark-supervisor submit clicks.yaml --dry-run      checks everything, stores nothing
      spark-supervisor submit clicks.yaml --from-savepoint before-upgrade
    """
    timeout_s = seconds("--timeout", timeout)
    if wait and (suspended or dry_run):
        raise InvalidInput("--wait waits for a job to run: leave out --suspended and --dry-run")
    if from_savepoint is not None and len(specs) > 1:
        raise InvalidInput("--from-savepoint is for one spec: submit the others without it")
    said = said_by(
        sink, sink_rolled_back
    )  # where the name left a checkpoint elsewhere, it goes back without a word
    settings = chosen.settings()
    submitted = prepare_all(specs, settings, notice, sign=partial(signed, settings, sign_with))
    if any(each.prepared is not None for each in submitted):
        # an earlier submission may have come further
        fresh_start = accept_fresh_start or from_savepoint is not None
        wish = SubmitWish(dry_run=dry_run, suspended=suspended, fresh_start=fresh_start, said=said)
        with open_commands(settings, warn=notice) as context:
            begin = partial(_begin, context, from_savepoint, wish) if from_savepoint is not None else None
            submit_all(context, submitted, wish, begin)
            done = [each.prepared for each in submitted if each.error is None and each.prepared is not None]
            warn_of_missing_sparks(context, done)
            warn_of_way_back(context, done)
            if wait:
                _wait(context, submitted, timeout_s)
    if chosen.document:
        chosen.print_document([each.document() for each in submitted])
    for each in submitted:
        _report(each, alone=len(submitted) == 1, quiet=chosen.document)
        _print_not_taken(each, accept_fresh_start, from_savepoint)
    return max(each.error.exit_code if each.error else 0 for each in submitted)


def _begin(context: CommandContext, which: str, wish: SubmitWish, spec: JobSpec) -> BeginsWith:
    """Copies the savepoint to where the job shall begin. A dry run only checks whether it is a savepoint that its sink
    takes."""
    if wish.dry_run:
        return begins_with(context, spec, which, wish.said)
    with progress("restoring") as report_progress:
        return restore_for(context, spec, which, wish.said, report_progress)


def _wait(context: CommandContext, submitted: list[Submitted], wait_s: float) -> None:
    uids = {each.name: each.uid for each in submitted if each.error is None and each.name and each.uid}
    with Narrator(len(uids), "running") as narrator:
        outcomes = wait_running(context, uids, wait_s, "submitted", narrator)
    for each in submitted:
        each.error = each.error or outcomes.get(each.name or "")


def _report(line: Submitted, *, alone: bool, quiet: bool) -> None:
    """Prints the line of a file: on stdout what was done, on stderr what was not."""
    if line.did is not None and not quiet:
        origin = f", from savepoint {line.savepoint}" if line.savepoint else ""
        print_line(f"{line.name}: {line.did}" + (f" ({line.uid})" if line.uid else "") + origin)
    for sentence in complaints(line.error) if line.error is not None else ():
        notice(
            f"error: {sentence}" if alone or str(line.source) in sentence else f"{line.source}: {sentence}"
        )


def complaints(error: SupervisorError) -> tuple[str, ...]:
    """Returns all that is wrong, a sentence each."""
    return (str(error), *(error.others if isinstance(error, InvalidInput) else ()))


def _print_not_taken(line: Submitted, accept_fresh_start: bool, from_savepoint: str | None) -> None:
    """Reports an option without effect: both are for a first start; for a registered job, resume has them."""
    asked = (
        f"--from-savepoint {from_savepoint}"
        if from_savepoint
        else "--accept-fresh-start"
        if accept_fresh_start
        else ""
    )
    if asked and line.did == "unchanged":
        notice(
            f"{line.name} is registered already, and was left as it is: for that there is resume {line.name} {asked}"
        )
