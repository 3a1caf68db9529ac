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
SSE_OF_S3A: Final = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
"""``encryption.algorithm`` of S3A, and S3's own word. Keys that only the driver has (SSE-C, CSE) are its own affair."""


class S3Access(NamedTuple):
    """``endpoint_url`` None: AWS itself. ``region`` None: whatever the environment says. ``path_style`` None: as is usual
    there: in the path for an endpoint of one's own, in the host name for AWS.

    ``sse``, ``sse_kms_key_id``: how what is written shall be encrypted there, None: as the bucket says. ``request_payer``:
    ``requester`` for buckets of others who want to be paid by who asks. Words as S3 has them.
    """

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    sse: str | None = None
    sse_kms_key_id: str | None = None
    request_payer: str | None = None


class Store(Protocol):
    """``settings.store``."""

    @property
    def endpoint_url(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def sse(self) -> str | None: ...
    @property
    def sse_kms_key_id(self) -> str | None: ...
    @property
    def request_payer(self) -> str | None: ...


def access_of_store(store: Store) -> S3Access:
    """The service that the store is on: also a checkpoint's, unless its job says another."""
    return S3Access(store.endpoint_url, store.region, None, store.sse, store.sse_kms_key_id, store.request_payer)


def asked(access: S3Access) -> dict[str, str]:
    """Parameters for every request that knows them, by the names of the S3 API."""
    named = {
        "ServerSideEncryption": access.sse, "SSEKMSKeyId": access.sse_kms_key_id, "RequestPayer": access.request_payer,
    }
    return {name: value for name, value in named.items() if value is not None}


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
    path_style = _truth(setting(conf, bucket, "path.style.access"))
    if endpoint is None:
        return _with_wishes(conf, bucket, store._replace(region=region or store.region, path_style=path_style))
    if not endpoint:
        return _with_wishes(conf, bucket, S3Access(None, region, path_style))
    plain = _truth(setting(conf, bucket, "connection.ssl.enabled")) is False
    url = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
    return _with_wishes(conf, bucket, S3Access(url, region, path_style))


def _with_wishes(conf: Mapping[str, str], bucket: str, access: S3Access) -> S3Access:
    """What the supervisor itself puts into the job's bucket (a restored savepoint) is encrypted as the driver's are."""
    algorithm = setting(conf, bucket, "encryption.algorithm")
    if algorithm is not None:
        sse = SSE_OF_S3A.get(algorithm.upper())
        key = setting(conf, bucket, "encryption.key") if sse is not None and sse.startswith("aws:kms") else None
        access = access._replace(sse=sse, sse_kms_key_id=key or None)
    pays = _truth(setting(conf, bucket, "requester.pays.enabled"))
    return access if pays is None else access._replace(request_payer="requester" if pays else None)


def _truth(said: str | None) -> bool | None:
    return {"true": True, "false": False}.get((said or "").lower())


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
