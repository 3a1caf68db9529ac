"""Handles local files as sources and targets of a transfer, for both stores: they are hashed, and appear
whole or not at all.

A source that cannot be read is for the user to correct (``InvalidInput``). A target that cannot be written is
a passing trouble of this host (``Unreachable``: try again), and says nothing about the object.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from supervisor.clients.store.base import CHUNK_BYTES
from supervisor.clients.store.deadline import Budget
from supervisor.errors import Conflict, InvalidInput, Unreachable

_ZEROS: Final = bytes(CHUNK_BYTES)


class TargetTrouble(Unreachable):
    """Means that a local target cannot be written: it is transient like its base, but asking the store again
    cannot help."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Holds length and sums of a content. S3 checks a body against ``md5`` (Content-MD5); the supervisor
    never relies on it."""

    size_bytes: int
    sha256: str
    md5: bytes


def digest_of(chunks: Iterable[bytes]) -> Digest:
    """Returns the sums of the whole; raises what the iteration raises."""
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    for chunk in chunks:
        sha256.update(chunk)
        md5.update(chunk)
        size += len(chunk)
    return Digest(size, sha256.hexdigest(), md5.digest())


def require_unchanged(source: Path, found: str, expected: str | None) -> None:
    """Raises ``Conflict`` if the content is not what the caller saw: the file was written to meanwhile."""
    if expected is not None and found != expected:
        raise Conflict(f"{source} changed while it was being stored", "try again when nobody writes to it")


def source_chunks(source: Path) -> Iterator[bytes]:
    """Yields the content of a regular file, in pieces. Raises ``InvalidInput`` naming it."""
    try:
        if not source.is_file():  # a FIFO would block for ever
            raise InvalidInput(f"{source} is not a file", "give the path of an existing file")
        with source.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise InvalidInput(f"{source} cannot be read: {error.strerror or error}") from None


def counted(chunks: Iterable[bytes], budget: Budget, way: str) -> Iterator[bytes]:
    """Yields ``chunks`` as they are; each earns the operation time (``Budget.moved``)."""
    position = 0
    for chunk in chunks:
        position += len(chunk)
        budget.moved(way, position)
        yield chunk


def pieces_of(descriptor: int, size: int) -> Iterator[bytes]:
    """Yields the content of an open file up to ``size``, in pieces. A hole is a piece of zeros of its own, or several.
    Raises OSError."""
    position = 0
    while position < size:
        begin = _data_from(descriptor, position, size)
        while position < begin:
            yield _ZEROS[: begin - position]
            position += min(len(_ZEROS), begin - position)
        end = min(size, os.lseek(descriptor, position, os.SEEK_HOLE)) if position < size else size
        while position < end and (piece := os.pread(descriptor, min(CHUNK_BYTES, end - position), position)):
            yield piece
            position += len(piece)
        if position < end:
            return  # it was cut off meanwhile


def _data_from(descriptor: int, position: int, size: int) -> int:
    """Returns where the next data is, or ``size``."""
    try:
        return min(size, os.lseek(descriptor, position, os.SEEK_DATA))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise


def write_chunks(stream: IO[bytes], chunks: Iterable[bytes]) -> str:
    """Writes all, and calls fsync; returns the sha256 in hex of what was written. A chunk of zeros becomes a hole. Raises
    OSError and what the iteration raises."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        sha256.update(chunk)
        if chunk == _ZEROS[: len(chunk)]:
            stream.seek(len(chunk), os.SEEK_CUR)
        else:
            stream.write(chunk)
    stream.truncate()
    stream.flush()
    os.fsync(stream.fileno())
    return sha256.hexdigest()


def write_whole(target: Path, chunks: Iterable[bytes]) -> str:
    """Does ``write_chunks`` into a temporary file beside ``target``, then renames it to ``target``.

    Raises ``TargetTrouble`` when the target cannot be written, and what the iteration raises (which is never
    OSError).
    """
    # of its own: the target's may be 255 bytes long
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("xb") as stream:
            sha256 = write_chunks(stream, chunks)
        partial.replace(target)
    except OSError as error:
        raise TargetTrouble(
            f"{target} cannot be written: {error.strerror or error}; make room or repair it"
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink()
    return sha256
