"""Implements the ``explain [NAME]`` command: tells the state of a job, why, what comes next and when, and
what to do about it; with ``--verbose`` also as the plan has it.

It prints what ``plan.explain`` says, in the words of ``cli.plain``, and decides nothing. It works without any
supervisor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.api.job_document import job_document
from supervisor.cli.capacity_screen import capacity_lines
from supervisor.cli.columns import Columns
from supervisor.cli.completion import job_names
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import (
    local_time,
    notice,
    print_labelled,
    print_line,
    print_table,
    span,
    with_local_times,
)
from supervisor.cli.plain import brief, long_silence_s, plain_lines
from supervisor.cli.remote import api_of
from supervisor.clock import wall_iso
from supervisor.errors import InvalidInput
from supervisor.model.actions import Alarm
from supervisor.model.phrases import counted
from supervisor.operations.context import open_commands, require_submitted
from supervisor.operations.explain_document import all_explained, one_explained
from supervisor.operations.history import find_job
from supervisor.operations.names import known_name
from supervisor.operations.scene import Scene, explain_all, explain_name, stall_timeout_of, take_scene

if TYPE_CHECKING:
    from supervisor.plan.explain import Explanation

MaybeName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Name of a job; else all.", autocompletion=job_names),
]

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also what it rests on: attempt, lease, hosts, rule of the plan, epoch."
    ),
]

Capacity = Annotated[
    bool,
    typer.Option(
        "--capacity", help="What its driver takes, what it could run with, how much more input it bears."
    ),
]

LABEL = 13
ACCEPT = "spark-supervisor accept-registry --help"
HEAD = Columns(("NAME", "STATE", "NEXT", "WHY"), state=1, spare=("NEXT",), whole=True)


@command
@over_api
def explain(
    chosen: Chosen, name: MaybeName = None, verbose: Verbose = False, capacity: Capacity = False
) -> int:
    """Say what becomes of a job, and why: of one, else of all that do not simply run.

    For a job that waits: for what, and until when. For one that is stuck: the command that helps. The answer comes from
    the leader's own plan, made here from what ZooKeeper holds now; nothing of it is carried out.

    \b
    Examples:
      spark-supervisor explain               what needs a look, most urgent first
      spark-supervisor explain clicks        why clicks does not run
      spark-supervisor explain clicks -v     and by which rule of the plan
      spark-supervisor explain clicks --capacity    whether it has too much, or too little
      spark-supervisor explain -o json | jq '.jobs[] | select(.state == "quarantined").remedies'
    """
    if name is not None:
        known_name(name)
    if capacity:
        return _explain_capacity(chosen, name)
    api = api_of(chosen)
    if api is not None:
        if not chosen.document:
            raise InvalidInput(
                "explain prints its document only when it asks a server",
                "add -o json, or call it on a host with supervisor.yaml",
            )
        chosen.print_document(api.explain(name))
        return 0
    settings = chosen.settings()
    with open_commands(settings) as context:
        if name is not None:
            require_submitted(context, name)
        elif context.check() is None:
            notice(f"nothing was ever submitted at {settings.zookeeper.root}")
        scene = take_scene(context)
        if name is not None:
            explained = explain_name(context, scene, name)
            silent = long_silence_s(explained) is not None
            stall_timeout_s = stall_timeout_of(context, scene, name) if silent else None
            _print_one(chosen, scene, explained, stall_timeout_s, verbose=verbose)
        else:
            _print_all(chosen, scene, explain_all(context, scene), verbose=verbose)
    return 0


def _explain_capacity(chosen: Chosen, name: str | None) -> int:
    """Prints what the driver of a job takes, and what follows from it: a part of the document of ``show``."""
    if name is None:
        raise InvalidInput("--capacity is about one job: name it", "spark-supervisor top shows all jobs")
    api = api_of(chosen)
    if api is not None:
        job = api.job(name)
    else:
        with open_commands(chosen.settings()) as context:
            job = job_document(context, find_job(context, name))
    usage = job.get("usage")
    if chosen.document:
        chosen.print_document({"name": name, "uid": job["uid"], "state": job["state"], "usage": usage})
        return 0
    for label, text in (("job", f"{name}, {job['state']}"), *capacity_lines(usage)):
        print_labelled(f"  {label:<{LABEL}}", text)
    return 0


# -- one job ------------------------------------------------------------------------------------------------------


def _print_one(
    chosen: Chosen, scene: Scene, explained: Explanation, stall_timeout_s: float | None, *, verbose: bool
) -> None:
    now_s = time.time()
    if chosen.document:
        chosen.print_document(one_explained(scene, explained, now_s))
        return
    lines = list(plain_lines(explained, now_s, stall_timeout_s))
    if scene.view.distrust:
        lines.append(("you can", ACCEPT))
    if verbose:
        lines += [
            ("", ""),
            *lines_of(explained, now_s),
            ("leader", f"{scene.leader or 'nobody'} (epoch {scene.epoch})"),
        ]
    for label, text in lines:
        print_labelled(f"  {label:<{LABEL}}" if label else "", with_local_times(text))
    if scene.store_error is not None:
        notice(f"the store could not be asked whether it knows of a newer registry: {scene.store_error}")


def lines_of(explained: Explanation, wall_now_s: float) -> Iterator[tuple[str, str]]:
    """Yields (label, text): what the explanation rests on, in the words of the plan.

    ``wall_now_s`` is of the same instant as the explanation.
    """
    if explained.attempt:
        where = f" on {explained.host}" if explained.host else ""
        failures = f", {counted(explained.failures, 'failure')} in a row" if explained.failures else ""
        yield "attempt", f"{explained.attempt}{where}{failures}"
    if explained.record is not None and (
        explained.record.progress is None or explained.record.progress.batch_id is None
    ):
        yield "phase", f"{explained.record.phase.value}, no batch yet"
    yield from _lease(explained, wall_now_s)
    if explained.held_by:
        yield "held", str(explained.held_by)
    if explained.waits_for:
        yield "waits for", str(explained.waits_for) + _until(explained.wait_s, wall_now_s)
    if explained.action:
        leader = "would" if explained.held_by else "will now"
        yield "plan", f"the leader {leader} {explained.action}: {explained.why}"
    elif explained.then and explained.waits_for:
        yield "plan", f"then {explained.then}"
    for host in explained.hosts:
        room = f"{host.drivers} of {host.drivers_max} drivers, {host.free_memory // 2**20}m free, {host.starting} of "
        room += f"{host.starting_max} starting"
        yield "host", f"{host.id}: {room}" + (f"; {host.lacking}" if host.lacking else "")
    if explained.alarm:
        yield "alarm", str(explained.alarm)
    if explained.cell and explained.rule:
        owned, wanted = explained.cell
        yield "rule", f"ownership {owned.value} × wanted {wanted.value} → {explained.rule.value}"


def _lease(explained: Explanation, wall_now_s: float) -> Iterator[tuple[str, str]]:
    lease = explained.lease
    if lease is None:
        return
    length = f"{lease.lease_s:g}s" if lease.lease_s is not None else "unreadable"
    if not lease.is_silent:
        yield "lease", f"{length}, renewed {lease.silent_s:.0f}s ago"
        return
    since_at_s = wall_now_s - lease.silent_s
    since, until = _clock(since_at_s, wall_now_s), _clock(since_at_s + lease.full_wait_s, wall_now_s)
    outlive = (
        f" (in it {lease.executors_outlive_s:g}s in which executors may outlive their driver)"
        if lease.executors_outlive_s
        else ""
    )
    yield (
        "lease",
        (
            f"{length}, silent since {since}: its shim or host may be gone; "
            f"the full wait W = {lease.full_wait_s:.1f}s{outlive} ends at {until}, later if the leader is younger than that"
        ),
    )


def _until(wait_s: float | None, wall_now_s: float) -> str:
    return "" if wait_s is None else f", until {_clock(wall_now_s + wait_s, wall_now_s)} (in {span(wait_s)})"


def _clock(wall_s: float, now_s: float) -> str:
    return local_time(wall_iso(wall_s), now_s)


# -- all jobs -----------------------------------------------------------------------------------------------------


def _print_all(chosen: Chosen, scene: Scene, everything: list[Explanation], *, verbose: bool) -> None:
    now_s = time.time()
    if chosen.document:
        chosen.print_document(all_explained(scene, everything, now_s))
        return
    notable = [explained for explained in everything if not explained.is_fine]
    for label, text in _heads(scene, verbose=verbose):
        print_labelled(f"{label:<9}", with_local_times(text))
    fine, others = len(everything) - len(notable), len(notable)
    count = f"{fine} as wanted" + (f", {others} to look at" if others else "") if everything else "none"
    print_line(f"{'jobs:':<9}{count}")
    if notable:
        print()
        sys.stdout.flush()
        print_table(HEAD, [_brief(explained) for explained in notable])


def _heads(scene: Scene, *, verbose: bool) -> Iterator[tuple[str, str]]:
    yield "leader:", (scene.leader or "nobody") + (f" (epoch {scene.epoch})" if verbose else "")
    if scene.leader is None:
        yield "", "jobs run on, and stop when told to; nothing is started until somebody leads"
    if scene.view.distrust:
        sentence = (
            f"the registry is not trusted: {scene.view.distrust}; nothing is started, stopped or cleaned"
        )
        yield "trust:", f"{sentence}; see {ACCEPT}"
    if scene.view.paused:
        yield (
            "paused:",
            f"{scene.view.pause.sentence if scene.view.pause else 'yes'}; spark-supervisor unpause ends it",
        )
    for alarm in scene.explainer.alarms:
        if alarm != Alarm(scene.view.distrust or ""):
            yield "alarm:", str(alarm)
    if scene.store_error is not None:
        yield "store:", scene.store_error


def _brief(explained: Explanation) -> list[Any]:
    following, why = brief(explained)
    return [explained.name, explained.state.value, following, with_local_times(why)]
