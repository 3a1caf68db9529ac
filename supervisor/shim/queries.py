"""Keeps the queries of one application: what each has reported last, and whether one of them hangs. Pure;
used by ``health`` and ``machine``.

These things prove that a query lives: its start, a committed batch, an idle event (it has caught up), and,
because a query reports nothing during a batch, the answer to a probe. The shim orders a probe when a query
has been silent for a quarter of ``stall_timeout``. It proves life if the query waits for its next trigger, or
Spark runs tasks for it, or its jobs have moved since the last probe. So a long batch is no stall while Spark
works on it. An answer that says that Spark was asked in vain (``unknown``) proves neither: while they come, nobody is
ended for silence. Code of the application itself that runs on the driver between two Spark jobs (a ``foreachBatch``
that calls another service) cannot be told from one that hangs: ``stall_timeout`` must be longer than that.

A query that has ended is not judged, unless it failed and the spec asks for a restart then (``failure``); when all
have ended, the application counts as silent.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.batch_time import KEPT, WARM_UP, load_of, query_use
from supervisor.model.checkpoint_expectation import (
    QUERIES_MAX,
    CheckpointExpectation,
    SeenQuery,
    queries_of,
    with_batches,
    with_sinks,
    with_unnamed,
)
from supervisor.model.lag_window import EMPTY
from supervisor.model.launch import Launch
from supervisor.model.location import is_inside
from supervisor.model.query_name import query_name
from supervisor.model.records import Progress, QueryProgress, QueryState, clip
from supervisor.model.root_cause import cause_text
from supervisor.model.secret_words import covered
from supervisor.model.silence import PROBE_AFTER, PROBE_EVERY
from supervisor.model.sinks import SeenSink
from supervisor.model.usage import QueryUse
from supervisor.records.codec import encode
from supervisor.shim.state import InPlace, Life, QueryLife, Reported

TRACKED = 1024
"""So many queries are judged, each for itself."""
FAILED_FOR_S = 10.0
"""An application that starts a failed query again within this time has not lost it."""
SHOWN = 8
"""Of so many queries, at most, the lease has all figures. Of others it has the name, state and batch, as far as they fit."""
BRIEF_BYTES = 105
BRIEF_SHARE_BYTES = 850
"""So much is kept free for queries that are only named."""
USED = 2
"""Of so many queries the lease says what their batches take: those that are loaded most."""
SHOWN_MAX_BYTES = 1550
"""This is the share of the lease record that queries may take: the rest of it stays below 1,800 bytes, and
what is remembered of the checkpoint below 730."""

_NAME_MAX_BYTES = 64
_ERROR_MAX_BYTES = 160
_PLACE_MAX_BYTES = 120

SIGNS = frozenset({"query", "progress", "idle", "working", "unknown", "trigger", "terminated"})
LASTING = ("continuous", "real_time")
DRAINS = ("available_now", "once")
"""What such triggers begin lasts for their interval: an epoch, or a batch of minutes whose tasks run all the time."""
UNTOLD_S = 10.0
"""No listener hears of the epochs of a continuous query: it is probed so often."""
ONE_SHOT = ("available_now", "once")


def after_report(life: Life, report: Reported, now_s: float) -> Life:
    """Returns ``life`` with what the report says of its query. A report that names no query is about all that
    live, or about the only one."""
    if report.committed:
        life = replace(life, committed=_with_committed(life.committed, report.committed))
    if report.event not in SIGNS:
        return life
    key = report.id or report.query
    if not key and life.queries:
        keys = {query.id for query in life.queries if not query.ended} or {life.queries[-1].id}
    else:
        keys = {key}
        if all(query.id != key for query in life.queries):
            life = _with_room(life, report)
            if len(life.queries) < TRACKED:
                life = replace(
                    life, queries=(*life.queries, QueryLife(key, report.query, now_s, begun_at_s=now_s))
                )
    changed = (_with_report(query, report, now_s) if query.id in keys else query for query in life.queries)
    return replace(life, queries=tuple(changed))


def _with_room(life: Life, report: Reported) -> Life:
    """Makes room for one more query. An application may start a query of a new id again and again: the oldest
    that has ended is forgotten, and counted.

    Each that is not tracked is counted once, by its start, and not by each of its reports. One that fails takes the place
    of one that is well: what fails is never unseen.
    """
    if len(life.queries) < TRACKED:
        return life
    begins = report.event == "query"
    forgotten = _dispensable(life, fails=report.event == "terminated" and bool(report.error))
    if forgotten is None:
        return replace(life, more_queries=life.more_queries + 1) if begins else life
    return replace(
        life,
        more_queries=life.more_queries + (1 if begins else 0),
        more_failed=life.more_failed + (1 if has_failed(forgotten) else 0),
        queries=tuple(query for query in life.queries if query is not forgotten),
    )


def _dispensable(life: Life, *, fails: bool) -> QueryLife | None:
    """Returns the query whose place another one takes: the oldest that has ended in order, then the oldest failure beyond
    those that are shown. For one that fails, else one that is well is given up."""
    ended = next((query for query in life.queries if query.ended and not query.error), None)
    if ended is not None:
        return ended
    failed = [query for query in life.queries if has_failed(query)]
    if len(failed) > SHOWN:
        return failed[0]
    return next((query for query in life.queries if not query.ended), None) if fails else None


def has_failed(query: QueryLife) -> bool:
    """Returns whether the query has ended with an error, and was not started again."""
    return query.ended and bool(query.error)


def failed_count(life: Life) -> int:
    """Returns how many queries have failed, those that are forgotten included."""
    return life.more_failed + sum(map(has_failed, life.queries))


def _last_failed(life: Life) -> QueryLife | None:
    return max(filter(has_failed, life.queries), key=lambda query: query.last_at_s, default=None)


def last_error(life: Life) -> str:
    """Returns the error of the query that has failed last and was not started again; an empty text if none has."""
    last = _last_failed(life)
    return "" if last is None else last.error


def have_drained(life: Life) -> bool:
    """Returns whether all queries were such that end when they have read what is there."""
    return bool(life.queries) and all(query.trigger in DRAINS for query in life.queries)


def _failure(life: Life) -> str:
    """Returns which query has failed last, and with what error; an empty text if none has."""
    last = _last_failed(life)
    if last is None:
        return ""
    more = failed_count(life) - 1
    others = f", and {more} more" if more else ""
    return f"query {query_name(last.name, last.id)} has failed{others}: {last.error}"


def failure(life: Life, now_s: float) -> str | None:
    """Returns which query has failed and was not started again in time, or None. The error is the last that was reported."""
    lost = [query for query in life.queries if has_failed(query) and now_s - query.last_at_s >= FAILED_FOR_S]
    return f"query {query_name(lost[-1].name, lost[-1].id)} failed" if lost else None


def has_any(life: Life) -> bool:
    """Returns whether any query lives."""
    return any(not query.ended for query in life.queries)


def _with_report(query: QueryLife, report: Reported, now_s: float) -> QueryLife:
    if report.event == "unknown":  # no sign of anything
        return query if query.ended else replace(query, unknown_at_s=now_s, error=report.error)
    if report.event == "trigger":
        return replace(query, trigger=report.trigger, interval_s=report.interval_s or 0.0)
    query = replace(
        query,
        name=report.query or query.name,
        last_at_s=now_s,
        at=report.at or query.at,
        unknown_at_s=None,
        error="",
    )
    match report.event:
        case "query":  # it may be one that had ended: the same checkpoint, started again
            return replace(query, ended=False, idle=False, lags=EMPTY, begun_at_s=now_s)
        case "progress":
            query = _with_batch(query, report)
            progress = report.progress or query.progress
            lags = query.lags.after(progress.lag if progress is not None else None, now_s)
            return replace(query, ended=False, idle=False, progress=progress, lags=lags)
        case "terminated":
            return replace(query, ended=True, idle=False, error=report.error, lags=EMPTY)
        case "idle":
            return replace(query, ended=False, idle=True, lags=EMPTY)
        case _:
            return replace(query, ended=False, idle=False)


def _with_batch(query: QueryLife, report: Reported) -> QueryLife:
    """Returns ``query`` with what one more batch took; one without rows says nothing of the others."""
    query = replace(
        query,
        state_bytes=query.state_bytes if report.state_bytes is None else report.state_bytes,
    )
    if report.batch is None:
        return query
    if query.warm_up < WARM_UP:
        return replace(query, warm_up=query.warm_up + 1)
    return replace(query, batches=(*query.batches, report.batch)[-KEPT:])


def used(life: Life, most: int = USED) -> tuple[QueryUse, ...]:
    """Returns what the batches of the queries take that live and are loaded most, for lease and tombstone."""
    found = (
        query_use(
            clip(query.name or query.id, _NAME_MAX_BYTES),
            query.batches,
            (query.progress or Progress()).trigger_interval_s,
            query.state_bytes,
        )
        for query in life.queries
    )
    return tuple(sorted((use for use in found if use is not None), key=load_of, reverse=True)[:most])


def _with_committed(known: tuple[InPlace, ...], reported: tuple[InPlace, ...]) -> tuple[InPlace, ...]:
    ids = {each.id for each in reported}
    return (*(each for each in known if each.id not in ids), *reported)[-QUERIES_MAX:]


def remembered(launch: Launch, life: Life) -> CheckpointExpectation | None:
    """Returns what the next start has to find in the job's checkpoint: everything that was committed there,
    by this attempt too. While it goes on with nothing that was there, what it has begun anew is no part of that."""
    if launch.remembered is None or launch.checkpoint is None or goes_on_with_nothing(launch, life):
        return launch.remembered
    there = _in_place(launch, life)
    known = with_batches(launch.remembered, [SeenQuery(each.id, each.batch_id) for each in there])
    sinks = [SeenSink(each.id, each.batch_id, each.sink) for each in there if each.sink is not None]
    return with_unnamed(
        with_sinks(known, sinks),
        (each.id for each in there if each.unnamed),
        (each.id for each in there if not each.unnamed),
    )


def _in_place(launch: Launch, life: Life) -> list[InPlace]:
    """Returns the batches that were committed in the job's checkpoint."""
    location = launch.checkpoint
    return [each for each in life.committed if location is not None and is_inside(each.checkpoint, location)]


