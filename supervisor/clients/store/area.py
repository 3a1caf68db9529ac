"""Provides a location that is copied from and to: a ``Tree`` whose objects carry a mark, and that may be
written.

``savepoints`` makes and restores savepoints with it; no other module needs it. An object is copied as it was
listed or not at all: one that has gone meanwhile is ``NotFound``, one that was replaced is a ``Conflict``,
and the caller lists again. On S3, copies never pass through this host (CopyObject); on a file system they
are written beside their name, synced and renamed.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.clients.store.base import DEADLINE_S, TRANSFER_MAX_S
from supervisor.clients.store.objects import PARTIAL as PARTIAL
from supervisor.clients.store.objects import Item as Item
from supervisor.clients.store.tree import ObjectTree, open_objects
from supervisor.errors import InvalidInput
from supervisor.model.location import normalise
from supervisor.spec.s3a import S3Access


class Area(ObjectTree):
    """Is a location that can be written. It is safe to use from several threads at once. Errors are those of
    ``Tree``."""

    def items(self, folder: str = "", *, whole: bool = False) -> Iterator[Item]:
        """Yields all objects below ``folder``, in no order; keys are relative to the location. With ``whole``, what is no
        object (a link) raises ``Corrupt``: a copy would lack it."""
        for each in self._client.objects(f"{folder}/" if folder else "", whole=whole):
            yield Item(each.key, each.bytes, each.mark)

    def copy_from(self, source: Area, item: Item, key: str) -> str:
        """Copies ``item`` of ``source`` to ``key``; returns its tag. Raises ``NotFound`` if it has gone,
        ``Conflict`` if it was replaced meanwhile, and ``InvalidInput`` if the source is on another
        service."""
        return self._client.copy(source._client, item, key)

    def tag(self, item: Item) -> str:
        """Returns what identifies the content of an object of this area: its ETag; for a file the sha256, for
        which the file is read."""
        return self._client.tag(item)

    def create(self, key: str, data: bytes) -> None:
        """Writes a small object, unless the key is taken. If the same bytes are there already, that is fine;
        other bytes are a ``Conflict``."""
        self._client.put(key, data, only_new=True, max_s=TRANSFER_MAX_S)

    def write(self, key: str, data: bytes) -> None:
        """Writes a small object, and replaces what is there."""
        self._client.put(key, data, only_new=False, max_s=TRANSFER_MAX_S)

    def remove(self, key: str) -> None:
        """Removes an object. An absent one is no error."""
        self._client.delete(key)

    def flush(self) -> None:
        """Makes durable what was copied."""
        self._client.flush()

    def require_writable(self) -> None:
        """Checks, before anything is begun, that the location is none where others could choose what is written to. Raises
        ``AccessDenied``."""
        self._client.require_writable()

    def require_room(self, more: int) -> None:
        """Checks that there is room for so many bytes more, as far as the service says. Raises ``Unreachable``."""
        self._client.require_room(more)

    def require_closed(self, folder: str) -> None:
        """Checks, before a program opens by its names what lies below ``folder``, that no link is there and that nobody else
        can put one there. Raises ``AccessDenied``."""
        self._client.require_closed(folder)

    def now_s(self) -> float:
        """Returns seconds since the epoch by the service's own clock, exact to about a second."""
        return self._client.now_s()


def open_area(location: str, access: S3Access, deadline_s: float = DEADLINE_S, store: str = "") -> Area:
    """Opens a location without I/O. Raises ``InvalidInput`` for one that only Spark can reach (HDFS …). The
    arguments are those of ``tree.open_tree``. ``store`` is the directory of the supervisor's own store, if it has one:
    within it, whoever may write to the store may."""
    client = open_objects(location, access, deadline_s, store)
    if client is None:
        raise InvalidInput(
            f"only Spark can reach {normalise(location)}: savepoints are for file:// and s3a:// locations"
        )
    return Area(client)
