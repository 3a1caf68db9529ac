"""Keeps what the cluster has in the store, under the keys of protocol §4, and guarantees that what is read is
what was put.

The command line (submit), the leader (epochs, cluster marker) and agents (spec and application files of an
attempt) call it. Keys carry the uid and the content's sha256, so no delayed put or delete of one uid touches
another, and every read is verified against a digest that came from elsewhere. That a blob is put before its
reference is up to the caller's order of calls. Nothing here deletes a spec or an artifact:
``registry.blob_sweep`` does.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.clients.store.base import Store as Store
from supervisor.clients.store.base import checked_key
from supervisor.clients.store.local import digest_of, source_chunks
from supervisor.errors import AccessDenied, Conflict, Corrupt, InvalidInput, NotFound, Unreachable
from supervisor.model.records import BlobRef
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode

SPECS = "specs/"
ARTIFACTS = "artifacts/"
CHECKS = "checks/"
CLUSTER_KEY = "cluster.json"

SPEC_MAX_BYTES = 1024 * 1024

_SPEC_KEY = re.compile(r"specs/([^/]+)/([^/]+)/([1-9][0-9]*)-([0-9a-f]{64})\.json")
_ARTIFACT_KEY = re.compile(r"artifacts/([^/]+)/([^/]+)/([0-9a-f]{64})/([^/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMark:
    """Holds ``cluster.json``, which says whose store this is. ``root`` is the cluster's root in ZooKeeper."""

    id: str
    name: str
    root: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BlobKey:
    """Holds what the key of a spec or an artifact says. ``filename`` is empty for a spec, and ``revision`` is
    0 for an artifact."""

    name: str
    uid: str
    sha256: str
    revision: int = 0
    filename: str = ""


def parse_key(key: str) -> BlobKey | None:
    """Returns the parts of a spec's or artifact's key, or None for any other key."""
    if spec := _SPEC_KEY.fullmatch(key):
        return BlobKey(spec[1], spec[2], spec[4], revision=int(spec[3]))
    if artifact := _ARTIFACT_KEY.fullmatch(key):
        return BlobKey(artifact[1], artifact[2], artifact[3], filename=artifact[4])
    return None


def spec_key(name: str, uid: str, revision: int, sha256: str) -> str:
    return f"{SPECS}{name}/{uid}/{revision}-{sha256}.json"


def artifact_key(name: str, uid: str, sha256: str, filename: str) -> str:
    return f"{ARTIFACTS}{name}/{uid}/{sha256}/{filename}"


