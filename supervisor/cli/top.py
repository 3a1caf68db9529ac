"""Implements the ``top`` command: shows what each driver takes, and with ``--hosts`` what each host offers and gives."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import print_table, readable_size
from supervisor.cli.remote import open_gateway
from supervisor.operations.top import TopRequest

JOBS = Columns(
    (
        "NAME",
        "HOST",
        "CPU %",
        "MEMORY",
        "RESERVED",
        "BATCH S",
        "TRIGGER",
        "LOAD %",
        "ROWS/S IN",
        "STATE ROWS",
        "STATE",
        "LAG",
    ),
    spare=("STATE", "STATE ROWS", "LAG", "TRIGGER", "BATCH S", "RESERVED", "HOST"),
)
HOSTS = Columns(
    ("HOST", "DRIVERS", "CPU %", "OFFERED", "RESERVED", "USED", "PEAKS", "MARK"),
    spare=("PEAKS", "DRIVERS"),
)


class TopOrder(StrEnum):
    """Names what the table is sorted by, the largest first."""

    MEMORY = "memory"
    CPU = "cpu"
    LAG = "lag"
    TRIGGER = "trigger"


SORTED_BY = {
    TopOrder.MEMORY: "memory",
    TopOrder.CPU: "cores",
    TopOrder.LAG: "lag",
    TopOrder.TRIGGER: "share_of_trigger",
}

Hosts = Annotated[bool, typer.Option("--hosts", help="The hosts: what they offer, and what is taken of it.")]
Sort = Annotated[TopOrder, typer.Option("--sort", help="Jobs that have most of it come first.")]


@command
@over_api
def top(chosen: Chosen, hosts: Hosts = False, sort: Sort = TopOrder.MEMORY) -> int:
    """Show what drivers take: processors, memory, time of a batch beside its trigger, rows, state, lag.

    CPU %: 100 is one processor. BATCH S, TRIGGER, LOAD %: the newest batch, in seconds, of the query that is loaded most,
    and its share of the interval of its trigger. ROWS/S IN: rows that arrive in a second. MARK: over-committed
    if more is reserved than offered, or the peaks of its drivers add up to more; idle if they are a tenth of what it
    offers, or less.

    \b
    Examples:
      spark-supervisor top --sort trigger
      spark-supervisor top --hosts
      spark-supervisor top -o json | jq '.jobs[] | select(.share_of_trigger > 0.8).name'
    """
    with open_gateway(chosen) as gateway:
        document = gateway.read(TopRequest())
    document["jobs"].sort(key=_order(SORTED_BY[sort]))
    if chosen.document:
        chosen.print_document(document)
    elif hosts:
        print_table(HOSTS, [_host(host) for host in document["hosts"]])
    else:
        print_table(JOBS, [_job(job) for job in document["jobs"]])
    return 0


def _order(key: str) -> Callable[[dict[str, Any]], tuple[bool, float, str]]:
    """Returns the key by which the largest come first; jobs of which it is not known come last."""
    return lambda job: (job[key] is None, -(job[key] or 0.0), job["name"])


def _job(job: dict[str, Any]) -> list[Any]:
    return [
        job["name"],
        job["supervisor"],
        _percent(job["cores"]),
        _size(job["memory"]),
        _size(job["memory_reserved"]),
        None if job["batch_ms"] is None else f"{job['batch_ms'] / 1000:.1f}",
        None if job["trigger_s"] is None else f"{job['trigger_s']:g} s",
        _percent(job["share_of_trigger"]),
        None if job["input_rows_per_s"] is None else f"{job['input_rows_per_s']:.1f}",
        _whole(job["state_rows"]),
        _size(job["state_bytes"]),
        _whole(job["lag"]),
    ]


def _host(host: dict[str, Any]) -> list[Any]:
    return [
        host["id"],
        f"{host['drivers']} of {host['drivers_max']}",
        _percent(host["cores"]),
        _size(host["offered"]),
        _size(host["reserved"]),
        _size(host["used"]),
        _size(host["peaks"]),
        host["mark"],
    ]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share * 100:.0f}"


def _size(size: float | None) -> str | None:
    return None if size is None else readable_size(int(size))


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
