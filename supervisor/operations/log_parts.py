"""Reads the output of an attempt from the files that its shim keeps: the current one, and those that were rotated away.

``cli.logs`` and the API (``api.log_answers``) call it. A job that runs as the user of the supervisor may put anything into
the directory of its logs, and a file of the supervisor is not its: so no symbolic link is followed below the log directory,
only regular files are read, and opening never waits (a FIFO).

A **position** is a part and an offset of bytes in it. A **cursor** is a position as a client keeps it: rotation gives a file
another name, so the file is known by its inode and by how it begins.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from supervisor.clients.foreign_files import directory_in, open_file
from supervisor.errors import SupervisorError
from supervisor.operations.log_stamps import first_line_since

PARTS_MAX: Final = 32
"""A shim keeps fewer (``model.launch``)."""
SEARCH_MAX_BYTES: Final = 16 * 2**20
"""So much is read at most to find where the output that is asked for begins."""
CURSOR_PATTERN: Final = r"[0-9a-f]{1,16}\.[0-9a-f]{12}\.[0-9]{1,15}"
STORED_INODE: Final = 0
"""No file has it: a cursor with it is one in an output that is in the store."""
_BLOCK_BYTES: Final = 64 * 1024
_BEGIN_BYTES: Final = 512


class OutputUnusable(SupervisorError):
    """What lies where the output of an attempt should be can't be read, or must not be."""


class LogPosition(NamedTuple):
    """Names a byte of the output: the ``offset``-th of the part ``part``, of which 0 is the oldest."""

    part: int
    offset: int


@dataclass(frozen=True)
class LogStart:
    """Says where the output that is asked for begins: with the last ``tail`` lines, and no earlier than ``since_at_s``, an
    instant of the wall clock. By default it begins where the oldest file does."""

    tail: int | None = None
    since_at_s: float | None = None


class _Part(NamedTuple):
    stream: IO[bytes]
    size: int
    inode: int
    modified_at_s: float
    is_current: bool


class LogParts:
    """Holds the open files of an attempt, the oldest first; there may be none. It reads each by offsets, so that what the
    shim renames meanwhile is of no matter."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    @classmethod
    def of_stored(cls, stream: IO[bytes], modified_at_s: float) -> LogParts:
        """Returns the parts of an output that was fetched into one file. A cursor in it is good for the next time it is
        fetched, too."""
        size = os.fstat(stream.fileno()).st_size
        return cls([_Part(stream, size, STORED_INODE, modified_at_s, is_current=False)])

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def modified_at_s(self) -> float:
        """Returns when the newest part was written to last, by its host's wall clock. There must be a part."""
        return self._parts[-1].modified_at_s

    def take_current(self) -> IO[bytes] | None:
        """Returns the file that the shim wrote to when the parts were opened, if it was there. It stays open when the parts
        are closed: the caller closes it."""
        if not self._parts or not self._parts[-1].is_current:
            return None
        return os.fdopen(os.dup(self._parts[-1].stream.fileno()), "rb", buffering=0)

    def position(self, start: LogStart) -> LogPosition:
        """Returns where the output that is asked for begins. Raises OSError."""
        tail = LogPosition(0, 0) if start.tail is None else self._of_tail(start.tail)
        return tail if start.since_at_s is None else max(tail, self._since(start.since_at_s))

    def cursor(self, position: LogPosition) -> str:
        """Returns the position as ``find`` takes it. There must be a part. Raises OSError."""
        part = self._parts[position.part]
        return f"{part.inode:x}.{self._begin_of(part, position.offset)}.{position.offset}"

    def find(self, cursor: str) -> LogPosition | None:
        """Returns the position of a cursor, or None if its file is gone. Raises OSError."""
        inode, begin, offset = cursor.split(".")
        for number, part in enumerate(self._parts):
            is_long_enough = part.size >= int(offset)
            if part.inode == int(inode, 16) and is_long_enough and begin == self._begin_of(part, int(offset)):
                return LogPosition(number, int(offset))
        return None

    def read(self, position: LogPosition, max_bytes: int) -> tuple[bytes, LogPosition]:
        """Returns what follows ``position``, at most ``max_bytes``, and where that ends. Less than that means that there was
        no more. Raises OSError."""
        text, at = bytearray(), position
        for number in range(position.part, len(self._parts)):
            part = self._parts[number]
            offset = position.offset if number == position.part else 0
            while len(text) < max_bytes and (
                block := _read_at(part.stream, offset, min(_BLOCK_BYTES, max_bytes - len(text)))
            ):
                text += block
                offset += len(block)
                at = LogPosition(number, offset)
        return bytes(text), at

    def pieces(self, position: LogPosition) -> Iterator[bytes]:
        """Yields all that follows ``position``, and leaves the current file at its end. Raises OSError."""
        while True:
            text, position = self.read(position, _BLOCK_BYTES)
            if not text:
                break
            yield text
        if self._parts:
            self._parts[-1].stream.seek(position.offset if position.part == len(self._parts) - 1 else 0)

    def end(self, max_bytes: int) -> bytes:
        """Returns the last ``max_bytes`` of the output, or all of it. Raises OSError."""
        text, _ = self.read(self.before_end(max_bytes), max_bytes)
        return text

    def before_end(self, max_bytes: int) -> LogPosition:
        """Returns where the last ``max_bytes`` begin."""
        left = max_bytes
        for number in reversed(range(len(self._parts))):
            size = self._parts[number].size
            if size >= left:
                return LogPosition(number, size - left)
            left -= size
        return LogPosition(0, 0)

    def back(self, position: LogPosition, by_bytes: int) -> LogPosition | None:
        """Returns where the ``by_bytes`` before ``position`` begin, or None if they are not all there."""
        part, offset = position
        while offset < by_bytes:
            if part == 0:
                return None
            by_bytes, part = by_bytes - offset, part - 1
            offset = self._parts[part].size
        return LogPosition(part, offset - by_bytes)

    def _end(self) -> LogPosition:
        return LogPosition(len(self._parts) - 1, self._parts[-1].size) if self._parts else LogPosition(0, 0)

    # -- the last lines -------------------------------------------------------------------------------------------

    def _of_tail(self, lines: int) -> LogPosition:
        """Returns where the last ``lines`` lines begin. Of lines that are longer than ``SEARCH_MAX_BYTES`` together it
        returns where that many bytes begin."""
        if lines == 0:
            return self._end()
        missing, left, is_last = lines, SEARCH_MAX_BYTES, True
        for number in reversed(range(len(self._parts))):
            end = self._parts[number].size
            while end > 0:
                begin = max(0, end - min(_BLOCK_BYTES, left))
                block = _read_at(self._parts[number].stream, begin, end - begin)
                searched = len(block) - 1 if is_last else len(block)  # the last line may have no end
                count = block.count(b"\n", 0, searched)
                if count >= missing:
                    return LogPosition(number, begin + _nth_end(block, missing, searched) + 1)
                missing, left, end, is_last = missing - count, left - len(block), begin, False
                if left <= 0 or not block:
                    return LogPosition(number, begin)
        return LogPosition(0, 0)

    # -- by time --------------------------------------------------------------------------------------------------

    def _since(self, at_s: float) -> LogPosition:
        """Returns where the output since ``at_s`` begins. A part that was written to last before is older as a whole; in the
        first of the others, its lines say it."""
        for number, part in enumerate(self._parts):
            if part.modified_at_s >= at_s:
                read = partial(_read_at, part.stream)
                return LogPosition(number, first_line_since(read, part.size, at_s))
        return self._end()

    @staticmethod
    def _begin_of(part: _Part, offset: int) -> str:
        begin = _read_at(part.stream, 0, min(offset, _BEGIN_BYTES))
        return hashlib.sha256(begin).hexdigest()[:12]


