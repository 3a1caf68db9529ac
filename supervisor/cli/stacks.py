"""Implements the ``stacks NAME`` command: prints thread dumps of the driver of a job, from the processes of this host or
from the API of the host that runs it (``--server``)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from supervisor.api.host_client import HostClient
from supervisor.api.paths import ATTEMPT_HEADER, path_of_stacks
from supervisor.cli.api_client import api_of
from supervisor.cli.logs import write_output
from supervisor.cli.options import Chosen, Name, command, over_api, seconds
from supervisor.errors import InvalidInput
from supervisor.model.diagnostics import EVERY_MAX_S, KINDS, TIMES_MAX
from supervisor.operations.context import open_commands
from supervisor.operations.names import known_name
from supervisor.operations.stacks import running_driver, thread_dumps

Jvm = Annotated[bool, typer.Option("--jvm", help="Only of JVMs.")]
Python = Annotated[bool, typer.Option("--python", help="Only of Python.")]
Times = Annotated[
    int,
    typer.Option("--times", min=1, max=TIMES_MAX, metavar="N", help="So many dumps, one after the other."),
]
Every = Annotated[str, typer.Option("--every", metavar="TIME", help="So far apart, like 2s.")]


@command
@over_api
def stacks(
    chosen: Chosen,
    name: Name,
    jvm: Jvm = False,
    python: Python = False,
    times: Times = 1,
    every: Every = "2s",
) -> int:
    """Print thread dumps of the driver of a job, if it runs on this host; else say where it runs.

    Each JVM and each Python process of the driver shows where its threads are. The driver goes on; its output has nothing
    of it. A Python worker, and an interpreter that does not answer, shows its threads as the kernel sees them. With --server
    the dumps are fetched from the host that runs it. On the host itself ask as the user of the supervisor, or as root.

    \b
    Examples:
      spark-supervisor stacks clicks
      spark-supervisor stacks clicks --jvm --times 3 --every 2s
    """
    known_name(name)
    every_s = seconds("--every", every)
    if every_s > EVERY_MAX_S:
        raise InvalidInput(f"--every can be {EVERY_MAX_S:g}s at most")
    kinds = KINDS if jvm == python else ("jvm",) if jvm else ("python",)
    api = api_of(chosen)
    if api is not None:
        client = HostClient(api)
        attempt, dumps = _fetched(client, name, kinds, times, every_s)
        _print(chosen, name, attempt, dumps)
        return 0
    with open_commands(chosen.settings()) as context:
        driver = running_driver(context, name)
        _print(chosen, name, driver.attempt, thread_dumps(driver, times, every_s, kinds))
    return 0


def _print(chosen: Chosen, name: str, attempt: int, dumps: Iterator[bytes]) -> None:
    if chosen.document:
        text = b"".join(dumps).decode("utf-8", "replace")
        chosen.print_document({"name": name, "attempt": attempt, "stacks": text})
    else:
        write_output(dumps)


def _fetched(
    client: HostClient, name: str, kinds: tuple[str, ...], times: int, every_s: float
) -> tuple[int, Iterator[bytes]]:
    """Returns the attempt, and its dumps as they are fetched."""
    target = path_of_stacks(name) + (f"?of={kinds[0]}" if len(kinds) == 1 else "")
    first = client.answer(target)
    attempt = first.headers.get(ATTEMPT_HEADER.lower(), "")

    def rest() -> Iterator[bytes]:
        yield first.body
        for _ in range(times - 1):
            time.sleep(every_s)
            yield client.answer(target).body

    return int(attempt) if attempt.isdigit() else 0, rest()
