"""Finds out what ``model.going_back`` decides by: where a job writes, and which batches may have been handed to its sink.

Every way in which a job goes on from an older, another or no checkpoint asks one of ``before_copy``, ``before_fork``,
``before_fresh_start`` and ``before_undo``. What is known of the sinks comes from the registry
(``operations.sink_grounds``); what is planned is read in the checkpoint that is left; a file sink has a log of its own; two
jobs are told apart by what their specs name (``spec.output_place``). What can't be read counts as unknown, never as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from supervisor.checkpoint.handed import PlannedQuery, newest_in_sink_log, planned_in
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.errors import Conflict, NotFound, SupervisorError, Unreachable
from supervisor.model.checkpoint_expectation import SeenQuery
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
from supervisor.model.records import Desired
from supervisor.model.seen import Found
from supervisor.model.sinks import FILE, NamedSink, SeenSink, SinkMemory
from supervisor.operations.selection import registered_jobs
from supervisor.operations.sink_grounds import Grounds, Written, expected_at, grounds_of
from supervisor.registry.promotion_writes import ran_instead
from supervisor.spec.job import from_canonical
from supervisor.spec.output_place import is_named, new_places, same_place, tells_apart
from supervisor.spec.s3a import access_of_store

if TYPE_CHECKING:
    from supervisor.clients.store.tree import Tree
    from supervisor.operations.context import CommandContext
    from supervisor.operations.jobs import Done
    from supervisor.settings.file import Settings
    from supervisor.spec.job import JobSpec


class OtherJob(NamedTuple):
    """Is a job that may write to the sink of another. ``spec`` is None if it is not known any more."""

    grounds: Grounds
    spec: JobSpec | None


PLACES_MAX: Final = 16
"""So many places of a spec are looked at for the log of a file sink."""

Opener: TypeAlias = "Callable[[str], Tree | None]"
"""Opens a location for reading, or returns None if only Spark can read it."""


def opener(settings: Settings, spec: JobSpec | None) -> Opener:
    """Returns what opens the locations that the job of ``spec`` can reach; None: that the store's own access can."""
    store = access_of_store(settings.store, settings.policy.endpoints)
    conf = spec.conf if spec is not None else {}
    return lambda location: open_checkpoint(location, conf, store)


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
    other: OtherJob | None = None,
) -> GoingBack:
    """Decides about a copy of a savepoint with ``queries`` that was made of the checkpoint ``source``. ``grounds`` are those
    of the job that wrote to the sink last; None: nobody knows which that is. ``other`` has run in its place since. Raises
    Unreachable."""
    known = grounds or Grounds()
    returning = _of_copy(way, queries, known, source, spec, opened)
    if other is not None and spec is not None:
        returning += _handed(queries, _shared(known, spec, other, opened), spec, opened)
    return decide(way, returning, said_of(spec, said))


def before_submission(
    queries: Sequence[SeenQuery],
    own: Grounds | None,
    of: Grounds | None,
    source: str,
    spec: JobSpec,
    said: Said,
    opened: Opener,
) -> GoingBack:
    """Decides about the copy for a new submission: ``of`` are the grounds of the job that wrote the savepoint, ``own`` those
    of an earlier job of the submitted name, if that is another. Either may have written to the sink. Raises Unreachable."""
    way, told = ReturnWay.SUBMIT, said_of(spec, said)
    returning = _of_copy(way, queries, of or Grounds(), source, spec, opened)
    return decide(way, (*returning, *_written_before(queries, own, spec, opened)), told)


def before_fork(
    queries: Sequence[SeenQuery],
    own: Grounds | None,
    of: Grounds | None,
    source: str,
    spec: JobSpec,
    of_spec: JobSpec,
    said: Said,
    opened: Opener,
    *,
    shared: bool,
) -> GoingBack:
    """Decides about the copy for a fork with ``spec``: ``own`` are the grounds of its name, ``of`` and ``of_spec`` those of
    the job that it is of. That runs on, so that nobody can say which batches its sink will have got.

    A sink is not asked about where the two specs tell the one of the fork apart. That is an empty one then, unless a job of
    its name wrote there, or a file sink has its log where the fork's spec alone names a place. Raises Unreachable.
    """
    told = said_of(spec, said)
    copied = _of_copy(ReturnWay.FORK, queries, of or Grounds(), source, spec, opened)
    asked = [each for each in copied if shared or not tells_apart(each.sink, of_spec, spec)]
    asked += _written_before(queries, own, spec, opened)
    asked += _logged_elsewhere(queries, new_places(spec, of_spec), opened)
    found = decide(ReturnWay.FORK, asked, told)
    if shared or found.step is ReturnStep.REFUSE:
        return found
    empty = (Returning(each.id, each.batch_id, None, None) for each in queries)
    return decide(ReturnWay.FORK, empty, Said(told.memory, rolled_back=True))