def goes_on_with_nothing(launch: Launch, life: Life) -> bool:
    """Returns whether this attempt has begun a query anew in the job's checkpoint, and none of those that were there."""
    were = {query.id for query in queries_of(launch.remembered)}
    seen = {query.id for query in life.queries} | {each.id for each in life.committed}
    return bool(were) and not were & seen and bool(_in_place(launch, life))


def silent(life: Life, stall_timeout_s: float, now_s: float) -> str | None:
    """Returns why the application counts as stalled, or None."""
    for query in life.queries:
        if not query.ended and now_s - _known_until_at_s(query) >= _limit_s(query, stall_timeout_s):
            which = f"query {query_name(query.name, query.id)}: " if query.name or query.id else ""
            return f"{which}{_no_life(query)} for {_limit_s(query, stall_timeout_s):g} s"
    if life.queries and all(
        query.ended and now_s - query.last_at_s >= stall_timeout_s for query in life.queries
    ):
        ended = f"all its queries have ended, and it has started none for {stall_timeout_s:g} s"
        failed = _failure(life)  # first: a history keeps little more than that
        return f"{failed}; {ended}" if failed else ended
    return None


def _limit_s(query: QueryLife, stall_timeout_s: float) -> float:
    """Returns for how long the query may be silent."""
    return max(stall_timeout_s, 2 * query.interval_s) if query.trigger in LASTING else stall_timeout_s


