"""Puts an explanation for ``explain`` into plain English: what is so, why, and what comes next, each once.

It only chooses the words: what the plan decided stands in the ``Explanation``. The plan's own words are for
``--verbose`` (``operations.explain_screen``). Times are ISO 8601 in UTC; who prints them makes them local.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from supervisor.clock import wall_iso
from supervisor.model.actions import (
    Drain,
    Revoke,
    Unassign,
)
from supervisor.model.headline import headline
from supervisor.model.load import AbsentSupervisor
from supervisor.model.phrases import counted
from supervisor.model.records import OwnState, QueryState
from supervisor.model.silence import unanswered_after_s
from supervisor.model.state import JobState
from supervisor.operations.spans import age, span
from supervisor.plan.decide import WaitingAssignment
from supervisor.plan.explain import UNLESS, Await
from supervisor.plan.table import Wanted

if TYPE_CHECKING:
    from supervisor.model.actions import Action
    from supervisor.plan.explain import Awaited, Explanation

TERM_NOT_RECORDED = "the leader's term has yet to be noted in the store"
_INTERNAL = re.compile(rf" \((?:{'|'.join(state.value for state in OwnState)})\)$")

SILENCE_MIN_S: Final = 10.0
"""Less than this is a batch, or a query that waits for its trigger, whatever ``health.stall_timeout`` is."""
SILENCE_UNJUDGED_MIN_S: Final = 60.0
"""This counts in place of the former where the store can't be asked for ``health.stall_timeout``."""

_CLAIMED = re.compile(r"^claimed on ")


def plain_lines(
    explained: Explanation, wall_now_s: float, stall_timeout_s: float | None = None
) -> Iterator[tuple[str, str]]:
    """Yields (label, text); the first has no label.

    ``wall_now_s`` is of the same instant as the explanation. ``stall_timeout_s`` is that of the attempt, or None if it is
    not known.
    """
    yield "", f"{explained.name} {_sentence(explained)}"
    yield from _why(explained, wall_now_s)
    yield from _diagnostics(explained)
    progress = explained.record.progress if explained.record else None
    if progress is not None and progress.batch_id is not None:
        query = f" of {progress.query}" if progress.query else ""
        idle = "; it has caught up, and waits for data or its next trigger" if _is_idle(explained) else ""
        yield "last batch", f"{progress.batch_id}{query}, {age(progress.at, wall_now_s)} ago{idle}"
    silence = list(_silence(explained, stall_timeout_s))
    yield from silence
    besides = (
        ("sinks", "; ".join(explained.sinks)),
        ("standby", explained.standby),
        ("update", explained.failed_update),
        ("move", explained.move),
        ("not yet", explained.goes_on),
    )
    yield from ((label, text) for label, text in besides if text)
    if explained.absent:
        yield "supervisor", absent_text(AbsentSupervisor(explained.absent, explained.host, 1))
    if explained.held_by and explained.step is not None and explained.state is not JobState.PENDING:
        yield "held", str(explained.held_by)
    then = _next(explained, wall_now_s) if not (silence and explained.is_fine) else None
    if then:
        yield "next", then
    if silence:
        yield "you can", f"spark-supervisor stacks {explained.name}   # where its threads are"
    contradicts = explained.alarm and not explained.failed_update
    if contradicts and explained.cell and explained.state is not JobState.QUARANTINED:
        yield (
            "note",
            "its records contradict each other: please report that, with the output of explain --verbose",
        )
    for remedy in explained.remedies:
        yield "you can", f"{remedy.command}   # {remedy.note}" if remedy.command else remedy.note


def _is_idle(explained: Explanation) -> bool:
    """Returns whether every query of a running job says that it has nothing to do."""
    queries = explained.record.queries if explained.record is not None else ()
    is_running = explained.state is JobState.RUNNING
    return is_running and bool(queries) and all(query.state is QueryState.IDLE for query in queries)


def absent_text(absent: AbsentSupervisor) -> str:
    """Returns what it means that a supervisor is not connected, and what helps."""
    one = absent.drivers == 1
    goes_on = (
        "its driver runs on under its shim"
        if one
        else f"its {absent.drivers} drivers run on under their shims"
    )
    return (
        f"{absent.id} on {absent.host} is not connected: {goes_on}; what ends there is started on another host that has "
        f"room. Start spark-supervisor there again"
    )


def brief(explained: Explanation) -> tuple[str | None, str]:
    """Returns (what the leader does next, and in what time; why), for a line of a table."""
    step = explained.step or (explained.later if explained.waits_for else None)
    why = next((text for label, text in _why(explained, None) if label == "why"), None)
    if (
        explained.state is JobState.PENDING
        and explained.error
        and not explained.held_by
        and not _waits_for_slot(explained)
    ):
        why = f"{_reason(explained)}: {headline(explained.error)}"
    wait = f" {_in(explained)}" if explained.wait_s is not None else ""
    return does(step) + wait if step is not None else None, why or _reason(explained)