def before_fresh_start(
    grounds: Grounds,
    location: str | None,
    spec: JobSpec,
    said: Said,
    opened: Opener,
    at_least: Sequence[SeenQuery] = (),
) -> GoingBack:
    """Decides about a start that takes what lies at ``location``, be it older than what the job left, or nothing.
    ``at_least`` is what the start itself requires there, where this host can't see it. Raises Unreachable."""
    there = _planned(location, opened) or tuple(PlannedQuery(each.id, (), each.batch_id) for each in at_least)
    newest = max((each.batch for each in there), default=-1)
    # a job without a checkpoint begins anew with every attempt: no start of it goes back
    has_place = grounds.checkpoint is not None or location is not None
    returning = []
    for query, batch, sink in grounds.written:
        if query or has_place:
            mine = next((each for each in there if each.id == query), None)
            goes_on = newest if mine is None else mine.batch
            asked = Returning(query, goes_on, batch, sink, same_id=mine is not None)
            returning.append(_with_log(asked, spec, opened))
    return decide(ReturnWay.FRESH_START, returning, said_of(spec, said))


def require_fresh_start(
    context: CommandContext, name: str, spec: JobSpec, location: str | None, said: Said
) -> None:
    """Raises Conflict if the next start of ``name``, which takes what lies at ``location``, would lose rows, and
    Unreachable."""
    grounds = grounds_of(context, name)
    if grounds is not None:
        before_fresh_start(grounds, location, spec, said, opener(context.settings, spec)).require()


def require_known_place(context: CommandContext, name: str, spec: JobSpec, said: Said = NOTHING_SAID) -> None:
    """Raises Conflict if a new submission of ``name``, at another or an older checkpoint than it left, would lose rows, or
    may. Nobody has accepted anything here. Raises Unreachable.

    Where the job left its checkpoint the start itself refuses what is older than was seen: there nothing is asked about
    sinks that nobody knows, and a directory that this host may not see proves nothing. Of a job that was never seen to
    commit a batch nothing is asked either.
    """
    location = spec.checkpoint
    grounds = grounds_of(context, name)
    if grounds is None or location is None or not grounds.committed:
        return
    opened = opener(context.settings, spec)
    if grounds.is_left_at(location):
        known = tuple(each for each in grounds.sinks if each.sink.memory is not SinkMemory.UNKNOWN)
        is_seen = bool(_planned(location, opened)) or normalise(location).startswith("s3:")
        if known and is_seen:
            only_known = replace(grounds, sinks=known, known=())
            before_fresh_start(only_known, location, spec, said, opened).require()
        return
    expected = expected_at(context, name, location)
    before_fresh_start(grounds, location, spec, said, opened, expected).require()


def resume_asked(
    context: CommandContext, name: str, said: Said, only_uid: str | None = None, *, fresh_start: bool
) -> Done:
    """Resumes a job. With ``fresh_start`` its next start takes what lies at its checkpoint. Raises Conflict if its sink
    would lose rows, and the errors of ``JobOperations.resume``."""
    other = ran_instead_of(context, name)
    if fresh_start or other is not None:
        basis = context.commands.basis(name)
        spec = from_canonical(context.blobs().read_spec(basis.spec), basis.spec.key)
        if other is not None:
            grounds, opened = grounds_of(context, name) or Grounds(), opener(context.settings, spec)
            before_undo(grounds, other, spec, said, opened).require()
        if fresh_start:
            require_fresh_start(context, name, spec, basis.checkpoint or spec.checkpoint, said)
    return context.commands.resume(name, fresh_start=fresh_start, only_uid=only_uid)


def ran_instead_of(context: CommandContext, name: str) -> OtherJob | None:
    """Returns the job that has run in the place of ``name`` since a promotion or its undoing suspended that; None if none
    has. The job itself says so only until it is changed, as by an update while it is suspended: the one in its place says it
    for as long as that is registered. Raises Unreachable."""
    try:
        ref = context.commands.job_records(name).ref
    except NotFound:
        return None
    if not isinstance(ref, Found) or ref.record.desired is not Desired.SUSPENDED:
        return None
    other = ran_instead(ref.record) or _in_place_of(context, name, ref.record.uid)
    return OtherJob(grounds_of(context, other) or Grounds(), spec_of(context, other)) if other else None


def _in_place_of(context: CommandContext, name: str, uid: str) -> str:
    """Returns the registered job that was promoted over submission ``uid`` of ``name``; empty if none was."""
    jobs = registered_jobs(context.zoo(), context.layout).found
    return next((job.replaced_by for job in jobs if (job.name, job.uid) == (name, uid)), "")


def spec_of(context: CommandContext, name: str) -> JobSpec | None:
    """Returns the spec of the newest submission of ``name``, or None if that is not known any more."""
    if context.check() is None:
        return None
    try:
        ref = context.commands.basis(name).spec
        return from_canonical(context.blobs().read_spec(ref), ref.key)
    except (Conflict, NotFound):
        return None


