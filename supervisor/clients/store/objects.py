"""Defines the port to objects below one location: what S3 and a directory both can do, in about ten calls.

``tree`` and ``area`` are views of it, written once; ``s3_objects`` and ``file_objects`` implement it. ``s3``
and ``removal`` use S3 through the same client. On a file system those two have code of their own, because
they rest on more than objects have: ``files`` on a directory that is made once and on link(2), ``removal`` on
descriptors that stay open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from supervisor.clients.store.base import StoreEntry

PARTIAL: Final = ".partial"
"""The names of files that are being written end with this: what is left of a crash is no object."""

FOLDERS_DEEP_MAX: Final = 64
"""No checkpoint is nested deeper."""


class Item(NamedTuple):
    """Is an object as it was listed. ``mark`` changes when the object is replaced (ETag; time of the last
    change of a file)."""

    key: str
    bytes: int
    mark: str


class Level(NamedTuple):
    """Is one level of a tree: the names of the directories, and the objects, both without the path above
    them, sorted."""

    folders: tuple[str, ...]
    objects: tuple[StoreEntry, ...]


class ObjectClient(Protocol):
    """Accesses the objects below ``location``; keys are relative to it. It is safe to use from several
    threads at once.

    Every call may raise ``Unreachable``, ``AccessDenied`` and ``InvalidInput``. An absent object or folder is
    empty in a listing, and ``NotFound`` to the other calls. ``requests`` counts what was sent so far,
    repeated requests too (S3; else it stays 0).
    """

    location: str
    requests: int

    def level(self, folder: str) -> Level:
        """Returns one level. ``folder`` is ``""`` for the top, else a path without slashes at its ends."""
        ...

    def objects(
        self, prefix: str, after: str = "", at_once: int | None = None, *, whole: bool = False
    ) -> Iterator[StoreEntry]:
        """Yields all objects below ``prefix`` (empty, or a folder with its slash) whose key is greater than
        ``after``, by the bytes of their keys. Directory markers are skipped. ``at_once`` is the size of a
        page. With ``whole``, what lies there and is no object (a link) raises ``Corrupt``; else it is left out."""
        ...

    def get(self, key: str, max_bytes: int) -> bytes:
        """Returns the whole object. Raises ``Corrupt`` when it is larger than ``max_bytes``."""
        ...

    def put(self, key: str, data: bytes, *, only_new: bool, max_s: float) -> None:
        """Writes an object. With ``only_new`` it does so unless the key is taken: the same bytes are no
        error, others raise ``Conflict``."""
        ...

    def copy(self, source: ObjectClient, item: Item, key: str) -> str:
        """Copies ``item`` of ``source`` to ``key``, as it was listed or not at all; returns its tag. See
        ``area``."""
        ...

    def tag(self, item: Item) -> str:
        """Returns what identifies the content of an object."""
        ...

    def delete(self, key: str) -> None:
        """Deletes an object. An absent one is no error."""
        ...

    def flush(self) -> None:
        """Makes durable what was copied."""
        ...

    def require_writable(self) -> None:
        """Checks, without a change, that nobody else could choose what is written to here. Raises ``AccessDenied``."""
        ...

    def require_room(self, more: int) -> None:
        """Checks that there is room for ``more`` bytes. Raises ``Unreachable``."""
        ...

    def require_closed(self, folder: str) -> None:
        """Checks that a program may open by its names what lies below ``folder``. Raises ``AccessDenied``."""
        ...

    def now_s(self) -> float:
        """Returns seconds since the epoch by the clock of the service."""
        ...
