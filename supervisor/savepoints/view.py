"""Presents a savepoint as a ``Tree`` that has its copies under the keys that they had, and has nothing else
that may lie beside them.

So ``inspect`` and ``judge`` read a savepoint like any checkpoint. The list is known; only what is read costs
requests.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from supervisor.clients.store.area import Area
from supervisor.clients.store.base import StoreEntry, listing_order
from supervisor.clients.store.tree import Level
from supervisor.errors import NotFound
from supervisor.savepoints.manifest import DATA, SavedObject


class SavedTree:
    """Presents the savepoint that lies at ``area``. It is safe to use from several threads at once."""

    def __init__(self, area: Area, saved: Iterable[SavedObject]) -> None:
        self.location = area.location
        self.requests = 0
        self._area = area
        self._entries = [
            StoreEntry(each.key, each.bytes, 0.0)
            for each in sorted(saved, key=lambda each: listing_order(each.key))
        ]
        self._order = [listing_order(entry.key) for entry in self._entries]
        self._keys = {entry.key for entry in self._entries}

    def level(self, folder: str) -> Level:
        prefix = f"{folder}/" if folder else ""
        folders: dict[str, None] = {}
        objects = []
        for entry in self.entries(folder):
            name, slash, _ = entry.key[len(prefix) :].partition("/")
            if slash:
                folders[name] = None
            else:
                objects.append(StoreEntry(name, entry.bytes, entry.modified_at_s))
        return Level(tuple(sorted(folders, key=listing_order)), tuple(objects))

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:  # noqa: ARG002
        prefix = f"{folder}/" if folder else ""
        start = max(
            bisect.bisect_left(self._order, listing_order(prefix)),
            bisect.bisect_right(self._order, listing_order(after)),
        )
        for entry in self._entries[start:]:
            if not entry.key.startswith(prefix):
                return
            yield entry

    def read(self, key: str, max_bytes: int) -> bytes:
        if key not in self._keys:
            raise NotFound(f"{key} is not in the savepoint at {self.location}")
        return self._area.read(f"{DATA}/{key}", max_bytes)
