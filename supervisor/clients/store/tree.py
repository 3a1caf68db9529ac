"""Somebody else's directory, looked at and never changed: a checkpoint on S3 or on a file system of this host.

A ``Store`` is ours: its keys obey our rules, and opening it makes a directory. What Spark writes has names of its own
(``.metadata.crc``), may be absent, and is none of ours. ``checkpoint`` is the only caller. Keys are relative to the
location; listings come page by page, so that a hundred thousand objects cost a page of memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from supervisor.clients.store.base import DEADLINE_S, StoreEntry, listing_order
from supervisor.clients.store.deadline import Bounded, Budget, places_on
from supervisor.errors import AccessDenied, Corrupt, NotFound, SupervisorError, Unreachable
from supervisor.model.location import normalise
from supervisor.spec.s3a import S3Access

LISTING_MAX_S: Final = 300.0
FOLDERS_MAX: Final = 100_000
"""Of one level: partitions of one stateful operator, at most."""


class Level(NamedTuple):
    """One level of a tree: names of the directories, and the objects, both without what is above them, sorted."""

    folders: tuple[str, ...]
    objects: tuple[StoreEntry, ...]


class Tree(Protocol):
    """A location. Safe to use from several threads at once. ``requests``: how many were sent so far (S3; else 0).

    Every method may raise ``Unreachable``, ``AccessDenied`` and ``InvalidInput``. What is absent is empty in a listing, and
    ``NotFound`` to ``read``.
    """

    location: str
    requests: int

    def level(self, folder: str) -> Level:
        """``folder``: ``""`` for the top, else a path without slashes at its ends."""
        ...

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        """All objects below ``folder`` whose key is greater than ``after``, by the bytes of their keys. Directory markers
        (keys that end in ``/``) are skipped. Keys are relative to the location. ``at_once``: size of a page."""
        ...

    def read(self, key: str, max_bytes: int) -> bytes:
        """The whole object. ``Corrupt`` when it is larger than ``max_bytes``."""
        ...


def open_tree(location: str, access: S3Access, deadline_s: float = DEADLINE_S) -> Tree | None:
    """No I/O. None: nobody but Spark can look there (HDFS …). Raises ``InvalidInput``.

    ``access``: where S3 is (``spec.s3a.access_of``); credentials are those of the default chain. ``deadline_s``: of each
    request, retries included.
    """
    location = normalise(location)
    if location.startswith("file://"):
        return DirectoryTree(location, deadline_s)
    if location.startswith("s3://"):
        from supervisor.clients.store.s3_tree import S3Tree  # here: boto3 is slow to import

        return S3Tree(location, access, deadline_s)
    return None


class DirectoryTree:
    """``location``: normalised, ``file:///…``. A file system that hangs costs its deadline, like a store."""

    def __init__(self, location: str, deadline_s: float = DEADLINE_S) -> None:
        self.location = location
        self.requests = 0
        self._root = location.removeprefix("file://")
        self._bounded = Bounded(deadline_s, places_on(self._root))

    def level(self, folder: str) -> Level:
        names = self._listed(folder)
        folders = tuple(name for name, status in names if stat.S_ISDIR(status.st_mode))
        return Level(
            folders, tuple(_entry(name, status) for name, status in names if stat.S_ISREG(status.st_mode))
        )

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        wanted = listing_order(after)
        prefix = f"{folder}/" if folder else ""
        ordered = [
            (f"{prefix}{name}{'/' if stat.S_ISDIR(status.st_mode) else ''}", status)
            for name, status in self._listed(folder)
        ]
        for key, status in sorted(ordered, key=lambda item: listing_order(item[0])):
            if key.endswith("/"):
                if listing_order(key + "\U0010ffff") > wanted:
                    yield from self.entries(key[:-1], after, at_once)
            elif stat.S_ISREG(status.st_mode) and listing_order(key) > wanted:
                yield _entry(key, status)

    def read(self, key: str, max_bytes: int) -> bytes:
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
            raise _meaning(error, str(path)) from None
        if len(data) > max_bytes:
            raise Corrupt(f"{path} is larger than the {max_bytes} bytes it may have")
        return data

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
            raise _meaning(error, path) from None


def _entry(key: str, status: os.stat_result) -> StoreEntry:
    return StoreEntry(key, status.st_size, status.st_mtime)


def _meaning(error: OSError, path: str) -> SupervisorError:
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return Corrupt(f"{path} is not a regular file")
    if isinstance(error, PermissionError):
        return AccessDenied(f"{path} may not be read by the supervisor; grant it to the user that runs it")
    return Unreachable(f"{path} cannot be read ({error.strerror or error})")
