"""A location that is copied from and to: a ``Tree`` whose objects carry a mark, and that may be written.

``checkpoint`` makes and restores savepoints with it, and nobody else needs to. An object is copied as it was listed or not
at all: one that has gone meanwhile is ``NotFound``, one that was replaced is a ``Conflict``, and the caller looks again.
Copies never pass through this host on S3 (``CopyObject``); on a file system they are written beside their name, synced and
renamed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from supervisor.clients import umask
from supervisor.clients.store.base import CHUNK_BYTES, DEADLINE_S, TRANSFER_MAX_S
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.tree import DirectoryTree, Tree
from supervisor.errors import AccessDenied, Conflict, InvalidInput, NotFound, SupervisorError, Unreachable
from supervisor.model.location import normalise
from supervisor.spec.s3a import S3Access

T = TypeVar("T")
PARTIAL: Final = ".partial"
"""How the names of files end that are being written: what is left of a crash is no object."""


class Item(NamedTuple):
    """An object as it was listed. ``mark``: changes when it is replaced (ETag; time of the last change of a file)."""

    key: str
    bytes: int
    mark: str


class Area(Tree, Protocol):
    """Safe to use from several threads at once. Errors as those of ``Tree``."""

    def items(self, folder: str = "") -> Iterator[Item]:
        """All objects below ``folder``, in no order; keys are relative to the location."""
        ...

    def copy_from(self, source: Area, item: Item, key: str) -> str:
        """Put ``item`` of ``source`` at ``key``; returns its tag. ``NotFound``: it has gone. ``Conflict``: it is another by
        now. ``InvalidInput``: the source is on another service."""
        ...

    def tag(self, item: Item) -> str:
        """What tells the content of an object of this area: its ETag; the sha256 of a file, which is read for it."""
        ...

    def create(self, key: str, data: bytes) -> None:
        """A small object, unless the key is taken. The same bytes are there already: fine; others: ``Conflict``."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """A small object, in place of whatever is there."""
        ...

    def remove(self, key: str) -> None:
        """Absent: fine."""
        ...

    def settle(self) -> None:
        """What was copied is durable when this returns."""
        ...

    def now_s(self) -> float:
        """Seconds since the epoch by the service's own clock, to a second or so."""
        ...


def open_area(location: str, access: S3Access, deadline_s: float = DEADLINE_S) -> Area:
    """No I/O. Raises ``InvalidInput`` for a location that only Spark can reach (HDFS …). The rest as ``tree.open_tree``."""
    location = normalise(location)
    if location.startswith("file://"):
        return DirectoryArea(location, deadline_s)
    if location.startswith("s3://"):
        from supervisor.clients.store.s3_area import S3Area  # here: boto3 is slow to import

        return S3Area(location, access, deadline_s)
    raise InvalidInput(f"only Spark can reach {location}: savepoints are for file:// and s3a:// locations")


