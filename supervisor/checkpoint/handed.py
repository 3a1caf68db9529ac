"""Reads which batches may have been handed to a sink: what a checkpoint has planned, and what a file sink's log has.
It writes nothing. Called by ``operations.going_back``.
"""

from __future__ import annotations

from typing import NamedTuple

from supervisor.checkpoint.inspect import query_folders_of
from supervisor.checkpoint.layout import (
    COMPACTED,
    OFFSETS,
    Malformed,
    batch_of,
    parse_lineage,
    parse_metadata,
)
from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, NotFound
from supervisor.model.query_metadata import METADATA, METADATA_MAX_BYTES
from supervisor.model.sinks import SINK_LOG


class PlannedQuery(NamedTuple):
    """Names a query of a checkpoint, the ids that it had before, and its newest planned batch; -1: none is planned."""

    id: str
    before: tuple[str, ...]
    batch: int


def planned_in(tree: Tree) -> tuple[PlannedQuery, ...]:
    """Returns the queries of a checkpoint. One whose metadata can't be read is left out: nobody can say which it is. Raises
    Unreachable and AccessDenied."""
    found = []
    for folder in query_folders_of(tree)[0]:
        prefix = f"{folder}/" if folder else ""
        try:
            data = tree.read(f"{prefix}{METADATA}", METADATA_MAX_BYTES)
            identity, before = parse_metadata(data), parse_lineage(data)
        except (NotFound, Corrupt, Malformed):
            continue
        found.append(PlannedQuery(identity, before, _newest(tree, f"{prefix}{OFFSETS}")))
    return tuple(found)


def newest_in_sink_log(sink: Tree) -> int | None:
    """Returns the newest batch in the log of the file sink whose path ``sink`` is; None if there is no log. Raises
    Unreachable and AccessDenied."""
    newest = _newest(sink, SINK_LOG)
    return None if newest < 0 else newest


def _newest(tree: Tree, folder: str) -> int:
    names = (entry.key.rpartition("/")[2].removesuffix(COMPACTED) for entry in tree.entries(folder))
    return max((batch for name in names if (batch := batch_of(name)) is not None), default=-1)
