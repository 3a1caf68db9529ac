"""How one S3 service is spelt for Spark (``s3a://``) and for the supervisor (``s3://``), and where it is. Pure.

Called by ``spark`` (what the driver is told) and ``checkpoint`` (where the supervisor looks itself): both must mean the
same place. CONTRACT: the job's ``spark.hadoop.fs.s3a.endpoint`` counts, else the store's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

_S3: Final = re.compile(r"s3[an]?://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)
PREFIX: Final = "spark.hadoop.fs.s3a."


class S3Access(NamedTuple):
    """``endpoint_url`` None: AWS itself. ``region`` None: whatever the environment says. ``path_style`` None: as is usual
    there: in the path for an endpoint of one's own, in the host name for AWS."""

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None


class Store(Protocol):
    """``settings.store``."""

    @property
    def endpoint_url(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...


def access_of_store(store: Store) -> S3Access:
    """The service that the store is on: also a checkpoint's, unless its job says another."""
    return S3Access(store.endpoint_url, store.region)


def bucket_of(location: str) -> str | None:
    """The bucket of an ``s3://``, ``s3a://`` or ``s3n://`` location, in lower case; None for any other location."""
    match = _S3.fullmatch(location)
    return match[1].lower() if match else None


def for_spark(location: str) -> str:
    """``location`` as Spark reads it: the only client for S3 that it has is ``s3a://``."""
    match = _S3.fullmatch(location)
    return f"s3a://{match[1].lower()}{match[2]}" if match else location


def for_store(location: str) -> str:
    """``location`` as the supervisor's own store client takes it, ``s3://``."""
    match = _S3.fullmatch(location)
    return f"s3://{match[1].lower()}{match[2]}" if match else location


def setting(conf: Mapping[str, str], bucket: str, name: str) -> str | None:
    """S3A's setting ``name`` (``endpoint``, ``endpoint.region`` …) for this bucket; one of the bucket's own wins."""
    own = conf.get(f"{PREFIX}bucket.{bucket}.{name}")
    return own if own is not None else conf.get(f"{PREFIX}{name}")


def access_of(conf: Mapping[str, str], bucket: str, store: S3Access) -> S3Access:
    """Where the bucket is, as the driver sees it. ``conf``: the job's properties; ``store``: of ``supervisor.yaml``."""
    endpoint, region = setting(conf, bucket, "endpoint"), setting(conf, bucket, "endpoint.region")
    said = (setting(conf, bucket, "path.style.access") or "").lower()
    path_style = {"true": True, "false": False}.get(said)
    if endpoint is None:
        return S3Access(store.endpoint_url, region or store.region, path_style)
    if not endpoint:
        return S3Access(None, region, path_style)
    plain = (setting(conf, bucket, "connection.ssl.enabled") or "").lower() == "false"
    url = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
    return S3Access(url, region, path_style)


def properties_for(conf: Mapping[str, str], bucket: str, store: S3Access) -> dict[str, str]:
    """What to add to ``conf`` so that the driver finds the bucket where the store is; nothing if the job says it itself."""
    if setting(conf, bucket, "endpoint") is not None:
        return {}
    wanted = {}
    if store.region is not None:
        wanted["endpoint.region"] = store.region
    if store.endpoint_url is not None:
        wanted["endpoint"] = store.endpoint_url
        wanted["path.style.access"] = "true"
        wanted["connection.ssl.enabled"] = "false" if store.endpoint_url.lower().startswith("http://") else "true"
    return {f"{PREFIX}{name}": value for name, value in wanted.items() if setting(conf, bucket, name) is None}
