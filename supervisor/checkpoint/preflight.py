"""Checks before a start whether the checkpoint is still the one that the job left. It sends a few requests,
whatever the checkpoint's size, and changes nothing.

It is called by the agent of the host that starts the job, and by ``checkpoint verify``. If a checkpoint is
gone, Spark starts from nothing; if it is one of another query, Spark goes on from there. Neither is noticed
for hours. What must be there is what the registry remembers (``model.checkpoint_expectation``): the ids of
the queries and the newest batch that each was seen to commit. A missing newest commit is no finding, because
Spark replays that batch.

The newest offset is searched near the remembered batch. Names are numbers without padding, so ``offsets/10``
sorts before ``offsets/9``: one page after the remembered name has all newer ones of as many digits, and a
second one is for those with one digit more.

``left_behind`` asks the opposite question: has an attempt left anything that was not there before? A planned batch that is
not committed is nothing, where ``checkpoint.planned_batch`` says that the code of before can run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from supervisor.checkpoint.findings import CheckpointFinding, Code
from supervisor.checkpoint.inspect import SMALL_MAX_BYTES, query_folders_of
from supervisor.checkpoint.layout import (
    OFFSETS,
    Malformed,
    batch_of,
    parse_metadata,
    parse_offset,
    runs_of,
)
from supervisor.checkpoint.planned_batch import why_not_replayed
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, NotFound
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.query_metadata import METADATA

NEAR: Final = 1000
"""No query plans more batches than this between a renewal of its lease and its death."""
PAGE: Final = 1000
BEFORE_DIGITS: Final = "//"
"""Appended to a folder, it sorts after the folder's hidden files (``.0.crc``) and before its numbers."""
REMEDY: Final = (
    "put it back and resume, or resume with --from-savepoint, or with --accept-fresh-start: "
    "rows may come twice then"
)


def preflight(tree: Tree, expected: Sequence[SeenQuery]) -> CheckpointFinding | None:
    """Returns what keeps the job from starting there, or None. ``expected`` has the queries that committed
    batches; if empty, no request is sent.

    Raises ``Unreachable`` (nothing is known: neither start nor refuse) and ``AccessDenied``.
    """
    if not expected:
        return None
    query_folders, others = query_folders_of(tree)
    if not query_folders:
        return _nothing(tree, others, expected)
    ids, unreadable = {}, None
    for query_folder in query_folders:
        found = _id_at(tree, query_folder)
        if isinstance(found, CheckpointFinding):
            unreadable = unreadable or found
        else:
            ids[found] = query_folder
    for query in expected:
        if query.id not in ids:
            return unreadable or _foreign(tree, query, tuple(ids))
        finding = _tail(tree, ids[query.id], query)
        if finding is not None:
            return finding
    return None


def preflight_of_first(tree: Tree, previous_user: str) -> CheckpointFinding | None:
    """Checks the checkpoint before the first start of a job, if the job ``previous_user`` used it and has given it
    up: a query there is a finding. Sends one request, and one per directory that is none of Spark's. Raises
    the same errors as ``preflight``."""
    query_folders, _others = query_folders_of(tree)
    if not query_folders:
        return None
    return CheckpointFinding(
        Code.OTHERS,
        f"the checkpoint {tree.location} holds what job {previous_user} left there",
        tree.location,
        "choose another location or remove it, or resume with --accept-fresh-start to go on from it, with --from-savepoint "
        "from a copy of a savepoint",
    )


def left_behind(tree: Tree, known: Sequence[SeenQuery]) -> str:
    """Returns what is in the checkpoint from which the code that committed the batches of ``known`` can't go on, as a
    phrase; it is empty if there is nothing.

    A batch is begun by its offset, so the newest offset of each query says it. A query that is not known, or one that is
    known and not there, is something else than before. Raises Unreachable and AccessDenied.
    """
    query_folders, _others = query_folders_of(tree)
    batches, there = {query.id: query.batch_id for query in known}, set()
    for query_folder in query_folders:
        found = _id_at(tree, query_folder)
        if isinstance(found, CheckpointFinding):
            return found.sentence
        if found not in batches:
            return f"query {found} is there, of which no batch was known"
        there.add(found)
        folder = f"{query_folder}/{OFFSETS}" if query_folder else OFFSETS
        newest = max(_near(tree, folder, batches[found]), default=None)
        left = (
            ""
            if newest is None
            else why_not_replayed(tree, query_folder, SeenQuery(found, batches[found]), newest)
        )
        if left:
            return left
    missing = next((query for query in batches if query not in there), None)
    return f"query {missing} is not there" if missing is not None else ""


