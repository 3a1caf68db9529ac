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
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import IO, Final, NamedTuple

from supervisor.errors import SupervisorError

PARTS_MAX: Final = 32
"""A shim keeps fewer (``model.launch``)."""
SEARCH_MAX_BYTES: Final = 16 * 2**20
"""So much is read at most to find where the output that is asked for begins."""
CURSOR_PATTERN: Final = r"[0-9a-f]{1,16}\.[0-9a-f]{12}\.[0-9]{1,15}"
_BLOCK_BYTES: Final = 64 * 1024
_BEGIN_BYTES: Final = 512
_STAMP_MAX_BYTES: Final = 64
_STAMP: Final = re.compile(
    rb'^(?:\[|\{"ts":")?(?:(\d\d)/(\d\d)/(\d\d) |(\d{4})-(\d\d)-(\d\d)[ T])(\d\d):(\d\d):(\d\d)'
    rb"(?:[.,]\d{1,9})?(?:(Z)|([+-])(\d\d):?(\d\d))?",
    re.MULTILINE,
)
"""It is a time stamp at the begin of a line, as Spark and Python's logging write it."""


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


class _Stamped(NamedTuple):
    """Is a line with a time stamp: where it begins, and when it was written."""

    begin: int
    at_s: float


class LogParts:
    """Holds the open files of an attempt, the oldest first; there may be none. It reads each by offsets, so that what the
    shim renames meanwhile is of no matter."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def __bool__(self) -> bool:
        return bool(self._parts)

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
                return LogPosition(number, _first_line_since(part, at_s))
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


def _first_line_since(part: _Part, at_s: float) -> int:
    """Returns where the first line with a time stamp that is not before ``at_s`` begins. If no stamp is, it returns where
    the last line with a stamp begins, because something was written since; without any stamp, 0. Stamps are taken to
    grow."""
    low, high, left = 0, part.size, SEARCH_MAX_BYTES
    older, newer = 0, None
    while low < high and left > 0:
        middle = (low + high) // 2
        found, searched_bytes = _stamp_in(part, middle, high, left)
        left -= searched_bytes
        if found is None:
            high = middle
        elif found.at_s < at_s:
            older, low = found.begin, found.begin + 1
        else:
            newer, high = found.begin, middle
    return older if newer is None or low < high else newer


def _stamp_in(part: _Part, begin: int, end: int, max_bytes: int) -> tuple[_Stamped | None, int]:
    """Returns the first line with a time stamp that begins in ``[begin, end)``, and how many bytes were read for it."""
    at, searched_bytes = max(0, begin - 1), 0
    while at < end and searched_bytes < max_bytes:
        block = _read_at(part.stream, at, min(_BLOCK_BYTES, end - at) + _STAMP_MAX_BYTES)
        searched_bytes += len(block)
        for match in _STAMP.finditer(block):
            line = at + match.start()
            if line >= end:
                return None, searched_bytes
            is_line = line >= begin and (line == 0 or 0 < match.start() <= _BLOCK_BYTES)
            if is_line and (at_s := _instant(match)) is not None:
                return _Stamped(line, at_s), searched_bytes
        if len(block) <= _BLOCK_BYTES:
            break
        at += _BLOCK_BYTES
    return None, searched_bytes


def _instant(match: re.Match[bytes]) -> float | None:
    """Returns the instant of a time stamp, or None if it is none. Without a zone it is in the local time of this process."""
    short, full, time = match.group(1, 2, 3), match.group(4, 5, 6), match.group(7, 8, 9)
    year, month, day = map(int, short if short[0] else full)
    hour, minute, second = map(int, time)
    try:
        moment = datetime(
            year + (2000 if short[0] else 0), month, day, hour, minute, second, tzinfo=_zone(match)
        )
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _zone(match: re.Match[bytes]) -> tzinfo | None:
    """Returns the zone of a time stamp, or None if it has none. Raises ValueError."""
    utc, sign, hours, minutes = match.group(10, 11, 12, 13)
    if utc:
        return UTC
    if not sign:
        return None
    return timezone((1 if sign == b"+" else -1) * timedelta(hours=int(hours), minutes=int(minutes)))


# -- opening ------------------------------------------------------------------------------------------------------


@contextmanager
def open_parts(path: Path) -> Iterator[LogParts]:
    """Opens what there is of the output at ``path``, ``<log_dir>/<name>/<file>``. Raises SupervisorError for what is no
    regular file, and for what this user may not read."""
    with ExitStack() as stack:
        yield LogParts(_opened(path, stack))


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Returns the end of a file ``<log_dir>/<name>/<file>``, under the rules of this module. Raises OSError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = _open_file(folder, path.name)
    finally:
        os.close(folder)
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, max_bytes, max(0, size - max_bytes))
    finally:
        os.close(descriptor)


def _opened(path: Path, stack: ExitStack) -> list[_Part]:
    """Opens the newest part first: what is rotated meanwhile is met twice, and never missed."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(path.parent, error) from None
    stack.callback(os.close, folder)
    parts: dict[int, _Part] = {}
    for name in (path.name, *(f"{path.name}.{number}" for number in range(1, PARTS_MAX))):
        try:
            stream = os.fdopen(_open_file(folder, name), "rb", buffering=0)
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


def _open_file(folder: int, name: str) -> int:
    """Returns a descriptor of a regular file. O_NONBLOCK: opening a FIFO would wait for somebody who writes."""
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder
    )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def _read_at(stream: IO[bytes], offset: int, max_bytes: int) -> bytes:
    return os.pread(stream.fileno(), max_bytes, offset)


def _unusable(path: Path, error: OSError) -> SupervisorError:
    if error.errno == errno.EACCES:
        return SupervisorError(
            f"this user may not read {path}", "ask as the user of the supervisor, or as one of its group"
        )
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO):
        return SupervisorError(
            f"{path} is a symbolic link or no regular file, and is not read",
            "the supervisor makes no such thing there: find out who has put it there, and remove it",
        )
    return SupervisorError(f"{path} can't be read ({error.strerror})")
