"""Decides whether a batch that is planned and not committed is one that the code of before can run, as after any crash.

A batch is planned by its offsets and over when it is committed. What lies between the two any crash leaves, and Spark runs
that batch again: the same offsets, read by whatever code starts next. Its output goes to the sink again, so nothing is lost.
For code of *before* an update that is so only if the plan is one that it could have made, and if nothing of the batch
outlives its second run. ``why_not_replayed`` asks in this order, and takes what it can't tell for a reason:

* exactly one batch is planned, after one whose offsets and commit are there, in logs without holes. Spark plans one batch
  ahead; asynchronous progress tracking may have handed more to the sink than its logs say. With an interval of 0 its logs
  have no holes, and look like any others (docs/spark.md S45): what was handed over beyond them, in the moment of a kill,
  comes again then, as it does after any crash of such a query;
* the plan has the version and the pinned properties (shuffle partitions, state provider, formats) of the plan before, and
  the same sources: as many, of the same kind, with the same names, topics and table ids. Files come from the directories of
  the batch before (``source_identity``);
* state files of the batch are replaced when it runs again, or belong to nobody (format v2 names them by run). A snapshot
  of them is not replaced, and neither is what describes the state's schema and operators.

Called by ``checkpoint.preflight``. It reads a few small files, and lists the state once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from supervisor.checkpoint.inspect import SMALL_MAX_BYTES
from supervisor.checkpoint.layout import (
    COMMITS,
    COMPACTED,
    OFFSETS,
    SOURCES,
    STATE,
    Malformed,
    OffsetEntry,
    batch_of,
    parse_offset,
    runs_of,
    state_file,
)
from supervisor.checkpoint.offset_order import files_in
from supervisor.checkpoint.source_identity import directories_of, logged_entry, partitions_of, source_identity
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.tree import Tree
from supervisor.errors import Corrupt, NotFound
from supervisor.model.checkpoint_expectation import SeenQuery

STATE_FILES_MAX: Final = 200_000
"""A larger state is not looked through: a page of a listing has a thousand."""
RECENT: Final = 20
LOG_ENTRIES_MAX: Final = 5_000
FILE_LOG_MAX_BYTES: Final = 64 * 2**20
STATE_DESCRIPTIONS: Final = frozenset({"_metadata", "_stateSchema"})
"""The directories with what Spark writes about its state once: schemas and operators."""
VERSIONED: Final = "v2"
"""Below ``_metadata/metadata/v2`` an operator describes itself in a file for the batch with which a run begins."""


def why_not_replayed(tree: Tree, folder: str, query: SeenQuery, planned: int) -> str:
    """Returns why the code of before can't run the planned batch ``planned`` of ``query``, whose last committed batch is
    known; it is empty if it can. ``folder`` is the directory of the query. Raises Unreachable and AccessDenied."""
    batch = _PlannedBatch(tree, f"{folder}/" if folder else "", query)
    try:
        return batch.of_logs(planned) or batch.of_sources() or batch.of_state()
    except NotFound as error:
        return f"what batch {planned} of query {query.id} has left can't be told: {error}"
    except (Malformed, Corrupt) as error:
        return f"what batch {planned} of query {query.id} has left is unreadable: {error}"


@dataclass(frozen=True, slots=True)
class _PlannedBatch:
    """Is the batch after the last committed one, ``query.batch_id``. ``top`` is its query's directory, with a slash."""

    tree: Tree
    top: str
    query: SeenQuery

    @property
    def _last(self) -> int:
        return self.query.batch_id

    @property
    def _number(self) -> int:
        return self.query.batch_id + 1

    @property
    def _name(self) -> str:
        return f"batch {self._number} of query {self.query.id}"

    def of_logs(self, planned: int) -> str:
        """Returns what the logs of offsets and commits say."""
        commits = {number: entry for number, entry in self._log(COMMITS)}
        newest = max(commits, default=-1)
        if newest > self._last:
            return f"batch {newest} of query {self.query.id} was committed, and the last one before was {self._last}"
        if planned > self._number:
            return f"batches {self._number} to {planned} of query {self.query.id} were planned, and none was committed"
        if self._last not in commits:
            return f"{self._name} was planned, and nothing says that the one before is committed for good"
        if self._has_holes(commits) or self._has_holes(number for number, _ in self._log(OFFSETS)):
            return f"{self._name} was planned, in a log with holes: progress is tracked asynchronously there"
        return ""

    def of_sources(self) -> str:
        """Returns how the plan differs from the one before."""
        before, now = self._plan(self._last), self._plan(self._number)
        if before.version != now.version:
            return f"{self._name} was planned in another form (v{now.version}, before v{before.version})"
        changed = sorted(
            name for name in {*before.conf, *now.conf} if before.conf.get(name) != now.conf.get(name)
        )
        if changed:
            values = f"{now.conf.get(changed[0], 'none')}, before {before.conf.get(changed[0], 'none')}"
            return f"{self._name} was planned with another {changed[0]} ({values})"
        if len(before.sources) != len(now.sources):
            return f"{self._name} was planned for {len(now.sources)} sources, before {len(before.sources)}"
        for number, (old, new) in enumerate(zip(before.sources, now.sources, strict=True)):
            if why := self._of_source(number, old, new):
                return f"{self._name} was planned for {why}"
        return ""

    def of_state(self) -> str:
        """Returns what of the state a second run of the batch would not replace."""
        committed_at_s = next(
            entry.modified_at_s for number, entry in self._log(COMMITS) if number == self._last
        )
        described: list[str] = []
        for count, entry in enumerate(self.tree.entries(f"{self.top}{STATE}")):
            if count == STATE_FILES_MAX:
                return f"{self._name} may have left state, which has too many files to be looked through"
            if why := self._of_state_file(entry.key):
                return f"{self._name} has left {why}"
            if _describes_state(entry.key) and entry.modified_at_s >= committed_at_s:
                described.append(entry.key)
        changed = next((key for key in described if not self._is_said_again(key)), None)
        return "" if changed is None else f"{self._name} has written how its state is made: {changed}"

    # -- the parts ----------------------------------------------------------------------------------------------------

    def _log(self, folder: str) -> Iterator[tuple[int, StoreEntry]]:
        for entry in islice(self.tree.entries(f"{self.top}{folder}"), LOG_ENTRIES_MAX):
            number = batch_of(entry.key.rpartition("/")[2])
            if number is not None:
                yield number, entry

    def _has_holes(self, numbers: Iterable[int]) -> bool:
        """Returns whether one of the newest entries of a log is missing. An old one may have been forgotten by a purge."""
        return len(runs_of(number for number in numbers if number > self._last - RECENT)) > 1

    def _plan(self, number: int) -> OffsetEntry:
        return parse_offset(self.tree.read(f"{self.top}{OFFSETS}/{number}", SMALL_MAX_BYTES))

    def _of_source(self, number: int, old: str | None, new: str | None) -> str:
        if old is None:
            return ""  # it had nothing yet, and nobody can say what it was
        was, now = source_identity(old), source_identity(new)
        if was != now:
            return f"another source {number} ({now}, before {was})"
        lost = partitions_of(old) - partitions_of(new)
        if lost:
            return f"a source {number} without {min(lost)}"
        first, last = logged_entry(old), logged_entry(new)
        if first is None or last is None or not 0 <= first < last:
            return ""
        folder = f"{self.top}{SOURCES}/{now.name or number}"
        before = directories_of(self._files(folder, first, first))
        planned = directories_of(self._files(folder, first + 1, last))
        if planned and not planned & before:
            return f"files of {min(planned)}, before of {min(before, default='nowhere')}"
        return ""

    def _files(self, folder: str, first: int, last: int) -> frozenset[str]:
        """Returns the files of the entries ``first`` to ``last`` of a file source's log."""
        found: set[str] = set()
        for number in range(first, last + 1):
            try:
                data = self.tree.read(f"{folder}/{number}", FILE_LOG_MAX_BYTES)
            except NotFound:
                data = self.tree.read(f"{folder}/{number}{COMPACTED}", FILE_LOG_MAX_BYTES)
            found |= files_in(data, last)
        return frozenset(found)

    def _of_state_file(self, key: str) -> str:
        """Returns what is wrong with a version of the state, or nothing. The batch writes version number + 1."""
        file = state_file(key.rpartition("/")[2])
        if file is None or file.version <= self._number or file.unique is not None:
            return ""
        if file.version > self._number + 1:
            return f"a later state, {key}"
        return f"a snapshot of its state, {key}" if self._outlives_a_second_run(key, file.kind) else ""

    def _outlives_a_second_run(self, key: str, kind: str) -> bool:
        """Returns whether a file of the batch's version stays when the batch is run again. A ``zip`` is written by each run,
        unless changelogs are."""
        if kind == "zip":
            try:
                self.tree.read(f"{key.removesuffix('zip')}changelog", FILE_LOG_MAX_BYTES)
            except NotFound:
                return False
            except Corrupt:  # larger, so it is there
                return True
        return kind in ("zip", "snapshot")

    def _is_said_again(self, key: str) -> bool:
        """Returns whether a description says what the one before it said."""
        folder, _, name = key.rpartition("/")
        number = batch_of(name)
        if number is None or folder.rpartition("/")[2] != VERSIONED:
            return False
        earlier = [batch_of(entry.key.rpartition("/")[2]) for entry in self.tree.entries(folder)]
        before = max((each for each in earlier if each is not None and each < number), default=None)
        if before is None:
            return False
        read = self.tree.read
        return read(key, SMALL_MAX_BYTES) == read(f"{folder}/{before}", SMALL_MAX_BYTES)


def _describes_state(key: str) -> bool:
    """Returns whether ``key`` is a file about the state; hidden files are checksums, and what was not finished."""
    *folders, name = key.split("/")
    return not name.startswith(".") and not STATE_DESCRIPTIONS.isdisjoint(folders)
