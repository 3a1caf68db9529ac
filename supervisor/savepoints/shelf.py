"""Lists savepoints, begins them and deletes them. It is called by the command line and by the leader's
sweeper.

The shelf is ``savepoints/`` in the store, not in ZooKeeper: what a recovery needs must outlive the registry,
and nothing of it needs a fence. Every savepoint has an entry there, wherever its copies lie. ``delete``
removes the manifest first, so that a crash leaves a savepoint that says that it is incomplete, and the entry
last, so that it can be deleted again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from supervisor.clients.store.area import PARTIAL, Area, Item
from supervisor.errors import AccessDenied, Conflict, Corrupt, InvalidInput, NotFound, SupervisorError
from supervisor.model.location import normalise
from supervisor.savepoints.create import ReportProgress, in_parallel, manifest_at
from supervisor.savepoints.manifest import (
    BEGUN,
    DATA,
    MANIFEST,
    RESTORES,
    SHELF,
    SMALL_MAX_BYTES,
    Begun,
    Manifest,
    SavepointStage,
    decode_begun,
    encode_begun,
    encode_manifest,
)
from supervisor.savepoints.schedule import Scheduled, began_at_s
from supervisor.spec.s3a import S3Access

ITS_OWN = (AccessDenied, Conflict, Corrupt, InvalidInput, NotFound)
"""These errors may concern one savepoint alone: the work goes on with the others."""

OpenArea = Callable[[str, S3Access], Area]


@dataclass(frozen=True, slots=True)
class ShelfEntry:
    """Describes one savepoint. If ``begun`` is None, its first object is missing or unreadable. ``unknown``
    says why its stage cannot be determined, or is ``""``."""

    name: str
    id: str
    begun: Begun | None
    manifest: Manifest | None
    unknown: str = ""

    @property
    def scheduled(self) -> Scheduled | None:
        """Returns None if somebody asked for the savepoint, or if that cannot be determined."""
        begun = self.begun
        if begun is None or not begun.every_s or self.unknown:
            return None
        return Scheduled(self.id, begun.source, self.manifest is not None)

    @property
    def stage(self) -> SavepointStage:
        if self.unknown:
            return SavepointStage.UNKNOWN
        return SavepointStage.COMPLETE if self.manifest is not None else SavepointStage.INCOMPLETE


class Shelf:
    """Gives access to the savepoints of a store. ``area`` is ``savepoints/`` of the store; ``open_area``
    opens what lies elsewhere."""

    def __init__(self, area: Area, open_area: OpenArea) -> None:
        self._area = area
        self._open = open_area

    def names(self) -> tuple[str, ...]:
        return self._area.level("").folders

    def entries(self, name: str) -> Iterator[ShelfEntry]:
        """Yields the savepoints of ``name``, oldest first, by id. An error that concerns one is reported in
        its entry."""
        for savepoint in self.ids(name):
            yield self._entry(name, savepoint)

    def ids(self, name: str) -> tuple[str, ...]:
        return self._area.level(name).folders

    def find(self, name: str, savepoint: str) -> ShelfEntry:
        """Returns one savepoint. Raises NotFound, and Corrupt or Unreachable if its stage cannot be
        determined."""
        level = self._area.level(f"{name}/{savepoint}")
        if not level.objects and not level.folders:
            raise NotFound(f"{name} has no savepoint {savepoint}: see spark-supervisor savepoint list {name}")
        return self._entry_of(name, savepoint, self._begun(name, savepoint))

    def now_s(self) -> float:
        """Returns the time by the clock of the store, in seconds since the epoch."""
        return self._area.now_s()

    def leftovers(self) -> Iterator[tuple[str, str]]:
        """Yields name and id of what has no manifest, among those whose copies are in the store. Sends a
        request for each savepoint."""
        for name in self.names():
            try:
                ids = self.ids(name)
            except ITS_OWN:
                continue
            for savepoint in ids:
                try:
                    is_left = self._is_left(name, savepoint)
                except ITS_OWN:
                    continue
                if is_left:
                    yield name, savepoint

    def _is_left(self, name: str, savepoint: str) -> bool:
        level = self._area.level(f"{name}/{savepoint}")
        keys = {entry.key for entry in level.objects}
        if not (keys or level.folders) or not _is_ours(keys, level.folders):
            return False
        begun = self._begun(name, savepoint)
        return begun is None or begun.location == self._home(name, savepoint)

    def print_of(self, name: str, savepoint: str) -> tuple[int, int]:
        """Returns how many objects the savepoint has, and their bytes. The result changes when somebody works
        on it."""
        sizes = [item.bytes for item in self._area.items(f"{name}/{savepoint}")]
        return len(sizes), sum(sizes)

    def area_of(self, begun: Begun) -> Area:
        """Returns where the copies lie."""
        return self._open(begun.location, begun.access)

    def begin(self, begun: Begun) -> None:
        """Records that there will be a savepoint. Raises Conflict if the id is taken by another."""
        self._area.create(f"{begun.name}/{begun.id}/{BEGUN}", encode_begun(begun))

    def require(self, begun: Begun) -> None:
        """Raises Conflict if it was deleted meanwhile."""
        if self._begun(begun.name, begun.id) is None:
            raise Conflict(f"savepoint {begun.id} of {begun.name} was deleted while it was being created")

    def delete(
        self,
        name: str,
        savepoint: str,
        *,
        force: bool = False,
        report_progress: ReportProgress = lambda _done, _of: None,
    ) -> None:
        """Deletes a savepoint. Raises NotFound, and Conflict while it is being restored, unless ``force`` is
        True. A delete that is repeated after a crash goes on."""
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
            away = self._why_invisible(begun)
            if away and not force:
                raise Conflict(
                    f"savepoint {savepoint} can't be deleted here: {away}", "--force removes its entry alone"
                )
            self._empty(self.area_of(begun), force, report_progress)
        here = f"{name}/{savepoint}"
        if begun is None or begun.location != self._home(name, savepoint):
            for item in list(self._area.items(here)):
                if item.key != f"{here}/{BEGUN}":
                    self._area.remove(item.key)
        self._area.remove(f"{here}/{BEGUN}")

    def _empty(self, area_of: Area, force: bool, report_progress: ReportProgress) -> None:
        if not force:
            _refuse_readers(area_of)
        try:
            manifest = manifest_at(area_of)
        except Corrupt:
            manifest = None
        area_of.remove(MANIFEST)
        if not force:
            try:
                _refuse_readers(area_of)  # one that began between read the manifest while it was there
            except Conflict:
                if manifest is not None:
                    area_of.create(MANIFEST, encode_manifest(manifest))
                raise
        todo = [item for item in area_of.items() if item.key != BEGUN]
        report_progress(0, len(todo))
        for done, _ in enumerate(in_parallel(_removing(area_of), todo), 1):
            report_progress(done, len(todo))

    def _entry(self, name: str, savepoint: str) -> ShelfEntry:
        begun = None
        try:
            begun = self._begun(name, savepoint)
            return self._entry_of(name, savepoint, begun)
        except SupervisorError as error:
            return ShelfEntry(name, savepoint, begun, None, str(error))

    def _entry_of(self, name: str, savepoint: str, begun: Begun | None) -> ShelfEntry:
        if begun is None:
            return ShelfEntry(name, savepoint, None, None)
        manifest = manifest_at(self.area_of(begun))
        return ShelfEntry(
            name, savepoint, begun, manifest, "" if manifest is not None else self._why_invisible(begun)
        )

    def _why_invisible(self, begun: Begun) -> str:
        """Returns why this host may not see the copies, or ``""``. They may lie beside a checkpoint on the
        file system of another host; that nothing is there then proves nothing."""
        if not begun.location.startswith("file:") or begun.location == self._home(begun.name, begun.id):
            return ""
        level = self.area_of(begun).level("")
        if level.objects or level.folders:
            return ""
        return f"it lies at {begun.location}, where this host sees nothing: ask on the host that made it"

    def _home(self, name: str, savepoint: str) -> str:
        return f"{self._area.location}/{name}/{savepoint}"

    def _begun(self, name: str, savepoint: str) -> Begun | None:
        key = f"{name}/{savepoint}/{BEGUN}"
        try:
            data = self._area.read(key, SMALL_MAX_BYTES)
        except NotFound:
            return None
        begun = decode_begun(data, f"{self._area.location}/{key}")
        if (begun.name, begun.id) != (name, savepoint):
            raise Corrupt(f"{self._area.location}/{key} is of savepoint {begun.id} of {begun.name}")
        if not _is_place_of(begun.location, name, savepoint):
            raise Corrupt(
                f"{self._area.location}/{key} names {begun.location}: no place of savepoint {savepoint} of {name}"
            )
        return begun


def next_due_at_s(entry: ShelfEntry) -> float | None:
    """Returns when the slot after that of a scheduled savepoint begins, or None if it is no scheduled one."""
    slot_at_s = began_at_s(entry.id)
    return (
        None
        if entry.begun is None or not entry.begun.every_s or slot_at_s is None
        else slot_at_s + entry.begun.every_s
    )


def _is_place_of(location: str, name: str, savepoint: str) -> bool:
    """Returns whether ``location`` can be that of the savepoint, in a store or beside a checkpoint."""
    try:
        return normalise(location).endswith(f"{SHELF}/{name}/{savepoint}")
    except InvalidInput:
        return False


def _is_ours(keys: set[str], folders: tuple[str, ...]) -> bool:
    """Returns whether nothing is there but what a savepoint without its manifest is made of. Else it is complete, or
    somebody's."""
    return {*folders} <= {DATA, RESTORES} and all(
        key == BEGUN or key.startswith("objects-") or key.endswith(PARTIAL) for key in keys
    )


def _refuse_readers(area_of: Area) -> None:
    for entry in area_of.level(RESTORES).objects:
        try:
            note = json.loads(area_of.read(f"{RESTORES}/{entry.key}", SMALL_MAX_BYTES))
            reader = f"to {note['target']} since {note['at']}"
        except NotFound:
            continue
        except (Corrupt, ValueError, KeyError, TypeError, RecursionError):
            reader = "by somebody"
        raise Conflict(
            f"it is being restored {reader}: wait for it",
            "if that was interrupted, restore it there again, or give --force",
        )


def _removing(area_of: Area) -> Callable[[Item], None]:
    def remove(item: Item) -> None:
        area_of.remove(item.key)

    return remove
