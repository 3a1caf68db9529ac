"""``cancel``, ``suspend``, ``resume``, ``restart``: one write to the registry each; durable when the command returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from supervisor.cli.options import Chosen, Name, Timeout, command, known_name, seconds
from supervisor.cli.output import say
from supervisor.errors import NotFound

if TYPE_CHECKING:
    from supervisor.registry.commands import Commands, Done
    from supervisor.wiring import Office

GoneWait = Annotated[bool, typer.Option("--wait", help="Return when no driver of the job can be alive any more.")]
RunWait = Annotated[bool, typer.Option("--wait", help="Return when the job runs: its first batch is committed.")]

FreshStart = Annotated[
    bool, typer.Option("--accept-fresh-start", help="Start once with the checkpoint as it is, or with none."),
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
    return _change(chosen, name, lambda commands: commands.cancel(name), _until_gone(wait, timeout_s))


@command
def suspend(chosen: Chosen, name: Name, wait: GoneWait = False, timeout: Timeout = "5m") -> int:
    """Stop a job but keep it registered; resume runs it again, from its checkpoint.

    \b
    Example:
      spark-supervisor suspend clicks --wait      until its driver is gone
    """
    timeout_s = seconds("--timeout", timeout)
    return _change(chosen, name, lambda commands: commands.suspend(name), _until_gone(wait, timeout_s))


@command
def resume(
    chosen: Chosen, name: Name, wait: RunWait = False, timeout: Timeout = "10m", accept_fresh_start: FreshStart = False,
) -> int:
    """Run a suspended, failed or quarantined job again, from its checkpoint, with a fresh restart budget.

    A job whose checkpoint is missing, or not the one that it left, is not started. With --accept-fresh-start the next
    start takes what is there: nothing means from the beginning, and what was counted so far is lost.

    \b
    Examples:
      spark-supervisor resume clicks --wait       until its first batch is committed
      spark-supervisor resume clicks --accept-fresh-start
    """
    timeout_s = seconds("--timeout", timeout)
    afterwards = _until_running(wait, timeout_s)
    return _change(chosen, name, lambda commands: commands.resume(name, fresh_start=accept_fresh_start), afterwards)


@command
def restart(chosen: Chosen, name: Name, wait: RunWait = False, timeout: Timeout = "10m") -> int:
    """Start a new attempt now: the present driver, if any, is stopped in order first. Forgets earlier failures.

    \b
    Example:
      spark-supervisor restart clicks --wait      until the new attempt has committed its first batch
    """
    timeout_s = seconds("--timeout", timeout)
    return _change(chosen, name, lambda commands: commands.restart(name), _until_running(wait, timeout_s))


Afterwards: TypeAlias = "Callable[[Office, Done], None]"


def _until_gone(wait: bool, timeout_s: float) -> Afterwards:
    def afterwards(office: Office, done: Done) -> None:
        if wait:
            from supervisor.cli.waiting import wait_gone

            wait_gone(office, done.name, done.uid, timeout_s, _state_after(done))

    return afterwards


def _until_running(wait: bool, timeout_s: float) -> Afterwards:
    def afterwards(office: Office, done: Done) -> None:
        if wait:
            from supervisor.cli.waiting import wait_running

            error = wait_running(office, {done.name: done.uid}, timeout_s, _state_after(done))[done.name]
            if error is not None:
                raise error

    return afterwards


def _state_after(done: Done) -> str:
    """For sentences: ``already suspended`` is suspended, too."""
    return done.did.value.removeprefix("already ")


def _change(
    chosen: Chosen, name: str, act: Callable[[Commands], Done], afterwards: Afterwards,
) -> int:
    known_name(name)
    settings = chosen.settings()
    from supervisor.wiring import open_commands

    with open_commands(settings) as office:
        if office.check() is None:
            raise NotFound(f"no job is named {name}: nothing was ever submitted at {settings.zookeeper.root}")
        done = act(office.commands)
        _tell(chosen, done)
        afterwards(office, done)
    return 0


def _tell(chosen: Chosen, done: Done) -> None:
    """At once: it is durable, whatever comes of a wait."""
    if chosen.document:
        chosen.say({"name": done.name, "uid": done.uid, "did": done.did.value})
        return
    hint = _HINTS.get(done.did.value)
    say(f"{done.name}: {done.did.value} ({done.uid})" + (f"; {hint}" if hint else ""))
