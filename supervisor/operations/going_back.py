"""Finds out what ``model.going_back`` decides by: where a job writes, and which batches may have been handed to its sink.

Every way in which a job goes on from an older, another or no checkpoint asks one of ``before_copy``, ``before_fresh_start``
and ``before_undo``. What is known of the sinks comes from the registry (``model.checkpoint_expectation``); what is planned
is read in the checkpoint that is left; a file sink has a log of its own. What can't be read counts as unknown, never as
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from supervisor.checkpoint.handed import PlannedQuery, newest_in_sink_log, planned_in
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.errors import InvalidInput, NotFound, SupervisorError, Unreachable
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    SeenQuery,
    queries_of,
    sinks_of,
    to_be_expected,
)
from supervisor.model.going_back import (
    NOTHING_SAID,
    GoingBack,
    Returning,
    ReturnStep,
    ReturnWay,
    Said,
    decide,
)
from supervisor.model.location import normalise
from supervisor.model.records import Lease
from supervisor.model.seen import Found, Seen
from supervisor.model.sinks import FILE, NamedSink, SeenSink, SinkMemory
from supervisor.records.reading import seen
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import access_of_store

if TYPE_CHECKING:
    from supervisor.clients.store.tree import Tree
    from supervisor.operations.context import CommandContext
    from supervisor.operations.jobs import Done
    from supervisor.settings.file import Settings
    from supervisor.spec.job import JobSpec

Opener: TypeAlias = "Callable[[str], Tree | None]"
"""Opens a location for reading, or returns None if only Spark can read it."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Holds what the registry knows of a job: the sinks that it was seen to write to, the batches that it was seen to commit
    at its checkpoint, and where that is, None if it has none."""

    sinks: tuple[SeenSink, ...] = ()
    known: tuple[SeenQuery, ...] = ()
    checkpoint: str | None = None


def opener(settings: Settings, spec: JobSpec | None) -> Opener:
    """Returns what opens the locations that the job of ``spec`` can reach; None: that the store's own access can."""
    store = access_of_store(settings.store, settings.policy.endpoints)
    conf = spec.conf if spec is not None else {}
    return lambda location: open_checkpoint(location, conf, store)


def grounds_of(context: CommandContext, name: str) -> Grounds | None:
    """Returns what is known of the newest submission of ``name``, or None if there never was one. Raises Unreachable."""
    if context.check() is None:
        return None
    try:
        records = context.commands.job_records(name)
    except NotFound:
        return None
    own = records.own.record.remembered if isinstance(records.own, Found) else None
    path = context.layout.lease(name)
    lease: Seen[Lease] = seen(Lease, context.zoo().read(path), path)
    newest = lease.record.remembered if isinstance(lease, Found) else None
    job = records.ref if records.ref is not None else records.result
    terms = job.record.terms if isinstance(job, Found) else None
    location = terms.checkpoint if terms is not None else None
    return remembered_grounds(location, newest, own)


def remembered_grounds(
    location: str | None, newest: CheckpointExpectation | None, older: CheckpointExpectation | None
) -> Grounds:
    """Returns what is known of a job with its checkpoint at ``location``. ``newest`` is from its lease, ``older`` from its
    ownership."""
    known = queries_of(to_be_expected(location, "", newest, older))
    return Grounds(sinks_of(newest, older), known, location)


def said_of(spec: JobSpec | None, said: Said) -> Said:
    """Returns what a person says of the sink: at the command, or else in the spec."""
    in_spec = spec.savepoints.memory if spec is not None else None
    return Said(said.memory or in_spec, said.rolled_back)


def before_copy(
    way: ReturnWay,
    queries: Sequence[SeenQuery],
    grounds: Grounds | None,
    source: str,
    spec: JobSpec | None,
    said: Said,
    opened: Opener,
) -> GoingBack:
    """Decides about a copy of a savepoint with ``queries`` that was made of the checkpoint ``source``. ``grounds`` are those
    of the job that wrote to the sink last; None: nobody knows which that is. Raises Unreachable."""
    known = grounds or Grounds()
    places = {normalise(each): each for each in (known.checkpoint, source) if each is not None}
    left = [query for place in places.values() for query in _planned(place, opened)]
    here = {query.id for query in _planned(known.checkpoint, opened)}
    returning = []
    for query in queries:
        handed = [each.batch for each in left if each.id == query.id]
        handed += [each.batch_id for each in known.known if each.id == query.id]
        newest = max(handed) if query.id in here and way is not ReturnWay.FORK else None
        family = {query.id, *_relatives(query.id, left)}
        for sink, until in _sinks_of(query.id, family, known.sinks, queries):
            to_sink = newest if until is None else until
            returning.append(_with_log(Returning(query.id, query.batch_id, to_sink, sink), spec, opened))
    return decide(way, returning, said_of(spec, said))