def before_undo(grounds: Grounds, other: OtherJob, spec: JobSpec, said: Said, opened: Opener) -> GoingBack:
    """Decides about a job with ``spec`` that runs on from its own checkpoint, after ``other`` may have written to its sink
    meanwhile. Raises Unreachable."""
    there = _planned(grounds.checkpoint, opened)
    ids = {each.id for each in there}
    returning = []
    for query, handed, sink in _shared(grounds, spec, other, opened):
        here = max((each.batch for each in there if each.id == query or query not in ids), default=-1)
        goes_on = Returning(query, here, handed, sink, same_id=query in ids)
        returning.append(_with_log(goes_on, spec, opened))
    return decide(ReturnWay.UNDO, returning, said_of(spec, said))


def _shared(grounds: Grounds, spec: JobSpec, other: OtherJob, opened: Opener) -> Iterable[Written]:
    """Yields what ``other`` may have handed to the sinks of the job with ``grounds`` and ``spec``."""
    planned = {each.id: each.batch for each in _planned(other.grounds.checkpoint, opened)}
    own = [each.sink for each in grounds.written] or [None]
    for query, batch, sink in other.grounds.written:
        if any(_may_be_one(mine, spec, sink, other.spec) for mine in own):
            yield Written(query, planned.get(query, batch + 1 if batch is not None else None), sink)


def _may_be_one(
    mine: NamedSink | None, spec: JobSpec, theirs: NamedSink | None, others_spec: JobSpec | None
) -> bool:
    """Returns whether two jobs may write to one sink. Where both were seen to write says more than their specs."""
    if mine is not None and mine.where and theirs is not None and theirs.where:
        return same_place(mine, theirs)
    if others_spec is None:
        return True
    return not tells_apart(mine, spec, others_spec) and not tells_apart(theirs, others_spec, spec)


def _of_copy(
    way: ReturnWay,
    queries: Sequence[SeenQuery],
    known: Grounds,
    source: str,
    spec: JobSpec | None,
    opened: Opener,
) -> list[Returning]:
    """Returns how the queries of a savepoint go on at each sink that the job of ``known`` gave them to."""
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
    return returning


def _written_before(
    queries: Sequence[SeenQuery], own: Grounds | None, spec: JobSpec, opened: Opener
) -> list[Returning]:
    """Returns how ``queries`` go on at the sinks to which an earlier job of the same name wrote, with other ids."""
    written = own.written if own is not None else ()
    handed = (each._replace(batch=each.batch + 1) if each.batch is not None else each for each in written)
    return _handed(queries, handed, spec, opened)


def _handed(
    queries: Sequence[SeenQuery], handed: Iterable[Written], spec: JobSpec, opened: Opener
) -> list[Returning]:
    """Returns how ``queries`` go on at sinks to which others have handed batches, with other ids."""
    return [
        _with_log(Returning(query.id, query.batch_id, batch, sink, same_id=False), spec, opened)
        for _, batch, sink in handed
        for query in queries
    ]


def _logged_elsewhere(queries: Sequence[SeenQuery], places: Iterable[str], opened: Opener) -> list[Returning]:
    """Returns how ``queries`` go on where a file sink has its log at one of ``places``, whoever wrote there."""
    logs = [(place, _newest_in_log(place, opened)) for place in islice(places, PLACES_MAX)]
    return [
        Returning(query.id, query.batch_id, newest, NamedSink(FILE, place), same_id=False)
        for place, newest in logs
        if newest is not None
        for query in queries
    ]


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
    else those of its other ids. The last is where it writes now: with None, for what is planned says that. A sink that was
    never seen is None: it may be one of those of queries that are not in the savepoint, or another that is forgotten."""
    saved = {query.id for query in queries}
    mine = [each for each in sinks if each.query == query]
    relatives = [each for each in sinks if each.query in family]
    found = mine or relatives
    if not found:
        return [*((each.sink, None) for each in sinks if each.query not in saved), (None, None)]
    return [*((each.sink, each.batch + 1) for each in found[:-1]), (found[-1].sink, None)]


def _with_log(query: Returning, spec: JobSpec | None, opened: Opener) -> Returning:
    """Returns ``query`` with what stands in the log of its sink, where that can be read.

    A directory of this host may be another one on the job's host: its log proves what is in it, never that there is no more.
    """
    sink = query.sink
    if sink is None or sink.kind != FILE or not sink.where:
        return query
    newest = _newest_in_log(sink.where, opened)
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


def _newest_in_log(where: str, opened: Opener) -> int | None:
    """Returns the newest batch in the log of a file sink; None if there is none, or it can't be read."""
    try:
        tree = opened(where)
        return newest_in_sink_log(tree) if tree is not None else None
    except SupervisorError:
        return None