class DirectoryArea(DirectoryTree):
    """``location``: normalised, ``file:///…``. Made when the first object is put there."""

    def __init__(self, location: str, deadline_s: float = DEADLINE_S) -> None:
        super().__init__(location, deadline_s)
        self._lock = threading.Lock()
        self._touched: set[Path] = set()

    def items(self, folder: str = "") -> Iterator[Item]:
        prefix = f"{folder}/" if folder else ""
        for name, status in self._listed(folder):
            if stat.S_ISDIR(status.st_mode):
                yield from self.items(prefix + name)
            elif stat.S_ISREG(status.st_mode):
                yield Item(prefix + name, status.st_size, str(status.st_mtime_ns))

    def copy_from(self, source: Area, item: Item, key: str) -> str:
        if not isinstance(source, DirectoryArea):
            raise InvalidInput(
                f"{source.location} can't be copied to {self.location}: both must be on one service"
            )
        origin = Path(f"{source._root}/{item.key}")

        def work(budget: Budget) -> str:
            try:
                descriptor = os.open(origin, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                raise NotFound(f"{origin} does not exist") from None
            with os.fdopen(descriptor, "rb") as stream:
                found = os.fstat(descriptor)
                if (found.st_size, str(found.st_mtime_ns)) != (item.bytes, item.mark):
                    raise Conflict(f"{origin} was replaced meanwhile")
                chunks = iter(lambda: stream.read(CHUNK_BYTES), b"")
                return self._publish(key, _told(chunks, budget), found.st_mtime_ns)

        return self._run(str(origin), work)

    def tag(self, item: Item) -> str:
        path = Path(f"{self._root}/{item.key}")

        def work(budget: Budget) -> str:
            sha256 = hashlib.sha256()
            with path.open("rb") as stream:
                for chunk in _told(iter(lambda: stream.read(CHUNK_BYTES), b""), budget):
                    sha256.update(chunk)
            return sha256.hexdigest()

        return self._run(str(path), work)

    def create(self, key: str, data: bytes) -> None:
        def work(_budget: Budget) -> None:
            target = Path(f"{self._root}/{key}")
            written = self._partial(target, iter((data,)))[0]
            try:
                os.link(written, target)
            except FileExistsError:
                if target.read_bytes() != data:
                    raise Conflict(f"{target} exists with another content; it is never overwritten") from None
            finally:
                with suppress(OSError):
                    written.unlink()
            _sync(target.parent)

        self._run(key, work)

    def write(self, key: str, data: bytes) -> None:
        self._run(key, lambda _budget: self._publish(key, iter((data,)), None))
        self.settle()

    def remove(self, key: str) -> None:
        def work(_budget: Budget) -> None:
            path = Path(f"{self._root}/{key}")
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            with suppress(OSError):  # not empty
                while f"{path.parent}".startswith(self._root):
                    path = path.parent
                    path.rmdir()

        self._run(key, work)

    def settle(self) -> None:
        with self._lock:
            touched, self._touched = self._touched, set()
        above = {
            place for path in touched for place in (path, *path.parents) if f"{place}".startswith(self._root)
        }
        for place in sorted(above | {Path(self._root).parent} if above else above):
            self._run(str(place), partial(_synced, place))

    def now_s(self) -> float:
        def work(_budget: Budget) -> float:
            written = self._partial(Path(f"{self._root}/now"), iter(()))[0]
            try:
                return written.stat().st_mtime
            finally:
                with suppress(OSError):
                    written.unlink()

        return self._run(self._root, work)

    # -- writing --------------------------------------------------------------------------------------------------

    def _publish(self, key: str, chunks: Iterator[bytes], modified_ns: int | None) -> str:
        target = Path(f"{self._root}/{key}")
        written, sha256 = self._partial(target, chunks)
        try:
            if modified_ns is not None:  # so that a copy that is there already is known again
                os.utime(written, ns=(modified_ns, modified_ns))
            written.replace(target)
        finally:
            with suppress(OSError):
                written.unlink()
        with self._lock:
            self._touched.add(target.parent)
        return sha256

    @staticmethod
    def _partial(target: Path, chunks: Iterator[bytes]) -> tuple[Path, str]:
        umask.make_shared_directories(str(target.parent))
        written = target.with_name(f".{secrets.token_hex(8)}{PARTIAL}")
        sha256 = hashlib.sha256()
        try:
            with written.open("xb") as stream:
                umask.share(stream.fileno())
                for chunk in chunks:
                    sha256.update(chunk)
                    stream.write(chunk)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):
                written.unlink()
            raise
        return written, sha256.hexdigest()

    def _run(self, what: str, work: Callable[[Budget], T]) -> T:
        try:
            return self._bounded.run(what, work, TRANSFER_MAX_S)
        except OSError as error:
            raise _meaning(error, what) from None


def _told(chunks: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
    position = 0
    for chunk in chunks:
        position += len(chunk)
        budget.moved("copied", position)
        yield chunk


def _synced(directory: Path, _budget: Budget) -> None:
    _sync(directory)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems have no such call for directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _meaning(error: OSError, what: str) -> SupervisorError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{what} does not exist")
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
        return AccessDenied(
            f"{what} can't be read or written ({reason}); correct the permissions, or the location"
        )
    return Unreachable(f"{what} can't be read or written ({reason}); make room or mend it, and try again")
