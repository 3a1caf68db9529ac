"""Implements the commands for the whole cluster, ``pause``, ``unpause`` and ``switchover``.

None of them touches a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from supervisor.cli.completion import supervisor_ids
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, command, seconds
from supervisor.cli.output import notice, print_line, with_local_times
from supervisor.clock import boottime_s
from supervisor.errors import NotFound, SupervisorError
from supervisor.operations.cluster import Asked, ClusterOperations, Paused
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.waiting import wait_switched_over

if TYPE_CHECKING:
    from supervisor.model.records import Pause
Operations = TypeVar("Operations", bound=ClusterOperations)
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown by status, list and show.")]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="ID",
        help="Which supervisor shall lead next; else any other one.",
        autocompletion=supervisor_ids,
    ),
]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="Longest wait, like 90s or 10m; then exit code 7.")
]


@command
def pause(chosen: Chosen, reason: Reason = "") -> int:
    """Stop acting on any job: nothing is started, restarted, moved or cleaned until unpause.

    Drivers run on. Submit, cancel and suspend stay possible; a driver that is cancelled or suspended still stops.
    """
    with opened(chosen, ClusterOperations) as (_, operator):
        done = operator.pause(reason)
    if chosen.document:
        chosen.print_document(_document(done, paused=True))
    elif done.changed:
        print_line(
            f"{_sentence(done.record)}: nothing is started or cleaned; drivers run on; spark-supervisor unpause ends it"
        )
    else:
        print_line(f"already {_sentence(done.record)}: left as it is")
    return 0


@command
def unpause(chosen: Chosen) -> int:
    """Let the leader act again. What is due is done at once."""
    with opened(chosen, ClusterOperations) as (_, operator):
        done = operator.unpause()
    if chosen.document:
        chosen.print_document(_document(done, paused=False))
    elif done.changed:
        print_line(f"unpaused; it was {_sentence(done.record)}")
    else:
        print_line("not paused: nothing to do")
    return 0


@command
def switchover(chosen: Chosen, to: To = None, timeout: Timeout = "60s") -> int:
    """Hand leadership over to another supervisor, and wait until that one leads and has acted. Drivers do not notice.

    With --to the others give way to that one for the session time; if it does not come, any other leads.
    """
    timeout_s = seconds("--timeout", timeout)
    with opened(chosen, ClusterOperations) as (context, operator):
        begun_at_s = boottime_s()
        asked = operator.switchover(to)
        if asked.wish is None:
            return _led_already(chosen, asked)
        with Narrator(1, "handed over") as narrator:
            hint = wait_switched_over(context, asked, timeout_s, narrator)
        took_s = boottime_s() - begun_at_s
    leader, epoch = hint.supervisor, hint.epoch
    if leader == asked.leader:
        raise SupervisorError(
            f"nobody else took over within the session time: {leader} leads again (epoch {epoch})"
        )
    if to is not None and leader != to:
        raise SupervisorError(
            f"{to} did not take over within the session time: {leader} leads now (epoch {epoch})"
        )
    if chosen.document:
        chosen.print_document(_handed_over(leader, asked.leader, epoch, "handed over", round(took_s, 3)))
    else:
        print_line(f"{leader} leads (epoch {epoch}); {asked.leader} handed over; it took {took_s:.2f} s")
    return 0


def _led_already(chosen: Chosen, asked: Asked) -> int:
    if chosen.document:
        chosen.print_document(_handed_over(asked.leader, asked.leader, asked.epoch, "already leads", 0.0))
    else:
        print_line(f"{asked.leader} leads already (epoch {asked.epoch}): nothing to do")
    return 0


def _handed_over(leader: str, was: str, epoch: int, did: str, took_s: float) -> dict[str, Any]:
    return {"leader": leader, "was": was, "epoch": epoch, "did": did, "took_s": took_s}


# -- what they share ----------------------------------------------------------------------------------------------


@contextmanager
def opened(chosen: Chosen, operations: type[Operations]) -> Iterator[tuple[CommandContext, Operations]]:
    """Opens the registry, with a cluster on it, for commands of an operator."""
    settings = chosen.settings()
    with open_commands(settings, warn=notice) as context:
        if context.check() is None:
            root = settings.zookeeper.root
            raise NotFound(
                f"there is no cluster at {root}: no supervisor ever ran there, and nothing was submitted"
            )
        yield context, operations(context.sessions, context.layout, context.author, context.auditor)


def _sentence(record: Pause | None) -> str:
    return (
        with_local_times(record.sentence) if record is not None else "paused (by a record that can't be read)"
    )


def _document(done: Paused, *, paused: bool) -> dict[str, Any]:
    did = (
        ("paused" if paused else "unpaused")
        if done.changed
        else ("already paused" if paused else "not paused")
    )
    return {"paused": paused, "did": did, "pause": done.document()}
