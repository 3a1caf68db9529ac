"""Reads in the log of a Delta table which batch of a query it has. It writes nothing, and needs no Delta.

A streaming write leaves in its commit a ``txn`` action with the id of the query and the number of the batch. A batch whose
number is not above the newest one of its query is skipped (the Delta protocol, "Transaction Identifiers"). The numbers of a
query only grow, so its newest commit has its newest batch: the log is read from its end, and no checkpoint of it is. Called
by ``operations.left_in_checkpoint``.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Final

from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, NotFound

LOG: Final = "_delta_log"
LAST_CHECKPOINT: Final = f"{LOG}/_last_checkpoint"
COMMITS_MAX: Final = 100
"""So many of the newest commits are read: others write to the table too, and compact it."""
BEFORE_CHECKPOINT: Final = COMMITS_MAX
ENTRIES_MAX: Final = 5_000
COMMIT_MAX_BYTES: Final = 64 * 2**20
_COMMIT: Final = re.compile(rf"{LOG}/(\d{{20}})\.json")
_STAGED: Final = re.compile(rf"{LOG}/_(?:staged_)?commits/")


def newest_in_delta_log(table: Tree, query: str) -> int:
    """Returns the newest batch of ``query`` in the Delta table whose path ``table`` is.

    Raises NotFound if there is no log, Corrupt if the newest commits don't tell it: none of them is of the query, one is
    unreadable, or a catalog has commits that the log does not have yet. Raises Unreachable and AccessDenied.
    """
    keys = [entry.key for entry in islice(table.entries(LOG, _start(table)), ENTRIES_MAX + 1)]
    commits = sorted((key for key in keys if _COMMIT.fullmatch(key)), reverse=True)
    if not keys:
        raise NotFound(f"there is no {LOG} at {table.location}")
    if len(keys) > ENTRIES_MAX or any(_STAGED.match(key) for key in keys):
        raise Corrupt(f"the newest commits of {table.location} are not in its log alone")
    for key in commits[:COMMITS_MAX]:
        batch = _batch_of(table.read(key, COMMIT_MAX_BYTES), query)
        if batch is not None:
            return batch
    raise Corrupt(f"none of the newest commits of {table.location} is of query {query}")


def _start(table: Tree) -> str:
    """Returns the key after which the newest commits are: some before the newest checkpoint, for a log may be long."""
    try:
        version = json.loads(table.read(LAST_CHECKPOINT, COMMIT_MAX_BYTES))["version"]
        return f"{LOG}/{max(version - BEFORE_CHECKPOINT, 0):020d}"
    except (NotFound, Corrupt, ValueError, TypeError, KeyError, RecursionError):
        return ""


def _batch_of(commit: bytes, query: str) -> int | None:
    """Returns the batch of ``query`` that a commit has, or None. Raises Corrupt."""
    for line in commit.splitlines():
        if b'"txn"' not in line or query.encode() not in line:
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            raise Corrupt(f"a commit that names query {query} is unreadable") from None
        txn = action.get("txn") if isinstance(action, dict) else None
        if isinstance(txn, dict) and txn.get("appId") == query and isinstance(txn.get("version"), int):
            return int(txn["version"])
    return None
