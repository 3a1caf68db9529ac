"""Bounds what one savepoint copies: in bytes and in objects (``policy.savepoints`` of the host that makes it). A job can put
anything into its checkpoint, and every copy of it costs the store as much again."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.clients.store.area import Item
from supervisor.errors import InvalidInput
from supervisor.settings.policy import SavepointBounds
from supervisor.settings.units import format_size

REMEDY = (
    "see what has been put there; have Spark keep fewer batches (spark.sql.streaming.minBatchesToRetain), "
    "or raise {key} in supervisor.yaml of the hosts that make savepoints"
)


@dataclass(slots=True)
class SavepointSize:
    """Counts what a savepoint of ``location`` has so far. Sizes are those of files as they are read, holes included."""

    location: str
    bounds: SavepointBounds
    objects: int = 0
    bytes: int = 0

    def add(self, item: Item) -> None:
        """Raises InvalidInput at the first object that is beyond a bound."""
        self.objects += 1
        self.bytes += item.bytes
        if self.bounds.objects is not None and self.objects > self.bounds.objects:
            self._refuse(f"{self.bounds.objects} objects", "policy.savepoints.objects")
        if self.bounds.size_bytes is not None and self.bytes > self.bounds.size_bytes:
            self._refuse(format_size(self.bounds.size_bytes), "policy.savepoints.size")

    def _refuse(self, most: str, key: str) -> None:
        raise InvalidInput(
            f"a savepoint of {self.location} would have more than {most} ({key}): nothing was copied",
            REMEDY.format(key=key),
        )
