"""Packs the output of an attempt for the store, and reads it there as ``operations.log_parts`` reads files.

``daemon.host.log_uploads`` packs what an attempt of its host has left; ``logs`` and the API read it when no host has it any
more. What is packed was written by a job, and may be changed by it meanwhile; what is unpacked may have been put into the
store by anybody who can write there. So both are bounded, in what is read and in what comes of it.
"""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from supervisor.clients.store.base import Store
from supervisor.errors import Corrupt, SupervisorError
from supervisor.observe.listing import OneJob
from supervisor.operations.context import CommandContext
from supervisor.operations.log_parts import LogParts, LogPosition, open_parts
from supervisor.operations.logs import OutputElsewhere, OutputMissing, has_ended, latest_attempt
from supervisor.registry.uploaded_logs import (
    OBJECT_MAX_BYTES,
    OUTPUT_MAX_BYTES,
    PIECE_MAX_BYTES,
    PieceKey,
    UploadedKey,
    UploadedLogs,
)
from supervisor.registry.uploaded_logs import UploadedLog as UploadedLog

NOT_STORED: Final = "the store has no output of it"
_BLOCK_BYTES: Final = 64 * 1024
_MTIME_MAX_S: Final = 2**32 - 1
_COMPRESSION: Final = 6


def pack(path: Path, target: IO[bytes]) -> int | None:
    """Writes the end of the output at ``path``, compressed, to ``target``: at most ``OUTPUT_MAX_BYTES``, from the begin of a
    line on. The same files give the same bytes. Returns how many bytes of output that are, or None if there is no
    output. Raises OutputUnusable, OSError."""
    with open_parts(path) as parts:
        if not parts:
            return None
        with gzip.GzipFile("", "wb", _COMPRESSION, target, _written_at_s(parts)) as packed:
            return sum(map(packed.write, _end_of(parts)))


def _written_at_s(parts: LogParts) -> int:
    return min(max(0, int(parts.modified_at_s)), _MTIME_MAX_S)  # a job can set any


def _end_of(parts: LogParts) -> Iterator[bytes]:
    """Yields the last ``OUTPUT_MAX_BYTES``, and nothing of what comes while it is read."""
    at, left = parts.before_end(OUTPUT_MAX_BYTES), OUTPUT_MAX_BYTES
    is_cut = (at.part, at.offset) != (0, 0)
    while left > 0:
        block, at = parts.read(at, min(_BLOCK_BYTES, left))
        if not block:
            return
        left -= len(block)
        yield block[block.find(b"\n") + 1 :] if is_cut else block
        is_cut = False


def next_piece(path: Path, of: UploadedKey, last: PieceKey | None) -> tuple[PieceKey, bytes] | None:
    """Returns which piece of the output at ``path`` is to be put next, with its content, compressed; or None if nothing came
    since ``last``, the newest that is in the store. Is ``last`` not full, it is that piece with more in it. If what follows
    on ``last`` is gone, or is more than ``OUTPUT_MAX_BYTES``, it begins so much before the end, and leaves out a
    number: something is missing then, or if somebody has emptied a file, what was rotated before may be there twice.
    Raises OutputUnusable, OSError."""
    with open_parts(path) as parts:
        if not parts:
            return None
        number, begin, had_bytes = _begin_of_next(parts, last)
        text, end = parts.read(begin, PIECE_MAX_BYTES)
        is_cut = begin != (0, 0) and (last is None or number > last.number + 1)
        if is_cut:
            text = text[text.find(b"\n") + 1 :] or text
        if len(text) <= had_bytes:
            return None
        piece = PieceKey(of, number, len(text), parts.cursor(end))
        return piece, gzip.compress(text, _COMPRESSION, mtime=_written_at_s(parts))


