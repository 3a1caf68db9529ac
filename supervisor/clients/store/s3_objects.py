"""Implements ``ObjectClient`` for S3 or anything that has its API, on boto3: every request of the product to
S3 is made here.

Immutability rests on the conditional PUT (``If-None-Match: *``). A 412 may be caused by an earlier attempt of
the same PUT whose reply was lost: the object is read back and compared. A 409 is another writer at the same
moment: the request is repeated.

Copies are the server's own (CopyObject, in parts above ``PARTS_ABOVE_BYTES``): no content passes through
this host. Every copy names the ETag that was listed (``x-amz-copy-source-if-match``): what has been replaced
since is not copied. A copy whose ETag is another (parts, encryption, a server that ignores the condition) is
believed if the source has not changed. Repeating a copy after a lost reply has the same result.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ProxyConnectionError,
    SSLError,
)

from supervisor.clients.store.base import CHUNK_BYTES, DEADLINE_S, TRANSFER_MAX_S, StoreEntry
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.local import Digest, digest_of, write_whole
from supervisor.clients.store.objects import Item, Level, ObjectClient
from supervisor.clients.store.s3_client import S3Service
from supervisor.clients.store.s3_errors import code_of, status_of
from supervisor.clients.store.s3_session import Client, S3Session
from supervisor.clients.store.s3_upload import Upload
from supervisor.clock import boottime_s
from supervisor.errors import (
    AccessDenied,
    Conflict,
    Corrupt,
    InvalidInput,
    NotFound,
    SupervisorError,
    Unreachable,
)
from supervisor.spec.s3a import S3Access

T = TypeVar("T")
FOLDERS_MAX: Final = 100_000
"""This bounds the directories of one level, which are at most the partitions of one stateful operator."""
PARTS_ABOVE_BYTES: Final = 512 * 1024**2
"""One CopyObject may be of 5 GiB, but answers when all of it is copied: parts keep each request short."""
PART_BYTES: Final = 128 * 1024**2
PARTS_MAX: Final = 10_000
TOKEN: Final = "spark-supervisor-copy"
"""This names the metadata of what was copied in parts."""
COPY_DEADLINE_S: Final = 60.0
"""This is longer than other deadlines, because a copy of a large object answers late."""
NEVER_ARRIVED: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError)
DENIED: Final = frozenset({"AccessDenied", "MethodNotAllowed", "InvalidArgument"})


class S3ObjectClient:
    """Reaches objects in ``bucket`` below ``prefix`` (no slash at its ends, may be empty). The constructor
    does no I/O.

    ``sent`` and ``answered`` count how many batches of deletions were sent, and how many of them are known to
    be over.
    """

    def __init__(self, bucket: str, prefix: str, service: S3Service, deadline_s: float = DEADLINE_S) -> None:
        self.location = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self.requests = self.sent = self.answered = 0
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._service = service
        self._counting = threading.Lock()
        self._latest_at_s = 0.0
        self._session = S3Session(self.location, service, deadline_s, self._prepare)
        self._copies = S3Session(self.location, service, max(deadline_s, COPY_DEADLINE_S), self._prepare)

    @classmethod
    def at(cls, location: str, access: S3Access, deadline_s: float) -> S3ObjectClient:
        """Makes a client of ``location``, which is normalised, ``s3://bucket/path``."""
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        return cls(bucket, prefix, S3Service.of(access), deadline_s)

    # -- listings -------------------------------------------------------------------------------------------------

    def page(self, prefix: str, after: str = "", at_once: int | None = None) -> tuple[list[StoreEntry], bool]:
        """Returns the objects after ``after``, markers of directories too, and whether there are more. A
        listing that goes on after the last key of each page has an end only if each page makes progress."""
        start = {"StartAfter": self._prefix + after} if after else {}
        most = {} if at_once is None else {"MaxKeys": at_once}

        def call(_budget: Budget, client: Client) -> tuple[list[StoreEntry], bool]:
            answer, more = self._list(client, prefix, **start, **most)
            return self._entries_in(answer), more

        page, more = self._ask("", call)
        keys = [after.encode()] * bool(after) + [entry.key.encode() for entry in page]
        if any(later <= earlier for earlier, later in zip(keys, keys[1:], strict=False)):
            raise AccessDenied(
                f"{self.location} does not list in the order of keys", "use a general purpose bucket"
            )
        if more and not page:
            raise Unreachable(f"{self._says_more()}, and lists an empty page")
        return page, more

    def objects(
        self,
        prefix: str,
        after: str = "",
        at_once: int | None = None,
        *,
        whole: bool = False,  # noqa: ARG002
    ) -> Iterator[StoreEntry]:
        """Implements ``ObjectClient.objects``; ``prefix`` need not end at a slash. All that is there is an object."""
        more = True
        while more:
            page, more = self.page(prefix, after, at_once)
            yield from (entry for entry in page if entry.key and not entry.key.endswith("/"))
            after = page[-1].key if more else ""

    def level(self, folder: str) -> Level:
        prefix = f"{folder}/" if folder else ""
        folders: list[str] = []
        objects: list[StoreEntry] = []
        token = ""
        while True:
            before = token
            names, entries, token = self._level_page(prefix, token)
            if token and (token == before or not (names or entries)):
                raise Unreachable(
                    f"{self.location}/{prefix}: the listing says that there is more and does not get on"
                )
            folders += [name[len(prefix) : -1] for name in names]
            objects += [
                replace(entry, key=entry.key[len(prefix) :])
                for entry in entries
                if entry.key and not entry.key.endswith("/")
            ]
            if not token:
                return Level(tuple(folders), tuple(objects))
            if len(folders) > FOLDERS_MAX:
                raise Corrupt(
                    f"{self.location}/{prefix} has more than {FOLDERS_MAX} directories",
                    "is it a checkpoint?",
                )

    def _level_page(self, prefix: str, token: str) -> tuple[list[str], list[StoreEntry], str]:
        """Returns one page of a level. ``token`` says where to go on; it is empty at the beginning and, in
        the answer, at the end."""
        further = {"ContinuationToken": token} if token else {}

        def call(_budget: Budget, client: Client) -> tuple[list[str], list[StoreEntry], str]:
            answer, more = self._list(client, prefix, Delimiter="/", **further)
            if more and not answer.get("NextContinuationToken"):
                raise Unreachable(f"{self._says_more()}, and not how to go on")
            folders = [each["Prefix"].removeprefix(self._prefix) for each in answer.get("CommonPrefixes", ())]
            return folders, self._entries_in(answer), str(answer["NextContinuationToken"]) if more else ""

        return self._ask("", call)

    def _list(self, client: Client, prefix: str, **how: Any) -> tuple[dict[str, Any], bool]:
        """Sends one listing request. A listing that does not say whether it is complete proves no absence."""
        answer = client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **how)
        if "IsTruncated" not in answer:
            raise Unreachable(
                f"{self._session.place.server} lists as no S3 server does", f"correct {self._service.setting}"
            )
        return answer, bool(answer["IsTruncated"])

    def _entries_in(self, answer: dict[str, Any]) -> list[StoreEntry]:
        return [
            StoreEntry(
                each["Key"].removeprefix(self._prefix),
                each["Size"],
                each["LastModified"].timestamp(),
                _tag_in(each),
            )
            for each in answer.get("Contents", ())
        ]

    def _says_more(self) -> str:
        return f"{self._session.place.server} says of {self.location} that there is more"

    def check(self) -> None:
        """Sends one listing request, and raises if the server does not answer it."""
        self._ask("", self._first)

    def now_s(self) -> float:
        def call(budget: Budget, client: Client) -> float:
            date = self._first(budget, client)["ResponseMetadata"]["HTTPHeaders"].get("date", "")
            try:
                return parsedate_to_datetime(date).timestamp()
            except ValueError:
                raise Unreachable(
                    f"{self._session.place.server} says no time (Date: {date[:40]!r})",
                    "correct the endpoint",
                ) from None

        return self._ask("", call)

    def _first(self, _budget: Budget, client: Client) -> Any:
        return client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)

    def keeps_versions(self) -> tuple[bool, bool]:
        """Returns whether the bucket keeps what is deleted and overwritten, and whether it does so for ever
        (no lifecycle rule ends it)."""

        def call(_budget: Budget, client: Client) -> tuple[bool, bool]:
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

        return self._ask("", call)

    # -- one object -----------------------------------------------------------------------------------------------

    def get(self, key: str, max_bytes: int) -> bytes:
        return self._ask(
            key, lambda budget, client: b"".join(self._chunks(budget, client, key, None, max_bytes))
        )

    def get_to(self, key: str, target: Path, max_s: float) -> str:
        """Streams the object into ``target``, which appears whole or not at all. Returns its sha256."""
        return self._ask(
            key,
            lambda budget, client: write_whole(target, self._chunks(budget, client, key, "read")),
            max_s,
        )

    def head(self, key: str) -> str:
        """Returns the tag of what is there now. Raises ``NotFound``."""

        def call(_budget: Budget, client: Client) -> str:
            found = _head(client, self._name(key))
            if found is None:
                raise NotFound(f"{self.location}/{key} does not exist")
            return _tag_in(found)

        return self._ask(key, call)

    def put(self, key: str, data: bytes, *, only_new: bool, max_s: float | None = None) -> None:
        digest = digest_of([data])
        self._ask(key, lambda budget, client: self._put(budget, client, key, data, digest, only_new), max_s)

    def put_from(self, key: str, source: Path, digest: Digest, max_s: float) -> None:
        """Does ``put`` with a file whose content has this digest, streamed, unless the key is taken."""

        def call(budget: Budget, client: Client) -> None:
            with Upload.of(source, digest.size_bytes, budget) as body:
                self._put(budget, client, key, body, digest, only_new=True)

        self._ask(key, call, max_s)

    def delete(self, key: str) -> None:
        with suppress(NotFound):  # some servers say so
            self._ask(key, lambda _budget, client: client.delete_object(**self._name(key)))

    def delete_batch(self, keys: list[str], latest_at_s: float) -> None:
        """Deletes ``keys`` by one request, which is sent before ``latest_at_s`` (BOOTTIME) or not at all."""
        self._latest_at_s = latest_at_s
        objects = [{"Key": self._prefix + key} for key in keys]

        def call(_budget: Budget, client: Client) -> None:
            try:
                answer = client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True}
                )
            except (ClientError, *NEVER_ARRIVED) as error:
                if not isinstance(error, ClientError) or not _of_a_gateway(error):
                    self._note_answered()
                raise
            self._note_answered()
            for each in answer.get("Errors", ()):
                code = each.get("Code", "")
                what = f"{self.location}: {each.get('Key', '')} can't be deleted: {code} {each.get('Message', '')}"
                raise AccessDenied(what) if code in DENIED else Unreachable(what)

        self._ask("", call)

    def tag(self, item: Item) -> str:
        return item.mark

    def require_writable(self) -> None:
        """Asks nothing: a bucket says it when something is written."""

    def require_room(self, more: int) -> None:
        """Asks nothing: a bucket has no end."""

    def require_closed(self, folder: str) -> None:
        """Asks nothing: an object leads to no other."""

    def flush(self) -> None:
        """Does nothing: S3 answers only after the write is durable."""

    # -- copies ---------------------------------------------------------------------------------------------------

    def copy(self, source: ObjectClient, item: Item, key: str) -> str:
        if (
            not isinstance(source, S3ObjectClient)
            or source._service.endpoint_url != self._service.endpoint_url
        ):
            raise InvalidInput(
                f"{source.location} can't be copied to {self.location}: both must be on one S3 service"
            )
        origin = source._name(item.key)
        in_one = item.bytes <= PARTS_ABOVE_BYTES
        tag = self._copy_whole(origin, item, key) if in_one else self._copy_in_parts(origin, item, key)
        # Ceph 16 knows no such condition
        if tag != item.mark and source.head(item.key) != item.mark:
            with suppress(SupervisorError):
                self.delete(key)
            raise Conflict(f"{source.location}/{item.key} was replaced meanwhile")
        return tag

    def _copy_whole(self, origin: dict[str, str], item: Item, key: str) -> str:
        def call(_budget: Budget, client: Client) -> str:
            with _replaced(origin):
                answer = client.copy_object(
                    **self._name(key), CopySource=origin, CopySourceIfMatch=f'"{item.mark}"'
                )
            return _tag_in(answer["CopyObjectResult"])

        return self._ask(key, call, TRANSFER_MAX_S, self._copies)

    def _copy_in_parts(self, origin: dict[str, str], item: Item, key: str) -> str:
        """Copies in parts. By ``token``, ``_end_parts`` recognises what this very upload has made. An upload
        whose reply was lost stays, without parts, until a lifecycle rule of the bucket aborts it, because it
        might be another copy's."""
        size = max(PART_BYTES, -(-item.bytes // PARTS_MAX))
        token = secrets.token_hex(16)
        name = self._name(key)
        upload = self._ask(
            key,
            lambda _, client: str(
                client.create_multipart_upload(**name, Metadata={TOKEN: token})["UploadId"]
            ),
        )
        try:
            tags = [
                self._copy_part(origin, item, key, upload, number, start, min(start + size, item.bytes) - 1)
                for number, start in enumerate(range(0, item.bytes, size), 1)
            ]
            return self._end_parts(key, upload, tags, token)
        except BaseException:
            with suppress(SupervisorError):
                self._ask(key, lambda _, client: client.abort_multipart_upload(**name, UploadId=upload))
            raise

    def _copy_part(
        self, origin: dict[str, str], item: Item, key: str, upload: str, number: int, first: int, last: int
    ) -> str:
        def call(_budget: Budget, client: Client) -> str:
            with _replaced(origin):
                answer = client.upload_part_copy(
                    **self._name(key),
                    UploadId=upload,
                    PartNumber=number,
                    CopySource=origin,
                    CopySourceIfMatch=f'"{item.mark}"',
                    CopySourceRange=f"bytes={first}-{last}",
                )
            return str(answer["CopyPartResult"]["ETag"])

        return self._ask(key, call, TRANSFER_MAX_S, self._copies)

    def _end_parts(self, key: str, upload: str, tags: list[str], token: str) -> str:
        """Completes an upload. Raises ``Conflict`` if somebody has dropped it. A missing upload may also mean
        that an earlier completion succeeded and its reply was lost; the object shows which."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        name = self._name(key)

        def call(_budget: Budget, client: Client) -> str:
            try:
                answer = client.complete_multipart_upload(
                    **name, UploadId=upload, MultipartUpload={"Parts": parts}
                )
                if made := _tag_in(answer):
                    return made
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
            found = _head(client, name)  # Ceph 16 does not report it
            if found is None or found.get("Metadata", {}).get(TOKEN) != token:
                raise Conflict(
                    f"{self.location}/{key}: its copy was dropped before it was complete, by a lifecycle rule or by hand"
                )
            return _tag_in(found)

        return self._ask(key, call, TRANSFER_MAX_S, self._copies)

    # -- below the calls ------------------------------------------------------------------------------------------

    def _ask(
        self,
        key: str,
        call: Callable[[Budget, Client], T],
        max_s: float | None = None,
        session: S3Session | None = None,
    ) -> T:
        def counted(budget: Budget, client: Client) -> T:
            with self._counting:
                self.requests += 1
            return call(budget, client)

        return (session or self._session).ask(key, counted, max_s)

    def _name(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _put(
        self,
        budget: Budget,
        client: Client,
        key: str,
        body: bytes | Upload,
        digest: Digest,
        only_new: bool,
    ) -> None:
        condition = {"IfNoneMatch": "*"} if only_new else {}
        try:
            client.put_object(
                **self._name(key),
                Body=body,
                ContentLength=digest.size_bytes,
                ContentMD5=base64.b64encode(digest.md5).decode(),
                **condition,
            )
        except ClientError as error:
            if status_of(error) != 412 or not only_new:
                raise
        else:
            return
        try:
            there = digest_of(self._chunks(budget, client, key, "compared"))
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            raise Unreachable(f"{self.location}/{key} was there, and went while it was looked at") from None
        if there.sha256 != digest.sha256:
            raise Conflict(f"{self.location}/{key} exists with another content; it is never overwritten")

    def _chunks(
        self, budget: Budget, client: Client, key: str, way: str | None, max_bytes: int | None = None
    ) -> Iterator[bytes]:
        """Yields the object in pieces, complete, or raises an error. ``way`` identifies the transfer
        whose progress extends the deadline."""
        what = f"{self.location}/{key}"
        position = 0
        try:
            answer = client.get_object(**self._name(key))
            # Without a length, only the last chunk proves the end, and urllib3 misses it.
            chunked = (
                answer["ResponseMetadata"]["HTTPHeaders"].get("transfer-encoding", "").lower() == "chunked"
            )
            expected: int | None = answer.get("ContentLength")
            with closing(answer["Body"]) as body:
                if max_bytes is not None and (expected or 0) > max_bytes:
                    raise Corrupt(f"{what} is larger than the {max_bytes} bytes it may have")
                while chunk := body.read(CHUNK_BYTES):
                    position += len(chunk)
                    if max_bytes is not None and position > max_bytes:
                        raise Corrupt(f"{what} is larger than the {max_bytes} bytes it may have")
                    if way is None:
                        budget.check()
                    else:
                        budget.moved(way, position)
                    yield chunk
        except OSError as error:  # a socket's, or one of botocore's that are OSErrors: not the target file's
            raise Unreachable(f"{what}: {error}") from None
        if position != expected and not (expected is None and chunked):
            of = "an unknown number of" if expected is None else expected
            raise Unreachable(f"{what}: {position} of {of} bytes arrived")

    def _prepare(self, client: Client) -> None:
        client.meta.events.register("before-call.s3.DeleteObjects", _with_md5)
        client.meta.events.register("before-send.s3.DeleteObjects", self._in_time)

    def _in_time(self, **_request: Any) -> None:
        """Checks the time after the signature, right before the bytes are sent."""
        if boottime_s() > self._latest_at_s:
            raise Conflict(
                f"{self.location}: this process was stopped before it could send a deletion; to be looked at again"
            )
        with self._counting:
            self.sent += 1

    def _note_answered(self) -> None:
        with self._counting:
            self.answered += 1


def _tag_in(answer: dict[str, Any]) -> str:
    return str(answer.get("ETag", "")).strip('"')


def _head(client: Client, name: dict[str, str]) -> dict[str, Any] | None:
    """Returns the answer to a HEAD, or None if there is no such object. The answer has no body, hence no
    code."""
    try:
        found: dict[str, Any] = client.head_object(**name)
    except ClientError as error:
        if status_of(error) != 404:
            raise
        return None
    return found


@contextmanager
def _replaced(origin: dict[str, str]) -> Iterator[None]:
    """Raises Conflict on a 412: the source is another object by now."""
    try:
        yield
    except ClientError as error:
        if status_of(error) != 412:
            raise
        raise Conflict(f"s3://{origin['Bucket']}/{origin['Key']} was replaced meanwhile") from None


def _of_a_gateway(error: ClientError) -> bool:
    """Returns whether a gateway answered in place of the server (502, 504 …, without a code of S3): the
    server may still be at work on the request."""
    return str(error.response.get("Error", {}).get("Code", "")).isdigit()


def _with_md5(params: Any, **_more: Any) -> None:
    """Adds the Content-MD5 that servers ask for which are older than the newer checksums."""
    body = params["body"]
    data = body if isinstance(body, bytes) else str(body).encode()
    params["headers"]["Content-MD5"] = base64.b64encode(
        hashlib.md5(data, usedforsecurity=False).digest()
    ).decode()
