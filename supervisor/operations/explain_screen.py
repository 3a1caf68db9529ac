"""Makes what ``explain`` prints, of one job and of all: lines of a label and a text, and rows of a table.

``cli.explain`` prints it, from here or from the API of a supervisor (``api.service``), which makes the same. Times are
ISO 8601 in UTC; who prints them makes them local. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

from supervisor.clock import wall_iso, wall_s
from supervisor.model.actions import Alarm
from supervisor.model.phrases import counted
from supervisor.operations.context import CommandContext, require_submitted
from supervisor.operations.explain_words import absent_text, brief, long_silence_s, plain_lines
from supervisor.operations.requests import BOOLEAN, QueryParameter, ReadRequest
from supervisor.operations.scene import Scene, explain_all, explain_name, stall_timeout_of, take_scene
from supervisor.operations.spans import span
from supervisor.plan.explain import UNLESS, Explanation

ACCEPT = "spark-supervisor accept-registry --help"


@dataclass(frozen=True)
class ExplainScreen:
    """Holds what is printed: ``notices`` for whoever looks on, ``lines`` of a label and a text, and ``rows`` of the table of
    jobs (name, state, what comes next, why), which is empty for one job."""

    lines: list[list[str]]
    notices: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)


_VERBOSE: Final = QueryParameter("verbose", "Whether also what it rests on is told: true or false.", BOOLEAN)


class _ScreenRequest(ReadRequest[ExplainScreen]):
    def document(self, answer: ExplainScreen) -> dict[str, Any]:
        return asdict(answer)

    def answer(self, document: Any, server: str) -> ExplainScreen:  # noqa: ARG002 - whoever has sent it
        return ExplainScreen(
            [[str(label), str(text)] for label, text in document["lines"]],
            [str(notice) for notice in document["notices"]],
            [[name, state, following, why] for name, state, following, why in document["rows"]],
        )


@dataclass(frozen=True)
class ExplainJobScreenRequest(_ScreenRequest):
    """Asks for the screen of one job."""

    operation = "explainJobScreen"
    path = "/jobs/{name}/explain/screen"
    summary = "What explain prints of a job, in English, with times in UTC."

    name: str
    verbose: Annotated[bool, _VERBOSE] = False

    def carry_out(self, context: CommandContext) -> ExplainScreen:
        require_submitted(context, self.name)
        scene, now_at_s = take_scene(context), wall_s()
        explained = explain_name(context, scene, self.name)
        silent = long_silence_s(explained) is not None
        stall_timeout_s = stall_timeout_of(context, scene, self.name) if silent else None
        lines = list(plain_lines(explained, now_at_s, stall_timeout_s))
        if scene.view.distrust:
            lines.append(("you can", ACCEPT))
        if self.verbose:
            lines += [
                ("", ""),
                *lines_of(explained, now_at_s),
                ("leader", f"{scene.leader or 'nobody'} (epoch {scene.epoch})"),
            ]
        notices = []
        if scene.store_error is not None:
            notices.append(
                f"the store could not be asked whether it knows of a newer registry: {scene.store_error}"
            )
        return ExplainScreen([[label, text] for label, text in lines], notices)


@dataclass(frozen=True)
class ExplainAllScreenRequest(_ScreenRequest):
    """Asks for the screen of all jobs."""

    operation = "explainScreen"
    path = "/explain/screen"
    summary = "What explain prints of all jobs, in English, with times in UTC."

    verbose: Annotated[bool, _VERBOSE] = False

    def carry_out(self, context: CommandContext) -> ExplainScreen:
        root = context.settings.zookeeper.root
        notices = [] if context.check() is not None else [f"nothing was ever submitted at {root}"]
        scene = take_scene(context)
        everything = explain_all(context, scene)
        notable = [explained for explained in everything if not explained.is_fine]
        fine, others = len(everything) - len(notable), len(notable)
        count = f"{fine} as wanted" + (f", {others} to look at" if others else "") if everything else "none"
        heads = (*_heads(scene, verbose=self.verbose), ("jobs:", count))
        rows = [row_of(explained) for explained in notable]
        return ExplainScreen([[label, text] for label, text in heads], notices, rows)


def row_of(explained: Explanation) -> list[str | None]:
    """Returns the row of a job in the table."""
    following, why = brief(explained)
    return [explained.name, explained.state.value, following, why]


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
        latest = " at the latest" if explained.wait_s is not None and UNLESS[explained.waits_for.kind] else ""
        yield "waits for", str(explained.waits_for) + _until(explained.wait_s, wall_now_s) + latest
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
    since, until = wall_iso(since_at_s), wall_iso(since_at_s + lease.full_wait_s)
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
    return "" if wait_s is None else f", until {wall_iso(wall_now_s + wait_s)} (in {span(wait_s)})"


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
    for absent in scene.explainer.absent:
        yield "absent:", absent_text(absent)
    for alarm in scene.explainer.alarms:
        if alarm != Alarm(scene.view.distrust or ""):
            yield "alarm:", str(alarm)
    if scene.store_error is not None:
        yield "store:", scene.store_error
