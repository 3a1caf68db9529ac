"""Reads the newest committed batch of a checkpoint, by which a JVM application shows that it lives (it does
not run the project's bootstrap).

It is called by the supervisor of the driver's host, which reports to the shim; it lists the logs, reads the
query ids once, and writes nothing. Spark writes ``commits/<n>`` after batch n and keeps the newest hundred;
other names there are checksums (``.0.crc``), temporary files and, on S3, directory markers. The commit log is
at the checkpoint itself or, if an application runs several queries below one location, one directory further
down.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from supervisor.checkpoint.layout import COMMITS, OFFSETS, Malformed, parse_metadata
from supervisor.clients.store.base import Store
from supervisor.clients.store.open import open_store
from supervisor.clients.store.tree import Tree, open_tree
from supervisor.errors import Corrupt, NotFound, Unreachable
from supervisor.model.location import normalise
from supervisor.model.query_metadata import METADATA, METADATA_MAX_BYTES
from supervisor.spec.s3a import S3Access, asked

QUERIES_MAX: Final = 32
BATCHES_BETWEEN_LISTINGS: Final = 10_000
"""No query commits more between two polls. The whole directory is listed only within this distance of a
number that has one more digit, to find it."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Names a committed batch of one query. ``log`` is the query's directory below the checkpoint, ``""`` for
    the checkpoint itself."""

    log: str
    batch_id: int


class CommitListing(Protocol):
    """Lists one checkpoint. Raises ``Unreachable`` and ``AccessDenied``; an absent directory is listed as
    empty."""

    def names(self, directory: str, after: str = "") -> Iterator[str]:
        """Returns the names of the files in ``directory``, in any order: at least all that sort after
        ``after`` (bytewise)."""
        ...

    def directories(self) -> Iterator[str]:
        """Returns the names of the directories at the top of the checkpoint."""
        ...

    def read(self, key: str) -> bytes | None:
        """Returns the content of a small file, or None if it is absent."""
        ...


class CommitLog:
    """Reads the commit logs of one checkpoint. Keep it for the life of an attempt: each poll goes on from the
    last."""

    def __init__(self, listing: CommitListing) -> None:
        self._listing = listing
        self._newest: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        self._last: CommittedBatch | None = None

    def newest(self) -> CommittedBatch | None:
        """Returns the batch that was committed last, of any query, or None if there is none yet. The same
        value again means that nothing was committed since.

        The first poll of an attempt returns what its predecessors committed: progress begins there, and that
        batch is none itself. Raises ``Unreachable`` or ``AccessDenied``; then nothing is known, neither life
        nor death.
        """
        for log in self._logs():
            found = self._newest_commit(log)
            if found is not None and found != self._newest.get(log):
                self._newest[log] = found
                self._last = CommittedBatch(log, found)
        return self._last

    def committed(self) -> dict[str, int]:
        """Returns query id → newest committed batch, as of the last poll. A log whose id cannot be read yet
        is left out.

        Raises the same errors as ``newest``.
        """
        for log in self._newest.keys() - self._ids.keys():
            data = self._listing.read(f"{log}/{METADATA}" if log else METADATA)
            try:
                self._ids[log] = parse_metadata(data or b"")
            except Malformed:
                continue
        return {self._ids[log]: batch for log, batch in self._newest.items() if log in self._ids}

    def waits_for_data(self) -> bool:
        """Returns whether no query has a batch under way: Spark writes ``offsets/<n>`` before batch n and
        ``commits/<n>`` after it.

        A query that has nothing to do commits nothing and is healthy; one whose batch never ends has one more
        offset than commits. Returns False as long as nothing was committed. Raises the same errors as
        ``newest``.
        """
        return bool(self._newest) and all(
            (_newest_number(self._listing.names(f"{log}/{OFFSETS}" if log else OFFSETS)) or 0) <= newest
            for log, newest in self._newest.items()
        )

    def _logs(self) -> tuple[str, ...]:
        """Returns the directories of the commit logs. A query that appears later is found too, as long as
        none commits at the top."""
        if "" in self._newest or self._newest_commit("") is not None:
            return ("",)
        found = itertools.islice(self._listing.directories(), QUERIES_MAX)
        return tuple(
            name for name in found if name not in (COMMITS, "offsets", "sources", "state", "metadata")
        )

    def _newest_commit(self, log: str) -> int | None:
        """Returns the newest number in the log. Names sort as text: 999 and 9981 come after 998, but 1000
        comes before it."""
        directory = f"{log}/{COMMITS}" if log else COMMITS
        seen = self._newest.get(log)
        if seen is None:
            return _newest_number(self._listing.names(directory))
        found = _newest_number(self._listing.names(directory, str(seen)))
        if (found is None or found <= seen) and seen + BATCHES_BETWEEN_LISTINGS >= 10 ** len(str(seen)):
            found = _newest_number(self._listing.names(directory))
        return seen if found is None else max(seen, found)


def _newest_number(names: Iterable[str]) -> int | None:
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)


def open_commit_log(checkpoint: str, access: S3Access) -> CommitLog | None:
    """Returns the commit log of ``checkpoint``, or None if only Spark can read that location (HDFS …).

    ``access`` is that of ``spec.s3a.access_of``, for S3. If None is returned, nothing is known of the job's
    life, and nothing may be concluded from silence.
    """
    location = normalise(checkpoint)
    if location.startswith("file://"):
        tree = open_tree(location, access)
        return None if tree is None else CommitLog(TreeListing(tree))
    if location.startswith("s3://"):
        return CommitLog(
            StoreListing(open_store(location, access.endpoint_url, access.region, asked=asked(access)))
        )
    return None


class TreeListing:
    """Lists a checkpoint on a file system of this host."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def names(self, directory: str, after: str = "") -> Iterator[str]:
        return (entry.key for entry in self._tree.level(directory).objects if entry.key > after)

    def directories(self) -> Iterator[str]:
        return iter(self._tree.level("").folders)

    def read(self, key: str) -> bytes | None:
        try:
            return self._tree.read(key, METADATA_MAX_BYTES)
        except NotFound:
            return None
        except Corrupt as error:  # no file, or one that is too large
            raise Unreachable(str(error)) from None


class StoreListing:
    """Lists a checkpoint on S3; ``store`` was opened at its location."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self, directory: str, after: str = "") -> Iterator[str]:
        prefix = f"{directory}/"
        for entry in self._store.entries(prefix, f"{prefix}{after}" if after else ""):
            yield entry.key.removeprefix(prefix)

    def read(self, key: str) -> bytes | None:
        try:
            return self._store.read(key, METADATA_MAX_BYTES)
        except NotFound:
            return None

    def directories(self) -> Iterator[str]:
        """Sends one request per directory: after ``a/…`` the next listing begins at ``a0`` (``0`` follows
        ``/``)."""
        after = ""
        while True:
            entry = next(iter(self._store.entries("", after)), None)
            if entry is None:
                return
            top, slash, _ = entry.key.partition("/")
            if slash:
                yield top
            after = f"{top}0" if slash else entry.key
