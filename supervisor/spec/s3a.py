"""Defines how one S3 service is spelt for Spark (``s3a://``) and for the supervisor (``s3://``), and where it
is. It is pure.

It is called by ``spark`` (for what the driver is given) and ``checkpoint`` (for where the supervisor itself
reads): both must mean the same place. The job's ``spark.hadoop.fs.s3a.endpoint`` counts, else the store's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from supervisor.errors import InvalidInput

if TYPE_CHECKING:
    from supervisor.settings.file import StoreSettings

_S3: Final = re.compile(r"s3[an]?://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)
PREFIX: Final = "spark.hadoop.fs.s3a."
AWS: Final = "AWS"
_HOST: Final = re.compile(r"[a-z0-9._:-]+")
_OF_AWS: Final = re.compile(r"s3(-fips)?(\.dualstack)?([.-][a-z]{2}(-[a-z]+)+-[0-9])?\.amazonaws\.com(\.cn)?")
SSE_OF_S3A: Final = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
"""Maps ``encryption.algorithm`` of S3A to S3's own value. Keys that only the driver has (SSE-C, CSE) are not
handled here.
"""


class S3Access(NamedTuple):
    """Says how an S3 service is reached. If ``endpoint_url`` is None, it is AWS itself. If ``region`` is
    None, the environment decides. If ``path_style`` is None, the bucket stands where it usually does: in the
    path for an endpoint of one's own, in the host name for AWS.

    ``sse`` and ``sse_kms_key_id`` say how what is written shall be encrypted there; None means as the bucket
    is configured. ``request_payer`` is ``requester`` for buckets of others in which the requester pays. The
    values are those of S3.

    ``others`` is set for the store only: endpoints besides its own that jobs may name (``policy.endpoints``).
    It is not recorded.
    """

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    sse: str | None = None
    sse_kms_key_id: str | None = None
    request_payer: str | None = None
    others: tuple[str, ...] = ()


RECORDED: Final = tuple(name for name in S3Access._fields if name != "others")


def access_of_store(store: StoreSettings, others: tuple[str, ...] = ()) -> S3Access:
    """Returns the access to the service that the store is on. It serves a checkpoint too, unless its job
    names another service. ``others`` are the endpoints that a job may name (``policy.endpoints``).
    """
    return S3Access(
        store.endpoint_url, store.region, None, store.sse, store.sse_kms_key_id, store.request_payer, others
    )


def allowed(access: S3Access, store: S3Access) -> S3Access:
    """Returns ``access`` if the supervisor's credentials may go there: to the store's own service, or to one
    of ``others``.

    Nothing else decides this: all code that signs a request for what a job, or a record, names gets its
    access from here. Raises InvalidInput.
    """
    service = _service(access.endpoint_url)
    if service is not None and service in {_service(store.endpoint_url), *map(_service, store.others)}:
        return access._replace(others=())
    named = f"S3 endpoint {(access.endpoint_url or 'of AWS')[:200]!r}"
    raise InvalidInput(
        f"{named} is neither the store's nor listed in policy.endpoints of supervisor.yaml: it gets no credentials of the "
        "supervisor",
        "list it there, or leave it out of the job's conf",
    )


def why_no_access(conf: Mapping[str, str], locations: Iterable[str | None], store: S3Access) -> str | None:
    """Returns why one of ``locations``, of a job with the properties ``conf``, cannot be reached, or None if
    all can, as far as is known here.
    """
    for location in locations:
        bucket = bucket_of(location) if location is not None else None
        try:
            if bucket is not None:
                access_of(conf, bucket, store)
        except InvalidInput as error:
            return f"{location}: {error}"
    return None


def _service(endpoint: str | None) -> str | None:
    """Returns what identifies the service of ``endpoint``; two endpoints with the same result are one
    service. None never equals another.
    """
    if endpoint is None:
        return AWS
    try:
        parts = urlsplit(endpoint)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    plain = not (parts.username or parts.password or parts.query or parts.fragment or parts.path.strip("/"))
    if not host or not plain or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return None
    port = port or (443 if parts.scheme == "https" else 80)
    if parts.scheme == "https" and port == 443 and _OF_AWS.fullmatch(host):
        return AWS
    return f"{parts.scheme}://{host}:{port}"


def asked(access: S3Access) -> dict[str, str]:
    """Returns the parameters for every request that knows them, by the names of the S3 API."""
    named = {
        "ServerSideEncryption": access.sse,
        "SSEKMSKeyId": access.sse_kms_key_id,
        "RequestPayer": access.request_payer,
    }
    return {name: value for name, value in named.items() if value is not None}


def bucket_of(location: str) -> str | None:
    """Returns the bucket of an ``s3://``, ``s3a://`` or ``s3n://`` location, in lower case, or None for any
    other location.
    """
    match = _S3.fullmatch(location)
    return match[1].lower() if match else None


def for_spark(location: str) -> str:
    """Returns ``location`` as Spark reads it: the only client for S3 that it has is ``s3a://``."""
    match = _S3.fullmatch(location)
    return f"s3a://{match[1].lower()}{match[2]}" if match else location


