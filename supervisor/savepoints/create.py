"""Makes a savepoint of a checkpoint, while the query that writes it runs on. It is called by
``savepoints.operations``.

One round finds the newest committed batch N, lists what belongs to it (``savepoints.choice``) and copies
that. Spark cleans up meanwhile: what has gone and is not needed is left out; if something needed has gone or
was replaced, the next round begins with a newer N, and copies only what is not copied yet. A clean-up keeps
what the newest ``minBatchesToRetain`` (100) batches need, so a round fails only if that many batches passed
during it. Then the copy is judged like any checkpoint and compared with a listing of itself, and only then
the manifest is written. Before that nothing is a savepoint; a creation that is repeated goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from supervisor.checkpoint.findings import CheckpointFinding
from supervisor.checkpoint.inspect import inspect, query_folders_of
from supervisor.checkpoint.judge import judge
from supervisor.checkpoint.layout import (
    COMMITS,
    OFFSETS,
    PARTS,
    Malformed,
    batch_of,
    parse_metadata,
)
from supervisor.clients.store.area import Area, Item
from supervisor.clients.store.tree import Tree
from supervisor.clients.threads import Pool
from supervisor.errors import Conflict, Corrupt, NotFound
from supervisor.model.query_metadata import METADATA
from supervisor.savepoints.bounds import SavepointSize
from supervisor.savepoints.choice import belongs, is_needed
from supervisor.savepoints.manifest import (
    DATA,
    MANIFEST,
    SMALL_MAX_BYTES,
    Begun,
    Manifest,
    SavedObject,
    SavedQuery,
    decode_manifest,
    encode_manifest,
    encode_objects,
    objects_key,
)
from supervisor.savepoints.view import SavedTree
from supervisor.settings.policy import SavepointBounds

T = TypeVar("T")
ReportProgress = Callable[[int, int], None]
"""It is called with the number of objects that are copied, and the number of all."""

WORKERS: Final = 16
WAITING_MAX: Final = 4 * WORKERS
ROUNDS_MAX: Final = 20
NO_BOUNDS: Final = SavepointBounds(size=None, objects=None)


@dataclass(frozen=True, slots=True)
class Taken:
    """Holds what one reading of the checkpoint has chosen. ``needed`` are the keys without which the copy is
    no good."""

    queries: tuple[SavedQuery, ...]
    items: tuple[Item, ...]
    needed: frozenset[str]
    left_out: int


class Creation:
    """Makes one savepoint. ``target`` is the location of the savepoint. ``still_wanted`` is called before the
    manifest is written: it raises if the savepoint was deleted meanwhile. ``now`` returns the wall time as
    text."""

    def __init__(
        self,
        source: Area,
        target: Area,
        begun: Begun,
        now: Callable[[], str],
        *,
        still_wanted: Callable[[], None] = lambda: None,
        report_progress: ReportProgress = lambda _done, _of: None,
        bounds: SavepointBounds = NO_BOUNDS,
    ) -> None:
        self._source = source
        self._target = target
        self._begun = begun
        self._now = now
        self._still_wanted = still_wanted
        self._report_progress = report_progress
        self._bounds = bounds
        self._copied: dict[str, tuple[Item, str]] = {}
        self.rounds = 0

    def run(self) -> Manifest:
        """Returns the complete savepoint; if it was complete already, the one that is there.

        Raises NotFound (no checkpoint), Conflict (nothing committed yet, or cleaned up faster than copied),
        Corrupt (Spark could not go on from the checkpoint either), InvalidInput (it is larger than the bounds), and what the
        two areas raise.
        """
        done = manifest_at(self._target)
        if done is not None:
            return done
        there = {item.key[len(DATA) + 1 :]: item for item in self._target.items(DATA)}
        before: tuple[SavedQuery, ...] = ()
        findings: list[CheckpointFinding] = []
        for self.rounds in range(1, ROUNDS_MAX + 1):
            taken = take(self._source, self._bounds)
            lost = self._copy(taken, there)
            there = {}
            saved = tuple(
                SavedObject(item.key, item.bytes, self._copied[item.key][1])
                for item in taken.items
                if item.key not in lost
            )
            if taken.needed <= {each.key for each in saved}:
                findings = problems_of(SavedTree(self._target, saved))
                if not findings:
                    return self._finish(taken, saved)
                if not lost and taken.queries == before:  # nobody has touched it: it is so
                    raise Corrupt(f"{self._source.location} is not whole: {findings[0]}")
            before = taken.queries
        why = str(findings[0]) if findings else "what it needed had gone each time"
        raise Conflict(
            f"{self._source.location} is cleaned up faster than it can be copied ({ROUNDS_MAX} times: {why})",
            "raise spark.sql.streaming.minBatchesToRetain, or suspend the job first",
        )

    def _copy(self, taken: Taken, there: dict[str, Item]) -> set[str]:
        """Copies what is not copied yet. Returns the keys of what has gone, or is another by now."""
        todo = [item for item in taken.items if self._copied.get(item.key, (None, ""))[0] != item]
        lost: set[str] = set()
        self._target.require_room(sum(item.bytes for item in todo if item.key not in there))
        count = len(taken.items) - len(todo)
        self._report_progress(count, len(taken.items))

        def one(item: Item) -> str | None:
            mine = there.get(item.key)
            try:
                if mine is not None and (mine.bytes, mine.mark) == (item.bytes, item.mark):
                    return self._target.tag(mine._replace(key=f"{DATA}/{item.key}"))
                return self._target.copy_from(self._source, item, f"{DATA}/{item.key}")
            except (NotFound, Conflict):
                return None

        for item, tag in in_parallel(one, todo):
            if tag is None:
                lost.add(item.key)
            else:
                self._copied[item.key] = (item, tag)
            count += 1
            self._report_progress(count, len(taken.items))
        return lost

    def _finish(self, taken: Taken, saved: Sequence[SavedObject]) -> Manifest:
        self._target.flush()
        wrong = differences(self._target, saved, read_files=False)
        if wrong:
            raise Corrupt(
                f"{self._target.location} was written to by somebody else: {wrong[0]}", "create it again"
            )
        listed = encode_objects(saved)
        begun, sha256 = self._begun, hashlib.sha256(listed).hexdigest()
        manifest = Manifest(
            id=begun.id,
            name=begun.name,
            uid=begun.uid,
            attempt=begun.attempt,
            source=begun.source,
            location=self._target.location,
            queries=taken.queries,
            objects=len(saved),
            bytes=sum(each.bytes for each in saved),
            objects_sha256=sha256,
            begun_at=begun.at,
            created_at=self._now(),
            software=begun.software,
            left_out=taken.left_out,
        )
        self._target.write(objects_key(sha256), listed)
        self._still_wanted()
        try:
            self._target.create(MANIFEST, encode_manifest(manifest))
        except Conflict:  # another has completed it
            return manifest_at(self._target) or manifest
        return manifest


def problems_of(tree: Tree) -> list[CheckpointFinding]:
    """Returns what would keep Spark from going on."""
    return [finding for finding in judge(inspect(tree, checksums=True)) if not finding.is_notice]


def manifest_at(area: Area) -> Manifest | None:
    """Returns the manifest, or None if there is none, so that what is there is no savepoint. Raises
    Corrupt."""
    try:
        data = area.read(MANIFEST, SMALL_MAX_BYTES)
    except NotFound:
        return None
    return decode_manifest(data, f"{area.location}/{MANIFEST}")


def take(source: Area, bounds: SavepointBounds = NO_BOUNDS) -> Taken:
    """Chooses the newest boundary of each query, and what belongs to it. A query that has committed nothing
    yet is left out. Raises InvalidInput if there is more than ``bounds`` allow.

    The commits are listed first: all that a committed batch has written is there from then on, until it is
    cleaned up.
    """
    committed, others = boundaries(source)
    queries: list[SavedQuery] = []
    items: list[Item] = []
    needed: set[str] = set()
    size = SavepointSize(source.location, bounds)
    left_out = sum(1 for folder in others for _ in source.items(folder))
    for query_folder, newest in committed.items():
        prefix = f"{query_folder}/" if query_folder else ""
        chosen = []
        for item in _below(source, query_folder):
            if belongs(item.key[len(prefix) :], newest):
                size.add(item)
                chosen.append(item)
        queries.append(
            SavedQuery(path=query_folder, id=_query_id(source, f"{prefix}{METADATA}"), batch=newest)
        )
        items += chosen
        needed |= {item.key for item in chosen if is_needed(item.key[len(prefix) :], newest)}
        # also if they had gone when listed
        needed |= {f"{prefix}{OFFSETS}/{newest}", f"{prefix}{COMMITS}/{newest}"}
    return Taken(tuple(queries), tuple(items), frozenset(needed), left_out)


def boundaries(source: Area) -> tuple[dict[str, int], tuple[str, ...]]:
    """Returns the directory of each query that has committed something → its newest committed batch, and the
    directories that are no query's. Raises NotFound if there is no checkpoint, Conflict if there is nothing
    to save."""
    query_folders, others = query_folders_of(source)
    if not query_folders:
        raise NotFound(f"there is no checkpoint of Spark's at {source.location}")
    found = {}
    for query_folder in query_folders:
        folder = f"{query_folder}/{COMMITS}" if query_folder else COMMITS
        batches = [batch_of(item.key.rpartition("/")[2]) for item in source.items(folder)]
        newest = max((batch for batch in batches if batch is not None), default=None)
        if newest is not None:
            found[query_folder] = newest
    if not found:
        raise Conflict(f"no query at {source.location} has committed a batch yet: there is nothing to save")
    return found, others


def _below(source: Area, query_folder: str) -> Iterator[Item]:
    for item in source.items(query_folder, whole=True):
        top, slash, _ = item.key.partition("/")
        if query_folder or not slash or top in PARTS:
            yield item


def _query_id(source: Area, key: str) -> str:
    try:
        return parse_metadata(source.read(key, SMALL_MAX_BYTES))
    except (NotFound, Malformed) as error:
        raise Corrupt(
            f"{source.location}/{key}, which holds the query id, is missing or unreadable ({error}): see checkpoint verify"
        ) from None


def differences(area: Area, saved: Iterable[SavedObject], *, read_files: bool) -> list[str]:
    """Returns a sentence for each object that is not as the list says. If ``read_files`` is True, objects
    whose tag is known by reading only are compared by their tag, too."""
    there = {item.key[len(DATA) + 1 :]: item for item in area.items(DATA)}
    return differing(area, there, saved, prefix=f"{DATA}/", read_files=read_files)


def differing(
    area: Area,
    there: dict[str, Item],
    saved: Iterable[SavedObject],
    *,
    prefix: str = "",
    read_files: bool = True,
) -> list[str]:
    """Returns the same as ``differences`` for objects that were listed: ``there`` has them by key below
    ``prefix``."""
    wrong = []
    same: list[tuple[SavedObject, Item]] = []
    for each in saved:
        item = there.get(each.key)
        if item is None:
            wrong.append(f"{each.key} is missing")
        elif item.bytes != each.bytes:
            wrong.append(f"{each.key} has {item.bytes} bytes, not {each.bytes}")
        else:
            same.append((each, item))
    by_listing = not area.location.startswith("file:")
    if by_listing or read_files:
        for (each, _item), tag in in_parallel(
            lambda pair: area.tag(pair[1]._replace(key=prefix + pair[0].key)), same
        ):
            if tag != each.tag:
                wrong.append(f"{each.key} has another content")
    return wrong


def in_parallel(work: Callable[[T], str | None], todo: Iterable[T]) -> Iterator[tuple[T, str | None]]:
    """Yields each item with its outcome, as they come. The first error ends it; what has begun is awaited,
    the rest never begins."""
    left = iter(todo)
    with Pool(WORKERS, "savepoint") as pool:
        running: dict[Future[str | None], T] = {
            pool.submit(work, each): each for each in islice(left, WAITING_MAX)
        }
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                each = running.pop(future)
                yield each, future.result()
                for more in islice(left, 1):
                    running[pool.submit(work, more)] = more
