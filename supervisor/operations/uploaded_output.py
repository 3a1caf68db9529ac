"""Packs the output of an attempt for the store, and reads it there as ``operations.log_parts`` reads files.

``daemon.host.log_uploads`` packs what an attempt of its host has left; ``logs`` and the API read it when no host has it any
more. What is packed was written by a job, and may be changed by it meanwhile; what is unpacked may have been put into the
store by anybody who can write there. So both are bounded, in what is read and in what comes of it.
"""

from __future__ import annotations

import gzip
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
from supervisor.operations.log_parts import LogParts, open_parts
from supervisor.operations.logs import OutputMissing, has_ended, latest_attempt
from supervisor.registry.uploaded_logs import OBJECT_MAX_BYTES, OUTPUT_MAX_BYTES, UploadedKey, UploadedLogs
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
        written_at_s = min(max(0, int(parts.modified_at_s)), _MTIME_MAX_S)  # a job can set any
        with gzip.GzipFile("", "wb", _COMPRESSION, target, written_at_s) as packed:
            return sum(map(packed.write, _end_of(parts)))


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


def find_uploaded(
    context: CommandContext, job: OneJob, attempt: int | None, missing: OutputMissing
) -> UploadedLog:
    """Returns what was uploaded of an attempt, else of the latest one. Raises ``missing`` if there is nothing, with why."""
    number = attempt or latest_attempt(job)
    if not has_ended(job, number):
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
    """Opens what ``find_stored`` has found. Raises Corrupt if no supervisor can have written it, NotFound if it has gone
    meanwhile, OSError, and as ``Store`` does."""
    if found.bytes > OBJECT_MAX_BYTES:
        raise _odd(found.key)
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-log-") as directory:
        compressed, plain = Path(directory) / "compressed", Path(directory) / "plain"
        UploadedLogs(store).fetch(found, compressed)
        with plain.open("w+b", buffering=0) as stream:
            yield LogParts.of_stored(stream, _unpack(found.key, compressed, stream))


def _unpack(key: UploadedKey, compressed: Path, stream: IO[bytes]) -> float:
    """Writes what is compressed to ``stream``, and returns when it was written. Raises Corrupt."""
    left = OUTPUT_MAX_BYTES
    try:
        with gzip.GzipFile(compressed, "rb") as packed:
            while block := packed.read(_BLOCK_BYTES):
                left -= len(block)
                if left < 0:
                    raise _odd(key)
                stream.write(block)
            return float(packed.mtime or 0) + 1.0  # it has whole seconds
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise _odd(key) from None


def _odd(key: UploadedKey) -> Corrupt:
    return Corrupt(f"{key} is no output that a supervisor has uploaded", "find out who has put it there")
