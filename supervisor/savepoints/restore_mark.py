"""Keeps two restores apart that copy to the same place at the same time: by a mark at the target, which says whose copy it
is and with which query ids it was begun. Only ``savepoints.restore`` uses it.

Nobody can tell a restore that was interrupted from one that is under way: whoever finds a mark of the same savepoint takes
the copy over, with the ids that it has, and the other one ends when it next reads the mark. Where there is no mark, one is
*created*, so that of two only one begins; it counts only once a second listing has shown that nothing else was there
(``begun``). A mark that is gone says that the copy is complete: a job may run on it by now, and nobody else writes there.

The mark is read before an object is written, if it was last read more than ``REREAD_EVERY_S`` ago. So a process that was
stopped for long reads it first. What is under way at the moment of a takeover are the very bytes that the other one writes.
That is why whoever takes a copy over keeps its ids, or is refused (``restore``). A command of a version before may change
them: the metadata is compared at the end, once more when the mark is off.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from typing import Any, Final

from supervisor.clients.store.area import Area, Item
from supervisor.clock import boottime_s
from supervisor.errors import Conflict, Corrupt, NotFound
from supervisor.savepoints.manifest import SMALL_MAX_BYTES, Manifest

MARK: Final = ".spark-supervisor-restore.json"
REREAD_EVERY_S: Final = 1.0


class RestoreMark:
    """Is the mark of one running restore."""

    def __init__(self, target: Area, manifest: Manifest, ids: Mapping[str, str]) -> None:
        self._target = target
        self._savepoint = manifest.id
        self._body = {
            "v": 1,
            "savepoint": manifest.id,
            "objects": manifest.objects_sha256,
            "ids": dict(ids),
            "by": secrets.token_hex(8),
        }
        self._lock = threading.Lock()
        self._read_at_s = boottime_s()

    def begin(self) -> bool:
        """Marks a place at which nothing is. Returns False, and leaves nothing, if something is there by now."""
        try:
            self._target.create(MARK, self._bytes(begun=False))
        except Conflict:
            return False
        if any(item.key != MARK for item in self._target.items()):
            self._target.remove(MARK)
            return False
        self.take_over()
        return True

    def take_over(self) -> None:
        """Marks a copy that was begun already."""
        self._target.write(MARK, self._bytes())

    def reread(self) -> None:
        """Raises Conflict if the copy is another's by now, as far as it was read too long ago to tell."""
        with self._lock:
            if boottime_s() - self._read_at_s >= REREAD_EVERY_S:
                self.require()

    def require(self) -> None:
        """Raises Conflict if the copy is another's by now, or complete."""
        now_s = boottime_s()
        try:
            found = self._target.read(MARK, SMALL_MAX_BYTES)
        except NotFound:
            found = b""
        if found != self._bytes():
            raise self._other("has taken it over" if found else "has completed it")
        self._read_at_s = now_s

    def require_unchanged(self, metadata: Mapping[str, bytes]) -> None:
        """Raises Conflict if a copy whose mark is off has other ids: it was taken over just before that."""
        for key, data in metadata.items():
            if self._target.read(key, SMALL_MAX_BYTES) != data:
                raise self._other("has taken it over")

    def _other(self, did: str) -> Conflict:
        return Conflict(
            f"another command copies savepoint {self._savepoint} to {self._target.location} too, and {did}",
            "give this command again when the other one is over",
        )

    def _bytes(self, *, begun: bool = True) -> bytes:
        return json.dumps({**self._body, "begun": begun}).encode()


def ids_begun_with(
    target: Area, there: Mapping[str, Item], manifest: Manifest
) -> dict[object, object] | None:
    """Returns the ids, old to new, of a restore of this very savepoint that has begun there; None if none has. ``there`` is
    what was listed. A version before has no ``begun``."""
    body = _body_at(target) if MARK in there else None
    if body is None or body.get("objects") != manifest.objects_sha256:
        return None
    if not body.get("begun", True) and there.keys() != {MARK}:
        return None
    ids = body.get("ids")
    return ids if isinstance(ids, dict) else {}


def _body_at(target: Area) -> dict[str, Any] | None:
    try:
        body = json.loads(target.read(MARK, SMALL_MAX_BYTES))
    except (NotFound, Corrupt, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
