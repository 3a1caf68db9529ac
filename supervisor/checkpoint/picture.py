"""What was seen of a checkpoint: frozen values, made by ``inspect``, judged by ``judge``, shown by the command line.

Sizes in bytes, times in seconds since the epoch by the clock of the store. A checkpoint may hold several queries, one at the
location itself (``path`` ``""``) or one per directory below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from supervisor.checkpoint.layout import CommitEntry, OffsetEntry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Amount:
    """Of objects. ``newest_at_s``: when the youngest of them was written; 0.0 where there is none."""

    objects: int = 0
    bytes: int = 0
    newest_at_s: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.objects + other.objects, self.bytes + other.bytes, max(self.newest_at_s, other.newest_at_s)
        )


@dataclass(frozen=True, slots=True)
class ReadObject(Generic[T]):
    """A small object: its value, or why there is none. ``at_s``: when it was written."""

    key: str
    value: T | None
    problem: str = ""
    missing: bool = False
    checksum_ok: bool = True
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Log:
    """``offsets`` or ``commits``. ``runs``: the batch ids, see ``layout.runs_of``."""

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
    """One state store: of one operator, one partition. ``name``: ``default`` but for joins and column families.

    ``newest``: its highest version, None for none. ``lacks``: what it would take to load the wanted version and is not
    there (a file name, or a description), or ``""``. ``needed``: the newest file of that version, its key below the query's
    directory, for checksums.
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
    """A stateful operator. ``kinds``: of its files (``delta zip …``); ``format``: 1, or 2 with ids in the file names; None
    while there is no file. ``expected``: store → partitions, as its metadata says; empty for what Spark before 3.5 wrote."""

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
    """``id``: None where ``metadata`` is missing or unreadable. ``wanted``: the state version that a start would load.
    ``source_logs``: directory below ``sources`` → newest entry."""

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
        """Batches that were planned and not committed: 0 or 1 in a healthy checkpoint."""
        if self.offsets.newest is None:
            return None
        return self.offsets.newest - (-1 if self.commits.newest is None else self.commits.newest)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``others``: objects that belong to no query. ``requests``: what the look cost on S3."""

    location: str
    queries: tuple[Query, ...]
    others: Amount
    requests: int = 0

    @property
    def amount(self) -> Amount:
        return sum((query.amount for query in self.queries), self.others)