def _no_life(query: QueryLife) -> str:
    if query.trigger == "continuous":
        return "no epoch was committed"
    return "no progress, no idle event and no task of Spark's"


def first_batch_due_at_s(life: Life) -> float:
    """Returns until when the first batch may take, however short ``start_timeout`` is: two intervals of the longest
    trigger after its query began."""
    return max(
        (query.begun_at_s + 2 * query.interval_s for query in life.queries if not query.ended), default=0.0
    )


def _known_until_at_s(query: QueryLife) -> float:
    """Returns until when the silence of a query means nothing: it was heard then, or its driver was asked in vain."""
    return max(query.last_at_s, query.unknown_at_s or 0.0)


def is_unknown(life: Life, stall_timeout_s: float, now_s: float) -> bool:
    """Returns whether nobody can say what the queries that live do: their driver was asked in vain."""
    live = [query for query in life.queries if not query.ended]
    return bool(live) and all(
        query.unknown_at_s is not None and now_s - query.unknown_at_s < stall_timeout_s for query in live
    )


def is_to_be_probed(life: Life, stall_timeout_s: float, now_s: float) -> bool:
    """Returns whether any query has been silent for so long that it must be probed."""
    return any(
        not query.ended and now_s - query.last_at_s >= _within_s(query, stall_timeout_s * PROBE_AFTER)
        for query in life.queries
    )