class Blobs:
    """Keeps specs, artifacts and the cluster mark in ``store``. It is thread-safe as the store
    is.

    Every method also raises ``Unreachable`` and ``AccessDenied`` of the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark_seen = False

    # Specs and artifacts.

    def put_spec(self, name: str, uid: str, revision: int, data: bytes) -> BlobRef:
        """Stores the canonical JSON of a spec, which is durable on return; it is idempotent. Raises
        ``Corrupt`` if the key holds other bytes, and ``InvalidInput`` if the spec is too large."""
        if len(data) > SPEC_MAX_BYTES:
            raise InvalidInput(f"the spec of {name} has {len(data)} bytes; {SPEC_MAX_BYTES} are allowed")
        sha256 = hashlib.sha256(data).hexdigest()
        key = spec_key(name, uid, revision, sha256)
        try:
            self._store.create(key, data)
        except Conflict:
            raise Corrupt(_altered(key)) from None
        return BlobRef(key=key, sha256=sha256, bytes=len(data))

    def read_spec(self, ref: BlobRef) -> bytes:
        """Returns the bytes, verified by size and sha256. Raises ``NotFound`` or ``Corrupt`` naming the
        key."""
        parsed = parse_key(ref.key)
        if parsed is None or not parsed.revision or parsed.sha256 != ref.sha256 or ref.bytes > SPEC_MAX_BYTES:
            raise Corrupt(f"{ref.key!r} is not the key of a spec with sha256 {ref.sha256}")
        try:
            data = self._store.read(ref.key, ref.bytes)
        except NotFound:
            raise self._missing(ref.key) from None
        if len(data) != ref.bytes or hashlib.sha256(data).hexdigest() != ref.sha256:
            raise Corrupt(_altered(ref.key))
        return data

    def put_artifact(self, name: str, uid: str, path: Path) -> str:
        """Stores a file under the hash of its content and returns its key. The file is durable on return; the
        call is idempotent.

        Raises ``InvalidInput`` (unreadable, or a name that no key can hold), ``Conflict`` (written to
        meanwhile) and ``Corrupt`` (the key holds other bytes).
        """
        sha256 = digest_of(source_chunks(path)).sha256
        key = checked_key(artifact_key(name, uid, sha256, path.name))
        try:
            self._store.create_from(key, path, sha256)
        except Conflict:
            if digest_of(source_chunks(path)).sha256 != sha256:
                raise
            raise Corrupt(_altered(key)) from None
        return key

    def fetch_artifact(self, key: str, target_dir: Path) -> Path:
        """Returns ``<target_dir>/<sha256>/<filename>`` with the content that the key promises; a file that is
        already there and right is kept.

        The file appears whole or not at all, so several attempts of a host may share ``target_dir``. Raises
        ``NotFound`` or ``Corrupt`` naming the key.
        """
        parsed = parse_key(key)
        if parsed is None or parsed.filename in ("", ".", ".."):
            raise Corrupt(f"{key!r} is not the key of an artifact")
        target = target_dir / parsed.sha256 / parsed.filename
        if _holds(target, parsed.sha256):
            return target
        arrived = target.with_name(f".{secrets.token_hex(8)}.arrived")
        try:
            if self._store.read_to(key, arrived) != parsed.sha256:
                raise Corrupt(_altered(key))
            arrived.replace(target)
        except NotFound:
            raise self._missing(key) from None
        except OSError as error:
            raise Unreachable(
                f"{target} cannot be written: {error.strerror or error}", "repair the directory"
            ) from None
        finally:
            with suppress(OSError):
                arrived.unlink()
        return target

    def _missing(self, key: str) -> NotFound | Unreachable:
        """Returns the error for an absent blob: it is that job's trouble, but in a store that lost its mark
        it is the store's (I10)."""
        try:
            lost = self._mark_seen and self.read_cluster() is None
        except Corrupt:
            lost = True
        if lost:
            return Unreachable(
                f"{key} is missing, and so is {CLUSTER_KEY}: is {self._store.url} mounted and intact?"
            )
        return NotFound(f"{key} is missing in {self._store.url}", "cancel the job and submit it again")

    # The cluster mark.

    def read_cluster(self) -> ClusterMark | None:
        """Returns whose store this is, or None if it is nobody's yet. Raises ``Corrupt``."""
        try:
            data = self._store.read(CLUSTER_KEY, MAX_RECORD_BYTES)
        except NotFound:
            return None
        mark = decode(ClusterMark, data, f"{self._store.url}/{CLUSTER_KEY}")
        self._mark_seen = True
        return mark

    def claim_cluster(self, mark: ClusterMark) -> ClusterMark:
        """Makes the store this cluster's, or finds that it is; returns the mark that is there.

        Raises ``Conflict`` if it belongs to another cluster or root, ``AccessDenied`` if it cannot refuse to
        overwrite.
        """
        found = self.read_cluster()
        if found is None:
            self.prove_exclusive()
            with suppress(Conflict):
                self._store.create(CLUSTER_KEY, encode(mark))
            found = self.read_cluster()
        if found is None:
            raise Unreachable(
                f"{self._store.url}/{CLUSTER_KEY} vanished after it was stored", "do not delete it"
            )
        if (found.id, found.root) != (mark.id, mark.root):
            raise Conflict(
                f"{self._store.url} belongs to cluster {found.name} ({found.id}, ZooKeeper root {found.root})",
                f"give cluster {mark.name} a store.url of its own",
            )
        return found

    def prove_exclusive(self) -> None:
        """Shows that a second create of a key is refused: some S3 servers accept the condition and ignore it.

        Raises ``AccessDenied`` naming the store. Leaves nothing behind. It is for the bootstrap of a cluster, and for
        ``doctor``.
        """
        key = f"{CHECKS}{secrets.token_hex(16)}"
        self._store.create(key, b"first")
        try:
            self._store.create(key, b"second")
        except Conflict:
            return
        finally:
            self._store.delete(key)
        raise AccessDenied(
            f"{self._store.url} overwrites objects in spite of If-None-Match", "use a store that keeps it"
        )


def _altered(key: str) -> str:
    return f"{key} does not have the content that its sha256 promises; restore it or submit the job again"


def _holds(path: Path, sha256: str) -> bool:
    try:
        return path.is_file() and digest_of(source_chunks(path)).sha256 == sha256
    except InvalidInput:
        return False
