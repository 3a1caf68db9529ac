"""Says of the sinks that drivers report what they know a batch by, and whether a failed update could go back to a savepoint
there by itself (``update.rollback: savepoint``). Pure.

``model.going_back`` decides when a job goes back. This says beforehand what that decision would be, once the new revision
has committed a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from supervisor.errors import Complaint
from supervisor.model.going_back import TABLE, ReturnStep, SinkStanding, memory_of
from supervisor.model.records import JobRef, Lease
from supervisor.model.sinks import NamedSink, SeenSink, SinkMemory, decode_sinks

RULE: Final = "update.rollback: savepoint"
KNOWS_BY: Final[Mapping[SinkMemory, str]] = {
    SinkMemory.REPEATS: "takes a batch twice if it comes twice",
    SinkMemory.TRANSACTIONAL: "knows a batch by its query and number",
    SinkMemory.REMEMBERS: "knows a batch by its number",
    SinkMemory.UNKNOWN: "unknown whether it skips a batch whose number it has seen (savepoints.sink in the spec says it)",
}


def present_sinks(lease: Lease) -> tuple[SeenSink, ...]:
    """Returns where the queries of a driver write, each with its latest sink, as the driver has reported it."""
    seen = decode_sinks(lease.remembered.sinks) if lease.remembered is not None else ()
    running = {query.id for query in lease.queries}
    newest = {each.query: each for each in seen if lease.more_queries or not running or each.query in running}
    return tuple(newest.values())


def sink_documents(job: JobRef, lease: Lease) -> tuple[dict[str, Any], ...]:
    """Returns the documents of the sinks of a driver: with what its spec says of them, where nobody can see it."""
    said = job.terms.sink_memory
    return tuple(_document(each, memory_of(each.sink, said)) for each in present_sinks(lease))


def _document(seen: SeenSink, memory: SinkMemory) -> dict[str, Any]:
    return {
        "query": seen.query,
        "kind": seen.sink.kind,
        "where": seen.sink.where or None,
        "memory": memory.value,
        "says": f"{seen.sink}: {KNOWS_BY[memory]}",
    }


def no_way_back(job: JobRef, lease: Lease) -> str:
    """Returns why an update of the job that fails could not go back to its savepoint; empty if it could, or shall not, or if
    there was no batch yet, with which a driver names its sinks."""
    if not job.terms.back_to_savepoint:
        return ""
    sinks = [each.sink for each in present_sinks(lease)]
    has_batch = lease.progress is not None and lease.progress.batch_id is not None
    unseen = [None] if has_batch and not sinks else []
    return str(why_no_way_back([*sinks, *unseen], job.terms.sink_memory))


def why_no_way_back(sinks: Iterable[NamedSink | None], said: SinkMemory | None) -> Complaint:
    """Returns why a failed update could not go back to its savepoint by itself, with the remedy; it is false if it could.

    ``sinks`` are those of the job, None for one that nobody has seen; ``said`` is what its spec says of them.
    """
    known_by = {sink: memory_of(sink, said) for sink in sinks}
    stuck = [sink for sink, memory in known_by.items() if _is_stuck(memory)]
    asked = [sink for sink in stuck if known_by[sink] is SinkMemory.UNKNOWN]
    if asked:
        which = f"its {asked[0]}" if asked[0] is not None else "its sink, which no driver names,"
        return Complaint(
            f"{RULE} does not go back while nobody says whether {which} skips a batch whose number it has seen",
            "say savepoints.sink in the spec",
        )
    if stuck:
        which = f"its {stuck[0]}" if stuck[0] is not None else "its sink"
        return Complaint(
            f"{RULE} can't go back once {which} has a batch of the new revision: it skips numbers that it has seen",
            "say clean or continue, or let it write to a table that tells queries apart",
        )
    return Complaint()


def _is_stuck(memory: SinkMemory) -> bool:
    copied, _, _ = TABLE[memory, SinkStanding.AHEAD]
    return copied is ReturnStep.REFUSE
