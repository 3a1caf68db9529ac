"""Defines what a store is: the protocol that ``FileStore`` and ``S3Store`` keep, and the rules for keys that
both share.

``registry.blobs`` and ``registry.blob_sweep`` call it; ``doctor`` and ``checkpoint.commit_log`` use it, too.
A store knows nothing of specs or uids, never overwrites an object, and never takes silence for absence:
``NotFound`` means that the store itself said so.

Every call ends within the deadline that the implementation was constructed with (10 s by default;
REFERENCE.md: exit code 5 comes within 15 s). Only transfers of whole files may last longer, and only while
bytes go on moving; and the first call of a process on S3, by three deadlines, while a client is made (a chain
of credentials that hangs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from supervisor.errors import AccessDenied, Conflict, Corrupt, InvalidInput

DEADLINE_S = 10.0
TRANSFER_MAX_S = 300.0
CHUNK_BYTES = 256 * 1024
KEY_MAX_BYTES = 900
SEGMENT_MAX_BYTES = 255

Keys = tuple[str, str, str | None]
"""Are credentials for S3: access key, secret key and token."""


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """Describes one object of a listing. ``modified_at_s`` is in seconds since the epoch by the store's own
    clock, for display only. ``mark`` is that of ``area.Item``, where there are items; it does not count when
    two entries are compared."""

    key: str
    bytes: int
    modified_at_s: float
    mark: str = field(default="", compare=False, repr=False)


class Store(Protocol):
    """Holds objects under keys. It is safe to use from several threads at once.

    Every method may raise ``Unreachable`` (no answer in time; nothing was acknowledged), ``AccessDenied``
    (refused, or the bucket or directory is impossible) and, for a key that leads out of the store,
    ``InvalidInput``.
    """

    @property
    def url(self) -> str:
        """Returns the normalised URL; it is equal for two processes that were configured with the same
        store."""
        ...

    def create(self, key: str, data: bytes) -> None:
        """Stores ``data`` unless the key is taken. It is durable on return; of concurrent writers exactly one
        wins.

        If the same bytes are there already, that is fine (a retry after a lost reply). Other bytes raise
        ``Conflict``.
        """
        ...

    def create_from(self, key: str, source: Path, sha256: str | None = None) -> None:
        """Does as ``create`` with the content of a file, streamed.

        ``sha256`` is what the content must hash to, in hex; other content is never stored under the key, and
        raises ``Conflict``, since the file changed meanwhile. Raises ``InvalidInput`` if the source cannot be
        read.
        """
        ...

    def read(self, key: str, max_bytes: int) -> bytes:
        """Returns the whole object, never a part of it. Raises ``NotFound``, and ``Corrupt`` when it is
        larger than ``max_bytes``."""
        ...

    def read_to(self, key: str, target: Path) -> str:
        """Streams the object into ``target``, which appears whole or not at all. Returns its sha256. Raises
        ``NotFound``."""
        ...

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        """Yields the objects whose key begins with ``prefix`` and is greater than ``after``, sorted by the
        bytes of the key.

        Keys that end in ``/`` (directory markers of other tools) are skipped. An error in the middle is
        raised: a listing that ends without one is complete.
        """
        ...

    def delete(self, key: str) -> None:
        """Removes the object. An absent one is no error."""
        ...

    def check(self) -> None:
        """Checks that the store is there and may be used. Returns, or raises as every other method does."""
        ...


def checked_key(key: str) -> str:
    """Returns ``key`` itself if it is one that every store can hold and that stays inside it. Raises
    ``InvalidInput``.

    Segments are neither empty nor ``.`` nor ``..``; the first does not begin with a dot, which the file store
    reserves for itself.
    """
    segments = key.split("/")
    if any(segment in ("", ".", "..") for segment in segments) or key.startswith("."):
        raise InvalidInput(f"store key {key!r} is not a relative path inside the store")
    if any(ord(char) < 32 or ord(char) == 127 or char == "\\" for char in key):
        raise InvalidInput(f"store key {key!r} has a control character or a backslash", "rename the file")
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError:
        raise InvalidInput(f"store key {key!r} is not valid Unicode", "rename the file") from None
    if max(sizes) > SEGMENT_MAX_BYTES or sum(sizes) + len(sizes) - 1 > KEY_MAX_BYTES:
        raise InvalidInput(f"store key {key[:80]!r}… is too long", "shorten the file name")
    return key


def listing_order(key: str) -> bytes:
    """Returns the sort key of a listing: the order in which S3 lists, by the bytes of UTF-8."""
    return key.encode()


def delete_each(
    store: Store,
    keys: Iterable[str],
    go_on: Callable[[], bool] = lambda: True,
    done: Callable[[str], object] = str,
) -> list[str]:
    """Deletes what can be deleted; an object that the store refuses to delete keeps no other. ``done`` is
    called with each key that is gone. Raises the first refusal when all were tried, and Unreachable at
    once."""
    deleted, refused = [], None
    for key in keys:
        if not go_on():
            break
        try:
            store.delete(key)
        except (AccessDenied, Conflict, Corrupt) as error:
            refused = refused or error
            continue
        done(key)
        deleted.append(key)
    if refused is not None:
        raise refused
    return deleted
