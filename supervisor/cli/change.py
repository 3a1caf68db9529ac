"""``cancel``, ``suspend``, ``resume``, ``restart``: one write to the registry each; durable when the command returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from supervisor.cli.options import Chosen, Name, Timeout, command, known_name, seconds
from supervisor.cli.output import notice, say
from supervisor.cli.waiting import wait_gone, wait_running
from supervisor.cli.with_savepoint import resume_from, save_stopped, told_of
from supervisor.errors import InvalidInput, NotFound
from supervisor.operations.context import CommandContext, open_commands
from supervisor.savepoints.suspend import check_before

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done

GoneWait = Annotated[
    bool, typer.Option("--wait", help="Return when no driver of the job can be alive any more.")
]
RunWait = Annotated[
    bool, typer.Option("--wait", help="Return when the job runs: its first batch is committed.")
]

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

_HINTS = {
    "already finished": "it had finished by itself: nothing to cancel",
    "already running": "it is running, or about to: nothing to do",
}


@command
def cancel(chosen: Chosen, name: Name, wait: GoneWait = False, timeout: Timeout = "5m") -> int:
    """Cancel a job: it never comes back, and its driver is stopped. Its checkpoint stays.

    Done when the command returns, whoever is down: the job's shim obeys it without any supervisor. A later submit of
    the same spec goes on from the checkpoint. For a job that shall run again, suspend is the better word.

    \b
    Examples:
      spark-supervisor cancel clicks
      spark-supervisor cancel clicks --wait --timeout 2m      until its driver is gone
    """
    timeout_s = seconds("--timeout", timeout)
    return _change(chosen, name, lambda context: context.commands.cancel(name), _until_gone(wait, timeout_s))


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
    return _change(chosen, name, lambda context: context.commands.suspend(name), _until_gone(wait, timeout_s))


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
    afterwards = _until_running(wait, timeout_s)
    if from_savepoint is None:
        if to is not None:
            raise InvalidInput("--to is where --from-savepoint copies to: give that, too")
        return _change(
            chosen,
            name,
            lambda context: context.commands.resume(name, fresh_start=accept_fresh_start),
            afterwards,
        )
    if accept_fresh_start:
        raise InvalidInput("--from-savepoint says what the start shall find: leave out --accept-fresh-start")

    def act(context: CommandContext) -> Done:
        return resume_from(chosen, context, name, from_savepoint, to)

    return _change(chosen, name, act, afterwards, told=True)


@command
def restart(chosen: Chosen, name: Name, wait: RunWait = False, timeout: Timeout = "10m") -> int:
    """Start a new attempt now: the present driver, if any, is stopped in order first. Forgets earlier failures.

    \b
    Example:
      spark-supervisor restart clicks --wait      until the new attempt has committed its first batch
    """
    timeout_s = seconds("--timeout", timeout)
    return _change(
        chosen, name, lambda context: context.commands.restart(name), _until_running(wait, timeout_s)
    )


Afterwards: TypeAlias = "Callable[[CommandContext, Done], None]"


def _until_gone(wait: bool, timeout_s: float) -> Afterwards:
    def afterwards(context: CommandContext, done: Done) -> None:
        if wait:
            wait_gone(context, done.name, done.uid, timeout_s, _state_after(done))

    return afterwards


def _until_running(wait: bool, timeout_s: float) -> Afterwards:
    def afterwards(context: CommandContext, done: Done) -> None:
        if wait:
            error = wait_running(context, {done.name: done.uid}, timeout_s, _state_after(done))[done.name]
            if error is not None:
                raise error

    return afterwards


def _state_after(done: Done) -> str:
    """For sentences: ``already suspended`` is suspended, too."""
    return done.did.value.removeprefix("already ")


def _suspend_and_save(chosen: Chosen, name: str, which: str | None, timeout_s: float) -> int:
    known: list[Done] = []

    def act(context: CommandContext) -> Done:
        check_before(context, name, which)
        known.append(context.commands.suspend(name))
        if not chosen.document:
            _tell(chosen, known[0])
        return known[0]

    def afterwards(context: CommandContext, done: Done) -> None:
        _until_gone(True, timeout_s)(context, done)
        save_stopped(chosen, context, done, which)

    try:
        return _change(chosen, name, act, afterwards, told=True)
    except BaseException:
        if known:
            notice(
                f"{name} is suspended, and there is no savepoint of it yet: the same command goes on; resume {name} runs it "
                "without"
            )
            if chosen.document:
                chosen.say(told_of(known[0], None))
        raise


def _change(
    chosen: Chosen,
    name: str,
    act: Callable[[CommandContext], Done],
    afterwards: Afterwards,
    *,
    told: bool = False,
) -> int:
    """``told``: ``act`` has said itself what it did."""
    known_name(name)
    settings = chosen.settings()
    with open_commands(settings) as context:
        if context.check() is None:
            raise NotFound(f"no job is named {name}: nothing was ever submitted at {settings.zookeeper.root}")
        done = act(context)
        if not told:
            _tell(chosen, done)
        afterwards(context, done)
    return 0


def _tell(chosen: Chosen, done: Done) -> None:
    """At once: it is durable, whatever comes of a wait."""
    if chosen.document:
        chosen.say({"name": done.name, "uid": done.uid, "did": done.did.value})
        return
    hint = _HINTS.get(done.did.value)
    say(f"{done.name}: {done.did.value} ({done.uid})" + (f"; {hint}" if hint else ""))
