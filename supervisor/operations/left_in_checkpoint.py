"""Looks at what the failed target of an update has left in the checkpoint of its job (``update.rollback: clean``).

The leader calls it, by ``daemon.leader.left_behind``, and so does ``explain``, which says with it why an update is not
rolled back. What the leader has found it keeps for itself until the next attempt (``JudgedUpdate.left``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from supervisor.checkpoint.delta_log import newest_in_delta_log
from supervisor.checkpoint.handed import newest_in_sink_log, planned_in
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.checkpoint.preflight import left_behind
from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, SupervisorError
from supervisor.model.checkpoint_expectation import SeenQuery, sinks_of
from supervisor.model.records import JobRef
from supervisor.model.seen import Found
from supervisor.model.sinks import DELTA, FILE, SeenSink
from supervisor.model.state import known_before
from supervisor.model.view import Row
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import Opener
from supervisor.plan.decide import asks_what_was_left
from supervisor.registry.blobs import Blobs
from supervisor.settings.file import Settings
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import access_of_store

LOGS: Final[Mapping[str, Callable[[Tree, str], int | None]]] = {
    FILE: lambda sink, _query: newest_in_sink_log(sink),
    DELTA: newest_in_delta_log,
}
"""Reads the newest batch of a query in the log of a sink, by the kind of the sink."""


def left_in_checkpoint(
    settings: Settings, blobs: Blobs, job: JobRef, known: Sequence[SeenQuery], sinks: Sequence[SeenSink]
) -> str:
    """Returns what is in the checkpoint of ``job``, or in one of ``sinks``, beyond the batches of ``known``, as a phrase; it
    is empty if there is nothing. Raises SupervisorError."""
    conf = from_canonical(blobs.read_spec(job.spec), job.spec.key).conf
    store = access_of_store(settings.store, settings.policy.endpoints)
    tree = open_checkpoint(job.terms.checkpoint or "", conf, store)
    if tree is None:
        return "only Spark can read its checkpoint"
    left = left_behind(tree, known)
    return left or kept_by_sink(tree, known, sinks, lambda location: open_checkpoint(location, conf, store))


def kept_by_sink(tree: Tree, known: Sequence[SeenQuery], sinks: Iterable[SeenSink], opened: Opener) -> str:
    """Returns which batch that was planned after those of ``known`` a sink has kept, or may have, as a phrase. It is empty
    if none is known to have one.

    Such a sink skips the batch when the code of before runs it: what the failed code wrote would stay. Only the logs of a
    file sink and of a Delta table are read here; one that can't be reached is not known to have kept anything. Raises
    Unreachable (the checkpoint).
    """
    committed = {query.id: query.batch_id for query in known}
    planned = {query.id: query.batch for query in planned_in(tree)}
    for query, _, sink in sinks:
        batch = planned.get(query, -1)
        if sink.kind not in LOGS or not sink.where or batch <= committed.get(query, batch):
            continue
        try:
            place = opened(sink.where)
            newest = LOGS[sink.kind](place, query) if place is not None else None
        except Corrupt as error:
            return f"whether the {sink} has batch {batch} of query {query}, and would skip it, can't be told: {error}"
        except SupervisorError:
            continue
        if newest is not None and newest >= batch:
            return f"batch {batch} of query {query} is in the {sink} already, which would skip it"
    return ""


def with_what_was_left(context: CommandContext, row: Row) -> Row:
    """Returns ``row`` with what the target of a failed update has left, if a roll back depends on that and it can be seen
    from here."""
    if not asks_what_was_left(row):
        return row
    assert isinstance(row.ref, Found) and isinstance(row.own, Found)
    known = known_before(row.ref.record, row.own.record)
    if known is None:
        return row
    sinks = sinks_of(None, row.own.record.remembered)
    try:
        left = left_in_checkpoint(context.settings, context.blobs(), row.ref.record, known, sinks)
    except SupervisorError:
        return row  # the leader may see it
    return replace(row, left_behind=left)
