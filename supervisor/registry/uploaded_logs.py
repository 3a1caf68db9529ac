"""Keeps the output of attempts that have ended in the store, under keys that carry uid and attempt, and finds it there.

A host puts an output there (``daemon.host.log_uploads``), commands and the API read it (``operations.uploaded_output``), and
the leader removes what is not kept (``LogSweeper``). The key also says of how many attempts of the submission the output is
kept, so that the leader needs no spec for that: the key of the newest attempt that is there counts.

``to_keep`` decides, and is pure. It goes through the same two scans as blobs do (``registry.blob_sweep``): what it does not
keep is deleted only if it was seen so twice, a grace time apart, by references that were read after the listing. A uid that
is gone never comes back, so nothing can come to need what it left. Only keys of the layout are ever touched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.clients.store.base import Store, StoreEntry
from supervisor.errors import Conflict
from supervisor.registry.blob_sweep import BlobSweeper, Needed, References

LOGS: Final = "logs/"
OUTPUT_MAX_BYTES: Final = 16 * 2**20
"""So much of the end of an output is uploaded."""
OBJECT_MAX_BYTES: Final = OUTPUT_MAX_BYTES + 2**16
"""Compressed, it has no more: what can't be compressed grows by a few bytes."""
_KEY: Final = re.compile(r"logs/([^/]+)/([^/]+)/([1-9][0-9]{0,8})-([1-9][0-9]{0,3})\.log\.gz")


@dataclass(frozen=True, slots=True)
class UploadedKey:
    """Names the output of an attempt in the store. ``keep`` says of how many attempts of the uid it is kept."""

    name: str
    uid: str
    attempt: int
    keep: int

    def __str__(self) -> str:
        return f"{_folder(self.name, self.uid)}{self.attempt}-{self.keep}.log.gz"


def parse_log_key(key: str) -> UploadedKey | None:
    """Returns the parts of the key of an output, or None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else UploadedKey(found[1], found[2], int(found[3]), int(found[4]))


def _folder(name: str, uid: str) -> str:
    return f"{LOGS}{name}/{uid}/"


@dataclass(frozen=True, slots=True)
class UploadedLog:
    """Describes an output as it was listed. ``bytes`` is its size in the store."""

    key: UploadedKey
    bytes: int


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
        for entry in self._store.entries(f"{_folder(name, uid)}{attempt}-"):
            key = parse_log_key(entry.key)
            if key is not None and (key.name, key.uid, key.attempt) == (name, uid, attempt):
                return UploadedLog(key, entry.bytes)
        return None

    def fetch(self, found: UploadedLog, target: Path) -> None:
        """Fetches what ``find`` has found into a file. Raises ``NotFound``."""
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
        parsed = parse_log_key(key)
        return parsed is None or (parsed.uid in self.uids and key not in self.surplus)


def to_keep(listed: Iterable[StoreEntry], references: References) -> KeptLogs:
    """Returns which of the listed outputs must stay: the newest of each uid that is needed, as many as the key of its newest
    attempt says. ``references`` were read after the listing."""
    of_uid: dict[tuple[str, str], list[UploadedKey]] = defaultdict(list)
    for entry in listed:
        key = parse_log_key(entry.key)
        if key is not None:
            of_uid[key.name, key.uid].append(key)
    surplus: set[str] = set()
    for keys in of_uid.values():
        newest_first = sorted(keys, key=lambda key: (key.attempt, key.keep), reverse=True)
        surplus.update(str(key) for key in newest_first[newest_first[0].keep :])
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
