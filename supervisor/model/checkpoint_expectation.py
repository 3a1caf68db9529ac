"""Keeps what the registry remembers of a job's checkpoint, so that no start takes an empty place for a
beginning. Pure, stdlib only.

It travels in the lease: the agent passes what it found to the shim (``Launch``), the shim renews it with what
the queries commit, and when the lease is removed (``clean_up``) it moves to the ownership record, which is
never deleted. So it survives the loss of a host, and cancel and submit of the name. It is about one location.
Of the locations that the name used before, as much is kept as there is room for, so that a job which goes
back to one of them is protected there as well. Of the sinks that its queries were seen to write to, the newest are kept
(``model.going_back``), whatever the location.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from supervisor.errors import InvalidInput
from supervisor.model.bounds import OMITTED
from supervisor.model.location import digest
from supervisor.model.sinks import SeenSink, decode_sinks, encode_sinks

QUERIES_MAX: Final = 8
"""This many queries are kept in all, those at other locations included: a lease has no room for more."""
PLACE_CHARS: Final = 16
BATCH_DIGITS_MAX: Final = 19
BEGINS_ANEW: Final = "from nothing"
"""The reason has it where the checkpoint is there, and the application does not go on with it."""
UNNAMED_CHARS: Final = 8
UNNAMED_MAX: Final = 2
"""So many are enough to know that there are any."""


class SeenQuery(NamedTuple):
    """Names a query; ``batch_id`` is the newest batch that was seen committed."""

    id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointExpectation:
    """Says what a start has to find. ``place`` is made by ``place_of``. ``queries`` has one pair (a text, see
    ``queries_of``) for each query that committed batches there; beyond ``QUERIES_MAX`` the oldest is dropped.
    ``accepted`` is the acceptance of a fresh start that was taken last.

    ``elsewhere`` has the same pairs behind the places where the name had its checkpoint before, ``<place>
    <query> <batch>``, the latest last; the oldest are dropped.

    ``unnamed`` has the beginnings of the ids of those in ``queries`` whose directory has a random name, because they have
    neither a name nor a location of their own: no start finds it again, so each begins them anew.
    ``sinks`` are the texts of ``model.sinks.encode_sinks``.
    """

    place: str
    queries: tuple[str, ...] = ()
    accepted: str = ""
    elsewhere: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = field(default=(), metadata=OMITTED)
    sinks: tuple[str, ...] = field(default=(), metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


def place_of(location: str) -> str:
    """Returns a short key of a location, the same for every spelling of it, because a record has little room.
    It is empty for what is no location."""
    try:
        return digest(location)[:PLACE_CHARS]
    except InvalidInput:
        return ""


def queries_of(remembered: CheckpointExpectation | None) -> tuple[SeenQuery, ...]:
    """Returns the queries in the pairs. Texts that are no pairs (written by hand) are left out."""
    found = []
    for pair in remembered.queries if remembered is not None else ():
        query_id, _, batch = pair.rpartition(" ")
        if query_id and len(batch) <= BATCH_DIGITS_MAX and batch.isascii() and batch.isdigit():
            found.append(SeenQuery(query_id, int(batch)))
    return tuple(found)


def query_ids_at(remembered: CheckpointExpectation | None, place: str) -> frozenset[str]:
    """Returns the ids of the queries that were seen to commit batches at ``place``, now or before, as far as
    they are still known.
    """
    pairs = _by_place(None, remembered).get(place, ())
    return frozenset(query.id for query in queries_of(CheckpointExpectation(place=place, queries=pairs)))


def pairs_of(seen: Iterable[SeenQuery]) -> tuple[str, ...]:
    """Returns ``seen`` in the form of ``CheckpointExpectation.queries``, for a record."""
    return with_batches(CheckpointExpectation(place=""), seen).queries


def with_batches(remembered: CheckpointExpectation, seen: Iterable[SeenQuery]) -> CheckpointExpectation:
    """Returns ``remembered`` with what was committed since; a batch id never goes back."""
    known = {query.id: query.batch_id for query in queries_of(remembered)}
    for query in seen:
        known[query.id] = max(query.batch_id, known.pop(query.id, 0))  # the latest at the end
    pairs = tuple(f"{query_id} {batch_id}" for query_id, batch_id in known.items())[-QUERIES_MAX:]
    if pairs == remembered.queries:
        return remembered
    return replace(
        remembered, queries=pairs, elsewhere=_newest(remembered.elsewhere, QUERIES_MAX - len(pairs))
    )


def with_unnamed(
    remembered: CheckpointExpectation, ids: Iterable[str], named: Iterable[str] = ()
) -> CheckpointExpectation:
    """Returns ``remembered`` with ``ids`` as those of queries whose directory has a random name; ``named`` are such that
    are known to have another. Only of queries that are remembered anything is kept."""
    marks = {query_id[:UNNAMED_CHARS] for query_id in ids} | set(remembered.unnamed)
    marks -= {query_id[:UNNAMED_CHARS] for query_id in named}
    known = (query.id[:UNNAMED_CHARS] for query in queries_of(remembered))
    unnamed = tuple(mark for mark in known if mark in marks)[-UNNAMED_MAX:]
    return remembered if unnamed == remembered.unnamed else replace(remembered, unnamed=unnamed)


def with_sinks(remembered: CheckpointExpectation, seen: Iterable[SeenSink]) -> CheckpointExpectation:
    """Returns ``remembered`` with what was committed to which sink since."""
    sinks = encode_sinks((*decode_sinks(remembered.sinks), *seen))
    return remembered if sinks == remembered.sinks else replace(remembered, sinks=sinks)


def sinks_of(
    newest: CheckpointExpectation | None, older: CheckpointExpectation | None
) -> tuple[SeenSink, ...]:
    """Returns the sinks that the name was seen to write to, the latest last. ``newest`` is from its lease, ``older`` from
    its ownership."""
    return decode_sinks(_sinks(newest, older))


def places_of(remembered: CheckpointExpectation | None) -> frozenset[str]:
    """Returns the places where the name has committed batches, as far as they are still known."""
    if remembered is None:
        return frozenset()
    here = {remembered.place} if remembered.queries else set()
    return frozenset(here | {pair.partition(" ")[0] for pair in remembered.elsewhere})


def to_be_expected(
    location: str | None,
    acceptance: str,
    newest: CheckpointExpectation | None,
    older: CheckpointExpectation | None,
    begins_with: tuple[str, ...] = (),
) -> CheckpointExpectation | None:
    """Returns what a start has to find at ``location``. ``location`` is None if the job has no checkpoint.

    ``newest`` is from the lease of the name, ``older`` from its ownership. ``acceptance`` is from the
    reference, and empty if there is none; it is taken once: what is remembered names the one that was taken
    last. ``begins_with`` is from the reference, too.
    """
    place = place_of(location) if location else ""
    if not place:
        return None
    before = _by_place(newest, older)
    known = next((each for each in (newest, older) if place in _reported_by(each)), None)
    if known is None or known.place != place:
        known = CheckpointExpectation(place=place, queries=before.get(place, ()))
    if acceptance and known.accepted != acceptance:
        known = CheckpointExpectation(place=place, queries=begins_with, accepted=acceptance)
    return _with_others(replace(known, sinks=_sinks(newest, older)), before)


def moved_to(
    location: str,
    seen: Iterable[SeenQuery],
    newest: CheckpointExpectation | None,
    older: CheckpointExpectation | None,
) -> CheckpointExpectation:
    """Returns what a start has to find at ``location`` once a checkpoint with the queries ``seen`` was copied
    there for the job.

    What was known of that place before is void: it is another checkpoint now. ``newest`` and ``older`` are as
    above.
    """
    there = CheckpointExpectation(place=place_of(location), sinks=_sinks(newest, older))
    return _with_others(with_batches(there, seen), _by_place(newest, older))


def forgotten(remembered: CheckpointExpectation | None, location: str) -> CheckpointExpectation | None:
    """Returns ``remembered`` without the checkpoint at ``location``, which was deleted because its job asked
    for it.
    """
    place = place_of(location)
    if remembered is None or place not in places_of(remembered):
        return remembered
    others = tuple(pair for pair in remembered.elsewhere if pair.partition(" ")[0] != place)
    return replace(
        remembered, queries=() if remembered.place == place else remembered.queries, elsewhere=others
    )


def _sinks(newest: CheckpointExpectation | None, older: CheckpointExpectation | None) -> tuple[str, ...]:
    return next((each.sinks for each in (newest, older) if each is not None and each.sinks), ())


def _reported_by(remembered: CheckpointExpectation | None) -> frozenset[str]:
    return places_of(remembered) | {remembered.place} if remembered is not None else frozenset()


def _by_place(
    newest: CheckpointExpectation | None, older: CheckpointExpectation | None
) -> dict[str, tuple[str, ...]]:
    """Groups the texts of the queries by place, the latest place first. If both know a place, the newest is
    right.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in (newest, older):
        if each is None:
            continue
        mine: dict[str, tuple[str, ...]] = {each.place: each.queries} if each.queries else {}
        for pair in reversed(each.elsewhere):
            place, _, query = pair.partition(" ")
            mine[place] = (query, *mine.get(place, ()))
        for place, pairs in mine.items():
            found.setdefault(place, pairs)
    return found


def _with_others(known: CheckpointExpectation, before: dict[str, tuple[str, ...]]) -> CheckpointExpectation:
    pairs = [
        f"{place} {pair}"
        for place, there in reversed(before.items())
        if place != known.place
        for pair in there
    ]
    return replace(known, elsewhere=_newest(tuple(pairs), QUERIES_MAX - len(known.queries)))


def _newest(pairs: tuple[str, ...], room: int) -> tuple[str, ...]:
    return pairs[-room:] if room > 0 else ()