def long_silence_s(explained: Explanation) -> float | None:
    """Returns for how long a running job has reported nothing, if that may be more than a batch or a trigger; else None."""
    silence_s = explained.record.silence_s if explained.record else None
    is_long = explained.state is JobState.RUNNING and silence_s is not None and silence_s >= SILENCE_MIN_S
    return silence_s if is_long else None


def _silence(explained: Explanation, stall_timeout_s: float | None) -> Iterator[tuple[str, str]]:
    """Yields for how long a running job has shown no life. An idle source is no silence, and a long batch or trigger is
    none once the driver was asked; so this tells a job that has nothing to do from one that waits for its source or
    sink."""
    silence_s = long_silence_s(explained)
    if silence_s is None:
        return
    if stall_timeout_s is None and silence_s < SILENCE_UNJUDGED_MIN_S:
        return
    if stall_timeout_s is None:
        asked = "its driver is asked after a quarter of health.stall_timeout, and shows then whether it works"
        yield "silent", f"no report for {span(silence_s)}; {asked}"
    elif silence_s >= unanswered_after_s(stall_timeout_s):
        life = "no batch, no idle event, no other sign of life"
        ends = f"health.stall_timeout ({span(stall_timeout_s)}) ends what stays so"
        yield "silent", f"for {span(silence_s)}: {life}; {ends}"


# -- what is so ---------------------------------------------------------------------------------------------------


def _sentence(explained: Explanation) -> str:
    state = explained.state
    if state is JobState.BACKOFF:
        held = f"; {explained.held_by}" if explained.held_by else ""
        in_a_row = " in a row" if explained.failures > 1 else ""
        return f"is in back-off after {counted(explained.failures, 'failure')}{in_a_row}{held}"
    if state is JobState.QUARANTINED:
        return "is quarantined: it stays stopped until you act"
    if state is JobState.FAILED:
        return "has failed for good"
    reason = _reason(explained)
    if reason.startswith(state.value):
        return f"is {reason}"
    return f"is {state.value}: {reason}"


def _reason(explained: Explanation) -> str:
    """Returns the reason without what the lines after it say."""
    reason = _CLAIMED.sub("starting on ", _INTERNAL.sub("", explained.reason))
    lease = explained.lease
    if explained.state in (JobState.RUNNING, JobState.STARTING) and lease is not None and lease.is_silent:
        if lease.lease_s is None:
            return f"{reason}, but what it says of itself can't be read"
        return f"{reason}, but nothing was heard of it for {span(lease.silent_s)}"
    if explained.state is not JobState.PENDING or explained.cell is None or explained.after_earlier:
        return reason
    if explained.held_by:
        return TERM_NOT_RECORDED if explained.held_by.is_unrecorded else explained.held_by.text
    if _waits_for_slot(explained):
        return explained.why
    return "it is to be started again" if explained.failures else "it is to be started"


def _why(explained: Explanation, wall_now_s: float | None) -> Iterator[tuple[str, str]]:
    """Yields the error, once, in its shortest form."""
    state = explained.state
    if state in (JobState.QUARANTINED, JobState.FAILED):
        yield "why", headline(explained.reason) + _ended(explained, wall_now_s)
    elif explained.error and explained.failures:
        label = "why" if state is JobState.BACKOFF else "last failure"
        yield label, headline(explained.error) + _ended(explained, wall_now_s)


def _diagnostics(explained: Explanation) -> Iterator[tuple[str, str]]:
    """Yields, while attempts fail, where the diagnostics of the latest are that has left any, and its memory before an
    out-of-memory."""
    known = explained.diagnostics
    if known is None or not explained.failures:
        return
    if known.path:
        packs = f"spark-supervisor debug bundle {explained.name} packs it there"
        yield "diagnostics", f"attempt {known.attempt}, {known.host}:{known.path}; {packs}"
    if known.memory:
        yield "memory", f"attempt {known.attempt}, {known.memory}"


def _ended(explained: Explanation, wall_now_s: float | None) -> str:
    ended = explained.last_exit
    if ended is None or wall_now_s is None or not explained.failures:
        return ""
    return f" (attempt {ended.attempt}, {age(ended.at, wall_now_s)} ago)"


def _waits_for_slot(explained: Explanation) -> bool:
    return explained.waits_for is not None and explained.waits_for.kind in (Await.SLOT, Await.LABELS)


_WHILE: Final[Mapping[Await, str]] = {
    Await.PREPARED: "then its driver is stopped and the prepared one goes on",
    Await.START_PLACE: "then its driver is stopped, and started there",
    Await.CLUSTER: "and goes on by itself as soon as it has one",
}
"""It says what comes after a wait that nothing of ours ends."""