def for_store(location: str) -> str:
    """Returns ``location`` as the supervisor's own store client takes it, with ``s3://``."""
    match = _S3.fullmatch(location)
    return f"s3://{match[1].lower()}{match[2]}" if match else location


def setting(conf: Mapping[str, str], bucket: str, name: str) -> str | None:
    """Returns S3A's setting ``name`` (``endpoint``, ``endpoint.region`` …) for this bucket; one of the
    bucket's own wins.
    """
    own = conf.get(f"{PREFIX}bucket.{bucket}.{name}")
    return own if own is not None else conf.get(f"{PREFIX}{name}")


def access_of(conf: Mapping[str, str], bucket: str, store: S3Access) -> S3Access:
    """Returns the access to the bucket as the driver has it. ``conf`` holds the job's properties, ``store``
    comes from ``supervisor.yaml``.

    Raises InvalidInput for an endpoint that gets no credentials (``allowed``).
    """
    endpoint, region = setting(conf, bucket, "endpoint"), setting(conf, bucket, "endpoint.region")
    path_style = _truth(setting(conf, bucket, "path.style.access"))
    if endpoint is None:
        near = store._replace(region=region or store.region, path_style=path_style, others=())
        return _with_wishes(conf, bucket, near)
    if not endpoint:
        return _with_wishes(conf, bucket, allowed(S3Access(None, region, path_style), store))
    plain = _truth(setting(conf, bucket, "connection.ssl.enabled")) is False
    url = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
    return _with_wishes(conf, bucket, allowed(S3Access(url, region, path_style), store))


def _with_wishes(conf: Mapping[str, str], bucket: str, access: S3Access) -> S3Access:
    """Returns ``access`` with the encryption that ``conf`` asks for. What the supervisor itself puts into the
    job's bucket (a restored savepoint) is encrypted as the driver's own objects are.
    """
    algorithm = setting(conf, bucket, "encryption.algorithm")
    if algorithm is not None:
        sse = SSE_OF_S3A.get(algorithm.upper())
        key = (
            setting(conf, bucket, "encryption.key") if sse is not None and sse.startswith("aws:kms") else None
        )
        access = access._replace(sse=sse, sse_kms_key_id=key or None)
    pays = _truth(setting(conf, bucket, "requester.pays.enabled"))
    return access if pays is None else access._replace(request_payer="requester" if pays else None)


def _truth(configured: str | None) -> bool | None:
    return {"true": True, "false": False}.get((configured or "").lower())


def properties_for(conf: Mapping[str, str], bucket: str, store: S3Access) -> dict[str, str]:
    """Returns what to add to ``conf`` so that the driver finds the bucket where the store is. The result is
    empty if the job names the endpoint itself.
    """
    if setting(conf, bucket, "endpoint") is not None:
        return {}
    wanted = {}
    if store.region is not None:
        wanted["endpoint.region"] = store.region
    if store.endpoint_url is not None:
        wanted["endpoint"] = store.endpoint_url
        wanted["path.style.access"] = "true"
        wanted["connection.ssl.enabled"] = (
            "false" if store.endpoint_url.lower().startswith("http://") else "true"
        )
    return {f"{PREFIX}{name}": value for name, value in wanted.items() if setting(conf, bucket, name) is None}
