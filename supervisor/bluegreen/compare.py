"""Compares two jobs, of which one goes on from a copy of the other's checkpoint, for ``compare`` and ``promote``.

Queries are the same if they have an id in common: a copy of a checkpoint keeps it, or has the ids before it
(``checkpoint.layout.renamed_metadata``). Of what else is shown, the records of the
registry are the source, as for ``show``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from supervisor.checkpoint.offset_order import OffsetOrder, PartOrder, SourceKind, compare, summary
from supervisor.checkpoint.offset_reader import OffsetReader, QueryOffsets
from supervisor.clock import wall_s
from supervisor.errors import SupervisorError
from supervisor.model.job_row import JobRow
from supervisor.observe.queries import queries_of
from supervisor.operations.checkpoints import located, tree_of
from supervisor.operations.context import CommandContext
from supervisor.operations.history import find_job
from supervisor.operations.listing import row_of_job


class SourceOrder(NamedTuple):
    """Compares one source of a query; ``source`` is its number there. The order is that of the new job."""

    source: int
    kind: SourceKind
    order: OffsetOrder
    parts: tuple[PartOrder, ...]


@dataclass(frozen=True, slots=True)
class QueryOrder:
    """Compares one query. ``new_batch`` is None if the new job has no query of this id; -1 means that nothing is
    committed."""

    id: str
    old_batch: int
    new_batch: int | None
    order: OffsetOrder
    sources: tuple[SourceOrder, ...]


class JobProgress(NamedTuple):
    """Holds the row of a job, as ``list`` has it, and a document for each of its queries, as ``show`` has them."""

    row: JobRow
    queries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Holds what ``compare`` shows. ``problem`` is why the offsets could not be compared, or empty."""

    old: JobProgress
    new: JobProgress
    queries: tuple[QueryOrder, ...]
    problem: str

    @property
    def order(self) -> OffsetOrder:
        return summary_of(self.queries)


def reader_of(context: CommandContext, name: str) -> OffsetReader:
    """Returns a reader of the checkpoint of ``name``. Raises what ``located`` and ``tree_of`` raise."""
    return OffsetReader(tree_of(context.settings, located(context, name)))


def compare_jobs(context: CommandContext, name: str, new: str) -> Comparison:
    """Compares the job ``new`` with ``name``. Raises NotFound (no such job) and Unreachable. Offsets that cannot be
    read are a ``problem``."""
    old_progress, new_progress = (_progress(context, each) for each in (name, new))
    try:
        old_reader, new_reader = (reader_of(context, each) for each in (name, new))
        queries = compare_offsets(new_reader, new_reader.committed(), old_reader, old_reader.committed())
        return Comparison(old_progress, new_progress, queries, "")
    except SupervisorError as error:
        return Comparison(old_progress, new_progress, (), str(error))


def compare_offsets(
    new_reader: OffsetReader,
    new: Iterable[QueryOffsets],
    old_reader: OffsetReader,
    old: Iterable[QueryOffsets],
) -> tuple[QueryOrder, ...]:
    """Returns for each query of ``old`` how far it is in ``new``. Raises what the readers raise."""
    by_id = {each: query for query in new for each in (*reversed(query.before), query.id)}
    return tuple(
        _query(
            new_reader, next(filter(None, map(by_id.get, (query.id, *query.before))), None), old_reader, query
        )
        for query in old
    )


def summary_of(queries: Iterable[QueryOrder]) -> OffsetOrder:
    """Returns how far the whole job is. Where there is nothing to compare it is unordered."""
    found = tuple(queries)
    return summary(query.order for query in found) if found else OffsetOrder.UNORDERED


def _query(
    new_reader: OffsetReader, new: QueryOffsets | None, old_reader: OffsetReader, old: QueryOffsets
) -> QueryOrder:
    if new is None:
        return QueryOrder(old.id, old.batch, None, OffsetOrder.UNORDERED, ())
    sources = []
    for number in range(max(len(new.sources), len(old.sources))):
        here, there = new_reader.position(new, number), old_reader.position(old, number)
        parts = compare(here, there)
        kind = there.kind if there.kind is not SourceKind.NOTHING else here.kind
        sources.append(SourceOrder(number, kind, summary(part.order for part in parts), parts))
    return QueryOrder(old.id, old.batch, new.batch, summary(each.order for each in sources), tuple(sources))


def _progress(context: CommandContext, name: str) -> JobProgress:
    job = find_job(context, name)
    return JobProgress(row_of_job(context, job), queries_of(job, wall_s())[0])
