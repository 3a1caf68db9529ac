"""Implements the commands ``cancel`` and ``restart``, and what they share with ``cli.suspend``.

Each is one write for each job to the registry, which is durable when the command returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from supervisor.cli.confirm import Yes
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, Timeout, command, over_api, seconds
from supervisor.cli.output import notice
from supervisor.cli.remote import open_gateway
from supervisor.cli.several import (
    AskedJobs,
    Names,
    SelectorOption,
    SeveralChange,
    change_jobs,
    print_done,
)
from supervisor.operations.context import CommandContext, open_commands, require_submitted
from supervisor.operations.job_requests import CancelRequest, RestartRequest
from supervisor.operations.names import known_name
from supervisor.operations.pause_notice import warn_of_pause
from supervisor.operations.selection import named
from supervisor.operations.waiting import wait_gone, wait_running

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done

GoneWait = Annotated[
    bool, typer.Option("--wait", help="Return when no driver of the job can be alive any more.")
]
Cold = Annotated[
    bool,
    typer.Option(
        "--cold", help="Stop the present driver at once; prepare none before, and use none that is."
    ),
]
RunWait = Annotated[
    bool, typer.Option("--wait", help="Return when the job runs: its first batch is committed.")
]


@command
@over_api
def cancel(
    chosen: Chosen,
    names: Names = None,
    selector: SelectorOption = None,
    wait: GoneWait = False,
    yes: Yes = False,
    timeout: Timeout = "5m",
) -> int:
    """Cancel jobs: they never come back, and their drivers are stopped. Checkpoints stay,
    unless a spec says checkpoint_on_cancel: delete.

    Done when the command returns, whoever is down: the job's shim obeys it without any supervisor. A later submit of
    the same spec goes on from the checkpoint that was kept. For a job that shall run again, suspend is the better word.
    Of more than one job it is asked first.

    \b
    Examples:
      spark-supervisor cancel clicks
      spark-supervisor cancel clicks --wait --timeout 2m      until its driver is gone
      spark-supervisor cancel -l team=web --yes
    """
    timeout_s = seconds("--timeout", timeout)
    change = SeveralChange(CancelRequest(""), "cancelled", lambda _: True, "job", wait, timeout_s, gone=True)
    return change_asked(chosen, AskedJobs.of(names, selector, yes), change)


@command
@over_api
def restart(
    chosen: Chosen,
    names: Names = None,
    selector: SelectorOption = None,
    wait: RunWait = False,
    cold: Cold = False,
    yes: Yes = False,
    timeout: Timeout = "10m",
) -> int:
    """Start a new attempt now: the present driver, if any, is stopped in order first. Forgets earlier failures.

    Where a host has room for it, the next driver is brought up first, and the present one goes on until it is ready
    (update.prepare in the spec). explain says what it waits for. Of more than one job it is asked first.

    \b
    Examples:
      spark-supervisor restart clicks --wait      until the new attempt has committed its first batch
      spark-supervisor restart clicks --cold      stops the present driver at once
      spark-supervisor restart -l team=web --yes
    """
    timeout_s = seconds("--timeout", timeout)
    change = SeveralChange(
        RestartRequest("", cold=cold),
        "restarted",
        lambda job: not job.is_suspended,
        "job that shall run",
        wait,
        timeout_s,
        gone=False,
    )
    return change_asked(chosen, AskedJobs.of(names, selector, yes), change)


Afterwards: TypeAlias = "Callable[[CommandContext, Done], None]"


def until_gone(wait: bool, timeout_s: float) -> Afterwards:
    """Returns what ``--wait`` does after a command that stops a job."""

    def afterwards(context: CommandContext, done: Done) -> None:
        if wait:
            uids = {done.name: done.uid}
            with Narrator(1, "gone") as narrator:
                error = wait_gone(context, uids, timeout_s, _state_after(done), narrator)[done.name]
            if error is not None:
                raise error

    return afterwards


def until_running(wait: bool, timeout_s: float) -> Afterwards:
    """Returns what ``--wait`` does after a command that runs a job."""

    def afterwards(context: CommandContext, done: Done) -> None:
        if wait:
            uids = {done.name: done.uid}
            with Narrator(1, "running") as narrator:
                error = wait_running(context, uids, timeout_s, _state_after(done), narrator)[done.name]
            if error is not None:
                raise error

    return afterwards


def _state_after(done: Done) -> str:
    """Returns the state for sentences: ``already suspended`` is suspended, too."""
    return done.did.value.removeprefix("already ")


def change_job(
    chosen: Chosen,
    name: str,
    act: Callable[[CommandContext], Done],
    afterwards: Afterwards,
    *,
    announced: bool = False,
) -> int:
    """Carries out ``act``, says what it did (if ``announced``, ``act`` has said it), then does ``afterwards``."""
    known_name(name)
    with open_commands(chosen.settings(), warn=notice) as context:
        require_submitted(context, name)
        done = act(context)
        if not announced:
            print_done(chosen, done)
        warn_of_pause(context, done)
        afterwards(context, done)
    return 0


def change_asked(chosen: Chosen, asked: AskedJobs, change: SeveralChange) -> int:
    """Carries out ``change`` of all jobs that ``asked`` is about, and returns the worst exit code. Of one name the answer
    is one document, not a list."""
    request = None if asked.one is None else change.request.about(named(known_name(asked.one)))
    with open_gateway(chosen, writes=True) as gateway:
        if request is None:
            return change_jobs(chosen, gateway, asked, change)
        waits_with = gateway.registry("--wait") if change.wait else None
        done = gateway.write(request)
        print_done(chosen, done)
        gateway.warn_of_pause(done)
        if waits_with is not None:
            until = until_gone if change.gone else until_running
            until(change.wait, change.timeout_s)(waits_with, done)
    return 0
