"""Implements the ``stop-drivers`` command: stops all drivers of this host in order before it goes down."""

from __future__ import annotations

from typing import Annotated

import typer

from supervisor.cli.options import Chosen, command, seconds
from supervisor.cli.output import notice, print_line
from supervisor.daemon.host import drain_host
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.logs import configure_logs
from supervisor.model.phrases import counted

Patience = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="TIME", help="Longest wait, then exit code 7; default: the longest stop_grace."
    ),
]


@command
def stop_drivers(chosen: Chosen, timeout: Patience = None) -> int:
    """Stop all drivers of this host in order, before the host goes down; their jobs start elsewhere.

    Asks the shims below supervisor.runtime_dir; needs no ZooKeeper. Stop the supervisor of this host first, or it
    starts drivers again. Nothing is suspended: for that, see suspend.
    """
    timeout_s = None if timeout is None else seconds("--timeout", timeout)
    settings = chosen.settings_of_host()
    configure_logs("DEBUG" if chosen.debug else "WARNING")
    directory = HostedAttempts(settings.supervisor.runtime_dir, settings.supervisor.log_dir).attempts_dir
    departed = drain_host.stop_drivers(directory, timeout_s)
    if chosen.document:
        chosen.print_document({"stopped": list(departed.stopped), "left": list(departed.left)})
    else:
        stopped = f"{counted(len(departed.stopped), 'driver')} stopped"
        print_line(stopped if departed.stopped else f"no driver runs below {directory}")
    if departed.left:
        notice(
            f"error: still stopping: {', '.join(departed.left)}; each is killed at the end of its stop_grace"
        )
        return 7
    return 0
