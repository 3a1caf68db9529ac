"""Implements the store on S3 or anything that has its API (``s3://bucket/prefix``): ``s3_objects`` with the
rules for keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from supervisor.clients.store.base import DEADLINE_S, TRANSFER_MAX_S, Keys, StoreEntry, checked_key
from supervisor.clients.store.local import digest_of, require_unchanged, source_chunks
from supervisor.clients.store.s3_client import S3Service
from supervisor.clients.store.s3_objects import S3ObjectClient
from supervisor.errors import InvalidInput

PUT_MAX_BYTES = 5 * 1024**3


class S3Store:
    """Is a ``Store`` in ``bucket`` below ``prefix`` (no slash at its ends, may be empty).

    Credentials are those of boto3's default chain. If ``region`` is None, the chain's is used, else
    us-east-1. ``deadline_s`` bounds each operation whatever the server does, and three of it before the first one the
    making of a client; ``transfer_max_s`` bounds a transfer that goes on moving. For ``asked`` see
    ``spec.s3a``. ``keys`` are credentials in place of the chain's. The constructor does no I/O.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        deadline_s: float = DEADLINE_S,
        transfer_max_s: float = TRANSFER_MAX_S,
        asked: Mapping[str, str] | None = None,
        keys: Keys | None = None,
    ) -> None:
        service = S3Service(endpoint_url, region, asked=asked or {}, setting="store.endpoint_url", keys=keys)
        self._objects = S3ObjectClient(bucket, prefix, service, deadline_s)
        self._transfer_max_s = transfer_max_s
        self.url = self._objects.location

    def create(self, key: str, data: bytes) -> None:
        self._objects.put(checked_key(key), data, only_new=True)

    def create_from(self, key: str, source: Path, sha256: str | None = None) -> None:
        digest = digest_of(source_chunks(source))
        require_unchanged(source, digest.sha256, sha256)
        if digest.size_bytes > PUT_MAX_BYTES:
            raise InvalidInput(f"{source} is larger than the 5 GiB that the store takes", "make it smaller")
        self._objects.put_from(checked_key(key), source, digest, self._transfer_max_s)

    def read(self, key: str, max_bytes: int) -> bytes:
        return self._objects.get(checked_key(key), max_bytes)

    def read_to(self, key: str, target: Path) -> str:
        return self._objects.get_to(checked_key(key), target, self._transfer_max_s)

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        if prefix:
            checked_key(prefix.removesuffix("/"))
        yield from self._objects.objects(prefix, after)

    def delete(self, key: str) -> None:
        self._objects.delete(checked_key(key))

    def check(self) -> None:
        self._objects.check()

    def keeps_versions(self) -> tuple[bool, bool]:
        """Returns whether the bucket keeps what is deleted and overwritten, and whether it does so for ever
        (no lifecycle rule ends it). ``doctor`` calls it; raises ``AccessDenied`` where asking is not granted
        (s3:GetBucketVersioning, s3:GetLifecycleConfiguration)."""
        return self._objects.keeps_versions()
