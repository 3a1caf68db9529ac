"""Keeps the output of attempts in the store, under keys that carry uid and attempt, and finds it there.

A host puts an output there (``daemon.host.log_uploads``), commands and the API read it (``operations.uploaded_output``), and
the leader removes what is not kept (``LogSweeper``). The key also says of how many attempts of the submission the output is
kept, so that the leader needs no spec for that: the key of the newest attempt that is there counts.

The output of an attempt that has ended is one object. While it runs there may be **pieces** of it, numbered from 1. A store
appends to nothing and replaces nothing, so a piece that is not full yet is put again under another key, with more in it:
of each number the key with the most bytes counts. A number that is left out means that output between two pieces is gone.
The whole output counts in place of any pieces.

``to_keep`` decides, and is pure. It goes through the same two scans as blobs do (``registry.blob_sweep``): what it does not
keep is deleted only if it was seen so twice, a grace time apart, by references that were read after the listing. A uid that
is gone never comes back, so nothing can come to need what it left; and a piece that something counts in place of is never
needed again. Only keys of the layout are ever touched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from supervisor.clients.store.base import Store, StoreEntry, delete_each
from supervisor.errors import Conflict
from supervisor.registry.blob_sweep import BlobSweeper, Needed, References

LOGS: Final = "logs/"
OUTPUT_MAX_BYTES: Final = 16 * 2**20
"""So much of the end of an output is uploaded."""
OBJECT_MAX_BYTES: Final = OUTPUT_MAX_BYTES + 2**16
"""Compressed, it has no more: what can't be compressed grows by a few bytes."""
PIECE_MAX_BYTES: Final = 2**20
"""So much output is in one piece; the next begins then."""
PIECE_OBJECT_MAX_BYTES: Final = PIECE_MAX_BYTES + 2**16
PIECES_MAX: Final = 32
"""So many pieces of an attempt count at most."""
_LISTED_MAX: Final = 10_000
_ATTEMPT: Final = r"logs/([^/]+)/([^/]+)/([1-9][0-9]{0,8})-([1-9][0-9]{0,3})\."
_KEY: Final = re.compile(rf"{_ATTEMPT}log\.gz")
_PIECE: Final = re.compile(rf"{_ATTEMPT}([0-9]{{6}})-([1-9][0-9]{{0,6}})-([0-9a-f.]{{1,48}})\.piece\.gz")


@dataclass(frozen=True, slots=True)
class UploadedKey:
    """Names the output of an attempt in the store. ``keep`` says of how many attempts of the uid it is kept."""

    name: str
    uid: str
    attempt: int
    keep: int

    def __str__(self) -> str:
        return f"{_folder(self.name, self.uid)}{self.attempt}-{self.keep}.log.gz"


@dataclass(frozen=True, slots=True)
class PieceKey:
    """Names a piece of the output of an attempt. ``bytes`` of output are in it, before they are compressed. ``end`` is the
    cursor (``operations.log_parts``) at which it ends on its host: the next one begins there."""

    of: UploadedKey
    number: int
    bytes: int
    end: str

    def __str__(self) -> str:
        of = self.of
        return f"{_folder(of.name, of.uid)}{of.attempt}-{of.keep}.{self.number:06}-{self.bytes}-{self.end}.piece.gz"