def before_fork(
    queries: Sequence[SeenQuery],
    own: Grounds | None,
    of: Grounds | None,
    source: str,
    spec: JobSpec,
    said: Said,
    opened: Opener,
    *,
    shared: bool,
) -> GoingBack:
    """Decides about the copy for a fork: ``own`` are the grounds of its name, ``of`` those of the job that it is of. That
    runs on, so that nobody can say which batches its sink will have got. A sink that they do not share is an empty one,
    unless a job of that name wrote there. Raises Unreachable."""
    if shared:
        return before_copy(ReturnWay.FORK, queries, of, source, spec, said, opened)
    told = Said(said_of(spec, said).memory, rolled_back=True)
    apart = decide(ReturnWay.FORK, (Returning(each.id, each.batch_id, None, None) for each in queries), told)
    returning = (
        _with_log(Returning(query.id, query.batch_id, batch + 1, sink, same_id=False), spec, opened)
        for query in queries
        for _, batch, sink in (own.sinks if own is not None else ())
    )
    before = decide(ReturnWay.FORK, returning, said_of(spec, said))
    return before if before.step is ReturnStep.REFUSE else apart


def before_fresh_start(
    grounds: Grounds, location: str | None, spec: JobSpec, said: Said, opened: Opener
) -> GoingBack:
    """Decides about a start that takes what lies at ``location``, be it older than what the job left, or nothing. Raises
    Unreachable."""
    there = _planned(location, opened)
    newest = {each.id: each.batch_id for each in grounds.known}
    seen_sinks = [(each.query, each.batch, each.sink) for each in grounds.sinks]
    unseen = [query for query in newest if query not in {each.query for each in grounds.sinks}]
    returning = []
    for query, batch, sink in (*seen_sinks, *((query, newest[query], None) for query in unseen)):
        mine = next((each for each in there if each.id == query), None)
        others = max((each.batch for each in there), default=-1)
        goes_on = Returning(
            query, others if mine is None else mine.batch, batch, sink, same_id=mine is not None
        )
        returning.append(_with_log(goes_on, spec, opened))
    return decide(ReturnWay.FRESH_START, returning, said_of(spec, said))


def require_fresh_start(
    context: CommandContext, name: str, spec: JobSpec, location: str | None, said: Said
) -> None:
    """Raises Conflict if the next start of ``name``, which takes what lies at ``location``, would lose rows, and
    Unreachable."""
    grounds = grounds_of(context, name)
    if grounds is not None:
        before_fresh_start(grounds, location, spec, said, opener(context.settings, spec)).require()


def require_known_place(context: CommandContext, name: str, spec: JobSpec) -> None:
    """Raises Conflict if a new submission of ``name``, at another or an older checkpoint than it left, would lose rows.

    Nobody has accepted anything here. So nothing is asked about sinks that nobody knows, and a directory that this host may
    not see proves nothing. Raises Unreachable.
    """
    grounds = grounds_of(context, name)
    location = spec.checkpoint
    if grounds is None or location is None:
        return
    known = tuple(each for each in grounds.sinks if each.sink.memory is not SinkMemory.UNKNOWN)
    opened = opener(context.settings, spec)
    if not known or (not _planned(location, opened) and not normalise(location).startswith("s3:")):
        return
    before_fresh_start(Grounds(known), location, spec, NOTHING_SAID, opened).require()


def resume_fresh(context: CommandContext, name: str, said: Said, only_uid: str | None = None) -> Done:
    """Resumes a job whose next start takes what lies at its checkpoint. Raises Conflict if its sink would lose rows, and the
    errors of ``JobOperations.resume``."""
    basis = context.commands.basis(name)
    spec = from_canonical(context.blobs().read_spec(basis.spec), basis.spec.key)
    require_fresh_start(context, name, spec, basis.checkpoint or spec.checkpoint, said)
    return context.commands.resume(name, fresh_start=True, only_uid=only_uid)