def _nth_end(block: bytes, count: int, searched: int) -> int:
    """Returns the index of the ``count``-th line end from the last of ``block[:searched]``."""
    at = searched
    for _ in range(count):
        at = block.rfind(b"\n", 0, at)
    return at


# -- opening ------------------------------------------------------------------------------------------------------


def has_parts(path: Path) -> bool:
    """Says whether there is anything by the name of a part of the output at ``path``, readable or not. Raises
    OSError."""
    try:
        there = {entry.name for entry in os.scandir(path.parent)}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(name in there for name in _names(path.name))


def _names(current: str) -> Iterator[str]:
    """Yields the names that parts can have, the newest first."""
    yield current
    yield from (f"{current}.{number}" for number in range(1, PARTS_MAX))


@contextmanager
def open_parts(path: Path) -> Iterator[LogParts]:
    """Opens what there is of the output at ``path``, ``<log_dir>/<name>/<file>``. Raises OutputUnusable for what is no
    regular file, and for what this user may not read."""
    with ExitStack() as stack:
        yield LogParts(_opened(path, stack))


def open_current(path: Path) -> IO[bytes] | None:
    """Opens the file that the shim writes to now, under the rules of this module. Returns None if there is none. Raises
    OutputUnusable."""
    try:
        with _folder(path) as folder:
            return os.fdopen(open_file(folder, path.name), "rb", buffering=0)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from None


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Returns the end of a file ``<log_dir>/<name>/<file>``, under the rules of this module. Raises OSError."""
    with _folder(path) as folder:
        descriptor = open_file(folder, path.name)
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, max_bytes, max(0, size - max_bytes))
    finally:
        os.close(descriptor)


def _opened(path: Path, stack: ExitStack) -> list[_Part]:
    """Opens the newest part first: what is rotated meanwhile is met twice, and never missed."""
    try:
        folder = stack.enter_context(_folder(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(path.parent, error) from None
    parts: dict[int, _Part] = {}
    for name in _names(path.name):
        try:
            stream = os.fdopen(open_file(folder, name), "rb", buffering=0)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(path.parent / name, error) from None
        stack.callback(stream.close)
        status = os.fstat(stream.fileno())
        is_current = name == path.name
        part = _Part(stream, status.st_size, status.st_ino, status.st_mtime, is_current)
        parts.setdefault(status.st_ino, part)
    return list(reversed(parts.values()))


def _folder(path: Path) -> AbstractContextManager[int]:
    """Opens the directory of a file. The directory of all logs is the operator's, and may be a link of his."""
    return directory_in(str(path.parent.parent), path.parent.name)


def _read_at(stream: IO[bytes], offset: int, max_bytes: int) -> bytes:
    return os.pread(stream.fileno(), max_bytes, offset)


def _unusable(path: Path, error: OSError) -> OutputUnusable:
    if error.errno == errno.EACCES:
        return OutputUnusable(
            f"this user may not read {path}", "ask as the user of the supervisor, or as one of its group"
        )
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO, errno.EPERM):
        return OutputUnusable(
            f"{path} is a symbolic link or no regular file, and is not read",
            "the supervisor makes no such thing there: find out who has put it there, and remove it",
        )
    return OutputUnusable(f"{path} can't be read ({error.strerror})")
