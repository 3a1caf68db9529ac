"""Deleting what lies below a location on S3, a thousand objects a request. On the machinery of ``S3Tree``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ProxyConnectionError,
    SSLError,
)

from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.removal import BATCH_MAX, Removed
from supervisor.clients.store.s3 import Client
from supervisor.clients.store.s3_tree import _Calls
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, Conflict, Unreachable
from supervisor.model.deletable import holds_savepoints
from supervisor.spec.s3a import S3Access

SEND_WITHIN_S: Final = 30.0
SIGNATURE_VALID_S: Final = 900.0
CLOCKS_APART_S: Final = 900.0
LATE_S: Final = SEND_WITHIN_S + SIGNATURE_VALID_S + CLOCKS_APART_S
"""S3 (and MinIO, Ceph) refuse a request that was signed more than 15 minutes ago (RequestTimeTooSkewed), by their own clock,
which this host's may be ahead of by as much."""
NEVER_ARRIVED: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError)
DENIED: Final = frozenset({"AccessDenied", "MethodNotAllowed", "InvalidArgument"})


class S3Removal:
    """``location``: normalised, ``s3://bucket/path``. In a versioned bucket older versions stay, as after any deletion."""

    def __init__(self, location: str, access: S3Access, deadline_s: float) -> None:
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        self.location = location
        self.late_s = LATE_S
        self.queries: frozenset[str] | None = None
        self._calls = _Deletions(bucket, prefix, access, deadline_s)
        self.seen = True
        self.resolved = location
        self._after = ""

    @property
    def unanswered(self) -> int:
        return self._calls.sent - self._calls.answered

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        keys, more = self._calls.keys(self._after)
        doomed = [key for key in keys if not holds_savepoints(key)]
        if doomed:
            # from the question: it may be stopped over the answer
            latest_s = boottime_s() + SEND_WITHIN_S
            still()
            self._calls.delete_all(doomed, latest_s)
        self._after = keys[-1] if more else ""
        return Removed(len(doomed), more or bool(doomed))


class _Deletions(_Calls):
    """``sent``, ``answered``: requests that delete."""

    def __init__(self, bucket: str, prefix: str, access: S3Access, deadline_s: float) -> None:
        super().__init__(bucket, prefix, access, deadline_s)
        self.sent = 0
        self.answered = 0
        self._latest_s = 0.0

    def keys(self, after: str) -> tuple[list[str], bool]:
        """Markers of directories too, the location's own among them (``""``)."""

        def work(_budget: Budget, client: Client) -> tuple[list[str], bool]:
            self._count()
            start = {"StartAfter": self._prefix + after} if after else {}
            answer = client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, MaxKeys=BATCH_MAX, **start
            )
            found = [each["Key"].removeprefix(self._prefix) for each in answer.get("Contents", ())]
            return found, self._more(answer) is not None

        found, more = self._ask("", work)
        self._check_page(after, found, more)
        return found, more

    def delete_all(self, keys: list[str], latest_s: float) -> None:
        """One request, sent before ``latest_s`` (BOOTTIME) or not at all."""
        self._latest_s = latest_s
        objects = [{"Key": self._prefix + key} for key in keys]

        def work(_budget: Budget, client: Client) -> None:
            self._count()
            try:
                answer = client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True}
                )
            except (ClientError, *NEVER_ARRIVED) as error:
                if not isinstance(error, ClientError) or not _of_a_gateway(error):
                    self._note_answered()
                raise
            self._note_answered()
            self._raise_for(answer.get("Errors", ()))

        self._ask("", work)

    def _raise_for(self, errors: Any) -> None:
        for each in errors:
            what = f"{self.url}: {each.get('Key', '')} can't be deleted: {each.get('Code', '')} {each.get('Message', '')}"
            raise AccessDenied(what) if each.get("Code") in DENIED else Unreachable(what)

    def _make(self, patient: bool) -> Client:
        client = super()._make(patient)
        client.meta.events.register("before-call.s3.DeleteObjects", _with_md5)
        client.meta.events.register("before-send.s3.DeleteObjects", self._in_time)
        return client

    def _in_time(self, **_request: Any) -> None:
        """After the signature, right before the bytes go out."""
        if boottime_s() > self._latest_s:
            raise Conflict(
                f"{self.url}: this process was stopped before it could send a deletion; to be looked at again"
            )
        with self._counting:
            self.sent += 1

    def _note_answered(self) -> None:
        with self._counting:
            self.answered += 1


def _of_a_gateway(error: ClientError) -> bool:
    """What stands before the server gave up on it (502, 504 …, without a code of S3): the server may be at it still."""
    return str(error.response.get("Error", {}).get("Code", "")).isdigit()


def _with_md5(params: Any, **_more: Any) -> None:
    """Servers that are older than the newer checksums ask for this one."""
    body = params["body"]
    data = body if isinstance(body, bytes) else str(body).encode()
    params["headers"]["Content-MD5"] = base64.b64encode(
        hashlib.md5(data, usedforsecurity=False).digest()
    ).decode()