def before_undo(
    grounds: Grounds, others: Grounds, spec: JobSpec, said: Said, opened: Opener, *, same_place: bool
) -> GoingBack:
    """Decides about a job that runs on from its own checkpoint, after another has written to its sink meanwhile: ``others``
    are the grounds of that. ``same_place`` says that nothing in their specs tells their sinks apart. Raises Unreachable."""
    there = _planned(grounds.checkpoint, opened)
    planned = {each.id: each.batch for each in _planned(others.checkpoint, opened)}
    seen = {each.query for each in others.sinks}
    unseen = (each for each in others.known if each.id not in seen)
    wrote = (*others.sinks, *(SeenSink(each.id, each.batch_id, NamedSink("")) for each in unseen))
    own = {_place(each.sink) for each in grounds.sinks}
    returning = []
    for query, batch, sink in wrote:
        # a job whose own sinks nobody remembers is told from the other by its spec alone
        is_shared = _place(sink) in own if sink.where and own else same_place
        if is_shared:
            ids = {each.id for each in there}
            here = max((each.batch for each in there if each.id == query or query not in ids), default=-1)
            known = sink if sink.kind else None
            goes_on = Returning(query, here, planned.get(query, batch + 1), known, same_id=query in ids)
            returning.append(_with_log(goes_on, spec, opened))
    return decide(ReturnWay.UNDO, returning, said_of(spec, said))


def _place(sink: NamedSink) -> tuple[str, str]:
    """Returns what two names of one sink have in common: its kind, and its place without what spelling adds."""
    with suppress(InvalidInput):
        return sink.kind, normalise(sink.where)
    return sink.kind, sink.where


def _planned(location: str | None, opened: Opener) -> tuple[PlannedQuery, ...]:
    """Returns the queries at ``location``; none if they can't be read, which is not known then. Raises Unreachable."""
    try:
        tree = opened(location) if location is not None else None
        return planned_in(tree) if tree is not None else ()
    except Unreachable:
        raise
    except SupervisorError:
        return ()


def _relatives(query: str, left: Iterable[PlannedQuery]) -> set[str]:
    """Returns the ids under which the query went on later, and those that it had before."""
    return {
        each for found in left for each in (found.id, *found.before) if query in (found.id, *found.before)
    }


def _sinks_of(
    query: str, family: set[str], sinks: Sequence[SeenSink], queries: Iterable[SeenQuery]
) -> list[tuple[NamedSink | None, int | None]]:
    """Returns the sinks of one query, each with the newest batch that it may have got: those that it was seen to write to,
    else those of its other ids, else those of queries that are not in the savepoint. The last is where it writes now: with
    None, for what is planned says that. A sink that was never seen is None."""
    saved = {query.id for query in queries}
    mine = [each for each in sinks if each.query == query]
    relatives = [each for each in sinks if each.query in family]
    others = [each for each in sinks if each.query not in saved]
    found = mine or relatives or others
    earlier: list[tuple[NamedSink | None, int | None]] = [(each.sink, each.batch + 1) for each in found[:-1]]
    return [*earlier, (found[-1].sink if found else None, None)]


def _with_log(query: Returning, spec: JobSpec | None, opened: Opener) -> Returning:
    """Returns ``query`` with what stands in the log of its sink, where that can be read.

    A directory of this host may be another one on the job's host: its log proves what is in it, never that there is no more.
    """
    sink = query.sink
    if sink is None or sink.kind != FILE or not sink.where:
        return query
    try:
        tree = opened(sink.where)
        newest = newest_in_sink_log(tree) if tree is not None else None
    except SupervisorError:
        return query
    if newest is None:
        return query
    if newest <= query.batch and sink.where.startswith(("file:", "/")):
        return query
    return Returning(
        query.query,
        query.batch,
        newest,
        sink,
        query.same_id,
        logged=True,
        named=spec is not None and is_named(sink.where, spec),
    )


def is_named(where: str, spec: JobSpec) -> bool:
    """Returns whether arguments, environment or properties of the job name the place of a sink."""
    path = where.partition(":")[2].lstrip("/") if ":" in where else where.lstrip("/")
    texts = (*spec.args_of_job(), *spec.env.values(), *spec.conf.values())
    return bool(path) and any(path in str(text) for text in texts)
