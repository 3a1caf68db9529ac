"""Implements ``ObjectClient`` for a directory on a file system of this host.

What lies there may be another user's, who may change it at any time: ``clients.foreign_files`` opens it, and says what is
not read and not written to. So links within the location are no objects, and nobody is sent over them. There are bounds
for what is listed; a job can make a directory that has no end. A copy is written beside its name, synced and renamed, with
the holes that the original has; a small object that must be new is linked to its name, which lets one of several writers
win. A file system that hangs costs its deadline, like a store.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from supervisor.clients import umask
from supervisor.clients.foreign_files import (
    UntrustedPath,
    WriterTrust,
    create_file,
    directory_at,
    directory_in,
    directory_to_write,
    free_bytes,
    open_file,
    own_trust,
    require_closed,
    require_writable,
    store_trust,
)
from supervisor.clients.store.base import DEADLINE_S, TRANSFER_MAX_S, StoreEntry, listing_order
from supervisor.clients.store.deadline import Bounded, Budget, slots_on
from supervisor.clients.store.local import counted, pieces_of, write_chunks
from supervisor.clients.store.objects import (
    FOLDERS_DEEP_MAX,
    PARTIAL,
    Item,
    Level,
    ObjectClient,
)
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
OBJECTS_MAX: Final = 4_000_000
"""So many objects are listed below one location. A stateful job with thousands of partitions has a million."""
FOLDER_MAX: Final = 500_000
"""So many entries one directory may have: they are sorted in memory."""
ROOM_LEFT_BYTES: Final = 256 * 1024**2
"""So much a copy leaves free for others on its file system."""
OBJECT_MAX_BYTES: Final = 2**40
"""No file of a checkpoint is larger. Holes count here: whoever digests the file reads them."""
_KEEP_SMALLER: Final = "no checkpoint of Spark's is like this: see what has been put there"


class _Entry(NamedTuple):
    name: str
    kind: int
    bytes: int
    modified_ns: int


class FileObjectClient:
    """Accesses the objects below ``location``, which is normalised, ``file:///…``. The directory is made when
    the first object is put there. ``store`` is the directory of the supervisor's own store if the location may be in it.
    ``requests`` stays 0."""

    def __init__(self, location: str, deadline_s: float = DEADLINE_S, store: str = "") -> None:
        self.location = location
        self.requests = 0
        self._root = location.removeprefix("file://")
        self._store = store if store and f"{self._root}/".startswith(f"{store}/") else ""
        self._bounded = Bounded(deadline_s, slots_on(self._root))
        self._lock = threading.Lock()
        self._touched: set[str] = set()
        self._written_to: tuple[int, int] | None = None

    def level(self, folder: str) -> Level:
        found = self._listed(folder)
        folders = tuple(each.name for each in found if each.kind == stat.S_IFDIR)
        return Level(folders, tuple(_object(each.name, each) for each in found if each.kind == stat.S_IFREG))

    def objects(
        self,
        prefix: str,
        after: str = "",
        at_once: int | None = None,  # noqa: ARG002
        *,
        whole: bool = False,
    ) -> Iterator[StoreEntry]:
        """Yields the objects. ``at_once`` has no effect: a directory is listed as a whole, when its turn
        comes."""
        for count, each in enumerate(self._objects(prefix, listing_order(after), whole)):
            if count >= OBJECTS_MAX:
                raise Corrupt(f"{self._root} has more than {OBJECTS_MAX} files", _KEEP_SMALLER)
            yield each

    def _objects(self, prefix: str, after: bytes, whole: bool) -> Iterator[StoreEntry]:
        if prefix.count("/") > FOLDERS_DEEP_MAX:
            raise Corrupt(
                f"{self._root} has directories that are more than {FOLDERS_DEEP_MAX} deep: {prefix[:80]}…",
                _KEEP_SMALLER,
            )
        ordered = [
            (f"{prefix}{each.name}{'/' if each.kind == stat.S_IFDIR else ''}", each)
            for each in self._listed(prefix.removesuffix("/"))
        ]
        for key, each in sorted(ordered, key=lambda item: listing_order(item[0])):
            if key.endswith("/"):
                if listing_order(key + "\U0010ffff") > after:
                    yield from self._objects(key, after, whole)
            elif listing_order(key) <= after:
                continue
            elif each.kind == stat.S_IFREG:
                yield _object(key, each)
            elif whole:
                kind = "a link" if each.kind == stat.S_IFLNK else "no regular file"
                raise Corrupt(
                    f"{self._root}/{key} is {kind}, and nothing that Spark writes to a checkpoint",
                    "remove it, or put the file itself in its place",
                )

    def get(self, key: str, max_bytes: int) -> bytes:
        path = f"{self._root}/{key}"
        try:
            data = self._bounded.run(path, lambda _budget: self._read(key, max_bytes))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{path} does not exist") from None
        except OSError as error:
            raise _reading_failed(error, path) from None
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
        origin = f"{source._root}/{item.key}"

        def work(budget: Budget) -> str:
            with source._opened(item.key) as descriptor:
                found = os.fstat(descriptor)
                if (found.st_size, str(found.st_mtime_ns)) != (item.bytes, item.mark):
                    raise Conflict(f"{origin} was replaced meanwhile")
                chunks = counted(pieces_of(descriptor, found.st_size), budget, "copied")
                return self._publish(key, chunks, found.st_mtime_ns)

        return self._run(origin, work)

    def tag(self, item: Item) -> str:
        def work(budget: Budget) -> str:
            sha256 = hashlib.sha256()
            with self._opened(item.key) as descriptor:
                chunks = pieces_of(descriptor, os.fstat(descriptor).st_size)
                for chunk in counted(chunks, budget, "copied"):
                    sha256.update(chunk)
            return sha256.hexdigest()

        return self._run(f"{self._root}/{item.key}", work)

    def delete(self, key: str) -> None:
        def work(_budget: Budget) -> None:
            folder, _, name = key.rpartition("/")
            with suppress(FileNotFoundError, NotADirectoryError):
                with self._at(folder) as directory:
                    os.unlink(name, dir_fd=directory)
                self._remove_empty(folder)

        self._run(key, work)

    def _remove_empty(self, folder: str) -> None:
        """Removes the directory, and those above it up to the location itself, as far as they are empty."""
        with suppress(OSError):  # not empty
            while folder:
                folder, _, name = folder.rpartition("/")
                with self._at(folder) as above:
                    os.rmdir(name, dir_fd=above)
            with self._above() as above:
                os.rmdir(self._root.rpartition("/")[2], dir_fd=above)
            self._written_to = None

    def flush(self) -> None:
        with self._lock:
            touched, self._touched = self._touched, set()
        above = {
            "/".join(parts[:n])
            for each in touched
            for parts in [each.split("/")]
            for n in range(len(parts) + 1)
        }
        for folder in sorted(above):
            self._run(f"{self._root}/{folder}", partial(self._sync, folder))
        if touched:
            self._run(self._root, self._sync_above)

    def now_s(self) -> float:
        def work(_budget: Budget) -> float:
            with self._to_write("") as directory, self._partial(directory, iter(())) as (name, _):
                return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime

        return self._run(self._root, work)

    def require_writable(self) -> None:
        if not self._store:
            self._run(self._root, lambda _budget: require_writable(self._root, own_trust()))

    def require_room(self, more: int) -> None:
        def work(_budget: Budget) -> None:
            free = free_bytes(self._root)
            if free is not None and free - more < ROOM_LEFT_BYTES:
                raise Unreachable(
                    f"{self._root} has no room for {more >> 20} MiB more: {free >> 20} MiB are free, of which "
                    f"{ROOM_LEFT_BYTES >> 20} MiB have to be left",
                    "make room there, or choose another place",
                )

        self._run(self._root, work)

    def require_closed(self, folder: str) -> None:
        top, below = (self._store, self._in_store(folder)) if self._store else (self._root, folder)
        self._run(
            self._root, lambda _budget: require_closed(top, below.strip("/"), self._trust()), LISTING_MAX_S
        )

    def _in_store(self, folder: str) -> str:
        return f"{self._root[len(self._store) :]}/{folder}"

    def _at(self, folder: str, *, to_list: bool = False) -> AbstractContextManager[int]:
        """Opens a directory of the location. Raises OSError."""
        if self._store:
            return directory_in(self._store, self._in_store(folder), to_list=to_list)
        return directory_at(self._root, folder, to_list=to_list)

    def _above(self, *, to_list: bool = False) -> AbstractContextManager[int]:
        """Opens the directory that the location is in. Raises OSError."""
        above = self._root.rpartition("/")[0]
        if len(above) >= len(self._store) > 0:
            return directory_in(self._store, above[len(self._store) :], to_list=to_list)
        return directory_at(above, to_list=to_list)

    # -- reading --------------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        """Opens a file for reading. Raises OSError, NotFound, Corrupt."""
        folder, _, name = key.rpartition("/")
        try:
            with self._at(folder) as directory:
                descriptor = open_file(directory, name)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{self._root}/{key} does not exist") from None
        except OSError as error:
            raise _reading_failed(error, f"{self._root}/{key}") from None
        try:
            if os.fstat(descriptor).st_size > OBJECT_MAX_BYTES:
                raise Corrupt(f"{self._root}/{key} is larger than {OBJECT_MAX_BYTES} bytes", _KEEP_SMALLER)
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, key: str, max_bytes: int) -> bytes:
        with self._opened(key) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(max_bytes + 1)

    def _listed(self, folder: str) -> list[_Entry]:
        path = f"{self._root}/{folder}" if folder else self._root

        def work(budget: Budget) -> list[_Entry]:
            found = []
            with (
                self._at(folder, to_list=True) as directory,
                os.scandir(directory) as children,
            ):
                for position, child in enumerate(children, 1):
                    budget.moved("listed", position)
                    if position > FOLDER_MAX:
                        raise Corrupt(f"{path} has more than {FOLDER_MAX} entries", _KEEP_SMALLER)
                    with suppress(FileNotFoundError):  # gone meanwhile
                        found.append(_entry(child.name, child.stat(follow_symlinks=False)))
            return sorted(found, key=lambda each: listing_order(each.name))

        try:
            return self._bounded.run(path, work, LISTING_MAX_S)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _reading_failed(error, path) from None

    # -- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def _to_write(self, folder: str) -> Iterator[int]:
        """Opens a directory to write to, which is made if it is missing. Raises OSError, and Conflict if the location is
        another directory than before: where others may rename it, it can be exchanged."""
        top, below = self._root, folder
        if self._store:
            umask.make_shared_directories(self._store)
            top, below = self._store, self._in_store(folder)
        with directory_to_write(top, below, self._trust()) as (directory, identity):
            if self._written_to not in (None, identity):
                raise Conflict(
                    f"{top} was exchanged while it was written to", "see who may change its directory"
                )
            self._written_to = identity
            yield directory

    def _trust(self) -> WriterTrust:
        return store_trust(self._store) if self._store else own_trust()

    def _create(self, key: str, data: bytes) -> None:
        folder, _, name = key.rpartition("/")
        with self._to_write(folder) as directory:
            with self._partial(directory, iter((data,))) as (written, _):
                try:
                    os.link(written, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
                except FileExistsError:
                    if self._read(key, len(data)) != data:
                        raise Conflict(
                            f"{self._root}/{key} exists with another content; it is never overwritten"
                        ) from None
            _sync(directory)

    def _publish(self, key: str, chunks: Iterator[bytes], modified_ns: int | None) -> str:
        folder, _, name = key.rpartition("/")
        with (
            self._to_write(folder) as directory,
            self._partial(directory, chunks, modified_ns) as (written, sha256),
        ):
            os.rename(written, name, src_dir_fd=directory, dst_dir_fd=directory)
        with self._lock:
            self._touched.add(folder)
        return sha256

    @contextmanager
    def _partial(
        self, directory: int, chunks: Iterator[bytes], modified_ns: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Writes a file of its own name, and yields that name and the sha256 of what it has. At the end the name is gone."""
        written = f".{secrets.token_hex(8)}{PARTIAL}"
        try:
            with os.fdopen(create_file(directory, written), "wb") as stream:
                umask.share(stream.fileno())
                self._trust().hand_over(stream.fileno())
                sha256 = write_chunks(stream, chunks)
                if modified_ns is not None:  # so that a copy that is there already is known again
                    os.utime(stream.fileno(), ns=(modified_ns, modified_ns))
            yield written, sha256
        finally:
            with suppress(OSError):
                os.unlink(written, dir_fd=directory)

    def _sync_above(self, _budget: Budget) -> None:
        """Makes the name of the location durable; who may not read the directory above it can't."""
        with suppress(FileNotFoundError, PermissionError), self._above(to_list=True) as directory:
            _sync(directory)

    def _sync(self, folder: str, _budget: Budget) -> None:
        with suppress(FileNotFoundError), self._at(folder, to_list=True) as directory:
            _sync(directory)

    def _run(self, what: str, work: Callable[[Budget], T], max_s: float = TRANSFER_MAX_S) -> T:
        try:
            return self._bounded.run(what, work, max_s)
        except OSError as error:
            raise _writing_failed(error, what) from None


