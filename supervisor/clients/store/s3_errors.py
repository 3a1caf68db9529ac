"""Translates what botocore raises into the few errors of the supervisor, with one sentence and a remedy. Only
``s3_session`` and ``s3_objects`` call it.

An error that may pass by itself is ``Unreachable`` and is retried there; every other one is final. Absence is
believed only when the store answers ``NoSuchKey``, since a 404 of a proxy, or of a web server that is no S3
at all, proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigNotFound,
    ConfigParseError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from supervisor.errors import (
    AccessDenied,
    InvalidInput,
    NotFound,
    NotPermitted,
    SupervisorError,
    Unreachable,
)

_CREDENTIALS = "renew the credentials of the default AWS chain"
_REMEDIES = {
    "NoSuchBucket": "the bucket does not exist; create it or correct store.url",
    "InvalidBucketName": "the bucket name is not valid there; correct store.url",
    "AccessDenied": "grant s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on it",
    "AllAccessDisabled": "the bucket is disabled; ask its owner",
    "AccountProblem": "the account has a problem; ask its owner",
    "InvalidAccessKeyId": f"the access key is unknown there; {_CREDENTIALS}",
    "SignatureDoesNotMatch": "the secret key or the region is wrong; correct the credentials or store.region",
    "ExpiredToken": f"the token has expired; {_CREDENTIALS}",
    "ExpiredTokenException": f"the token has expired; {_CREDENTIALS}",
    "TokenRefreshRequired": f"the token has expired; {_CREDENTIALS}",
    "InvalidToken": f"the token is not valid; {_CREDENTIALS}",
    "RequestTimeTooSkewed": "the clock of this host differs too much from the store's; synchronise it (chrony or ntp)",
    "RequestExpired": "the clock of this host differs too much from the store's; synchronise it (chrony or ntp)",
    "PermanentRedirect": "the bucket is in another region; correct store.region or store.endpoint_url",
    "AuthorizationHeaderMalformed": "the bucket is in another region; correct store.region",
    "IllegalLocationConstraintException": "the bucket is in another region; correct store.region",
    "301": "the bucket is in another region, or this is not the address of the S3 itself; correct store.region or "
    "store.endpoint_url",
    "403": "the object or the bucket may not be read, or the credentials are not valid (any more), or the clock of this "
    "host is wrong; doctor tells which",
    "400": "the credentials have expired, or the region is wrong; renew the credentials or correct store.region",
    "NotImplemented": "this server lacks conditional writes (If-None-Match); use an S3 that has them",
    "EntityTooLarge": "the object is larger than one PUT may be (5 GiB); make the file smaller",
}
_STALE_KEYS = frozenset(
    ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId")
    + ("SignatureDoesNotMatch", "400", "403")
)
_PASSING = frozenset(
    ("SlowDown", "RequestTimeout", "InternalError", "BadDigest", "XAmzContentSHA256Mismatch")
)
_PASSING_STATUS = frozenset((307, 408, 409, 425, 429))
"""Among these, 307 comes for a new bucket whose name is not known everywhere yet."""
THEIRS = (BotoCoreError, ClientError, ResponseParserError, HTTPError)
"""A call of boto3 raises nothing but these."""
_MISCONFIGURED = (NoRegionError, ParamValidationError, ProfileNotFound, ConfigParseError, ConfigNotFound)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Holds what the messages name. ``server`` is the endpoint, or ``AWS S3``."""

    url: str
    server: str


def meaning(error: Exception, store_location: StoreLocation, key: str) -> SupervisorError:
    """Returns the error to raise instead of one of ``THEIRS``."""
    if isinstance(error, ClientError):
        return _of_answer(error, store_location, key)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return AccessDenied(
            f"{store_location.url}: {_line(error)}", "set AWS_ACCESS_KEY_ID and its like, a profile or a role"
        )
    if isinstance(error, _MISCONFIGURED):
        return InvalidInput(
            f"{store_location.url} cannot be used: {_line(error)}", "correct store.url, store.region or AWS_*"
        )
    if isinstance(error, ResponseParserError):
        return Unreachable(
            f"{store_location.server} answers as no S3 server does", "correct store.endpoint_url"
        )
    if isinstance(error, SSLError):
        return Unreachable(
            f"{store_location.server} has no TLS that this host trusts ({_line(error)})",
            "see store.endpoint_url",
        )
    return Unreachable(f"{store_location.server} did not serve {store_location.url}: {_line(error)}")


def status_of(error: ClientError) -> int:
    """Returns the HTTP status of the answer, 0 if it had none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def wants_new_client(error: BaseException) -> bool:
    """Returns whether other credentials may have been provided since the client looked for them. It never
    looks again by itself for those of files. A refused HEAD has no code."""
    if isinstance(error, ClientError):
        return code_of(error) in _STALE_KEYS
    return isinstance(error, NoCredentialsError | PartialCredentialsError)


def _of_answer(error: ClientError, store_location: StoreLocation, key: str) -> SupervisorError:
    code, status = code_of(error), status_of(error)
    if code == "NoSuchKey":
        return NotFound(f"{store_location.url}/{key} does not exist")
    if status in (301, 302, 308) and code not in _REMEDIES:
        code = "301"
    if code in _REMEDIES:
        refusal = NotPermitted if code == "AccessDenied" else AccessDenied
        return refusal(f"{store_location.server} refused {store_location.url} ({code}): {_REMEDIES[code]}")
    if status in _PASSING_STATUS or status >= 500 or code in _PASSING:
        return Unreachable(f"{store_location.server} answered {status} {code} for {store_location.url}")
    if status in (401, 403):
        return AccessDenied(
            f"{store_location.server} refused {store_location.url} ({status} {code}): {_REMEDIES['AccessDenied']}"
        )
    if status == 404:
        return Unreachable(
            f"{store_location.server} answered 404 {code} for {store_location.url}",
            "is store.endpoint_url an S3 server?",
        )
    return AccessDenied(
        f"{store_location.server} refused {store_location.url}/{key} ({status} {code}: {_line(error)})"
    )


def code_of(error: ClientError) -> str:
    """Returns S3's code of the error, or the status where the answer had no body (HEAD)."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
