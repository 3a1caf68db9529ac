"""Makes a store from a URL. ``operations.context`` calls it with ``store.url``, once per process; ``doctor``,
``spark.fetched_files`` and ``checkpoint.commit_log`` call it for other locations too. Only here an implementation
is picked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from supervisor.clients.store.base import DEADLINE_S, Keys, Store, checked_key
from supervisor.clients.store.files import FileStore
from supervisor.errors import InvalidInput

_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}")


def open_store(
    url: str,
    endpoint_url: str | None = None,
    region: str | None = None,
    deadline_s: float = DEADLINE_S,
    asked: Mapping[str, str] | None = None,
    keys: Keys | None = None,
) -> Store:
    """Returns the store of ``s3://bucket/prefix`` or ``file:///dir``. It does no I/O: ``check`` finds out whether
    the store is there.

    ``asked`` is that of ``spec.s3a.asked``: encryption, and who pays. ``keys`` are credentials for S3 in place of those that
    this process has.

    Raises ``InvalidInput`` naming ``store.url``, ``store.endpoint_url`` or ``store.region``.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return FileStore(_directory(url, rest), deadline_s)
    if scheme == "s3":
        from supervisor.clients.store.s3 import S3Store  # here: boto3 is slow to import, see the package

        bucket, prefix = _bucket_and_prefix(url, rest)
        return S3Store(
            bucket, prefix, _endpoint(endpoint_url), _region(region), deadline_s, asked=asked, keys=keys
        )
    raise InvalidInput(f"store.url {url!r} begins neither with s3:// nor with file:///", "correct it")


def _directory(url: str, rest: str) -> Path:
    path = unquote(rest)
    if not path.startswith("/") or "\0" in path:
        raise InvalidInput(
            f"store.url {url!r} names no absolute directory", "write file:///dir with three slashes"
        )
    normal = os.path.normpath("/" + path.lstrip("/"))
    if normal == "/":
        raise InvalidInput(f"store.url {url!r} is the root directory", "name a directory of its own")
    return Path(normal)


def _bucket_and_prefix(url: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"store.url {url!r} names no valid bucket", "write s3://bucket/prefix")
    prefix = prefix.removesuffix("/")
    if any(char in prefix for char in "?#"):
        raise InvalidInput(f"store.url {url!r} has a ? or # in it", "write s3://bucket/prefix")
    if prefix:
        try:
            checked_key(prefix)
        except InvalidInput:
            raise InvalidInput(
                f"store.url {url!r} has a prefix that no key can begin with", "correct it"
            ) from None
    return bucket, prefix


def _endpoint(endpoint_url: str | None) -> str | None:
    if endpoint_url is None:
        return None
    try:
        parts = urlsplit(endpoint_url)
        valid = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        valid = False
    if not valid or parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidInput(
            "store.endpoint_url is not a URL like https://host:port without user and query", "correct it"
        )
    return endpoint_url.rstrip("/")


def _region(region: str | None) -> str | None:
    if region is not None and not re.fullmatch(r"[A-Za-z0-9-]{1,64}", region):
        raise InvalidInput(f"store.region {region!r} is not a region name like eu-west-1", "correct it")
    return region