def parse_log_key(key: str) -> UploadedKey | None:
    """Returns the parts of the key of an output, or None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else UploadedKey(found[1], found[2], int(found[3]), int(found[4]))


def parse_piece_key(key: str) -> PieceKey | None:
    """Returns the parts of the key of a piece, or None for any other key."""
    found = _PIECE.fullmatch(key)
    if found is None:
        return None
    of = UploadedKey(found[1], found[2], int(found[3]), int(found[4]))
    return PieceKey(of, int(found[5]), int(found[6]), found[7])


def pieces_that_count(pieces: Iterable[PieceKey]) -> tuple[PieceKey, ...]:
    """Returns which pieces of one attempt make its output, the oldest first: of each number that with the most bytes, and of
    all the newest that hold ``OUTPUT_MAX_BYTES``."""
    newest_first = sorted(pieces, key=lambda piece: (piece.number, piece.bytes, piece.end), reverse=True)
    counting: list[PieceKey] = []
    left = OUTPUT_MAX_BYTES
    for piece in newest_first:
        if counting and counting[-1].number == piece.number:
            continue
        if left <= 0 or len(counting) == PIECES_MAX:
            break
        counting.append(piece)
        left -= piece.bytes
    return tuple(reversed(counting))


def _folder(name: str, uid: str) -> str:
    return f"{LOGS}{name}/{uid}/"


@dataclass(frozen=True, slots=True)
class UploadedLog:
    """Describes an output as it was listed. ``bytes`` is its size in the store. If only ``pieces`` of it are there, they are
    in order, and the newest was put there at ``until_s``, seconds since the epoch by the store's clock."""

    key: UploadedKey
    bytes: int
    pieces: tuple[PieceKey, ...] = ()
    until_s: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the keys of its objects. What is behind them never changes."""
        return tuple(map(str, self.pieces)) or (str(self.key),)

    @property
    def has_gaps(self) -> bool:
        """Says whether output between pieces is missing."""
        return any(after.number - before.number > 1 for before, after in pairwise(self.pieces))


class UploadedLogs:
    """Puts outputs into ``store``, and finds them there. It is thread-safe as the store is. Every method also raises what
    the store does: ``Unreachable``, ``AccessDenied``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, key: UploadedKey, compressed: Path) -> None:
        """Stores a file, which is durable on return. An output of the attempt that is there already stays as it is: it
        was cut from the same file. After a registry was restored numbers of attempts recur; then the first one stays."""
        with suppress(Conflict):
            self._store.create_from(str(key), compressed)

    def find(self, name: str, uid: str, attempt: int) -> UploadedLog | None:
        """Returns the output of an attempt, or None if the store has none."""
        pieces: dict[PieceKey, StoreEntry] = {}
        for entry in islice(self._store.entries(f"{_folder(name, uid)}{attempt}-"), _LISTED_MAX):
            key, piece = parse_log_key(entry.key), parse_piece_key(entry.key)
            if key is not None:
                return UploadedLog(key, entry.bytes)
            if piece is not None:
                pieces[piece] = entry
        counting = pieces_that_count(pieces)
        if not counting:
            return None
        newest = counting[-1]
        size_bytes = sum(pieces[piece].bytes for piece in counting)
        return UploadedLog(newest.of, size_bytes, counting, pieces[newest].modified_at_s)

    def pieces_of(self, key: UploadedKey) -> list[PieceKey] | None:
        """Returns all pieces of an attempt, those that do not count, too; or None if the whole output is there."""
        is_whole, pieces = self._there(key)
        return None if is_whole else pieces

    def _there(self, key: UploadedKey) -> tuple[bool, list[PieceKey]]:
        """Returns whether the whole output of an attempt is there, and its pieces."""
        listed = self._store.entries(f"{_folder(key.name, key.uid)}{key.attempt}-")
        names = [entry.key for entry in islice(listed, _LISTED_MAX)]
        pieces = [piece for piece in map(parse_piece_key, names) if piece is not None]
        return any(parse_log_key(name) is not None for name in names), pieces

    def put_piece(self, piece: PieceKey, compressed: bytes) -> None:
        """Stores a piece, which is durable on return. What is there by its key has the same output in it."""
        with suppress(Conflict):
            self._store.create(str(piece), compressed)

    def drop(self, pieces: Iterable[PieceKey]) -> None:
        """Removes pieces that do not count any more."""
        delete_each(self._store, map(str, pieces))

    def drop_pieces_of(self, key: UploadedKey) -> None:
        """Removes all pieces of an attempt, if the whole output is there, which counts in place of them."""
        is_whole, pieces = self._there(key)
        if is_whole:
            self.drop(pieces)

    def read_piece(self, piece: PieceKey) -> bytes:
        """Returns what ``put_piece`` has stored. Raises ``NotFound``, and ``Corrupt`` when it is larger than one may be."""
        return self._store.read(str(piece), PIECE_OBJECT_MAX_BYTES)

    def fetch(self, found: UploadedLog, target: Path) -> None:
        """Fetches what ``find`` has found whole into a file. Raises ``NotFound``."""
        self._store.read_to(str(found.key), target)


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptLogs:
    """Says which outputs must stay: those of ``uids`` but for ``surplus``, which are beyond what their submission keeps."""

    uids: frozenset[str]
    surplus: frozenset[str] = frozenset()

    def keep(self, key: str) -> bool:
        """Says whether ``key`` must stay. That is also true of every key that is not of the layout: it belongs to
        somebody else."""
        parsed = _unit_of(key)
        return parsed is None or (parsed.uid in self.uids and key not in self.surplus)


def _unit_of(key: str) -> UploadedKey | None:
    """Returns of which output a key is, whole or a piece; or None for any other key."""
    piece = parse_piece_key(key)
    return parse_log_key(key) if piece is None else piece.of


def to_keep(listed: Iterable[StoreEntry], references: References) -> KeptLogs:
    """Returns which of the listed outputs must stay: the newest of each uid that is needed, as many as the key of its newest
    attempt says; and of one that is there in pieces those that count. ``references`` were read after the listing."""
    of_uid: dict[tuple[str, str], set[UploadedKey]] = defaultdict(set)
    whole: set[UploadedKey] = set()
    pieces: dict[UploadedKey, list[PieceKey]] = defaultdict(list)
    for entry in listed:
        key, piece = _unit_of(entry.key), parse_piece_key(entry.key)
        if key is None:
            continue
        of_uid[key.name, key.uid].add(key)
        if piece is None:
            whole.add(key)
        else:
            pieces[key].append(piece)
    beyond: set[UploadedKey] = set()
    for keys in of_uid.values():
        newest_first = sorted(keys, key=lambda key: (key.attempt, key.keep), reverse=True)
        beyond.update(newest_first[newest_first[0].keep :])
    surplus = set(map(str, beyond))
    for key, there in pieces.items():
        counting = () if key in beyond or key in whole else pieces_that_count(there)
        surplus.update(str(piece) for piece in there if piece not in counting)
    return KeptLogs(references.uids, frozenset(surplus))


class LogSweeper(BlobSweeper):
    """Sweeps outputs for one term, as ``BlobSweeper`` does specs and artifacts."""

    prefixes = (LOGS,)

    def scan(
        self, referenced: Callable[[], References], go_on: Callable[[], bool] = lambda: True
    ) -> tuple[str, ...]:
        """Does as ``BlobSweeper.scan``. Where nothing is uploaded, the references are not read."""
        if next(self._store.entries(LOGS), None) is None:
            self._unreferenced = {}
            return ()
        return super().scan(referenced, go_on)

    def _needed(self, listed: Sequence[StoreEntry], references: References) -> Needed:
        return to_keep(listed, references)