def _begin_of_next(parts: LogParts, last: PieceKey | None) -> tuple[int, LogPosition, int]:
    """Returns the number of the next piece, where it begins, and how many bytes of it are in the store already."""
    newest = parts.before_end(OUTPUT_MAX_BYTES)
    if last is None:
        return 1, newest, 0
    end = parts.find(last.end)
    if end is None or end < newest:
        return last.number + 2, newest, 0
    begin = parts.back(end, last.bytes) if last.bytes < PIECE_MAX_BYTES else None
    return (last.number + 1, end, 0) if begin is None else (last.number, begin, last.bytes)


def find_uploaded(
    context: CommandContext, job: OneJob, attempt: int | None, missing: OutputMissing
) -> UploadedLog:
    """Returns what was uploaded of an attempt, else of the latest one. It is not looked for while the attempt goes on and
    its host is up. Raises ``missing`` if there is nothing, with why."""
    number = attempt or latest_attempt(job)
    is_lost = isinstance(missing, OutputElsewhere) and not missing.is_up
    if not is_lost and not has_ended(job, number):
        raise missing
    try:
        found = find_stored(context.store(), job.row.name, job.uid, number)
    except SupervisorError as error:
        missing.add(not_asked(error))
        raise missing from None
    if found is None:
        missing.add(NOT_STORED)
        raise missing
    return found


def not_asked(error: SupervisorError) -> str:
    """Returns a clause that says that the store did not answer whether it has an output."""
    return f"the store can't be asked for it ({error.complaint.what})"


def find_stored(store: Store, name: str, uid: str, attempt: int) -> UploadedLog | None:
    """Returns the output of an attempt in the store, or None if it is not there. Raises as ``Store`` does."""
    return UploadedLogs(store).find(name, uid, attempt)


@contextmanager
def open_stored(store: Store, found: UploadedLog) -> Iterator[LogParts]:
    """Opens what ``find_stored`` has found. Raises as ``fetch_stored`` does."""
    with tempfile.TemporaryFile(buffering=0) as stream:
        yield LogParts.of_stored(stream, fetch_stored(store, found, stream))


def fetch_stored(store: Store, found: UploadedLog, target: IO[bytes]) -> float:
    """Writes what ``find_stored`` has found to ``target``, and returns when it was written to last. Raises Corrupt if no
    supervisor can have written it, NotFound if it has gone meanwhile, OSError, and as ``Store`` does."""
    logs = UploadedLogs(store)
    if found.pieces:
        return max(_unpack_piece(piece, logs.read_piece(piece), target) for piece in found.pieces)
    if found.bytes > OBJECT_MAX_BYTES:
        raise _odd(found.key)
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-log-") as directory:
        compressed = Path(directory) / "compressed"
        logs.fetch(found, compressed)
        with compressed.open("rb") as source:
            _, written_at_s = _unpack(found.key, source, target, OUTPUT_MAX_BYTES)
    return written_at_s


def _unpack_piece(piece: PieceKey, compressed: bytes, target: IO[bytes]) -> float:
    size_bytes, written_at_s = _unpack(piece, io.BytesIO(compressed), target, PIECE_MAX_BYTES)
    if size_bytes != piece.bytes:
        raise _odd(piece)
    return written_at_s


def _unpack(
    key: UploadedKey | PieceKey, compressed: IO[bytes], target: IO[bytes], max_bytes: int
) -> tuple[int, float]:
    """Writes what is compressed to ``target``, and returns how many bytes that are, and when it was written. Raises
    Corrupt."""
    left = max_bytes
    try:
        with gzip.GzipFile(fileobj=compressed, mode="rb") as packed:
            while block := packed.read(_BLOCK_BYTES):
                left -= len(block)
                if left < 0:
                    raise _odd(key)
                target.write(block)
            return max_bytes - left, float(packed.mtime or 0) + 1.0  # it has whole seconds
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise _odd(key) from None


def _odd(key: UploadedKey | PieceKey) -> Corrupt:
    return Corrupt(f"{key} is no output that a supervisor has uploaded", "find out who has put it there")
