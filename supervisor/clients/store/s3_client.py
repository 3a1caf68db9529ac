"""Makes the boto3 client of a store: one configuration for all that the product asks of S3. Only
``s3_session`` calls it.

What ``supervisor.yaml`` does not set comes from AWS's standard chain (environment, profile,
``~/.aws/config``): region, endpoint (``AWS_ENDPOINT_URL_S3``, ``endpoint_url`` of a profile or its services),
certificates, proxies, FIPS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import boto3.session
from botocore.config import Config

from supervisor.clients.store.base import Keys
from supervisor.clients.store.deadline import PARALLEL_MAX
from supervisor.errors import InvalidInput
from supervisor.spec.s3a import S3Access, asked

_OF_AWS: Final = re.compile(r"https?://[^/]*\.amazonaws\.com(\.cn)?(/|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class S3Service:
    """Says where an S3 is and how it is asked; fields that are None come from the chain.

    ``asked`` are parameters of every request that knows them, by boto3's names (``RequestPayer`` …).
    ``setting`` is what a message calls the setting of the endpoint. ``keys`` are credentials (access key,
    secret key, token) in place of those of the chain: then no others are ever used.
    """

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    setting: str = "the endpoint"
    keys: Keys | None = field(default=None, repr=False)

    @classmethod
    def of(cls, access: S3Access) -> S3Service:
        """Returns the service of a checkpoint, as its job says."""
        return cls(access.endpoint_url, access.region, access.path_style, asked(access))

    def session(self) -> boto3.session.Session:
        """Returns a new session, which looks for credentials when it is asked for them."""
        return boto3.session.Session(*self.keys or ())


def make_client(session: boto3.session.Session, service: S3Service, quiet_s: float) -> Any:
    """Makes a client, and for that looks for credentials, which may take time. ``quiet_s`` is how long a
    connection may be silent. Raises InvalidInput."""
    endpoint_url, region, path_style = service.endpoint_url, service.region, service.path_style
    named = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if path_style is None and named:
        path_style = True
    client = _made(session, endpoint_url, region, path_style, quiet_s)
    chosen = (client.meta.config.s3 or {}).get("addressing_style", "auto")
    # of ~/.aws/config
    if path_style is None and chosen == "auto" and not _OF_AWS.match(client.meta.endpoint_url):
        client = _made(session, endpoint_url, region, True, quiet_s)
    if service.asked:
        client.meta.events.register("provide-client-params.s3", _asking(service.asked))
    return client


def keys_of(session: boto3.session.Session) -> Keys | None:
    """Returns access key, secret key and token; None if the chain has none."""
    credentials = session.get_credentials()
    return None if credentials is None else tuple(credentials.get_frozen_credentials())


def _made(
    session: boto3.session.Session,
    endpoint_url: str | None,
    region: str | None,
    path_style: bool | None,
    quiet_s: float,
) -> Any:
    config = Config(
        connect_timeout=quiet_s / 2,
        read_timeout=quiet_s,
        retries={"total_max_attempts": 1},
        max_pool_connections=PARALLEL_MAX,
        s3=None if path_style is None else {"addressing_style": "path" if path_style else "auto"},
        # The newer default (CRC trailers) is refused by many other servers; Content-MD5 is known to all.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    region = region or session.region_name or "us-east-1"
    try:
        return session.client("s3", endpoint_url=endpoint_url, region_name=region, config=config)
    except ValueError as error:  # what botocore says of an endpoint that is no URL
        raise InvalidInput(f"store.endpoint_url or store.region is not valid: {error}") from None


def _asking(wanted: Mapping[str, str]) -> Any:
    def add(params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any]:
        known = model.input_shape.members if model.input_shape is not None else ()
        return {name: value for name, value in wanted.items() if name in known} | params

    return add
