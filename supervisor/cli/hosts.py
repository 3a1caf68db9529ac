"""Implements the commands about hosts: ``cordon``, ``uncordon``, ``drain``, and ``move`` of one job to a host."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from supervisor.cli.change import RunWait, change_job, until_running
from supervisor.cli.completion import supervisor_ids
from supervisor.cli.narrator import Narrator
from supervisor.cli.operate import Reason, opened
from supervisor.cli.options import Chosen, Name, Timeout, command, seconds
from supervisor.cli.output import notice, print_line
from supervisor.model.phrases import counted
from supervisor.operations.context import CommandContext
from supervisor.operations.hosts import (
    DrainProgress,
    HostDid,
    HostDone,
    HostOperations,
    first_progress,
    wait_drained,
)
from supervisor.operations.jobs import Done
from supervisor.operations.staying_behind import warn_of_directory
from supervisor.operations.waiting import wait_switched_over

Host = Annotated[
    str,
    typer.Argument(
        metavar="HOST", help="The id of a supervisor, as status shows it.", autocompletion=supervisor_ids
    ),
]
To = Annotated[
    str,
    typer.Option(
        "--to", metavar="HOST", help="The supervisor that shall run it.", autocompletion=supervisor_ids
    ),
]
MaxParallel = Annotated[
    int, typer.Option("--max-parallel", metavar="N", min=1, help="So many jobs are moved at a time.")
]
DrainWait = Annotated[
    bool,
    typer.Option("--wait", help="Return when no driver is left there and what was moved runs."),
]


@command
def cordon(chosen: Chosen, host: Host, reason: Reason = "") -> int:
    """Place nothing new on a host: no job, no prepared driver. What runs there goes on.

    It stays cordoned until uncordon, also when it restarts. To move its jobs away as well: drain.

    \b
    Example:
      spark-supervisor cordon host-1 --reason "new disks at noon"
    """
    with opened(chosen, HostOperations) as (_, operator):
        done = operator.cordon(host, reason)
    if chosen.document:
        chosen.print_document(done.document())
    elif done.did is HostDid.CORDONED:
        print_line(f"{host}: cordoned: nothing new is placed there; spark-supervisor uncordon {host} ends it")
    else:
        print_line(f"already: {_sentence(done)}: left as it is")
    return 0


@command
def uncordon(chosen: Chosen, host: Host) -> int:
    """Let a host take jobs again; a drain of it ends. What was moved away stays where it is."""
    with opened(chosen, HostOperations) as (_, operator):
        done = operator.uncordon(host)
    if chosen.document:
        chosen.print_document(done.document())
    elif done.did is HostDid.UNCORDONED:
        print_line(f"{host}: uncordoned: it takes jobs again")
    else:
        print_line(f"{host}: not cordoned: nothing to do")
    return 0


@command
def drain(
    chosen: Chosen,
    host: Host,
    max_parallel: MaxParallel = 2,
    reason: Reason = "",
    wait: DrainWait = False,
    timeout: Timeout = "30m",
) -> int:
    """Cordon a host and move its jobs to other hosts, each by a hand-over: its next driver is prepared there first.

    The leader does it, a few at a time: the next job when one that was moved has committed a batch. A job for which no
    other host has room runs on, and the drain says which. If the host leads, it hands over first. Given again it goes
    on; uncordon ends it.

    \b
    Examples:
      spark-supervisor drain host-1 --wait                 before a reboot
      spark-supervisor drain host-1 --max-parallel 4
    """
    timeout_s = seconds("--timeout", timeout)
    with opened(chosen, HostOperations) as (context, operator):
        done = operator.drain(host, max_parallel, reason)
        progress = first_progress(context, host)
        if not chosen.document:
            _print_drain(done, progress, wait)
        try:
            if wait:
                _wait(context, done, progress, timeout_s)
        finally:  # the drain is written: its document is due, whatever came of the wait
            if chosen.document:
                left = first_progress(context, host) if wait else progress
                chosen.print_document({**done.document(), "left": _left(left)})
    if wait and not chosen.document:
        print_line(f"{host}: drained: no driver is left there; spark-supervisor uncordon {host} ends it")
    return 0


@command
def move(chosen: Chosen, name: Name, to: To, wait: RunWait = False, timeout: Timeout = "10m") -> int:
    """Move a job to another host: a driver is prepared there, then the present one is stopped in order.

    It is a restart with a place, so it forgets earlier failures. Without room there the job runs on where it is, and
    explain says so; a move to where it runs withdraws it.

    \b
    Example:
      spark-supervisor move clicks --to host-2 --wait
    """
    timeout_s = seconds("--timeout", timeout)

    def moved(context: CommandContext) -> Done:
        warn_of_directory(context, name, to)
        return context.commands.move(name, to)

    return change_job(chosen, name, moved, until_running(wait, timeout_s))


def _wait(context: CommandContext, done: HostDone, progress: DrainProgress | None, timeout_s: float) -> None:
    host, names = done.host, [each.name for each in progress.left] if progress is not None else []
    try:
        with Narrator(len(names), "moved") as narrator:
            if done.asked is not None and done.asked.wish is not None:
                wait_switched_over(context, done.asked, timeout_s, narrator)
            wait_drained(context, host, names, timeout_s, narrator)
    except KeyboardInterrupt:
        notice(f"{host} goes on being drained: drain {host} --wait looks on, uncordon {host} ends it")
        raise


def _print_drain(done: HostDone, progress: DrainProgress | None, wait: bool) -> None:
    begun = "is drained" if done.did is HostDid.DRAINING else "is being drained already"
    record = done.record
    many = "" if record is None else f", {counted(record.max_parallel, 'job')} at a time"
    left = "" if progress is None else f"; {counted(len(progress.left), 'job')} to move"
    ends = "" if wait else f"; spark-supervisor drain {done.host} --wait looks on"
    print_line(f"{done.host}: {begun}{many}{left}{ends}")
    if done.asked is not None:
        print_line(f"{done.host} leads, and was asked to hand over")
    elif done.alone:
        print_line(f"{done.host} leads, and no other supervisor is up that could take over")
    for each in progress.held if progress is not None else ():
        print_line(f"held by {each.name}: {each.why}")


def _left(progress: DrainProgress | None) -> list[dict[str, Any]] | None:
    if progress is None:
        return None
    return [{"name": each.name, "why": each.why, "held": each.held} for each in progress.left]


def _sentence(done: HostDone) -> str:
    return done.record.sentence if done.record is not None else f"{done.host} is cordoned"
