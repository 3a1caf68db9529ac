"""Reads a gzip file once, from its begin to its end, as ``tarfile`` wants it, and digests what it reads of it.

``tarfile`` reads long names, PAX headers and maps of sparse files whole into memory, of whatever length the archive says
they are. So a reader of an archive says by ``in_headers`` when headers are read, and they have a bound then.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO, Final

HEADERS_MAX_BYTES: Final = 1024**2
STEP_BYTES: Final = 16 * 1024**2
_CHUNK_BYTES: Final = 256 * 1024


class _Digested(io.RawIOBase):
    """Digests what is read of a file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


class Unzipped(io.RawIOBase):
    """Is the content of the gzip file ``file``, which can be read forward only. ``max_bytes`` is the bound of its content,
    and ``at_step`` is called at least once in ``STEP_BYTES`` of it. The file stays open. Its methods raise OSError,
    EOFError, zlib.error and ValueError."""

    def __init__(self, file: BinaryIO, max_bytes: int, at_step: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._digested = _Digested(file)
        self._content = gzip.GzipFile(fileobj=self._digested, mode="rb")
        self._max_bytes, self._at_step = max_bytes, at_step
        self._position = self._stepped = 0
        self._left: int | None = HEADERS_MAX_BYTES

    def in_headers(self, are_read: bool) -> None:
        """Says whether what is read from now on are the headers of one member, or its data."""
        self._left = HEADERS_MAX_BYTES if are_read else None

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True: one can seek forward."""
        return True

    def tell(self) -> int:
        """Returns how much of the content has been read or passed."""
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next ``size`` bytes, or less at the end."""
        if size < 0 or (self._left is not None and size > self._left):
            raise ValueError(f"a header of more than {HEADERS_MAX_BYTES >> 20} MiB is in it")
        data = self._next(size)
        if self._left is not None:
            self._left -= len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Passes what comes before ``offset``."""
        if whence != io.SEEK_SET or offset < self._position:
            raise ValueError("a member of a size below zero is in it")
        while self._position < offset and self._next(min(_CHUNK_BYTES, offset - self._position)):
            self._at_step()
        return self._position

    def sha256(self) -> str:
        """Returns the SHA-256 of the whole file. What is left of it is read, and not unzipped."""
        while self._digested.read(_CHUNK_BYTES):
            pass
        return self._digested.digest.hexdigest()

    def _next(self, size: int) -> bytes:
        data = self._content.read(size)
        self._position += len(data)
        if self._position > self._max_bytes:
            raise ValueError(f"more than {self._max_bytes >> 30} GiB are in it")
        if self._position - self._stepped >= STEP_BYTES:
            self._stepped = self._position
            self._at_step()
        return data

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._content.close()
        self.close()
