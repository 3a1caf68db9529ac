"""Reads what the queries of a checkpoint have committed, source by source. ``bluegreen`` calls it; it writes nothing.

The offsets of the newest committed batch are those of ``offsets/<n>`` for the newest ``commits/<n>``. What a file
source had read by then stands in its log, ``sources/<i>``: the newest compacted entry, which has all before it, and
the entries after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from supervisor.checkpoint.inspect import query_folders_of
from supervisor.checkpoint.layout import (
    COMMITS,
    COMPACTED,
    OFFSETS,
    SOURCES,
    Malformed,
    batch_of,
    parse_lineage,
    parse_metadata,
    parse_offset,
)
from supervisor.checkpoint.offset_order import SourceKind, SourcePosition, files_in, position_of
from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, NotFound
from supervisor.model.query_metadata import METADATA, METADATA_MAX_BYTES

OFFSET_MAX_BYTES: Final = 16 * 2**20
FILE_LOG_MAX_BYTES: Final = 256 * 2**20
"""A larger log of files is not compared."""
TRIES: Final = 3
"""An entry may be removed between the listing and the read, as a query goes on."""


@dataclass(frozen=True, slots=True)
class QueryOffsets:
    """Holds what a query has committed: ``sources`` are the offsets of each source after ``batch``, as Spark wrote
    them. ``batch`` is -1 and there are no sources if nothing is committed. ``path`` is its directory below the
    checkpoint, ``before`` the ids that it had before."""

    id: str
    path: str
    batch: int
    sources: tuple[str | None, ...] = ()
    before: tuple[str, ...] = ()


def encode_offsets(queries: Iterable[QueryOffsets]) -> bytes:
    """Returns the JSON of ``queries``, to be stored."""
    body = [
        {
            "id": each.id,
            "path": each.path,
            "batch": each.batch,
            "sources": list(each.sources),
            "before": list(each.before),
        }
        for each in queries
    ]
    return json.dumps({"v": 1, "queries": body}, sort_keys=True).encode()


def decode_offsets(data: bytes, source: str) -> tuple[QueryOffsets, ...]:
    """Returns what ``encode_offsets`` wrote. Raises Corrupt that names ``source``."""
    try:
        return tuple(
            QueryOffsets(
                str(each["id"]),
                str(each["path"]),
                int(each["batch"]),
                _texts(each["sources"]),
                tuple(map(str, each.get("before", ()))),
            )
            for each in json.loads(data)["queries"]
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Corrupt(f"{source} does not hold the offsets of a job") from None


def _texts(sources: list[Any]) -> tuple[str | None, ...]:
    return tuple(None if each is None else str(each) for each in sources)


class OffsetReader:
    """Reads one checkpoint, again and again: what does not change is read once.

    Every method raises what the tree raises, and Corrupt for what Spark could not read either.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._entries: dict[str, bytes] = {}

    def committed(self) -> tuple[QueryOffsets, ...]:
        """Returns the queries of the checkpoint, with what each has committed now."""
        return tuple(self._query(path) for path in query_folders_of(self._tree)[0])

    def position(self, query: QueryOffsets, number: int) -> SourcePosition:
        """Returns how far source ``number`` of ``query`` was read by its batch; one that the query has not is at
        nothing."""
        if number >= len(query.sources):
            return SourcePosition(SourceKind.NOTHING)
        found = position_of(query.sources[number])
        if found.kind is not SourceKind.FILES:
            return found
        return replace(
            found,
            files=self._retried(self._files, f"{_below(query.path)}{SOURCES}/{number}", found.log_offset),
        )

    def _query(self, path: str) -> QueryOffsets:
        key = f"{_below(path)}{METADATA}"
        try:
            data = self._tree.read(key, METADATA_MAX_BYTES)
            identity, before = parse_metadata(data), parse_lineage(data)
        except (NotFound, Malformed):
            raise Corrupt(f"{self._tree.location}/{key} is missing, or names no query") from None
        batch, sources = self._retried(self._newest, path)
        return QueryOffsets(identity, path, batch, sources, before)

    def _newest(self, path: str) -> tuple[int, tuple[str | None, ...]]:
        batches = [
            batch_of(entry.key.rpartition("/")[2]) for entry in self._tree.entries(f"{_below(path)}{COMMITS}")
        ]
        newest = max((batch for batch in batches if batch is not None), default=None)
        if newest is None:
            return -1, ()
        key = f"{_below(path)}{OFFSETS}/{newest}"
        try:
            return newest, parse_offset(self._tree.read(key, OFFSET_MAX_BYTES)).sources
        except Malformed as error:
            raise Corrupt(f"{self._tree.location}/{key}: {error}") from None

    def _files(self, folder: str, up_to: int) -> frozenset[str]:
        compacted, plain = -1, []
        for entry in self._tree.entries(folder):
            name = entry.key.rpartition("/")[2]
            number = batch_of(name.removesuffix(COMPACTED))
            if number is None:
                continue
            if name.endswith(COMPACTED):
                compacted = max(compacted, number)
            else:
                plain.append(number)
        wanted = range(compacted + 1, up_to + 1)
        if not set(wanted) <= set(plain):
            raise NotFound(f"{self._tree.location}/{folder} has no entry {min(set(wanted) - set(plain))}")
        keys = [f"{folder}/{number}" for number in wanted]
        if compacted >= 0:
            keys.insert(0, f"{folder}/{compacted}{COMPACTED}")
        for key in [key for key in self._entries if key.startswith(f"{folder}/") and key not in keys]:
            del self._entries[key]
        return frozenset[str]().union(*(self._files_of(key, up_to) for key in keys))

    def _files_of(self, key: str, up_to: int) -> frozenset[str]:
        data = self._entries.get(key)
        if data is None:
            data = self._tree.read(key, FILE_LOG_MAX_BYTES)
            self._entries[key] = data
        try:
            return files_in(data, up_to)
        except Malformed as error:
            raise Corrupt(f"{self._tree.location}/{key}: {error}") from None

    def _retried(self, read: Any, *arguments: Any) -> Any:
        for _ in range(TRIES - 1):
            try:
                return read(*arguments)
            except NotFound:
                continue
        return read(*arguments)


def _below(path: str) -> str:
    return f"{path}/" if path else ""
