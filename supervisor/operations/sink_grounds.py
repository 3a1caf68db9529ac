"""Reads in the registry what is known of the sinks of a job: where it was seen to write, and which batches.

``operations.going_back`` decides by it. A record that is lost, or one of an older version, says nothing of a job that ran:
then its sinks are unknown, which is not the same as none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from supervisor.errors import NotFound
from supervisor.model.checkpoint_expectation import (
    QUERIES_MAX,
    CheckpointExpectation,
    SeenQuery,
    place_of,
    places_of,
    queries_of,
    sinks_of,
    to_be_expected,
)
from supervisor.model.records import Cause, Lease, Ownership
from supervisor.model.seen import Found, Seen
from supervisor.model.sinks import NamedSink, SeenSink
from supervisor.records.reading import seen

if TYPE_CHECKING:
    from supervisor.operations.context import CommandContext
    from supervisor.operations.jobs import JobRecords


class Written(NamedTuple):
    """Says that a query has committed batch ``batch`` to ``sink``. None: nobody knows which. Of a query that nobody
    remembers the id is empty."""

    query: str
    batch: int | None
    sink: NamedSink | None


FORGOTTEN: Final = Written("", None, None)


@dataclass(frozen=True, slots=True)
class Grounds:
    """Holds what the registry knows of a job: the sinks that it was seen to write to, the batches that it was seen to commit
    at its checkpoint, and where that is, None if it has none.

    ``ran`` says that it may have written, also where nothing of it is remembered; ``committed``, that it was seen to commit
    a batch, there or elsewhere.
    """

    sinks: tuple[SeenSink, ...] = ()
    known: tuple[SeenQuery, ...] = ()
    checkpoint: str | None = None
    ran: bool = True
    committed: bool = True

    @property
    def written(self) -> tuple[Written, ...]:
        """Returns what the job may have written: to each sink that was seen, and what queries without one committed. The
        last is of queries that nobody remembers, where there may be any."""
        seen_queries = {each.query for each in self.sinks}
        seen_sinks = (Written(each.query, each.batch, each.sink) for each in self.sinks)
        unseen = (Written(*each, None) for each in self.known if each.id not in seen_queries)
        nothing = self.ran and not self.sinks and not self.known
        forgotten = (FORGOTTEN,) if nothing or len(self.known) >= QUERIES_MAX else ()
        return (*seen_sinks, *unseen, *forgotten)

    def is_left_at(self, location: str) -> bool:
        """Returns whether the job left its checkpoint at ``location``, and its batches there are known."""
        is_same = self.checkpoint is not None and place_of(self.checkpoint) == place_of(location)
        return is_same and bool(self.known)


def grounds_of(context: CommandContext, name: str) -> Grounds | None:
    """Returns what is known of the newest submission of ``name``, or None if there never was one. Raises Unreachable."""
    found = _found(context, name)
    if found is None:
        return None
    records, newest, older = found
    job = records.ref if records.ref is not None else records.result
    terms = job.record.terms if isinstance(job, Found) else None
    grounds = remembered_grounds(terms.checkpoint if terms is not None else None, newest, older)
    wrote = records.result.record.wrote if isinstance(records.result, Found) else ""
    committed = bool(wrote or grounds.sinks or places_of(newest) or places_of(older))
    ran = committed or newest is not None or _may_have_run(records.own)
    return Grounds(grounds.sinks, grounds.known, grounds.checkpoint, ran, committed)


def expected_at(context: CommandContext, name: str, location: str) -> tuple[SeenQuery, ...]:
    """Returns the batches that a start of ``name`` requires at ``location``. Raises Unreachable."""
    found = _found(context, name)
    return queries_of(to_be_expected(location, "", *found[1:])) if found is not None else ()


def remembered_grounds(
    location: str | None, newest: CheckpointExpectation | None, older: CheckpointExpectation | None
) -> Grounds:
    """Returns what is known of a job with its checkpoint at ``location``, which ran. ``newest`` is from its lease, ``older``
    from its ownership."""
    known = queries_of(to_be_expected(location, "", newest, older))
    return Grounds(sinks_of(newest, older), known, location)


def _found(
    context: CommandContext, name: str
) -> tuple[JobRecords, CheckpointExpectation | None, CheckpointExpectation | None] | None:
    if context.check() is None:
        return None
    try:
        records = context.commands.job_records(name)
    except NotFound:
        return None
    path = context.layout.lease(name)
    lease: Seen[Lease] = seen(Lease, context.zoo().read(path), path)
    newest = lease.record.remembered if isinstance(lease, Found) else None
    older = records.own.record.remembered if isinstance(records.own, Found) else None
    return records, newest, older


def _may_have_run(own: Seen[Ownership]) -> bool:
    """Returns whether an attempt of the name may have had a driver that wrote. Attempts are counted by name."""
    if not isinstance(own, Found):
        return True
    record = own.record
    refused = record.claims == record.attempt == 1 and record.cause is Cause.BAD_CHECKPOINT
    return record.attempt > 0 and not (refused and record.ran_s == 0)
