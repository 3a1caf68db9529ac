"""Decides whether a job may go back to an older checkpoint, without rows that its sink would drop. Pure: a table, and the
words for it.

A sink that remembers batches skips those that it has seen (``model.sinks``). A checkpoint that ends at batch m hands the
next batch m + 1 to the sink, with other rows than the batch m + 1 that was there before: if the sink has seen up to
n > m, the rows of the batches m + 1 … n are read, "written" and lost. Every way of going back asks ``decide`` (``ReturnWay``
has them all).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from supervisor.errors import Conflict
from supervisor.model.sinks import FILE, SINK_LOG, NamedSink, SinkMemory


class ReturnWay(StrEnum):
    """Names a way in which a job goes on from an older, another or no checkpoint, as messages have it."""

    RESTORE = "savepoint restore"
    RESUME = "resume --from-savepoint"
    SUBMIT = "submit --from-savepoint"
    ROLLBACK = "rollback --from-savepoint"
    UPDATE = "update.rollback: savepoint"
    FORK = "fork"
    FRESH_START = "--accept-fresh-start"
    UNDO = "promote --undo"


COPIES: Final = frozenset(
    {
        ReturnWay.RESTORE,
        ReturnWay.RESUME,
        ReturnWay.SUBMIT,
        ReturnWay.ROLLBACK,
        ReturnWay.UPDATE,
        ReturnWay.FORK,
    }
)
"""These make a copy of a savepoint, in which a query can have a new id. The others go on with what lies there."""


class ReturnStep(StrEnum):
    """Says how a job goes on: with the query ids that are there, with new ones (a copy alone can), or not."""

    SAME_IDS = "same ids"
    NEW_IDS = "new ids"
    REFUSE = "refuse"


class SinkStanding(StrEnum):
    """Says whether the next batch of a query is one that its sink may have seen under that number."""

    NOT_AHEAD = "not ahead"
    AHEAD = "ahead"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class Returning:
    """Describes a query that goes on after batch ``batch``; -1: from nothing. ``query`` is empty for queries that nobody
    remembers.

    ``sink`` is where it writes; None if it was never seen to write. ``handed`` is the newest batch that may have been
    handed to that sink; None if nobody knows. ``same_id`` says that the query had the very same id then. ``logged`` says
    that ``handed`` stands in the sink's own log. ``named`` says that the spec names the place of that sink.
    """

    query: str
    batch: int
    handed: int | None
    sink: NamedSink | None
    same_id: bool = True
    logged: bool = False
    named: bool = False

    @property
    def is_ahead(self) -> bool:
        return self.handed is None or self.handed > self.batch


@dataclass(frozen=True, slots=True)
class Said:
    """Holds what a person says of the sink: its ``memory`` (by the command, or by the spec), and whether it remembers
    nothing of what comes after the savepoint (``--sink-rolled-back``)."""

    memory: SinkMemory | None = None
    rolled_back: bool = False


NOTHING_SAID: Final = Said()


@dataclass(frozen=True, slots=True)
class GoingBack:
    """Holds the decision. ``why`` and ``remedy`` are for people: why it is refused, or what comes twice."""

    step: ReturnStep
    why: str = ""
    remedy: str = ""

    def require(self) -> GoingBack:
        """Returns itself. Raises Conflict if rows would be lost, or may be."""
        if self.step is ReturnStep.REFUSE:
            raise Conflict(self.why, self.remedy)
        return self


GOES_ON: Final = GoingBack(ReturnStep.SAME_IDS)

TABLE: Final[Mapping[tuple[SinkMemory, SinkStanding], tuple[ReturnStep, ReturnStep, ReturnStep]]] = {
    # what the sink knows a batch by         a copy          in place, new id  in place, same id
    (SinkMemory.REPEATS, SinkStanding.NOT_AHEAD): (
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    (SinkMemory.REPEATS, SinkStanding.AHEAD): (ReturnStep.SAME_IDS, ReturnStep.SAME_IDS, ReturnStep.SAME_IDS),
    (SinkMemory.REPEATS, SinkStanding.ROLLED_BACK): (
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    # who goes on with the checkpoint that is left, some day, must not meet the batches of the copy
    (SinkMemory.TRANSACTIONAL, SinkStanding.NOT_AHEAD): (
        ReturnStep.NEW_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    (SinkMemory.TRANSACTIONAL, SinkStanding.AHEAD): (
        ReturnStep.NEW_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.REFUSE,
    ),
    # RESTORE of a Delta table keeps which batches it has seen: the same id would lose them still
    (SinkMemory.TRANSACTIONAL, SinkStanding.ROLLED_BACK): (
        ReturnStep.NEW_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.REFUSE,
    ),
    (SinkMemory.REMEMBERS, SinkStanding.NOT_AHEAD): (
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    (SinkMemory.REMEMBERS, SinkStanding.AHEAD): (ReturnStep.REFUSE, ReturnStep.REFUSE, ReturnStep.REFUSE),
    (SinkMemory.REMEMBERS, SinkStanding.ROLLED_BACK): (
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    (SinkMemory.UNKNOWN, SinkStanding.NOT_AHEAD): (
        ReturnStep.NEW_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
    (SinkMemory.UNKNOWN, SinkStanding.AHEAD): (ReturnStep.REFUSE, ReturnStep.REFUSE, ReturnStep.REFUSE),
    # whatever it knows a batch by: a new id is never worse
    (SinkMemory.UNKNOWN, SinkStanding.ROLLED_BACK): (
        ReturnStep.NEW_IDS,
        ReturnStep.SAME_IDS,
        ReturnStep.SAME_IDS,
    ),
}
"""The steps for a query that goes on: in a copy, and where its checkpoint stays where it is."""

_STRICTNESS: Final = (SinkMemory.REPEATS, SinkMemory.TRANSACTIONAL, SinkMemory.REMEMBERS)
_STEPS: Final = (ReturnStep.SAME_IDS, ReturnStep.NEW_IDS, ReturnStep.REFUSE)


def decide(way: ReturnWay, queries: Iterable[Returning], said: Said) -> GoingBack:
    """Returns how the job goes on: the strictest of what its queries need."""
    found = [_of_one(way, query, said) for query in queries]
    return max(found, key=lambda each: _STEPS.index(each.step), default=GOES_ON)


def memory_of(sink: NamedSink | None, said: SinkMemory | None) -> SinkMemory:
    """Returns what a sink knows a batch by: what is seen of it, or said, whichever is stricter."""
    seen = sink.memory if sink is not None else SinkMemory.UNKNOWN
    if seen is SinkMemory.UNKNOWN or said is None:
        return said or seen
    return max(seen, said, key=_STRICTNESS.index)


def _of_one(way: ReturnWay, query: Returning, said: Said) -> GoingBack:
    memory = memory_of(query.sink, said.memory)
    standing = (
        SinkStanding.NOT_AHEAD
        if not query.is_ahead
        else SinkStanding.ROLLED_BACK
        if said.rolled_back
        else SinkStanding.AHEAD
    )
    if standing is SinkStanding.ROLLED_BACK and query.logged and query.named:
        what = f"the log of {query.sink} ends at batch {query.handed}, and the savepoint at {query.batch}"
        return GoingBack(ReturnStep.REFUSE, f"{what}: it was not rolled back", _ways_out(memory, query, way))
    copied, new_id, same_id = TABLE[memory, standing]
    step = copied if way in COPIES else same_id if query.same_id else new_id
    if step is ReturnStep.REFUSE:
        return GoingBack(step, _why_refused(memory, query), _ways_out(memory, query, way))
    if standing is SinkStanding.NOT_AHEAD:
        return GoingBack(step)
    if step is ReturnStep.NEW_IDS:
        return GoingBack(step, f"its queries have new ids, so that {_sink(query)} takes {_lost(query)} again")
    twice = standing is SinkStanding.AHEAD and way in COPIES
    return GoingBack(step, f"{_sink(query)} gets {_lost(query)} again" if twice else "")


def _sink(query: Returning) -> str:
    return f"the {query.sink}" if query.sink is not None else _unseen(query)


def _unseen(query: Returning) -> str:
    return f"the sink of query {query.query}" if query.query else "a sink of which nothing is remembered"


def _lost(query: Returning) -> str:
    first = query.batch + 1
    if query.handed is None:
        return f"the rows from batch {first} on"
    return (
        f"the rows of batch {first}"
        if query.handed == first
        else f"the rows of batches {first} to {query.handed}"
    )


def _why_refused(memory: SinkMemory, query: Returning) -> str:
    if memory is SinkMemory.UNKNOWN:
        named = "" if not query.query else f" ({query.sink})" if query.sink else ", which was not seen yet,"
        return (
            f"does {_unseen(query)}{named} skip a batch whose number it has seen? Only its owner knows. If "
            f"it does, {_lost(query)} would be lost"
        )
    by = "that query" if memory is SinkMemory.TRANSACTIONAL else "its number, whatever the query"
    return f"{_sink(query)} knows a batch by {by}, and would skip: {_lost(query)} would be lost"


def _ways_out(memory: SinkMemory, query: Returning, way: ReturnWay) -> str:
    if way is ReturnWay.UPDATE:
        return (
            "suspend the job, and rollback --from-savepoint with --sink or --sink-rolled-back, if that is so"
        )
    if memory is SinkMemory.UNKNOWN:
        return (
            "say savepoints.sink in the spec, or --sink: repeats (it writes what it gets), transactional (it remembers "
            "batches of each query id) or remembers (it remembers batch numbers); or --sink-rolled-back, if it has "
            "nothing after that batch" + (", or is another one" if way is ReturnWay.FORK else "")
        )
    if memory is SinkMemory.TRANSACTIONAL:
        return (
            "make a savepoint of what lies there, and resume --from-savepoint: its copy gets a new query id"
        )
    if way is ReturnWay.FORK:
        return (
            "let the fork write elsewhere, at a place that its spec names ({job} in args, or --set), without --shared-sink; "
            "or say --sink-rolled-back, if it does write elsewhere"
        )
    begins, elsewhere = query.batch + 1, "another path or table"
    if query.sink is not None and query.sink.kind == FILE and query.batch >= 0:
        # Spark reads no log, and compacts none, that does not begin with batch 0
        elsewhere = f"another path, which has a copy of the {SINK_LOG} up to batch {query.batch}"
    return (
        f"let the job write to {elsewhere}; or remove from the sink itself what it has of batch {begins} and later, also "
        "what it remembers of them; then say --sink-rolled-back"
    )
