"""Judges whether the application is alive: from signs of life to a phase, and by the two time-outs of a
spec's ``health``. Pure; used by ``machine``.

``start_timeout`` ends an attempt whose application has not begun, or that has a SparkSession but no batch.
``stall_timeout`` ends an attempt one of whose queries was seen and is silent (``queries`` says what counts as
life). A query whose trigger has an interval may take two of them for its first batch.
Until the application has its first batch ``start_timeout`` alone judges: a slow start is no stall, and
has its own limit. An application that runs and makes neither a session nor a query is left alone by both. The
time during which a driver waits at its start barrier is no part of its start: the time counts anew after it,
and a wait without an end is no failure of the job.

A driver that has no executor, though it wants some, waits for its cluster (``shim.waiting``). Each time that it says so,
both time-outs count anew from then on, so that neither ends it while it waits; only ``cluster_timeout`` does. That it
has none is believed for ``waiting.UNHEARD_S``: a driver that hangs does not answer, and is judged as any other.
One that hangs while its SparkContext is made is ended by ``start_timeout``, unless its cluster says that the application
waits there.

An application that has failed while its process goes on, held by a thread that is no daemon or by its other queries, is
ended soon, and not for its silence (``failure``). It counts as one that has failed by itself.

A JVM application does not report; the supervisor of its host reads its commit log and reports for it. When
nobody reads it (the supervisor is down, or cannot read the checkpoint), its silence means nothing: silence
counts up to the last reading only.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.exit_evidence import OUTLIVED
from supervisor.model.launch import Launch
from supervisor.model.records import Cause, Phase
from supervisor.shim import beginning_anew, queries, waiting
from supervisor.shim.state import Life, Reported

OUTLIVES_S = 30.0
"""A driver whose main code has ended with an error ends within this time, unless a thread of the application holds it."""
UNSEEN_S = 10.0
"""A JVM application without a checkpoint shows nothing but that it is up: after this time it counts as
``running``."""


def after_report(life: Life, report: Reported, now_s: float) -> Life:
    """Returns the signs of life with those of one more report. Unknown events are no sign of anything."""
    life = queries.after_report(life, report, now_s)
    match report.event:
        case "unnamed":
            return replace(life, unnamed=True)
        case "waiting":
            return replace(life, waits=True)
        case "begun":
            return replace(life, begun_at_s=life.begun_at_s or now_s)
        case "session":
            return replace(
                life,
                begun_at_s=life.begun_at_s or now_s,
                session_at_s=life.session_at_s or now_s,
                spark_ui=report.spark_ui or life.spark_ui,
                master=report.master or life.master,
            )
        case "query" | "working":
            return _query_lives(life, now_s)
        case "idle":
            # It has caught up and waits for data: as good as a batch. A quiet source must not cost a healthy driver.
            return replace(_query_lives(life, now_s), batch_at_s=life.batch_at_s or now_s)
        case "progress":
            lives = _query_lives(life, now_s)
            return replace(
                lives,
                batch_at_s=life.batch_at_s or now_s,
                progress=report.progress or life.progress,
                starved_since_at_s=None,
            )
        case "looked":
            probed = replace(life, probed_at_s=now_s)
            return (
                after_report(probed, replace(report, event="progress"), now_s)
                if _has_moved(life, report)
                else probed
            )
        case event if event in waiting.EVENTS:
            return waiting.after_report(life, report, now_s)
        case "error":
            return replace(life, error=report.error, uncaught_at_s=now_s)
        case "ended":
            return replace(life, returned=True)
        case _:
            return life


def _query_lives(life: Life, now_s: float) -> Life:
    return replace(
        life, begun_at_s=life.begun_at_s or now_s, query_at_s=life.query_at_s or now_s, last_at_s=now_s
    )


def _has_moved(life: Life, report: Reported) -> bool:
    """Returns whether the report shows progress. The first report of a supervisor that was started again may
    only show what was committed while nobody read the commit log."""
    if life.progress is None or report.progress is None or report.progress.batch_id is None:
        return False
    return report.progress.batch_id != life.progress.batch_id


def phase_of(life: Life, launch: Launch, exec_at_s: float, now_s: float) -> Phase:
    """Returns how far the application has come, while nobody has asked it to stop. With time it only ever
    goes forward.

    It is ``running`` from its first batch on. A session or a query alone does not make it so: on a busy host
    each may be a minute apart, and ``start_timeout`` judges until the first batch. An application with
    neither is on its way to a session for as long as a start may take; from then on nothing judges its start
    any more, and it runs as a job without queries.
    """
    if life.batch_at_s is not None or _is_left_alone(life, launch, exec_at_s, now_s):
        return Phase.RUNNING
    if life.query_at_s is not None:
        return Phase.QUERY
    if life.session_at_s is not None:
        return Phase.SESSION
    if life.begun_at_s is not None:
        return Phase.BEGUN
    return Phase.WAITING if life.waits else Phase.CLAIMED


def _is_left_alone(life: Life, launch: Launch, exec_at_s: float, now_s: float) -> bool:
    """Returns whether the application was up for as long as a start may take before there was a session or a
    query, if there is one by now."""
    up_since_at_s = life.begun_at_s if launch.reports else exec_at_s
    if up_since_at_s is None:
        return False
    up_since_at_s = max(up_since_at_s, life.held_at_s or 0.0)
    limit_s = launch.start_timeout_s if launch.reports or launch.checkpoint is not None else UNSEEN_S
    first_at_s = min(
        (at_s for at_s in (life.session_at_s, life.query_at_s) if at_s is not None), default=now_s
    )
    return first_at_s - up_since_at_s >= limit_s


def overdue(life: Life, launch: Launch, exec_at_s: float, now_s: float) -> tuple[Cause, str] | None:
    """Returns why the attempt has to be ended now, or None."""
    why = waiting.too_long(life, launch, now_s)
    if why is not None:
        return Cause.CLUSTER_TIMED_OUT, why
    why = beginning_anew.begins_anew(life, launch, now_s)
    if why is not None:
        return Cause.BAD_CHECKPOINT, why
    why = failure(life, launch, now_s)
    if why is not None:
        return Cause.USER_ERROR, why
    since_at_s = life.begun_at_s if life.waits and life.begun_at_s is not None else exec_at_s
    since_at_s = max(since_at_s, waiting.excused_until_at_s(life, launch))
    if now_s - since_at_s >= launch.start_timeout_s:
        if life.begun_at_s is None and life.waits:  # of S3, or of this host: not the job's fault
            waited = f"after {launch.start_timeout_s:g} s the application had not begun: its driver waited for the look at"
            return Cause.NO_ACCESS, f"{waited} its checkpoint; the log of its host's supervisor says more"
        if life.begun_at_s is None and launch.reports:
            return Cause.START_TIMED_OUT, f"the application had not begun after {launch.start_timeout_s:g} s"
        has_come = life.session_at_s is not None or life.query_at_s is not None
        is_due = now_s >= queries.first_batch_due_at_s(life) and not _is_unknown(life, launch, now_s)
        if life.batch_at_s is None and has_come and is_due:
            return Cause.START_TIMED_OUT, f"no batch was committed within {launch.start_timeout_s:g} s"
        if waiting.is_making_context(life, now_s):
            return Cause.START_TIMED_OUT, f"its SparkContext was not up within {launch.start_timeout_s:g} s"
    if life.batch_at_s is None:
        # on its way to the first batch a query plans, lists and loads for longer than ever after: a start
        return None
    known_until_at_s = now_s if launch.reports else life.probed_at_s
    why = (
        queries.silent(life, launch.stall_timeout_s, known_until_at_s)
        if known_until_at_s is not None
        else None
    )
    return None if why is None else (Cause.STALLED, why)


def failure(life: Life, launch: Launch, now_s: float) -> str | None:
    """Returns why the application has failed though its process goes on, or None: a query has failed and the spec asks for
    a restart then, or its main code has ended with an error and nothing of its queries lives."""
    why = queries.failure(life, now_s) if launch.failed_query_ends else None
    if why is not None:
        return why
    if life.uncaught_at_s is None or now_s - life.uncaught_at_s < OUTLIVES_S:
        return None
    if queries.has_any(life) and not launch.failed_query_ends:
        return None
    return OUTLIVED


def _is_unknown(life: Life, launch: Launch, now_s: float) -> bool:
    return queries.is_unknown(life, launch.stall_timeout_s, now_s)