# -- what comes next ----------------------------------------------------------------------------------------------


def _next(explained: Explanation, wall_now_s: float) -> str | None:
    if explained.step is not None:
        return _now(explained, explained.step)
    waits = explained.waits_for
    if waits is None:
        return _idle(explained)
    if waits.kind is Await.PERSON:
        return "nothing, until you act" if not explained.remedies else None
    if waits.kind in (Await.SLOT, Await.LABELS):
        return _when_placed(explained, waits)
    if waits.kind in _WHILE and explained.is_refused_next and waits.kind is not Await.CLUSTER:
        return f"it waits for {waits}, then its driver is stopped, and its next start is refused"
    if waits.kind in _WHILE:
        return f"it waits for {waits}, {_WHILE[waits.kind]}"
    if waits.kind is Await.MOVE:
        return (
            f"it runs on where it is, until there is {waits}"
            if explained.remedies
            else "it waits for its turn"
        )
    return _at_its_time(explained, waits, _by(explained.wait_s, wall_now_s))


def _at_its_time(explained: Explanation, waits: Awaited, by: str) -> str | None:
    """Returns what comes next of a job that waits for what the records or the clock will show, ``by`` an instant."""
    if explained.lease is not None and explained.lease.is_silent and explained.state is not JobState.STOPPING:
        return (
            f"if that lasts until {by}, the leader {_action_sentence(explained, explained.later)}"
            if explained.later
            else None
        )
    if waits.kind in (Await.CHECKPOINT, Await.COPY) and explained.later is not None:
        return f"it waits for {waits}; the leader {does(explained.later)} at {by}, {UNLESS[waits.kind]}"
    if isinstance(explained.later, Unassign):
        return f"if {explained.host or 'its host'} has not started it by {by}, it is placed anew"
    if explained.state is JobState.STARTING:
        return f"it waits for {waits}"
    if explained.state is JobState.STOPPING or explained.later is None:
        return _after_exit(explained, by)
    if explained.held_by and explained.state is JobState.BACKOFF:
        return f"after that, but not before {by}, the leader {does(explained.later)}"
    return f"the leader {does(explained.later)} at {by}"


def _when_placed(explained: Explanation, waits: Awaited) -> str:
    if waits.kind is Await.LABELS:
        starts = explained.state is JobState.PENDING
        return f"it {'starts' if starts else 'is changed'} as soon as there is {waits}"
    return f"it starts as soon as {'there is room' if explained.hosts else 'a supervisor is up'}"


def _idle(explained: Explanation) -> str | None:
    """Returns what comes next of a job of which nobody waits for anything."""
    if explained.is_fine:
        return "nothing to do: it runs as wanted"
    if explained.is_unproven and explained.record:
        return "nothing to do now: it has yet to show a batch"
    return explained.at_risk or None


def _after_exit(explained: Explanation, by: str) -> str:
    attempt = f"attempt {explained.attempt}" if explained.attempt else "the old attempt"
    latest = f", {by} at the latest" if by else ""
    if explained.later is None:
        return f"its driver still stops; it is over when {attempt} has ended{latest}"
    return f"when {attempt} has ended{latest}, the leader {does(explained.later)}"


def _now(explained: Explanation, step: Action | WaitingAssignment) -> str:
    sentence = _action_sentence(explained, step)
    if explained.held_by:
        return f"after that the leader {sentence}"
    why = (
        f": {explained.why}"
        if isinstance(step, (Drain, Unassign)) and explained.cell and not explained.alarm
        else ""
    )
    return f"the leader now {sentence}{why}"


def _action_sentence(explained: Explanation, step: Action | WaitingAssignment | None) -> str:
    if step is None:
        return "does nothing"
    wanted = explained.cell[1] if explained.cell else None
    return does(step) + (
        ", then starts the next" if isinstance(step, Revoke) and wanted is Wanted.RUNNING else ""
    )


IRREGULAR: Final[Mapping[str, str]] = {"have": "has"}


def does(step: Action | WaitingAssignment) -> str:
    """Returns the phrase of a step in the third person: "the leader starts attempt 3 on h2"."""
    verb, _, rest = step.phrase.partition(" ")
    return f"{IRREGULAR.get(verb, f'{verb}s')} {rest}"


def _in(explained: Explanation) -> str:
    """Returns in what time a step follows, and whether that is the longest that it can take."""
    assert explained.wait_s is not None
    waits = explained.waits_for
    unless = UNLESS[waits.kind] if waits is not None and explained.step is None else ""
    return f"in {span(explained.wait_s)}" + (f" {unless}" if unless else "")


def _by(wait_s: float | None, wall_now_s: float) -> str:
    return "" if wait_s is None else f"{wall_iso(wall_now_s + wait_s)} (in {span(wait_s)})"
