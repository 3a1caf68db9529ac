"""The store on S3 or anything that speaks its API (``s3://bucket/prefix``), on boto3.

Immutability rests on the conditional PUT (``If-None-Match: *``). A 412 may be the echo of our own PUT whose reply was
lost: read back and compare. A 409 is another writer at the same moment: again. botocore's own retries are off, because
they know nothing of either, nor of our deadline; ours (``s3_pacing``) are jittered and end with the budget of the operation.

Credentials that expire are renewed by botocore (roles, container and instance metadata). What was read from a file or the
output of a program never is: when the server refuses the keys, the chain is asked anew, once, and other keys are tried.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import boto3.session
from botocore.exceptions import ClientError

from supervisor.clients.store.base import CHUNK_BYTES, DEADLINE_S, TRANSFER_MAX_S, StoreEntry, checked_key
from supervisor.clients.store.deadline import Bounded, Budget
from supervisor.clients.store.local import Digest, digest_of, require_unchanged, source_chunks, write_whole
from supervisor.clients.store.s3_client import keys_of, make_client
from supervisor.clients.store.s3_errors import (
    THEIRS,
    StoreLocation,
    code_of,
    meaning,
    status_of,
    wants_new_client,
)
from supervisor.clients.store.s3_pacing import RequestPace, attempts
from supervisor.clients.store.s3_upload import Upload, arm
from supervisor.errors import (
    AccessDenied,
    Conflict,
    Corrupt,
    InvalidInput,
    NotFound,
    SupervisorError,
    Unreachable,
)

T = TypeVar("T")
Client = Any  # boto3 makes its clients at run time
PUT_MAX_BYTES = 5 * 1024**3


class S3Store:
    """``Store`` in ``bucket`` below ``prefix`` (no slash at its ends, may be empty).

    Credentials: the default chain of boto3. ``region`` None: the chain's, else us-east-1. ``deadline_s`` bounds each
    operation whatever the server does, and before the first one the making of a client; ``transfer_max_s`` bounds a transfer
    that goes on moving. ``path_style`` and ``asked``: see ``spec.s3a``. No I/O in the constructor.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        deadline_s: float = DEADLINE_S,
        transfer_max_s: float = TRANSFER_MAX_S,
        path_style: bool | None = None,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._endpoint_url = endpoint_url
        self._region = region
        self._path_style = path_style
        self._asked = asked or {}
        self._deadline_s = deadline_s
        self._transfer_max_s = transfer_max_s
        self._bounded = Bounded(deadline_s)
        self._pace = RequestPace()
        self._making = threading.Lock()
        self._session: boto3.session.Session | None = None
        self._has_keys = False
        self._clients: dict[bool, Client] = {}
        self.url = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._place = StoreLocation(self.url, endpoint_url or "AWS S3")

    def create(self, key: str, data: bytes) -> None:
        digest = digest_of([data])

        def work(budget: Budget, client: Client) -> None:
            self._put(budget, client, key, data, digest)

        self._run(key, work)

    def create_from(self, key: str, source: Path, sha256: str | None = None) -> None:
        digest = digest_of(source_chunks(source))
        require_unchanged(source, digest.sha256, sha256)
        if digest.size_bytes > PUT_MAX_BYTES:
            raise InvalidInput(f"{source} is larger than the 5 GiB that the store takes; make it smaller")

        def work(budget: Budget, client: Client) -> None:
            with Upload.of(source, digest.size_bytes, budget) as body:
                self._put(budget, client, key, body, digest)

        self._run(key, work, self._transfer_max_s)

    def read(self, key: str, max_bytes: int) -> bytes:
        def work(budget: Budget, client: Client) -> bytes:
            return b"".join(self._chunks(budget, client, key, None, max_bytes))

        return self._run(key, work)

    def read_to(self, key: str, target: Path) -> str:
        def work(budget: Budget, client: Client) -> str:
            return write_whole(target, self._chunks(budget, client, key, "read"))

        return self._run(key, work, self._transfer_max_s)

    def entries(self, prefix: str, after: str = "") -> Iterator[StoreEntry]:
        if prefix:
            checked_key(prefix.removesuffix("/"))
        last = after
        while True:
            page, more = self._page(prefix, last)
            for entry in page:
                if entry.key and not entry.key.endswith("/"):
                    yield entry
            if not more:
                return
            last = page[-1].key

    def delete(self, key: str) -> None:
        def work(_budget: Budget, client: Client) -> None:
            client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

        with suppress(NotFound):  # some servers say so
            self._run(key, work)

    def check(self) -> None:
        def work(_budget: Budget, client: Client) -> None:
            client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)

        self._ask("", work)

    def keeps_versions(self) -> tuple[bool, bool]:
        """Does the bucket keep what is deleted and overwritten, and for ever (no lifecycle rule ends it)? For ``doctor``;
        ``AccessDenied`` where asking is not granted (s3:GetBucketVersioning, s3:GetLifecycleConfiguration)."""

        def work(_budget: Budget, client: Client) -> tuple[bool, bool]:
            if client.get_bucket_versioning(Bucket=self._bucket).get("Status") != "Enabled":
                return False, False
            try:
                rules = client.get_bucket_lifecycle_configuration(Bucket=self._bucket).get("Rules", ())
            except ClientError as error:
                if code_of(error) != "NoSuchLifecycleConfiguration":
                    raise
                rules = ()
            return True, not any(
                "NoncurrentVersionExpiration" in rule for rule in rules if rule["Status"] == "Enabled"
            )

        return self._ask("", work)

    # One operation: a budget, a client, attempts.

    def _run(self, key: str, work: Callable[[Budget, Client], T], max_s: float | None = None) -> T:
        return self._ask(checked_key(key), work, max_s)

    def _ask(self, key: str, work: Callable[[Budget, Client], T], max_s: float | None = None) -> T:
        """``key`` is only for messages here, and empty where the question is about the whole store."""

        def run(budget: Budget) -> T:
            with self._pace.of(budget):
                for attempt in attempts(budget):
                    with attempt:
                        budget.check()
                        return self._attempt(budget, key, work, patient=max_s is not None)
            raise AssertionError("tenacity either returns or raises")

        self._make_ready(f"{self.url}/{key}", patient=max_s is not None)
        return self._bounded.run(f"{self.url}/{key}", run, max_s)

    def _make_ready(self, what: str, patient: bool) -> None:
        """Make the client before the clock of the first operation runs: seconds of computing on a busy host, and none
        of them the server's. Bounded as an operation is: the chain of credentials may run a program. What fails at once is
        met again, and told, by the operation."""

        def make(budget: Budget) -> None:
            with suppress(SupervisorError, *THEIRS):
                self._client(budget, patient)

        if patient not in self._clients:
            self._bounded.run(what, make)

    def _attempt(self, budget: Budget, key: str, work: Callable[[Budget, Client], T], patient: bool) -> T:
        try:
            client = self._client(budget, patient)
            try:
                return work(budget, client)
            except THEIRS as error:
                if not wants_new_client(error) or not self._has_other_keys(budget, client):
                    raise
            budget.check()
            return work(budget, self._client(budget, patient))
        except THEIRS as error:
            raise meaning(error, self._place, key) from None

    def _client(self, budget: Budget, patient: bool) -> Client:
        """The client for this kind of operation, made on first use: that looks for credentials, which may take time."""
        with self._while_making(budget):
            if patient not in self._clients:
                self._clients[patient] = self._make(patient)
            return self._clients[patient]

    def _has_other_keys(self, budget: Budget, refused: Client) -> bool:
        """Does the chain of credentials give other keys than the refused ones? The next client is made with them."""
        with self._while_making(budget):
            if refused not in self._clients.values():  # another thread was here before
                return True
            session = boto3.session.Session()
            keys = keys_of(session)
            if keys is None or (
                self._has_keys and self._session is not None and keys == keys_of(self._session)
            ):
                return False
            self._session, self._clients = session, {}
            return True

    @contextmanager
    def _while_making(self, budget: Budget) -> Iterator[None]:
        if not self._making.acquire(timeout=budget.remaining_s()):
            raise budget.over()
        try:
            yield
        finally:
            self._making.release()

    def _make(self, patient: bool) -> Client:
        # A session of our own: boto3's default one may be used by other threads while we make a client of it.
        session = self._session = self._session or boto3.session.Session()
        # without, a session looks again when asked; its clients don't
        self._has_keys = keys_of(session) is not None
        # Half the deadline, so that a second attempt fits in when one connection hangs. Not for transfers: the end of an
        # upload may sit in the socket's buffer for long, and a second attempt would begin at its beginning.
        quiet_s = self._deadline_s if patient else self._deadline_s / 2
        client = make_client(
            session, self._endpoint_url, self._region, self._path_style, quiet_s, self._asked
        )
        self._pace.arm(client)
        arm(client)
        return client

    # The calls.

    def _put(self, budget: Budget, client: Client, key: str, body: bytes | Upload, digest: Digest) -> None:
        try:
            client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=body,
                ContentLength=digest.size_bytes,
                ContentMD5=base64.b64encode(digest.md5).decode(),
                IfNoneMatch="*",
            )
        except ClientError as error:
            if status_of(error) != 412:
                raise
        else:
            return
        try:
            there = digest_of(self._chunks(budget, client, key, "compared"))
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            raise Unreachable(f"{self.url}/{key} was there, and went while it was looked at") from None
        if there.sha256 != digest.sha256:
            raise Conflict(f"{self.url}/{key} exists with another content; it is never overwritten")

    def _chunks(
        self, budget: Budget, client: Client, key: str, way: str | None, max_bytes: int | None = None
    ) -> Iterator[bytes]:
        """The object in pieces, complete or an error. ``way``: the transfer that earns time by moving."""
        position = 0
        try:
            answer = client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            # Without a length, only the last chunk proves the end, and urllib3 misses it.
            chunked = (
                answer["ResponseMetadata"]["HTTPHeaders"].get("transfer-encoding", "").lower() == "chunked"
            )
            expected: int | None = answer.get("ContentLength")
            with closing(answer["Body"]) as body:
                if max_bytes is not None and (expected or 0) > max_bytes:
                    raise Corrupt(f"{self.url}/{key} is larger than the {max_bytes} bytes it may have")
                while chunk := body.read(CHUNK_BYTES):
                    position += len(chunk)
                    if max_bytes is not None and position > max_bytes:
                        raise Corrupt(f"{self.url}/{key} is larger than the {max_bytes} bytes it may have")
                    if way is None:
                        budget.check()
                    else:
                        budget.moved(way, position)
                    yield chunk
        except OSError as error:  # a socket's, or one of botocore's that are OSErrors: not the target file's
            raise Unreachable(f"{self.url}/{key}: {error}") from None
        if position != expected and not (expected is None and chunked):
            of = "an unknown number of" if expected is None else expected
            raise Unreachable(f"{self.url}/{key}: {position} of {of} bytes arrived")

    def _page(self, prefix: str, last: str) -> tuple[list[StoreEntry], bool]:
        def work(_budget: Budget, client: Client) -> tuple[list[StoreEntry], bool]:
            start = {"StartAfter": self._prefix + last} if last else {}
            answer = client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **start)
            # a listing that does not say that it is complete proves no absence
            if "IsTruncated" not in answer:
                raise Unreachable(
                    f"{self._place.server} lists as no S3 server does; correct store.endpoint_url"
                )
            page = [
                StoreEntry(
                    item["Key"].removeprefix(self._prefix), item["Size"], item["LastModified"].timestamp()
                )
                for item in answer.get("Contents", ())
            ]
            return page, bool(answer["IsTruncated"])

        page, more = self._ask("", work)
        keys = [last.encode()] * bool(last) + [entry.key.encode() for entry in page]
        if any(later <= earlier for earlier, later in zip(keys, keys[1:], strict=False)) or (
            more and not page
        ):
            raise AccessDenied(f"{self.url} does not list in the order of keys; use a general purpose bucket")
        return page, more