def probe_every_s(life: Life, stall_timeout_s: float) -> float:
    """Returns after how many seconds they are probed again."""
    usual_s = stall_timeout_s * PROBE_EVERY
    return min((_within_s(query, usual_s) for query in life.queries if not query.ended), default=usual_s)


def _within_s(query: QueryLife, usual_s: float) -> float:
    return min(usual_s, UNTOLD_S) if query.trigger == "continuous" else usual_s


def elsewhere(life: Life, location: str | None) -> dict[str, str]:
    """Returns, for queries whose checkpoint is not in ``location``, where it is, by query id. ``location`` is
    None if the job has no checkpoint."""
    if location is None:
        return {}
    return {each.id: each.checkpoint for each in life.committed if not is_inside(each.checkpoint, location)}


def shown(
    life: Life,
    stall_timeout_s: float,
    now_s: float,
    location: str | None = None,
) -> tuple[tuple[QueryProgress, ...], int]:
    """Returns the queries for the lease record, and how many more there are. Never are they too large for the record:
    what there is no room for is given up in the order of urgency, figures first.

    ``location`` is that of the job's checkpoint.
    """
    strays = elsewhere(life, location)

    def urgency(query: QueryLife) -> tuple[int, bool]:
        return list(QueryState).index(_state(query, stall_timeout_s, now_s)), query.id not in strays

    records: list[QueryProgress] = []
    left_bytes, urgent = SHOWN_MAX_BYTES, sorted(life.queries, key=urgency)
    for number, query in enumerate(urgent):
        stray = clip(covered(strays[query.id]), _PLACE_MAX_BYTES) if query.id in strays else None
        whole = replace(_record(query, _state(query, stall_timeout_s, now_s), now_s), elsewhere=stray)
        kept_bytes = min(BRIEF_SHARE_BYTES, BRIEF_BYTES * (len(urgent) - number - 1))
        if number >= SHOWN or _size(whole) > left_bytes - kept_bytes:
            whole = _brief(whole)
        left_bytes -= _size(whole)
        if left_bytes < 0:
            break
        records.append(whole)
    order = [query.id for query in life.queries]
    records.sort(key=lambda record: order.index(record.id or ""))
    return tuple(records), life.more_queries + len(life.queries) - len(records)


def _size(record: QueryProgress) -> int:
    """Returns how many bytes a query takes in the lease, with the comma after it."""
    return len(encode(record)) + 1


def _brief(record: QueryProgress) -> QueryProgress:
    """Returns of a query only what it is called, how it is, and where it has come to; of one that is not well, why."""
    return QueryProgress(
        query=record.query,
        id=record.id,
        state=record.state,
        batch_id=record.batch_id,
        error=record.error,
        elsewhere=record.elsewhere,
    )


def _state(query: QueryLife, stall_timeout_s: float, now_s: float) -> QueryState:
    if query.ended:
        return QueryState.FAILED if query.error else QueryState.TERMINATED
    if now_s - _known_until_at_s(query) >= _limit_s(query, stall_timeout_s):
        return QueryState.STALLED
    if query.unknown_at_s is not None:
        return QueryState.UNKNOWN
    return QueryState.IDLE if query.idle else QueryState.ACTIVE


def _record(query: QueryLife, state: QueryState, now_s: float) -> QueryProgress:
    progress = query.progress or Progress()
    is_judged = state is QueryState.ACTIVE and progress.lag is not None
    return QueryProgress(
        query=clip(query.name, _NAME_MAX_BYTES) or None,
        id=query.id or None,
        state=state,
        batch_id=progress.batch_id,
        input_rows_per_s=progress.input_rows_per_s,
        processed_rows_per_s=progress.processed_rows_per_s,
        batch_ms=progress.batch_ms,
        lag=progress.lag,
        state_rows=progress.state_rows,
        trigger_interval_s=progress.trigger_interval_s,
        at=query.at or None,
        error=cause_text(query.error, _ERROR_MAX_BYTES) or None,
        behind=query.lags.falls_behind(progress.lag, now_s) if is_judged else None,
    )