def _nothing(tree: Tree, others: tuple[str, ...], expected: Sequence[SeenQuery]) -> CheckpointFinding:
    was = f"query {expected[0].id} had committed batch {expected[0].batch_id}"
    if others or next(iter(tree.entries("", at_once=2)), None) is not None:
        return CheckpointFinding(
            Code.EMPTIED,
            f"the checkpoint {tree.location} holds no query any more, but {was} there",
            tree.location,
            REMEDY,
        )
    return CheckpointFinding(
        Code.MISSING,
        f"the checkpoint {tree.location} is missing or empty, but {was} there",
        tree.location,
        REMEDY,
    )


def _id_at(tree: Tree, query_folder: str) -> str | CheckpointFinding:
    key = f"{query_folder}/{METADATA}" if query_folder else METADATA
    try:
        return parse_metadata(tree.read(key, SMALL_MAX_BYTES))
    except NotFound:
        what, code = "is missing, so nobody can tell whose checkpoint this is", Code.METADATA_MISSING
    except (Malformed, Corrupt) as error:
        what, code = f"is unreadable: {error}", Code.METADATA_UNREADABLE
    return CheckpointFinding(
        code, f"{key} of the checkpoint {tree.location} {what}", key, REMEDY, query_folder
    )


def _foreign(tree: Tree, query: SeenQuery, ids: tuple[str, ...]) -> CheckpointFinding:
    there = f"query {ids[0]}" if len(ids) == 1 else f"{len(ids)} other queries"
    return CheckpointFinding(
        Code.FOREIGN,
        f"the checkpoint {tree.location} is of {there}, not of {query.id}, which had committed batch "
        f"{query.batch_id}",
        METADATA,
        REMEDY,
    )


def _tail(tree: Tree, query_folder: str, query: SeenQuery) -> CheckpointFinding | None:
    """Checks that the newest offset is not older than the batch that was seen, and is readable."""
    folder = f"{query_folder}/{OFFSETS}" if query_folder else OFFSETS
    newest = max(_near(tree, folder, query.batch_id), default=query.batch_id)
    finding = _unreadable(tree, query_folder, folder, newest)
    if finding is None or finding.code is not Code.MISSING:
        return finding
    runs = runs_of(_numbers(tree.entries(folder)))
    if len(runs) > 1 and query.batch_id - runs[-1][1] <= NEAR:
        # asynchronous progress tracking logs only some batches
        return _unreadable(tree, query_folder, folder, runs[-1][1])
    known = f"ends at batch {runs[-1][1]}" if runs else "has no offset"
    what = f"the checkpoint {tree.location} {known}, but batch {query.batch_id} of query {query.id} was committed"
    return CheckpointFinding(Code.TRUNCATED, what, folder, REMEDY, query_folder)


def _unreadable(tree: Tree, query_folder: str, folder: str, batch: int) -> CheckpointFinding | None:
    """Returns a finding if the offset cannot be read, with code ``MISSING`` if there is none."""
    key = f"{folder}/{batch}"
    try:
        parse_offset(tree.read(key, SMALL_MAX_BYTES))
    except NotFound:
        return CheckpointFinding(
            Code.MISSING,
            f"offset {key} of the checkpoint {tree.location} is missing",
            key,
            REMEDY,
            query_folder,
        )
    except (Malformed, Corrupt) as error:
        what = f"the newest offset {key} of the checkpoint {tree.location} is unreadable: {error}"
        return CheckpointFinding(Code.OFFSET_UNREADABLE, what, key, REMEDY, query_folder)
    return None


def _near(tree: Tree, folder: str, batch: int) -> Iterator[int]:
    """Yields the numbers in the log above ``batch``, at least those up to ``NEAR`` beyond. Reads at most two
    pages."""
    digits = len(str(batch))
    if batch < NEAR:
        found = islice(tree.entries(folder, f"{folder}{BEFORE_DIGITS}"), 2 * PAGE)
        yield from (number for number in _numbers(found) if number > batch)
        return
    found = islice(tree.entries(folder, f"{folder}/{batch}"), PAGE)
    yield from (number for number in _numbers(found) if number > batch)
    if batch + NEAR >= 10**digits:
        found = islice(tree.entries(folder, f"{folder}/{10 ** (digits - 1)}"), PAGE)
        yield from (number for number in _numbers(found) if number > batch)


def _numbers(entries: Iterable[StoreEntry]) -> Iterator[int]:
    for entry in entries:
        number = batch_of(entry.key.rpartition("/")[2])
        if number is not None:
            yield number
