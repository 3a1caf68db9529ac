"""Reads a checkpoint: lists it, reads the small objects that matter, and returns a ``Checkpoint``. It changes
nothing.

It is called by the command line and ``savepoints.create``. The logs are read first, so that it is known which
state version must be there. The state is listed in a few contiguous shares in parallel, and each partition is
folded into a verdict and forgotten: it takes about one request per thousand objects plus one per operator and
share, and the memory of one partition per share.

A query may be running. Commits are listed before offsets, which can only increase the lag, and a lag that
seems wrong is read once more. A state file that vanishes meanwhile is one of the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from supervisor.checkpoint import state_files
from supervisor.checkpoint.layout import (
    COMMITS,
    COMPACTED,
    OFFSETS,
    OPERATOR_METADATA,
    PARTS,
    SOURCES,
    STATE,
    CommitEntry,
    Malformed,
    OperatorEntry,
    batch_of,
    hadoop_checksum_fits,
    parse_commit,
    parse_metadata,
    parse_offset,
    parse_operator,
    parse_sidecar,
    runs_of,
    sidecar_fits,
)
from supervisor.checkpoint.picture import (
    Amount,
    Checkpoint,
    Log,
    Query,
    ReadObject,
    StateOperator,
    StateStore,
)
from supervisor.clients.store.base import StoreEntry, listing_order
from supervisor.clients.store.tree import Tree
from supervisor.clients.threads import Pool
from supervisor.errors import Corrupt, NotFound
from supervisor.model.query_metadata import METADATA

T = TypeVar("T")
ReportProgress = Callable[[int], None]
"""It is called with the number of objects that were just listed."""

DIRECTORIES_MAX: Final = 1000
"""At most this many directories are read. A query beyond would be taken for lost, and its healthy job for one
without a checkpoint."""
SHARES: Final = 8
SMALL_MAX_BYTES: Final = 16 * 2**20
CHECKED_MAX: Final = 64
CHECKED_MAX_BYTES: Final = 512 * 1024
REPORTED_EVERY: Final = 500


def inspect(
    tree: Tree, *, checksums: bool = False, report_progress: ReportProgress = lambda _count: None
) -> Checkpoint:
    """Returns the checkpoint at ``tree``, without a query if there is none. With ``checksums``, those that
    Spark keeps are read and compared (at most ``CHECKED_MAX`` of a query's state files). Raises
    ``Unreachable``, ``AccessDenied``, ``InvalidInput``."""
    inspector = _Inspector(tree, checksums, report_progress)
    query_folders, others = inspector.query_folders()
    queries = tuple(inspector.query(query_folder) for query_folder in query_folders)
    return Checkpoint(tree.location, queries, others, tree.requests)


def query_folders_of(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the directories of the queries, ``""`` for the location itself, and the other directories. It
    is cheap: it sends one request, and one per directory that is none of Spark's."""
    top = tree.level("")
    names = {entry.key for entry in top.objects}
    found = [""] if METADATA in names or any(folder in PARTS for folder in top.folders) else []
    others = [folder for folder in top.folders if not (found and folder in PARTS)]
    below = []
    for folder in others[:DIRECTORIES_MAX]:
        level = tree.level(folder)
        if METADATA in {entry.key for entry in level.objects} or {OFFSETS, COMMITS} & set(level.folders):
            below.append(folder)
    return (*found, *below), tuple(folder for folder in others if folder not in below)


class _Listed(NamedTuple):
    """Holds a log as it was listed. ``hidden`` are the batches with a checksum file of Hadoop's."""

    log: Log
    hidden: frozenset[int]


class _Share(NamedTuple):
    stores: list[StateStore]
    amounts: dict[str, Amount]
    formats: dict[str, set[int]]
    kinds: dict[str, set[str]]


class _Inspector:
    def __init__(self, tree: Tree, checksums: bool, report_progress: ReportProgress) -> None:
        self._tree = tree
        self._checksums = checksums
        self._report_progress = report_progress

    def query_folders(self) -> tuple[tuple[str, ...], Amount]:
        query_folders, others = query_folders_of(self._tree)
        amount = sum((self._amount(self._tree.entries(folder)) for folder in others), Amount())
        return query_folders, amount

    # -- one query ------------------------------------------------------------------------------------------------

    def query(self, path: str) -> Query:
        prefix = f"{path}/" if path else ""
        commits, offsets = self._log(f"{prefix}{COMMITS}"), self._log(f"{prefix}{OFFSETS}")
        if _are_at_odds(commits.log, offsets.log):  # it went on between the two
            commits, offsets = self._log(f"{prefix}{COMMITS}"), self._log(f"{prefix}{OFFSETS}")
        top = self._tree.level(path)
        amount = self._amount(top.objects) + commits.log.amount + offsets.log.amount
        for folder in top.folders:
            if folder not in (COMMITS, OFFSETS, SOURCES, STATE) and (path or folder in PARTS):
                amount += self._amount(self._tree.entries(f"{prefix}{folder}"))
        of_sources, source_logs = (
            self._source_logs(f"{prefix}{SOURCES}") if SOURCES in top.folders else (Amount(), ())
        )
        hidden = {entry.key for entry in top.objects}
        metadata = self._read(f"{prefix}{METADATA}", parse_metadata, f".{METADATA}.crc" in hidden)
        written = {entry.key: entry.modified_at_s for entry in top.objects}
        metadata = replace(metadata, at_s=written.get(METADATA, 0.0))
        newest, committed = offsets.log.newest, commits.log.newest
        commit = self._entry(f"{prefix}{COMMITS}", committed, parse_commit, commits)
        wanted = 0 if committed is None else committed + 1
        has_state = STATE in top.folders
        operators = self._operators(f"{prefix}{STATE}", wanted, commit) if has_state else ()
        wrong, checked, left = self._sidecars(f"{prefix}{STATE}", operators)
        return Query(
            path=path,
            metadata=metadata,
            offsets=offsets.log,
            commits=commits.log,
            newest_offset=self._entry(f"{prefix}{OFFSETS}", newest, parse_offset, offsets),
            previous_offset=self._entry(
                f"{prefix}{OFFSETS}", None if not newest else newest - 1, parse_offset, offsets
            ),
            newest_commit=commit,
            operators=operators,
            wanted=wanted,
            amount=amount + of_sources + sum((each.amount for each in operators), Amount()),
            source_logs=source_logs,
            has_state=has_state,
            wrong_checksums=wrong,
            checksums_read=checked,
            checksums_left=left,
        )

    def _log(self, folder: str) -> _Listed:
        batches: list[int] = []
        hidden: list[int] = []
        count = size = 0
        newest_at_s = 0.0
        for entry in self._counted(self._tree.entries(folder)):
            count, size, newest_at_s = count + 1, size + entry.bytes, max(newest_at_s, entry.modified_at_s)
            name = entry.key.rpartition("/")[2]
            batch = batch_of(name)
            if batch is not None:
                batches.append(batch)
            elif name.startswith(".") and name.endswith(".crc"):
                hidden.append(batch_of(name[1:-4]) or 0)
        return _Listed(Log(runs_of(batches), Amount(count, size, newest_at_s)), frozenset(hidden))

    def _source_logs(self, folder: str) -> tuple[Amount, tuple[tuple[str, int], ...]]:
        newest: dict[str, int] = {}

        def counted_entries() -> Iterator[StoreEntry]:
            for entry in self._tree.entries(folder):
                source, _, name = entry.key[len(folder) + 1 :].partition("/")
                number = batch_of(name.removesuffix(COMPACTED))
                if number is not None:
                    newest[source] = max(number, newest.get(source, 0))
                yield entry

        amount = self._amount(counted_entries())
        return amount, tuple(sorted(newest.items()))

    def _entry(
        self, folder: str, batch: int | None, parse: Callable[[bytes], T], listed: _Listed
    ) -> ReadObject[T] | None:
        """Reads the entry of ``batch``. Returns None if there is no such batch to read."""
        if batch is None:
            return None
        return self._read(f"{folder}/{batch}", parse, batch in listed.hidden)

    def _read(self, key: str, parse: Callable[[bytes], T], has_checksum: bool = False) -> ReadObject[T]:
        try:
            data = self._tree.read(key, SMALL_MAX_BYTES)
        except NotFound:
            return ReadObject(key, None, "it does not exist", missing=True)
        except Corrupt as error:
            return ReadObject(key, None, str(error))
        fits = True
        if has_checksum and self._checksums:
            folder, slash, name = key.rpartition("/")
            fits = self._fits(f"{folder}{slash}.{name}.crc", data)
        try:
            return ReadObject(key, parse(data), checksum_ok=fits)
        except Malformed as error:
            return ReadObject(key, None, str(error), checksum_ok=fits)

    def _fits(self, key: str, data: bytes) -> bool:
        try:
            return hadoop_checksum_fits(self._tree.read(key, SMALL_MAX_BYTES), data)
        except (NotFound, Corrupt):  # gone meanwhile: whoever replaced the file has removed it
            return True

    # -- state ----------------------------------------------------------------------------------------------------

    def _operators(
        self, folder: str, wanted: int, commit: ReadObject[CommitEntry] | None
    ) -> tuple[StateOperator, ...]:
        numbers = sorted((name for name in self._tree.level(folder).folders if name.isdigit()), key=int)
        ids = commit.value.state_ids if commit is not None and commit.value is not None else {}
        parts = [
            f"{number}/{part}"
            for number in numbers
            for part in self._tree.level(f"{folder}/{number}").folders
        ]
        parts.sort(key=lambda part: listing_order(f"{part}/"))
        with Pool(SHARES, "checkpoint") as pool:
            entries = [
                pool.submit(self._read, f"{folder}/{number}/{OPERATOR_METADATA}", parse_operator)
                for number in numbers
            ]
            shares = [
                pool.submit(self._share, folder, share, wanted, ids) for share in _shared(parts, SHARES)
            ]
            done = [share.result() for share in shares]
            read = {number: entry.result() for number, entry in zip(numbers, entries, strict=True)}
        return tuple(_operator(number, read[number], done, wanted) for number in numbers)

    def _share(
        self,
        folder: str,
        parts: Sequence[str],
        wanted: int,
        ids: dict[str, tuple[tuple[str, ...], ...]],
    ) -> _Share:
        """Reads the partitions ``parts``, which are neighbours in the listing, in one pass through it."""
        found = _Share([], {}, {}, {})
        current: state_files.Partition | None = None
        end = listing_order(f"{folder}/{parts[-1]}/\U0010ffff")
        before = len(folder) + 1
        for entry in self._counted(self._tree.entries(folder, f"{folder}/{parts[0]}/")):
            if listing_order(entry.key) > end:
                break
            operator, _, below = entry.key[before:].partition("/")
            part, _, rest = below.partition("/")
            found.amounts[operator] = found.amounts.get(operator, Amount()) + Amount(
                1, entry.bytes, entry.modified_at_s
            )
            if not part.isdigit() or not rest:
                continue
            if current is None or (current.operator, current.number) != (operator, int(part)):
                self._fold(found, current, wanted, ids)
                current = state_files.new_partition(operator, int(part))
            state_files.take(current, rest, entry.bytes)
        self._fold(found, current, wanted, ids)
        return found

    @staticmethod
    def _fold(
        found: _Share,
        partition: state_files.Partition | None,
        wanted: int,
        ids: dict[str, tuple[tuple[str, ...], ...]],
    ) -> None:
        if partition is None:
            return
        named = ids.get(partition.operator, ())
        mine = named[partition.number] if partition.number < len(named) else ()
        found.stores.extend(state_files.judged(partition, wanted, mine))
        seen, kinds = state_files.formats(partition.stores)
        found.formats.setdefault(partition.operator, set()).update(seen)
        found.kinds.setdefault(partition.operator, set()).update(kinds)

    def _sidecars(
        self, folder: str, operators: tuple[StateOperator, ...]
    ) -> tuple[tuple[str, ...], int, int]:
        """Returns the keys of state files that differ from what Spark's checksum file says, how many were
        compared, and how many were not (of the large ones only the size is)."""
        stores = [
            store for each in operators for store in each.stores if store.has_sidecar and not store.lacks
        ]
        if not self._checksums or not stores:
            return (), 0, 0
        chosen = sorted(stores, key=_is_large)[:CHECKED_MAX]
        with Pool(SHARES, "checkpoint") as pool:
            wrong = [key for key in pool.map(lambda store: self._wrong(folder, store), chosen) if key]
        read = sum(not _is_large(store) for store in chosen)
        return tuple(wrong), read, len(stores) - read

    def _wrong(self, folder: str, store: StateStore) -> str:
        key = f"{folder}/{store.needed}"
        try:
            sidecar = parse_sidecar(self._tree.read(f"{key}.crc", SMALL_MAX_BYTES))
        except NotFound:  # cleaned up meanwhile
            return ""
        except (Malformed, Corrupt):
            return f"{key}.crc"
        if sidecar.bytes != store.needed_bytes:
            return key
        if _is_large(store):
            return ""
        try:
            return "" if sidecar_fits(sidecar, self._tree.read(key, CHECKED_MAX_BYTES)) else key
        except NotFound:
            return ""

    # -- counting -------------------------------------------------------------------------------------------------

    def _counted(self, entries: Iterable[StoreEntry]) -> Iterator[StoreEntry]:
        count = 0
        try:
            for entry in entries:
                count += 1
                if count % REPORTED_EVERY == 0:
                    self._report_progress(REPORTED_EVERY)
                yield entry
        finally:  # also where a share ends in the middle of a page
            self._report_progress(count % REPORTED_EVERY)

    def _amount(self, entries: Iterable[StoreEntry]) -> Amount:
        count = size = 0
        newest_at_s = 0.0
        for entry in self._counted(entries):
            count, size, newest_at_s = count + 1, size + entry.bytes, max(newest_at_s, entry.modified_at_s)
        return Amount(count, size, newest_at_s)


def _is_large(store: StateStore) -> bool:
    return store.needed_bytes > CHECKED_MAX_BYTES


def _are_at_odds(commits: Log, offsets: Log) -> bool:
    if commits.newest is None or offsets.newest is None:
        return commits.newest is not None or bool(offsets.newest)
    return not 0 <= offsets.newest - commits.newest <= 1


def _shared(parts: Sequence[str], shares: int) -> list[Sequence[str]]:
    """Splits ``parts`` into at most ``shares`` stretches of about one length."""
    size = max(1, -(-len(parts) // shares))
    return [parts[at : at + size] for at in range(0, len(parts), size)]


def _operator(
    number: str, entry: ReadObject[OperatorEntry], shares: list[_Share], wanted: int
) -> StateOperator:
    stores = [store for share in shares for store in share.stores if store.operator == number]
    expected = tuple(sorted(entry.value.stores.items())) if entry.value is not None else ()
    there = {(store.name, store.partition) for store in stores}
    if wanted:
        stores += [
            StateStore(number, partition, name, None, "everything: there is no file of it")
            for name, count in expected
            for partition in range(count)
            if (name, partition) not in there
        ]
    seen = set().union(*(share.formats.get(number, set()) for share in shares))
    kinds = set().union(*(share.kinds.get(number, set()) for share in shares))
    return StateOperator(
        number=number,
        name=entry.value.name if entry.value is not None else "",
        expected=expected,
        stores=tuple(sorted(stores, key=lambda store: (store.partition, store.name))),
        amount=sum((share.amounts.get(number, Amount()) for share in shares), Amount()),
        format=max(seen, default=None),
        kinds=tuple(sorted(kinds)),
        problem="" if entry.missing or entry.value is not None else f"{entry.key}: {entry.problem}",
    )
