"""Implements ``ObjectClient`` for a directory on a file system of this host.

A copy is written beside its name, synced and renamed; a small object that must be new is linked to its name,
which lets one of several writers win. A file system that hangs costs its deadline, like a store.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from supervisor.clients import umask
from supervisor.clients.store.base import CHUNK_BYTES, DEADLINE_S, TRANSFER_MAX_S, StoreEntry, listing_order
from supervisor.clients.store.deadline import Bounded, Budget, slots_on
from supervisor.clients.store.local import counted, write_chunks
from supervisor.clients.store.objects import PARTIAL, Item, Level, ObjectClient
from supervisor.errors import (
    AccessDenied,
    Conflict,
    Corrupt,
    InvalidInput,
    NotFound,
    SupervisorError,
    Unreachable,
)

T = TypeVar("T")
LISTING_MAX_S: Final = 300.0


class FileObjectClient:
    """Accesses the objects below ``location``, which is normalised, ``file:///…``. The directory is made when
    the first object is put there. ``requests`` stays 0."""

    def __init__(self, location: str, deadline_s: float = DEADLINE_S) -> None:
        self.location = location
        self.requests = 0
        self._root = location.removeprefix("file://")
        self._bounded = Bounded(deadline_s, slots_on(self._root))
        self._lock = threading.Lock()
        self._touched: set[Path] = set()

    def level(self, folder: str) -> Level:
        names = self._listed(folder)
        folders = tuple(name for name, status in names if stat.S_ISDIR(status.st_mode))
        return Level(
            folders, tuple(_entry(name, status) for name, status in names if stat.S_ISREG(status.st_mode))
        )

    def objects(self, prefix: str, after: str = "", at_once: int | None = None) -> Iterator[StoreEntry]:
        """Yields the objects. ``at_once`` has no effect: a directory is listed as a whole, when its turn
        comes."""
        wanted = listing_order(after)
        ordered = [
            (f"{prefix}{name}{'/' if stat.S_ISDIR(status.st_mode) else ''}", status)
            for name, status in self._listed(prefix.removesuffix("/"))
        ]
        for key, status in sorted(ordered, key=lambda item: listing_order(item[0])):
            if key.endswith("/"):
                if listing_order(key + "\U0010ffff") > wanted:
                    yield from self.objects(key, after, at_once)
            elif stat.S_ISREG(status.st_mode) and listing_order(key) > wanted:
                yield _entry(key, status)

    def get(self, key: str, max_bytes: int) -> bytes:
        path = Path(f"{self._root}/{key}")

        def work(_budget: object) -> bytes:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise Corrupt(f"{path} is not a regular file")
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(max_bytes + 1)

        try:
            data = self._bounded.run(str(path), work)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{path} does not exist") from None
        except OSError as error:
            raise _reading_failed(error, str(path)) from None
        if len(data) > max_bytes:
            raise Corrupt(f"{path} is larger than the {max_bytes} bytes it may have")
        return data

    def put(self, key: str, data: bytes, *, only_new: bool, max_s: float = TRANSFER_MAX_S) -> None:
        if only_new:
            self._run(key, lambda _budget: self._create(key, data), max_s)
        else:
            self._run(key, lambda _budget: self._publish(key, iter((data,)), None), max_s)
            self.flush()

    def copy(self, source: ObjectClient, item: Item, key: str) -> str:
        if not isinstance(source, FileObjectClient):
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
                return self._publish(key, counted(chunks, budget, "copied"), found.st_mtime_ns)

        return self._run(str(origin), work)

    def tag(self, item: Item) -> str:
        path = Path(f"{self._root}/{item.key}")

        def work(budget: Budget) -> str:
            sha256 = hashlib.sha256()
            with path.open("rb") as stream:
                chunks = iter(lambda: stream.read(CHUNK_BYTES), b"")
                for chunk in counted(chunks, budget, "copied"):
                    sha256.update(chunk)
            return sha256.hexdigest()

        return self._run(str(path), work)

    def delete(self, key: str) -> None:
        def work(_budget: Budget) -> None:
            path = Path(f"{self._root}/{key}")
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            with suppress(OSError):  # not empty
                while f"{path.parent}".startswith(self._root):
                    path = path.parent
                    path.rmdir()

        self._run(key, work)

    def flush(self) -> None:
        with self._lock:
            touched, self._touched = self._touched, set()
        above = {
            place for path in touched for place in (path, *path.parents) if f"{place}".startswith(self._root)
        }
        for place in sorted(above | {Path(self._root).parent} if above else above):
            self._run(str(place), partial(_sync, place))

    def now_s(self) -> float:
        def work(_budget: Budget) -> float:
            written = self._partial(Path(f"{self._root}/now"), iter(()))[0]
            try:
                return written.stat().st_mtime
            finally:
                with suppress(OSError):
                    written.unlink()

        return self._run(self._root, work)

    # -- reading --------------------------------------------------------------------------------------------------

    def _listed(self, folder: str) -> list[tuple[str, os.stat_result]]:
        path = f"{self._root}/{folder}" if folder else self._root

        def work(budget: Budget) -> list[tuple[str, os.stat_result]]:
            found = []
            with os.scandir(path) as children:
                for position, child in enumerate(children, 1):
                    budget.moved("listed", position)
                    try:
                        found.append((child.name, child.stat()))
                    except OSError as error:
                        if error.errno not in (errno.ENOENT, errno.ELOOP):
                            raise
                        continue  # gone meanwhile, or a link that leads nowhere
            return sorted(found, key=lambda item: listing_order(item[0]))

        try:
            return self._bounded.run(path, work, LISTING_MAX_S)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _reading_failed(error, path) from None

    # -- writing --------------------------------------------------------------------------------------------------

    def _create(self, key: str, data: bytes) -> None:
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
        try:
            with written.open("xb") as stream:
                umask.share(stream.fileno())
                return written, write_chunks(stream, chunks)
        except BaseException:
            with suppress(OSError):
                written.unlink()
            raise

    def _run(self, what: str, work: Callable[[Budget], T], max_s: float = TRANSFER_MAX_S) -> T:
        try:
            return self._bounded.run(what, work, max_s)
        except OSError as error:
            raise _writing_failed(error, what) from None


def _entry(key: str, status: os.stat_result) -> StoreEntry:
    return StoreEntry(key, status.st_size, status.st_mtime, str(status.st_mtime_ns))


def _sync(directory: Path, _budget: Budget | None = None) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems have no such call for directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reading_failed(error: OSError, path: str) -> SupervisorError:
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return Corrupt(f"{path} is not a regular file")
    if isinstance(error, PermissionError):
        return AccessDenied(f"{path} may not be read by the supervisor", "grant it to the user that runs it")
    return Unreachable(f"{path} cannot be read ({error.strerror or error})")


def _writing_failed(error: OSError, what: str) -> SupervisorError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{what} does not exist")
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
        return AccessDenied(
            f"{what} can't be read or written ({reason})", "correct the permissions, or the location"
        )
    return Unreachable(f"{what} can't be read or written ({reason})", "make room or repair it, and try again")
