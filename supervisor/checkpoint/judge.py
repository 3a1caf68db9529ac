"""Judges whether Spark can go on from a checkpoint. It is pure: a ``Query`` goes in, findings come out. It is
called by ``checkpoint verify`` and ``savepoints.create``.

The rules are those of Spark's MicroBatchExecution.populateStartOffsets and of its state store providers: of
the newest offset N the entries N and N−1 must be readable, the newest commit must be N or N−1 (a missing
newest commit is replayed), ``metadata`` must be there, the state version that follows the newest commit must
be loadable in every partition, and the log of a file source must reach the entry that the newest offset
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from supervisor.checkpoint.findings import CheckpointFinding, Code
from supervisor.checkpoint.layout import COMMITS, KNOWN_VERSIONS, OFFSETS, SOURCES, STATE, files_logged
from supervisor.checkpoint.picture import Checkpoint, Query, ReadObject, StateOperator

FRESH: Final = (
    "go back to a savepoint with resume NAME --from-savepoint ID, or to another copy of the whole checkpoint, or start from "
    "nothing with resume NAME --accept-fresh-start"
)
PUT_BACK: Final = (
    "put it back from a copy or an older version of the object (versioned bucket); else " + FRESH
)
LISTED_MAX: Final = 5
"""At most this many partitions of one operator are named; the rest are counted."""


def judge(checkpoint: Checkpoint) -> tuple[CheckpointFinding, ...]:
    """Returns everything that is wrong, query by query; what keeps the checkpoint from starting comes
    first."""
    found = [finding for query in checkpoint.queries for finding in judge_query(query)]
    return tuple(sorted(found, key=lambda finding: finding.is_notice))


def judge_query(query: Query) -> Iterator[CheckpointFinding]:
    """Yields the findings about one query."""
    for rule in RULES:
        yield from rule(query)


def _metadata(query: Query) -> Iterator[CheckpointFinding]:
    entry = query.metadata
    if entry.value is None and (query.offsets.runs or query.commits.runs):
        code = Code.METADATA_MISSING if entry.missing else Code.METADATA_UNREADABLE
        what = "is missing" if entry.missing else f"is unreadable: {entry.problem}"
        remedy = (
            'write it anew as {"id":"<query id>"}: the driver\'s log names it where progress is logged; Spark from 4.2 on '
            "refuses to start without it, older ones give a new id, and sinks that count on the id take batches twice"
        )
        yield CheckpointFinding(
            code, f"metadata, which holds the query id, {what}", entry.key, remedy, query.path
        )


def _offsets(query: Query) -> Iterator[CheckpointFinding]:
    newest = query.offsets.newest
    if newest is None:
        if query.commits.runs:
            what = f"there is no offset, but batches up to {query.commits.newest} are committed"
            yield CheckpointFinding(Code.OFFSETS_MISSING, what, _below(query, OFFSETS), PUT_BACK, query.path)
        return
    entry = query.newest_offset
    if entry is not None and entry.value is None:
        remedy = PUT_BACK
        if not query.commits.has(newest):
            remedy = (
                f"batch {newest} was never committed: moving the file and its .crc away lets Spark plan it anew, maybe with "
                "other rows, so a sink that is not transactional may see some twice"
            )
        yield CheckpointFinding(
            Code.OFFSET_UNREADABLE,
            f"the newest offset is unreadable: {entry.problem}",
            entry.key,
            remedy,
            query.path,
        )
    yield from _previous(query, newest)


def _previous(query: Query, newest: int) -> Iterator[CheckpointFinding]:
    entry = query.previous_offset
    if entry is None or entry.value is not None:
        return
    code = Code.PREVIOUS_OFFSET_MISSING if entry.missing else Code.PREVIOUS_OFFSET_UNREADABLE
    what = "is missing" if entry.missing else f"is unreadable: {entry.problem}"
    yield CheckpointFinding(
        code,
        f"offset {newest - 1}, from where batch {newest} begins, {what}",
        entry.key,
        PUT_BACK,
        query.path,
    )


def _commits(query: Query) -> Iterator[CheckpointFinding]:
    newest, committed = query.offsets.newest, query.commits.newest
    entry = query.newest_commit
    if entry is not None and entry.value is None:
        remedy = (
            "move the file and its .crc away: Spark then replays the batch with the same rows; with state format 2 put it "
            "back instead, since it names the state files"
        )
        yield CheckpointFinding(
            Code.COMMIT_UNREADABLE,
            f"the newest commit is unreadable: {entry.problem}",
            entry.key,
            remedy,
            query.path,
        )
    if newest is None:
        return
    if committed is not None and committed > newest:
        what = f"batch {committed} is committed, but the newest offset is {newest}: the offsets after it are lost"
        yield CheckpointFinding(
            Code.COMMIT_AHEAD, what, _below(query, f"{OFFSETS}/{newest + 1}"), PUT_BACK, query.path
        )
    elif newest - (-1 if committed is None else committed) > 1:
        known = "nothing is committed" if committed is None else f"the newest commit is {committed}"
        what = f"the newest offset is {newest}, but {known}, not {newest - 1} or {newest}"
        remedy = (
            f"batches {0 if committed is None else committed + 1} to {newest - 1} were run, or their commits are lost: put "
            "those back from a copy; Spark goes on from the newest offset and does not run them again"
        )
        yield CheckpointFinding(
            Code.COMMIT_BEHIND, what, _below(query, f"{COMMITS}/{newest - 1}"), remedy, query.path
        )


def _holes(query: Query) -> Iterator[CheckpointFinding]:
    """Yields a notice of holes before the tail: nothing starts there, but a roll-back to such a batch is not
    possible."""
    for name, log in ((OFFSETS, query.offsets), (COMMITS, query.commits)):
        gaps = [(one[1] + 1, other[0] - 1) for one, other in zip(log.runs, log.runs[1:], strict=False)]
        if name == OFFSETS and query.previous_offset is not None and query.previous_offset.missing:
            gaps = gaps[:-1]  # reported as what it is
        if gaps:
            first, last = gaps[-1]
            which = f"{first}" if first == last else f"{first} to {last}"
            more = f", and {len(gaps) - 1} more holes" if len(gaps) > 1 else ""
            yield CheckpointFinding(
                Code.HOLE,
                f"{name} lacks {which}{more}",
                _below(query, f"{name}/{first}"),
                "a start does not need it; asynchronous progress tracking leaves such holes, a clean-up by hand too",
                query.path,
            )


def _sources(query: Query) -> Iterator[CheckpointFinding]:
    """Checks that the log of a file source is long enough. Without it Spark records every file anew, plans a
    batch that leads back, and fails an assertion from then on. A source that is read twice has two offsets
    and one log: then the longest log counts for all."""
    logs, wanted = dict(query.source_logs), dict[int, int]()
    for entry in (query.newest_offset, query.previous_offset):
        for number, source in enumerate(
            entry.value.sources if entry is not None and entry.value is not None else ()
        ):
            wanted[number] = max(files_logged(source), wanted.get(number, -1))
    for number, logged in wanted.items():
        own = logs.get(str(number)) if len(logs) == len(wanted) else None
        newest = own if own is not None else max(logs.values(), default=-1)
        if newest < logged:
            known = f"ends at entry {newest}" if newest >= 0 else "is missing"
            what = f"source {number} has read files up to entry {logged} of its log, but that log {known}"
            yield CheckpointFinding(
                Code.SOURCE_LOG_MISSING, what, _below(query, f"{SOURCES}/{number}"), PUT_BACK, query.path
            )


def _state(query: Query) -> Iterator[CheckpointFinding]:
    for operator in query.operators:
        if operator.problem:
            yield CheckpointFinding(
                Code.OPERATOR_UNREADABLE,
                f"the metadata of operator {operator.number} is unreadable: {operator.problem}",
                _below(query, f"{STATE}/{operator.number}"),
                PUT_BACK,
                query.path,
            )
        yield from _of_operator(query, operator)
    ids = query.newest_commit.value.state_ids if query.newest_commit and query.newest_commit.value else {}
    there = {operator.number for operator in query.operators if operator.stores}
    for number in sorted(set(ids) - there):
        yield CheckpointFinding(
            Code.STATE_MISSING,
            f"commit {query.commits.newest} names state of operator {number}, but there is none",
            _below(query, f"{STATE}/{number}"),
            PUT_BACK,
            query.path,
        )
    for entry in (query.newest_offset, query.newest_commit):
        if entry is not None and entry.value is not None and entry.value.version not in KNOWN_VERSIONS:
            yield CheckpointFinding(
                Code.NEWER_FORMAT,
                f"{entry.key} has version {entry.value.version}, which is not known here",
                entry.key,
                "use a newer spark-supervisor to judge it",
                query.path,
            )


def _of_operator(query: Query, operator: StateOperator) -> Iterator[CheckpointFinding]:
    lacking = [store for store in operator.stores if store.lacks]
    if not lacking:
        return
    whole = all(store.newest is None for store in lacking)
    shown = "; ".join(
        f"partition {store.partition}{'' if store.name == 'default' else f', store {store.name},'} lacks {store.lacks}"
        for store in lacking[:LISTED_MAX]
    )
    more = f"; and {len(lacking) - LISTED_MAX} more" if len(lacking) > LISTED_MAX else ""
    first = lacking[0]
    yield CheckpointFinding(
        Code.STATE_MISSING if whole else Code.STATE_INCOMPLETE,
        f"state version {query.wanted} of operator {operator.number} ({operator.name or 'unnamed'}) can't be loaded: "
        f"{shown}{more}",
        _below(query, f"{STATE}/{operator.number}/{first.partition}"),
        PUT_BACK,
        query.path,
    )


def _checksums(query: Query) -> Iterator[CheckpointFinding]:
    entries: tuple[ReadObject[str] | ReadObject[object] | None, ...] = (
        query.metadata,
        query.newest_offset,
        query.previous_offset,
        query.newest_commit,  # type: ignore[assignment]
    )
    keys = [entry.key for entry in entries if entry is not None and not entry.checksum_ok]
    for key in keys:
        folder, slash, name = key.rpartition("/")
        yield CheckpointFinding(
            Code.CHECKSUM_WRONG,
            f"{key} is not what its checksum file says: Hadoop refuses to read it",
            key,
            f"if the content is right (it was edited by hand), remove {folder}{slash}.{name}.crc; else {PUT_BACK}",
            query.path,
        )
    for key in query.wrong_checksums:
        yield CheckpointFinding(
            Code.CHECKSUM_WRONG, f"{key} is not what its checksum file says", key, PUT_BACK, query.path
        )


def _below(query: Query, key: str) -> str:
    return f"{query.path}/{key}" if query.path else key


RULES: Final[tuple[Callable[[Query], Iterator[CheckpointFinding]], ...]] = (
    _metadata,
    _offsets,
    _commits,
    _sources,
    _state,
    _checksums,
    _holes,
)
