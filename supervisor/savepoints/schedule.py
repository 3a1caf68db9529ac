"""Decides when the leader makes a job's scheduled savepoints, how they are named, and which of them may be
deleted. It is pure.

Time is cut into slots of one period, each job's shifted by its name, so that a fleet with one period does not
copy all at once. The id of a savepoint contains the slot that it was made in, and schedule and retention
depend on that alone: any leader, now or later, finds in the store which slot has its savepoint, and two
leaders at once want the same id.

Time is that of the store (``Area.now_s``), not of a host. It may be wrong all the same. A clock that jumps
ahead makes a savepoint too early, and when that is complete, those before it are as old as the clock says,
and are deleted by ``max_age_s``; a clock that jumps back makes savepoints that are older by their ids than
others. A savepoint from the future of the clock is neither counted nor removed. Age is counted from the
newest at the latest, and whatever the clock says, the newest by it stays.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from supervisor.model.savepoint_policy import SavepointPolicy

PREFIX: Final = "scheduled-"
NUMBER_MAX: Final = 100
_ID: Final = re.compile(r"scheduled-(\d{8}-\d{6})(?:-\d{1,4})?")
_STAMP: Final = "%Y%m%d-%H%M%S"


class Scheduled(NamedTuple):
    """Describes a savepoint that the leader made by schedule. ``source`` is the location of the
    checkpoint."""

    id: str
    source: str
    complete: bool


def slot_of(name: str, every_s: float, now_s: float) -> int:
    """Returns when the slot began that ``now_s`` is in, in whole seconds since the epoch."""
    every = max(1, int(every_s))
    shift = zlib.crc32(name.encode()) % every
    return int((now_s - shift) // every) * every + shift


def id_of(slot_at_s: int) -> str:
    """Returns the usual id of a slot's savepoint, such as ``scheduled-20261122-061742``."""
    return PREFIX + datetime.fromtimestamp(slot_at_s, UTC).strftime(_STAMP)


def began_at_s(savepoint: str) -> int | None:
    """Returns the beginning of the slot that an id names, or None if it is no id of a scheduled savepoint."""
    match = _ID.fullmatch(savepoint)
    if match is None:
        return None
    try:
        return int(datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def ids_of(slot_at_s: int) -> Iterator[str]:
    """Yields what a savepoint of the slot may be called, the usual id first. Within the slot a name may have
    been submitted anew with another checkpoint, or somebody else may have taken the id; then it gets a
    number."""
    first = id_of(slot_at_s)
    yield first
    yield from (f"{first}-{number}" for number in range(2, NUMBER_MAX))


def newest_of(there: Iterable[Scheduled], now_s: float, every_s: float) -> Scheduled | None:
    """Returns the newest complete savepoint of those that are not from the future, or None."""
    complete = [each for each in _past(there, now_s, every_s) if each.complete]
    return max(complete, key=_rank, default=None)


def surplus(there: Iterable[Scheduled], policy: SavepointPolicy, now_s: float) -> tuple[str, ...]:
    """Returns the ids that may be deleted, oldest first: complete ones beyond ``keep`` or too old, never the
    newest; and incomplete ones of slots before the newest's, which nobody goes on with."""
    past = sorted(_past(there, now_s, policy.every_s), key=_rank)
    complete = [each for each in past if each.complete]
    if not complete:
        return ()
    newest_at_s = _rank(complete[-1])[0]
    over = {each.id for each in complete[: -max(1, policy.keep)]}
    if policy.max_age_s is not None:
        limit_at_s = min(now_s, newest_at_s) - policy.max_age_s
        over |= {each.id for each in complete[:-1] if _rank(each)[0] < limit_at_s}
    over |= {each.id for each in past if not each.complete and _rank(each)[0] < newest_at_s}
    return tuple(each.id for each in past if each.id in over)


def _past(there: Iterable[Scheduled], now_s: float, every_s: float) -> list[Scheduled]:
    """Returns the savepoints that are not from the future. A slot that begins within a period from now is of
    a clock that is a little ahead, so it counts."""
    return [each for each in there if (at_s := began_at_s(each.id)) is not None and at_s <= now_s + every_s]


def _rank(each: Scheduled) -> tuple[int, int, str]:
    return began_at_s(each.id) or 0, len(each.id), each.id
