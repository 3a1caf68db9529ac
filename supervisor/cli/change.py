"""``cancel``, ``suspend``, ``resume``, ``restart``: one write to the registry each; durable when the command returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.options import Chosen, Name, Timeout, command, known_name, seconds
from supervisor.cli.output import say, say_json
from supervisor.errors import NotFound

if TYPE_CHECKING:
    from supervisor.registry.commands import Commands, Done
    from supervisor.wiring import Office

CancelWait = Annotated[bool, typer.Option("--wait", help="Return when no driver of the job can be alive any more.")]

_HINTS = {
    "already finished": "it had finished by itself: nothing to cancel",
    "already running": "it is running, or about to: nothing to do",
}


@command
def cancel(chosen: Chosen, name: Name, wait: CancelWait = False, timeout: Timeout = "5m") -> int:
    """Cancel a job: it never comes back, and its driver is stopped. Its checkpoint stays."""
    timeout_s = seconds("--timeout", timeout)

    def gone(office: Office, done: Done) -> None:
        if wait:
            from supervisor.cli.waiting import wait_gone

            wait_gone(office, done.name, done.uid, timeout_s)

    return _change(chosen, name, lambda commands: commands.cancel(name), gone)


@command
def suspend(chosen: Chosen, name: Name) -> int:
    """Stop a job but keep it; resume runs it again."""
    return _change(chosen, name, lambda commands: commands.suspend(name))


@command
def resume(chosen: Chosen, name: Name) -> int:
    """Run a suspended, failed or quarantined job again, with a fresh restart budget."""
    return _change(chosen, name, lambda commands: commands.resume(name))


@command
def restart(chosen: Chosen, name: Name) -> int:
    """Start a new attempt now: the present driver is stopped in an orderly way first."""
    return _change(chosen, name, lambda commands: commands.restart(name))


def _change(
    chosen: Chosen, name: str, act: Callable[[Commands], Done],
    afterwards: Callable[[Office, Done], None] = lambda _office, _done: None,
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
    if chosen.json:
        say_json({"name": done.name, "uid": done.uid, "did": done.did.value})
        return
    hint = _HINTS.get(done.did.value)
    say(f"{done.name}: {done.did.value} ({done.uid})" + (f"; {hint}" if hint else ""))
