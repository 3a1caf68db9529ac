"""Which savepoints there are, and their end. Called by the command line and by the leader's sweeper.

The shelf is ``savepoints/`` in the store, not in ZooKeeper: what one recovers from must outlive the registry, and nothing of
it needs a fence. Every savepoint has an entry there, wherever its copies lie. ``delete`` takes the manifest first, so that a
crash leaves one that says that it is incomplete, and the entry last, so that it can be deleted again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from supervisor.checkpoint.savepoint import (
    BEGUN,
    MANIFEST,
    RESTORES,
    SMALL_MAX_BYTES,
    Begun,
    Manifest,
    Stage,
    decode_begun,
    encode_begun,
    encode_manifest,
)
from supervisor.checkpoint.savepoint_create import Tell, in_parallel, manifest_at
from supervisor.clients.store.area import Area, Item
from supervisor.errors import Conflict, Corrupt, NotFound, SupervisorError
from supervisor.model.s3a import S3Access

OpenArea = Callable[[str, S3Access], Area]


@dataclass(frozen=True, slots=True)
class Entry:
    """``begun`` None: its first object is missing or unreadable. ``problem``: why it can't be told what it is, or ``""``."""

    name: str
    id: str
    begun: Begun | None
    manifest: Manifest | None
    problem: str = ""

    @property
    def stage(self) -> Stage:
        return Stage.COMPLETE if self.manifest is not None else Stage.INCOMPLETE


class Shelf:
    """``area``: ``savepoints/`` of the store. ``open_area``: for what lies elsewhere."""

    def __init__(self, area: Area, open_area: OpenArea) -> None:
        self._area = area
        self._open = open_area

    def names(self) -> tuple[str, ...]:
        return self._area.level("").folders

    def entries(self, name: str) -> Iterator[Entry]:
        """Oldest first, by id. Errors of one are told in its entry."""
        for savepoint in self._area.level(name).folders:
            yield self._entry(name, savepoint)

    def find(self, name: str, savepoint: str) -> Entry:
        """Raises NotFound; Corrupt or Unreachable where it can't be told."""
        level = self._area.level(f"{name}/{savepoint}")
        if not level.objects and not level.folders:
            raise NotFound(f"{name} has no savepoint {savepoint}: see spark-supervisor savepoint list {name}")
        begun = self._begun(name, savepoint)
        return Entry(name, savepoint, begun, manifest_at(self.place(begun)) if begun else None)

    def place(self, begun: Begun) -> Area:
        """Where the copies lie."""
        return self._open(begun.location, begun.access)

    def begin(self, begun: Begun) -> None:
        """Say that there will be one. Raises Conflict if the id is taken by another."""
        self._area.create(f"{begun.name}/{begun.id}/{BEGUN}", encode_begun(begun))

    def require(self, begun: Begun) -> None:
        """Raises Conflict if it was deleted meanwhile."""
        if self._begun(begun.name, begun.id) is None:
            raise Conflict(f"savepoint {begun.id} of {begun.name} was deleted while it was being created")

    def delete(self, name: str, savepoint: str, *, force: bool = False, tell: Tell = lambda _done, _of: None) -> None:
        """Raises NotFound; Conflict while it is being restored, unless ``force``. Again after a crash: goes on."""
        level = self._area.level(f"{name}/{savepoint}")
        if not level.objects and not level.folders:
            raise NotFound(f"{name} has no savepoint {savepoint}: see spark-supervisor savepoint list {name}")
        try:
            begun = self._begun(name, savepoint)
        except Corrupt:
            if not force:
                raise
            begun = None
        if begun is not None:
            self._empty(self.place(begun), force, tell)
        here = f"{name}/{savepoint}"
        if begun is None or begun.location != f"{self._area.location}/{here}":
            for item in list(self._area.items(here)):
                if item.key != f"{here}/{BEGUN}":
                    self._area.remove(item.key)
        self._area.remove(f"{here}/{BEGUN}")

    def _empty(self, place: Area, force: bool, tell: Tell) -> None:
        if not force:
            _refuse_readers(place)
        try:
            manifest = manifest_at(place)
        except Corrupt:
            manifest = None
        place.remove(MANIFEST)
        if not force:
            try:
                _refuse_readers(place)      # one that began between read the manifest while it was there
            except Conflict:
                if manifest is not None:
                    place.create(MANIFEST, encode_manifest(manifest))
                raise
        todo = [item for item in place.items() if item.key != BEGUN]
        tell(0, len(todo))
        for done, _ in enumerate(in_parallel(_removing(place), todo), 1):
            tell(done, len(todo))

    def _entry(self, name: str, savepoint: str) -> Entry:
        begun = None
        try:
            begun = self._begun(name, savepoint)
            if begun is None:
                return Entry(name, savepoint, None, None, f"it has no {BEGUN}: delete it")
            return Entry(name, savepoint, begun, manifest_at(self.place(begun)))
        except SupervisorError as error:
            return Entry(name, savepoint, begun, None, str(error))

    def _begun(self, name: str, savepoint: str) -> Begun | None:
        key = f"{name}/{savepoint}/{BEGUN}"
        try:
            data = self._area.read(key, SMALL_MAX_BYTES)
        except NotFound:
            return None
        begun = decode_begun(data, f"{self._area.location}/{key}")
        if (begun.name, begun.id) != (name, savepoint):
            raise Corrupt(f"{self._area.location}/{key} is of savepoint {begun.id} of {begun.name}")
        return begun


def _refuse_readers(place: Area) -> None:
    for entry in place.level(RESTORES).objects:
        try:
            note = json.loads(place.read(f"{RESTORES}/{entry.key}", SMALL_MAX_BYTES))
            told = f"to {note['target']} since {note['at']}"
        except NotFound:
            continue
        except (ValueError, KeyError, TypeError):
            told = "by somebody"
        raise Conflict(
            f"it is being restored {told}: wait for it; if that was interrupted, restore it there again, or give --force"
        )


def _removing(place: Area) -> Callable[[Item], None]:
    def remove(item: Item) -> None:
        place.remove(item.key)

    return remove
