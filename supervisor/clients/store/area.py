"""A location that is copied from and to: a ``Tree`` whose objects carry a mark, and that may be written.

``checkpoint`` makes and restores savepoints with it, and nobody else needs to. An object is copied as it was listed or not
at all: one that has gone meanwhile is ``NotFound``, one that was replaced is a ``Conflict``, and the caller looks again.
Copies never pass through this host on S3 (``CopyObject``); on a file system they are written beside their name, synced and
renamed.
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
    """It is safe to use from several threads at once. Errors are those of ``Tree``."""

    def items(self, folder: str = "") -> Iterator[Item]:
        """All objects below ``folder``, in no order; keys are relative to the location."""
        for each in self._client.objects(f"{folder}/" if folder else ""):
            yield Item(each.key, each.bytes, each.mark)

    def copy_from(self, source: Area, item: Item, key: str) -> str:
        """Put ``item`` of ``source`` at ``key``; returns its tag. ``NotFound``: it has gone. ``Conflict``: it is another by
        now. ``InvalidInput``: the source is on another service."""
        return self._client.copy(source._client, item, key)

    def tag(self, item: Item) -> str:
        """What tells the content of an object of this area: its ETag; the sha256 of a file, which is read for it."""
        return self._client.tag(item)

    def create(self, key: str, data: bytes) -> None:
        """A small object, unless the key is taken. The same bytes are there already: fine; others: ``Conflict``."""
        self._client.put(key, data, only_new=True, max_s=TRANSFER_MAX_S)

    def write(self, key: str, data: bytes) -> None:
        """A small object, in place of whatever is there."""
        self._client.put(key, data, only_new=False, max_s=TRANSFER_MAX_S)

    def remove(self, key: str) -> None:
        """Absent: fine."""
        self._client.delete(key)

    def flush(self) -> None:
        """What was copied is durable when this returns."""
        self._client.flush()

    def now_s(self) -> float:
        """Seconds since the epoch by the service's own clock, to a second or so."""
        return self._client.now_s()


def open_area(location: str, access: S3Access, deadline_s: float = DEADLINE_S) -> Area:
    """No I/O. Raises ``InvalidInput`` for a location that only Spark can reach (HDFS …). The rest as ``tree.open_tree``."""
    client = open_objects(location, access, deadline_s)
    if client is None:
        raise InvalidInput(
            f"only Spark can reach {normalise(location)}: savepoints are for file:// and s3a:// locations"
        )
    return Area(client)
