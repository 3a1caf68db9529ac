"""Defines what was read of a checkpoint, as frozen values that ``inspect`` makes, ``judge`` judges and the
command line shows.

Sizes are in bytes, times in seconds since the epoch by the clock of the store. A checkpoint may hold several
queries: one at the location itself (``path`` is ``""``), or one per directory below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from supervisor.checkpoint.layout import CommitEntry, OffsetEntry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Amount:
    """Counts objects and their bytes. ``newest_at_s`` is when the youngest was written, or 0.0 if there is
    none."""

    objects: int = 0
    bytes: int = 0
    newest_at_s: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.objects + other.objects, self.bytes + other.bytes, max(self.newest_at_s, other.newest_at_s)
        )


@dataclass(frozen=True, slots=True)
class ReadObject(Generic[T]):
    """Holds a small object: its value, or why there is none. ``at_s`` is when it was written."""

    key: str
    value: T | None
    problem: str = ""
    missing: bool = False
    checksum_ok: bool = True
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Log:
    """Describes ``offsets`` or ``commits``. ``runs`` holds the batch ids in the form of
    ``layout.runs_of``."""

    runs: tuple[tuple[int, int], ...] = ()
    amount: Amount = Amount()

    @property
    def newest(self) -> int | None:
        return self.runs[-1][1] if self.runs else None

    @property
    def oldest(self) -> int | None:
        return self.runs[0][0] if self.runs else None

    def has(self, batch: int) -> bool:
        return any(first <= batch <= last for first, last in self.runs)


@dataclass(frozen=True, slots=True)
class StateStore:
    """Describes one state store, of one operator and one partition. ``name`` is ``default`` except for joins
    and column families.

    ``newest`` is its highest version, or None if there is none. ``lacks`` says what is missing to load the
    wanted version (a file name, or a description); it is ``""`` if nothing is. ``needed`` is that version's
    file, as a key below the query's ``state`` directory, for checksums.
    """

    operator: str
    partition: int
    name: str
    newest: int | None
    lacks: str = ""
    needed: str = ""
    needed_bytes: int = 0
    has_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class StateOperator:
    """Describes a stateful operator. ``kinds`` are the kinds of its files (``delta zip …``). ``format`` is 1,
    or 2 if ids are in the file names; it is None while there is no file. ``expected`` pairs stores with their
    numbers of partitions, as the metadata says; it is empty for what Spark before 3.5 wrote."""

    number: str
    name: str
    expected: tuple[tuple[str, int], ...]
    stores: tuple[StateStore, ...]
    amount: Amount
    format: int | None = None
    kinds: tuple[str, ...] = ()
    problem: str = ""

    @property
    def partitions(self) -> int:
        return len({store.partition for store in self.stores})


@dataclass(frozen=True, slots=True)
class Query:
    """Describes one query. ``id`` is None if ``metadata`` is missing or unreadable. ``wanted`` is the state
    version that a start would load. ``source_logs`` pairs each directory below ``sources`` with its newest
    entry."""

    path: str
    metadata: ReadObject[str]
    offsets: Log
    commits: Log
    newest_offset: ReadObject[OffsetEntry] | None
    previous_offset: ReadObject[OffsetEntry] | None
    newest_commit: ReadObject[CommitEntry] | None
    operators: tuple[StateOperator, ...]
    wanted: int | None
    amount: Amount
    source_logs: tuple[tuple[str, int], ...] = ()
    has_state: bool = False
    wrong_checksums: tuple[str, ...] = ()
    checksums_read: int = 0
    checksums_left: int = 0

    @property
    def id(self) -> str | None:
        return self.metadata.value

    @property
    def lag(self) -> int | None:
        """Returns how many batches were planned and not committed: 0 or 1 in a healthy checkpoint."""
        if self.offsets.newest is None:
            return None
        return self.offsets.newest - (-1 if self.commits.newest is None else self.commits.newest)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Describes a checkpoint. ``others`` counts the objects that belong to no query. ``requests`` is what
    reading it cost on S3."""

    location: str
    queries: tuple[Query, ...]
    others: Amount
    requests: int = 0

    @property
    def amount(self) -> Amount:
        return sum((query.amount for query in self.queries), self.others)
