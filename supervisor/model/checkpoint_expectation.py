"""What the registry remembers of a job's checkpoint, so that no start takes nothing for a beginning. Pure, stdlib only.

It travels in the lease: the agent hands what it found to the shim (``Launch``), the shim renews it with what the queries
commit, and when the lease goes (``clean_up``) it moves to the ownership record, which is never deleted. So it survives the
loss of a host, and cancel and submit of the name. It is about one location; of those that the name used before, as much is
kept as there is room for, so that a job which goes back to one is looked after there as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from supervisor.errors import InvalidInput
from supervisor.model.location import digest

QUERIES_MAX: Final = 8
"""Words in all, those about other locations included: a lease has no room for more."""
PLACE_CHARS: Final = 16
BATCH_DIGITS_MAX: Final = 19


class SeenQuery(NamedTuple):
    """``batch_id``: the newest batch that was seen committed."""

    id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class CheckpointExpectation:
    """``place``: of ``place_of``. ``queries``: one word per query that committed batches there, see ``queries_of``; the
    oldest is given up beyond ``QUERIES_MAX``. ``accepted``: the acceptance of a fresh start that was taken last.

    ``elsewhere``: the same words behind the places where the name had its checkpoint before, ``<place> <query> <batch>``,
    the latest last; the oldest are given up."""

    place: str
    queries: tuple[str, ...] = ()
    accepted: str = ""
    elsewhere: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


def place_of(location: str) -> str:
    """Short for a location, under any spelling; a record has little room. Empty for what is no location."""
    try:
        return digest(location)[:PLACE_CHARS]
    except InvalidInput:
        return ""


def queries_of(remembered: CheckpointExpectation | None) -> tuple[SeenQuery, ...]:
    """Words that are none (written by hand) are left out."""
    found = []
    for pair in remembered.queries if remembered is not None else ():
        query_id, _, batch = pair.rpartition(" ")
        if query_id and len(batch) <= BATCH_DIGITS_MAX and batch.isascii() and batch.isdigit():
            found.append(SeenQuery(query_id, int(batch)))
    return tuple(found)


def query_ids_at(remembered: CheckpointExpectation | None, place: str) -> frozenset[str]:
    """Of the queries that were seen to commit batches at ``place``, here or before, as far as they are still known."""
    pairs = _by_place(None, remembered).get(place, ())
    return frozenset(query.id for query in queries_of(CheckpointExpectation(place, pairs)))


def pairs_of(seen: Iterable[SeenQuery]) -> tuple[str, ...]:
    """For a record, as in ``CheckpointExpectation.queries``."""
    return with_batches(CheckpointExpectation(""), seen).queries


def with_batches(remembered: CheckpointExpectation, seen: Iterable[SeenQuery]) -> CheckpointExpectation:
    """``remembered`` with what was committed since; a batch id never goes back."""
    known = {query.id: query.batch_id for query in queries_of(remembered)}
    for query in seen:
        known[query.id] = max(query.batch_id, known.pop(query.id, 0))  # the latest at the end
    pairs = tuple(f"{query_id} {batch_id}" for query_id, batch_id in known.items())[-QUERIES_MAX:]
    if pairs == remembered.queries:
        return remembered
    return replace(
        remembered, queries=pairs, elsewhere=_newest(remembered.elsewhere, QUERIES_MAX - len(pairs))
    )


def places_of(remembered: CheckpointExpectation | None) -> frozenset[str]:
    """Where the name has committed batches, as far as it is still known."""
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
    """What a start has to find at ``location``. None: the job has no checkpoint.

    ``newest``: of the lease of the name; ``older``: of its ownership. ``acceptance``: of the reference, empty for none; it
    is taken once: what is remembered names the one that was taken last. ``begins_with``: of the reference, too.
    """
    place = place_of(location) if location else ""
    if not place:
        return None
    before = _by_place(newest, older)
    known = next((each for each in (newest, older) if place in _told_by(each)), None)
    if known is None or known.place != place:
        known = CheckpointExpectation(place, before.get(place, ()))
    if acceptance and known.accepted != acceptance:
        known = CheckpointExpectation(place, begins_with, acceptance)
    return _with_others(known, before)


def moved_to(
    location: str,
    seen: Iterable[SeenQuery],
    newest: CheckpointExpectation | None,
    older: CheckpointExpectation | None,
) -> CheckpointExpectation:
    """What a start has to find at ``location`` once a checkpoint with the queries ``seen`` was copied there for the job.

    What was known of that place before is void: it is another checkpoint now. ``newest``, ``older`` as above.
    """
    return _with_others(
        with_batches(CheckpointExpectation(place_of(location)), seen), _by_place(newest, older)
    )


def forgotten(remembered: CheckpointExpectation | None, location: str) -> CheckpointExpectation | None:
    """``remembered`` without the checkpoint at ``location``, which was deleted because its job asked for it."""
    place = place_of(location)
    if remembered is None or place not in places_of(remembered):
        return remembered
    others = tuple(pair for pair in remembered.elsewhere if pair.partition(" ")[0] != place)
    return replace(
        remembered, queries=() if remembered.place == place else remembered.queries, elsewhere=others
    )


def _told_by(remembered: CheckpointExpectation | None) -> frozenset[str]:
    return places_of(remembered) | {remembered.place} if remembered is not None else frozenset()


def _by_place(
    newest: CheckpointExpectation | None, older: CheckpointExpectation | None
) -> dict[str, tuple[str, ...]]:
    """Words by place; the latest place first. Of two that know a place the newest is right."""
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
