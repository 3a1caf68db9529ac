"""Implements the store in a directory, local or on a file system that all hosts share (``file:///dir``).

The embedded stack, tests without S3, and clusters with NFS use it. An object is one regular file. It is
written to ``<root>/.tmp`` and linked to its name with link(2): a reader sees the whole object or none, and of
concurrent writers the file system lets exactly one succeed, across hosts too. rename(2) would let the last
one win. Its modes are as the host's umask says, also where a supervisor writes, which keeps all else private:
other users' commands may use the same store.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from supervisor.clients import umask
from supervisor.clients.foreign_files import store_trust
from supervisor.clients.store.base import (
    CHUNK_BYTES,
    DEADLINE_S,
    TRANSFER_MAX_S,
    StoreEntry,
    checked_key,
    listing_order,
)
from supervisor.clients.store.deadline import Bounded, Budget
from supervisor.clients.store.local import (
    counted,
    digest_of,
    require_unchanged,
    source_chunks,
    write_chunks,
    write_whole,
)
from supervisor.errors import AccessDenied, Conflict, Corrupt, NotFound, SupervisorError, Unreachable

T = TypeVar("T")
TEMPORARY = ".tmp"
TEMPORARY_KEPT_S = 24 * 3600.0
LINK_TRIES = 8

_REFUSED = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG)
    + (errno.EISDIR, errno.EXDEV, errno.ENOTSUP, errno.EMLINK)
)
"""After these errors trying again cannot help: permissions are missing, or the directory cannot be a store.
All others (full disk, I/O error, stale NFS handle) are ``Unreachable``."""


class FileStore:
    """Is a ``Store`` in ``root`` (absolute), which is created when it is missing. ``deadline_s`` bounds each
    operation."""

    def __init__(
        self, root: Path, deadline_s: float = DEADLINE_S, transfer_max_s: float = TRANSFER_MAX_S
    ) -> None:
        self._root = root
        self._bounded = Bounded(deadline_s)
        self._transfer_max_s = transfer_max_s
        self._root_was_made = False
        self.url = root.as_uri()

    def create(self, key: str, data: bytes) -> None:
        self._run(key, lambda budget, path: self._publish(budget, path, [data]))

    def create_from(self, key: str, source: Path, sha256: str | None = None) -> None:
        def work(budget: Budget, path: Path) -> None:
            chunks = counted(source_chunks(source), budget, "written")
            self._publish(budget, path, chunks, lambda found: require_unchanged(source, found, sha256))

        self._run(key, work, self._transfer_max_s)

    def read(self, key: str, max_bytes: int) -> bytes:
        def work(_budget: Budget, path: Path) -> bytes:
            with _opened(path) as stream:
                data = stream.read(max_bytes + 1)
            if len(data) > max_bytes:
                raise Corrupt(f"{path} is larger than the {max_bytes} bytes it may have")
            return data

        return self._run(key, work)

    def read_to(self, key: str, target: Path) -> str:
        def work(budget: Budget, path: Path) -> str:
            return write_whole(target, self._chunks(path, budget, "read"))

        return self._run(key, work, self._transfer_max_s)

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        if prefix:
            checked_key(prefix.removesuffix("/"))

        def work(budget: Budget) -> list[StoreEntry]:
            with self._translated(self._root):
                self._found()
                found = self._walk(budget, prefix.rpartition("/")[0])
                kept = [
                    entry
                    for entry in found
                    if entry.key.startswith(prefix) and listing_order(entry.key) > listing_order(after)
                ]
            return sorted(kept, key=lambda entry: listing_order(entry.key))

        yield from self._bounded.run(f"{self.url}/{prefix}", work, self._transfer_max_s)

    def delete(self, key: str) -> None:
        def work(_budget: Budget, path: Path) -> None:
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                path.unlink()
            self._drop_empty(path.parent)

        self._run(key, work)

    def check(self) -> None:
        """Checks the store. It also proves that this process can write there, and removes what writers that
        died left among the temporary files."""

        def work(_budget: Budget) -> None:
            with self._translated(self._root):
                self._found()
                with self._temporary() as (probe, _):
                    _drop_leftovers(probe)

        self._bounded.run(self.url, work)

    def _run(self, key: str, work: Callable[[Budget, Path], T], max_s: float | None = None) -> T:
        path = self._root / checked_key(key)

        def guarded(budget: Budget) -> T:
            with self._translated(path):
                self._found()
                return work(budget, path)

        return self._bounded.run(str(path), guarded, max_s)

    def _found(self) -> None:
        """Creates the directory, once: if it vanishes later, a share was unmounted; a new one would be
        another store."""
        if not self._root_was_made:
            umask.make_shared_directories(str(self._root))
            self._root_was_made = True

    @contextmanager
    def _translated(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._meaning(error, path) from None

    def _meaning(self, error: OSError, path: Path) -> SupervisorError:
        reason = error.strerror or str(error)
        if not self._root.is_dir() and error.errno == errno.ENOENT:
            return Unreachable(f"the store directory {self._root} is gone", "is it mounted on this host?")
        if error.errno == errno.ENOENT:
            return NotFound(f"{path} does not exist")
        if error.errno in _REFUSED:
            return AccessDenied(f"the store refused {path}: {reason}", "correct the permissions or store.url")
        return Unreachable(f"the store failed at {path}: {reason}")

    def _publish(
        self,
        budget: Budget,
        path: Path,
        chunks: Iterable[bytes],
        approve: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Writes, passes the sha256 to ``approve``, and links. It is durable on return, also if another
        writer was first."""
        with self._temporary() as (temporary, stream):
            sha256 = write_chunks(stream, chunks)
            approve(sha256)
            budget.check()  # given up meanwhile: nobody waits for this object any more
            created = self._link(temporary, path)
        if not created and digest_of(self._chunks(path, budget, "compared")).sha256 != sha256:
            raise Conflict(f"{path} exists with another content; it is never overwritten")
        self._sync_up(path.parent)

    def _link(self, temporary: Path, path: Path) -> bool:
        for _ in range(LINK_TRIES):
            self._make(path.parent)
            try:
                os.link(temporary, path, follow_symlinks=False)
            except FileExistsError:
                return False
            except FileNotFoundError:  # a delete beside us removed the empty directory
                continue
            return True
        raise Unreachable(f"{path} could not be linked: its directory keeps vanishing", "try again")

    @contextmanager
    def _temporary(self) -> Iterator[tuple[Path, IO[bytes]]]:
        temporary = self._root / TEMPORARY / secrets.token_hex(16)
        self._make(temporary.parent)
        with temporary.open("xb") as stream:
            umask.share(stream.fileno())
            store_trust(str(self._root)).hand_over(stream.fileno())
            try:
                yield temporary, stream
            finally:
                with suppress(OSError):
                    temporary.unlink()

    def _make(self, directory: Path) -> None:
        """Makes a directory and what is missing above it, never the root (see ``_found``). What root makes belongs to the
        owner of the store, as in ``clients.foreign_files``."""
        for place in (
            *reversed(directory.relative_to(self._root).parents),
            directory.relative_to(self._root),
        ):
            path = self._root / place
            if path == self._root or path.is_dir():
                continue
            umask.make_shared_directory(str(path))
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                store_trust(str(self._root)).hand_over(descriptor)
            finally:
                os.close(descriptor)

    def _sync_up(self, directory: Path) -> None:
        """Syncs the directory and those above it, because any of them may be new, made by this writer or by
        another one at the same time."""
        for place in (directory, *directory.parents):
            if not place.is_relative_to(self._root):
                return
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # some network file systems have no such call for directories
                    raise
            finally:
                os.close(descriptor)

    def _drop_empty(self, directory: Path) -> None:
        with suppress(OSError):  # not empty, or somebody was faster
            while directory != self._root:
                directory.rmdir()
                directory = directory.parent

    def _chunks(self, path: Path, budget: Budget, way: str) -> Iterator[bytes]:
        with self._translated(path), _opened(path) as stream:
            yield from counted(iter(lambda: stream.read(CHUNK_BYTES), b""), budget, way)

    def _walk(self, budget: Budget, top: str) -> list[StoreEntry]:
        found: list[StoreEntry] = []
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            budget.check()
            for name, status in _listed(self._root / folder):
                key = f"{folder}/{name}" if folder else name
                if stat.S_ISDIR(status.st_mode) and key != TEMPORARY:
                    waiting.append(key)
                elif stat.S_ISREG(status.st_mode):
                    found.append(StoreEntry(key, status.st_size, status.st_mtime))
            budget.moved("listed", len(found))
        if not self._root.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens an object for reading. Anything but a regular file is refused: a FIFO would block, and a link
    would lead out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except NotADirectoryError:
        raise NotFound(f"{path} does not exist") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise NotFound(f"{path} does not exist")
        if not stat.S_ISREG(mode):
            raise Corrupt(f"{path} is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def _listed(directory: Path) -> list[tuple[str, os.stat_result]]:
    """Returns name and status of each entry of a directory; an entry that vanishes meanwhile is left out."""
    found = []
    try:
        with os.scandir(directory) as children:
            for child in children:
                with suppress(FileNotFoundError):
                    found.append((child.name, child.stat(follow_symlinks=child.is_dir())))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return found


def _drop_leftovers(probe: Path) -> None:
    """Deletes temporary files a day older than ``probe``, by the file server's own clock."""
    now_s = probe.stat().st_mtime
    for name, status in _listed(probe.parent):
        if now_s - status.st_mtime > TEMPORARY_KEPT_S:
            with suppress(OSError):
                (probe.parent / name).unlink()
