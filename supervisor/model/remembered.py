"""What the registry remembers of a job's checkpoint, so that no start takes nothing for a beginning. Pure, stdlib only.

It travels in the lease: the agent hands what it found to the shim (``Launch``), the shim renews it with what the queries
commit, and when the lease goes (``clean_up``) it moves to the ownership record, which is never deleted. So it survives the
loss of a host, and cancel and submit of the name. It is about one location: another checkpoint is another story.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from supervisor.errors import InvalidInput
from supervisor.model.location import digest

QUERIES_MAX: Final = 8
PLACE_CHARS: Final = 16


class SeenQuery(NamedTuple):
    """``batch_id``: the newest batch that was seen committed."""

    id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """``place``: of ``place_of``. ``queries``: one word per query that committed batches there, see ``queries_of``; the
    oldest is given up beyond ``QUERIES_MAX``. ``accepted``: the acceptance of a fresh start that was taken last."""

    place: str
    queries: tuple[str, ...] = ()
    accepted: str = ""
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


def place_of(location: str) -> str:
    """Short for a location, under any spelling; a record has little room. Empty for what is no location."""
    try:
        return digest(location)[:PLACE_CHARS]
    except InvalidInput:
        return ""


def queries_of(remembered: Remembered | None) -> tuple[SeenQuery, ...]:
    """Words that are none (written by hand) are left out."""
    found = []
    for word in remembered.queries if remembered is not None else ():
        query_id, _, batch = word.rpartition(" ")
        if query_id and batch.isascii() and batch.isdigit():
            found.append(SeenQuery(query_id, int(batch)))
    return tuple(found)


def with_batches(remembered: Remembered, seen: Iterable[SeenQuery]) -> Remembered:
    """``remembered`` with what was committed since; a batch id never goes back."""
    known = {query.id: query.batch_id for query in queries_of(remembered)}
    for query in seen:
        known[query.id] = max(query.batch_id, known.pop(query.id, 0))      # the latest at the end
    words = tuple(f"{query_id} {batch_id}" for query_id, batch_id in known.items())[-QUERIES_MAX:]
    if words == remembered.queries:
        return remembered
    return Remembered(remembered.place, words, remembered.accepted, remembered.extra)


def to_be_expected(
    location: str | None, acceptance: str, newest: Remembered | None, older: Remembered | None,
) -> Remembered | None:
    """What a start has to find at ``location``. None: the job has no checkpoint.

    ``newest``: of the lease of the name; ``older``: of its ownership. ``acceptance``: of the reference, empty for none; it
    is taken once: what is remembered names the one that was taken last.
    """
    place = place_of(location) if location else ""
    if not place:
        return None
    found = next((each for each in (newest, older) if each is not None and each.place == place), Remembered(place))
    if acceptance and found.accepted != acceptance:
        return Remembered(place, accepted=acceptance)
    return found
