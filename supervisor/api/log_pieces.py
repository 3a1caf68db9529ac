"""Reads pieces of the output of an attempt for the API: from the files of this host, or from the store.

Files are read in the thread of the request, in few of them at once: a disk that hangs holds up nothing else of the API. So
it is with the store. ``api.log_answers`` decides what is read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.api.fetched_outputs import FetchedOutputs
from supervisor.api.responses import RequestQuery
from supervisor.api.shared_reads import AGAIN, BUSY, SharedReads
from supervisor.clock import wall_s
from supervisor.errors import SupervisorError, Unreachable
from supervisor.operations.log_parts import STORED_INODE, LogParts, LogPosition, LogStart, open_parts
from supervisor.operations.logs import AttemptOutput
from supervisor.operations.uploaded_output import NOT_STORED, find_stored, not_asked
from supervisor.settings.units import parse_duration_s

PIECE_MAX_BYTES: Final = 2**20
READERS_MAX: Final = 4
FETCHERS_MAX: Final = 2
"""So many requests read from the store at once: one that is slow keeps nobody from the files."""


class OutputPiece(NamedTuple):
    """Is a part of the output. ``cursor`` says where it ends, or is None if there are no files yet. ``key`` is that of the
    output in the store, or of its newest piece, or empty if it comes from files. If only pieces are there, the newest was
    uploaded at ``until_s``, seconds since the epoch; else that is 0."""

    text: bytes
    cursor: str | None
    is_lost: bool = False
    key: str = ""
    until_s: float = 0.0

    @property
    def is_all(self) -> bool:
        """Says whether there was no more."""
        return len(self.text) < PIECE_MAX_BYTES


class OutputPieces:
    """Reads for many threads at once. ``reads`` has the store."""

    def __init__(self, reads: SharedReads) -> None:
        self._reads = reads
        self._readers = threading.BoundedSemaphore(READERS_MAX)
        self._fetched = FetchedOutputs()
        self._fetchers = threading.BoundedSemaphore(FETCHERS_MAX)

    def of_files(self, output: AttemptOutput, query: RequestQuery) -> OutputPiece | None:
        """Returns the piece that is asked for, or None if there are no files of the attempt."""
        with _taken(self._readers), _errors_of(output.path), open_parts(output.path) as parts:
            if not parts:
                return None
            return _read(parts, query)

    def of_store(self, output: AttemptOutput, query: RequestQuery) -> tuple[OutputPiece | None, str]:
        """Returns the piece of what was uploaded, or why there is none; nothing is said to a client that was within the
        files of a host."""
        cursor = query.text("offset")
        if cursor is not None and not cursor.startswith(f"{STORED_INODE:x}."):
            return None, ""
        store = self._reads.get("store", lambda context: context.store())
        with _taken(self._fetchers):
            try:
                found = find_stored(store, output.name, output.uid, output.attempt)
            except SupervisorError as trouble:
                return None, not_asked(trouble)
            if found is None:
                return None, NOT_STORED
            key = found.names[-1]
            with _errors_of(Path(key)), self._fetched.open(store, found) as parts:
                piece = _read(parts, query)._replace(key=key, until_s=found.until_s)
            has_lost = cursor is None and found.has_gaps
            return (piece._replace(is_lost=True) if has_lost else piece), ""


@contextmanager
def _taken(places: threading.BoundedSemaphore) -> Iterator[None]:
    if not places.acquire(blocking=False):
        raise Unreachable(BUSY, AGAIN)
    try:
        yield
    finally:
        places.release()


def _read(parts: LogParts, query: RequestQuery) -> OutputPiece:
    cursor = query.text("offset")
    position = parts.position(_start(query)) if cursor is None else parts.find(cursor)
    text, end = parts.read(position or LogPosition(0, 0), PIECE_MAX_BYTES)
    return OutputPiece(text, parts.cursor(end), is_lost=position is None)


def _start(query: RequestQuery) -> LogStart:
    tail, since = query.text("tail"), query.text("since")
    return LogStart(
        tail=None if tail is None else int(tail),
        since_at_s=None if since is None else wall_s() - parse_duration_s(since),
    )


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SupervisorError(f"{path} can't be read ({error.strerror or error})") from None
