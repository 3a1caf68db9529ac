"""Completes names of jobs and supervisors in a shell, from the registry. Called by typer when TAB is pressed.

Nobody waits for a completion: one that takes longer than a second, or fails, completes nothing and says
nothing. Spec files are left to the shell: completing nothing makes it complete file names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from supervisor.cli.global_options import SERVER_VARIABLE
from supervisor.clients.threads import BackgroundThread
from supervisor.operations.context import CommandContext, open_commands
from supervisor.settings.file import load_settings

LIMIT_S = 0.8
"""Limits the time for asking ZooKeeper; starting Python and loading come on top."""


def job_names(ctx: Any, incomplete: str) -> list[str]:
    """Returns the names of registered jobs; if none begins so, of all that were ever submitted. A command that takes
    several is not given one twice."""
    server = _server(ctx)
    if server is not None:
        found = _in_time(lambda names: _ask_server(server, _given(ctx, "token_file"), incomplete, names))
    else:
        found = _found(ctx, incomplete, lambda context: (context.layout.jobs, context.layout.owns))
    return sorted(set(found).difference((ctx.params or {}).get("names") or ()))


def supervisor_ids(ctx: Any, incomplete: str) -> list[str]:
    """Returns the ids of the supervisors that are connected. What takes them can ask no server."""
    return (
        []
        if _server(ctx) is not None
        else sorted(_found(ctx, incomplete, lambda context: (context.layout.supervisors,)))
    )


def files() -> list[str]:
    """Returns nothing, so that the shell completes file names itself."""
    return []


def _given(ctx: Any, option: str) -> str | None:
    """Returns the value of ``--config`` or ``--server``, given before or after the command."""
    given: Mapping[str, Any]
    while ctx is not None:
        given = ctx.params or {}
        if given.get(option):
            return str(given[option])
        ctx = ctx.parent
    return None


def _server(ctx: Any) -> str | None:
    """Returns the address of the server that is asked in place of ZooKeeper, whose names might be another cluster's."""
    if _given(ctx, "server"):
        return _given(ctx, "server")
    return None if _given(ctx, "config") else os.environ.get(SERVER_VARIABLE) or None


def _found(ctx: Any, incomplete: str, parents: Callable[[CommandContext], tuple[str, ...]]) -> list[str]:
    """Returns the children that begin so of the first of ``parents`` that has any."""
    config = _given(ctx, "config")
    return _in_time(lambda found: _ask(Path(config) if config else None, incomplete, parents, found))


def _in_time(ask: Callable[[list[str]], None]) -> list[str]:
    """Returns what ``ask`` puts into its list in time."""
    found: list[str] = []

    def asked() -> None:
        try:
            ask(found)
        except Exception:  # noqa: BLE001 - the edge of a TAB: an error here has nobody to read it
            return

    BackgroundThread("completion", asked).start().join(LIMIT_S)
    return found


def _ask_server(url: str, token_file: str | None, incomplete: str, found: list[str]) -> None:
    # the client takes 70 ms to load, and every command imports this file
    from supervisor.cli.api_client import client_at

    names = (row["name"] for row in client_at(url, token_file, "--server").get("/jobs"))
    found.extend(name for name in names if name and name.startswith(incomplete))


def _ask(
    config: Path | None,
    incomplete: str,
    parents: Callable[[CommandContext], tuple[str, ...]],
    found: list[str],
) -> None:
    with open_commands(load_settings(config, os.environ)) as context:
        for parent in parents(context):
            found.extend(name for name in context.zoo().children(parent) or () if name.startswith(incomplete))
            if found:
                return