def _entry(name: str, status: os.stat_result) -> _Entry:
    return _Entry(name, stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns)


def _object(key: str, entry: _Entry) -> StoreEntry:
    return StoreEntry(key, entry.bytes, entry.modified_ns / 1e9, str(entry.modified_ns))


def _sync(directory: int) -> None:
    with suppress(OSError):  # some network file systems have no such call for directories
        os.fsync(directory)


def _reading_failed(error: OSError, path: str) -> SupervisorError:
    if isinstance(error, UntrustedPath):
        return _not_trusted(error)
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.EINVAL):
        return Corrupt(f"{path} is not a regular file")
    if isinstance(error, PermissionError):
        return AccessDenied(f"{path} may not be read by the supervisor", "grant it to the user that runs it")
    return Unreachable(f"{path} cannot be read ({error.strerror or error})")


def _writing_failed(error: OSError, what: str) -> SupervisorError:
    reason = error.strerror or str(error)
    if isinstance(error, UntrustedPath):
        return _not_trusted(error)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{what} does not exist")
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
        return AccessDenied(
            f"{what} can't be read or written ({reason})", "correct the permissions, or the location"
        )
    return Unreachable(f"{what} can't be read or written ({reason})", "make room or repair it, and try again")


def _not_trusted(error: UntrustedPath) -> AccessDenied:
    return AccessDenied(
        f"{error.filename} is not used: {error.strerror} (user {os.geteuid()} asks)",
        "do it as the user to whom it belongs, or give a place that only root and the user of the supervisor can change",
    )
