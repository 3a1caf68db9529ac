"""An ``Area`` on S3. Copies are the server's own (``CopyObject``, in parts above ``PARTS_ABOVE_BYTES``): no content passes
here.

Every copy names the ETag that was listed (``x-amz-copy-source-if-match``): what has been replaced since is not copied. A
copy whose ETag is another (parts, encryption, a server that ignores the condition) is believed if the source has not
changed. On the machinery of ``S3Store``: deadlines, retries, errors, credentials. A copy that is repeated after a lost
reply is the same.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Final

from botocore.exceptions import ClientError

from supervisor.clients.store.area import Area, Item
from supervisor.clients.store.base import TRANSFER_MAX_S
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.local import digest_of
from supervisor.clients.store.s3 import Client
from supervisor.clients.store.s3_errors import code_of, status_of
from supervisor.clients.store.s3_tree import S3Tree, _Calls
from supervisor.errors import Conflict, InvalidInput, NotFound, SupervisorError, Unreachable
from supervisor.spec.s3a import S3Access

PARTS_ABOVE_BYTES: Final = 512 * 1024**2
"""One ``CopyObject`` may be of 5 GiB, but answers when all of it is copied: parts keep each request short."""
PART_BYTES: Final = 128 * 1024**2
PARTS_MAX: Final = 10_000
TOKEN: Final = "spark-supervisor-copy"
"""Metadata of what was copied in parts."""
COPY_DEADLINE_S: Final = 60.0
"""A copy of a large object answers late."""


class S3Area(S3Tree):
    """``location``: normalised, ``s3://bucket/path``."""

    def __init__(self, location: str, access: S3Access, deadline_s: float) -> None:
        super().__init__(location, access, deadline_s)
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        self.endpoint_url = access.endpoint_url
        self.bucket = bucket
        self.prefix = f"{prefix}/"
        self._calls: _Writes = _Writes(bucket, prefix, access, deadline_s)
        self._copies = _Writes(bucket, prefix, access, max(deadline_s, COPY_DEADLINE_S))

    @property
    def requests(self) -> int:
        return self._calls.requests + self._copies.requests

    @requests.setter
    def requests(self, count: int) -> None:
        self._calls.requests, self._copies.requests = count, 0

    def items(self, folder: str = "") -> Iterator[Item]:
        prefix, after, more = f"{folder}/" if folder else "", "", True
        while more:
            page, more = self._calls.marked_page(prefix, after)
            yield from (item for item in page if item.key and not item.key.endswith("/"))
            after = page[-1].key if more else ""

    def copy_from(self, source: Area, item: Item, key: str) -> str:
        if not isinstance(source, S3Area) or source.endpoint_url != self.endpoint_url:
            raise InvalidInput(
                f"{source.location} can't be copied to {self.location}: both must be on one S3 service"
            )
        origin = {"Bucket": source.bucket, "Key": source.prefix + item.key}
        tag = (
            self._copies.copy(origin, item, key)
            if item.bytes <= PARTS_ABOVE_BYTES
            else self._in_parts(origin, item, key)
        )
        # Ceph 16 knows no such condition
        if tag != item.mark and source._calls.mark(item.key) != item.mark:
            with suppress(SupervisorError):
                self.remove(key)
            raise Conflict(f"{source.location}/{item.key} was replaced meanwhile")
        return tag

    def tag(self, item: Item) -> str:
        return item.mark

    def create(self, key: str, data: bytes) -> None:
        self._calls.put(key, data, only_new=True)

    def write(self, key: str, data: bytes) -> None:
        self._calls.put(key, data, only_new=False)

    def remove(self, key: str) -> None:
        with suppress(NotFound):  # some servers say so
            self._calls.remove(key)

    def settle(self) -> None:
        """Every answer was durable."""

    def now_s(self) -> float:
        return self._calls.now_s()

    def _in_parts(self, origin: dict[str, str], item: Item, key: str) -> str:
        size = max(PART_BYTES, -(-item.bytes // PARTS_MAX))
        token = secrets.token_hex(16)
        upload = self._calls.begin_parts(key, token)
        try:
            tags = [
                self._copies.copy_part(
                    origin, item, key, upload, number, (start, min(start + size, item.bytes) - 1)
                )
                for number, start in enumerate(range(0, item.bytes, size), 1)
            ]
            return self._copies.end_parts(key, upload, tags, token)
        except BaseException:
            with suppress(SupervisorError):
                self._calls.drop_parts(key, upload)
            raise


class _Writes(_Calls):
    def marked_page(self, prefix: str, after: str) -> tuple[list[Item], bool]:
        def work(_budget: Budget, client: Client) -> tuple[list[Item], bool]:
            self._count()
            start = {"StartAfter": self._prefix + after} if after else {}
            answer = client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **start)
            found = [
                Item(each["Key"].removeprefix(self._prefix), each["Size"], each["ETag"].strip('"'))
                for each in answer.get("Contents", ())
            ]
            return found, self._more(answer) is not None

        found, more = self._ask("", work)
        self._check_page(after, [item.key for item in found], more)
        return found, more

    def now_s(self) -> float:
        def work(_budget: Budget, client: Client) -> float:
            self._count()
            answer = client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
            said = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
            try:
                return parsedate_to_datetime(said).timestamp()
            except ValueError:
                raise Unreachable(
                    f"{self._place.server} says no time (Date: {said[:40]!r}); correct the endpoint"
                ) from None

        return self._ask("", work)

    def mark(self, key: str) -> str:
        def work(_budget: Budget, client: Client) -> str:
            self._count()
            try:
                return str(client.head_object(Bucket=self._bucket, Key=self._prefix + key)["ETag"]).strip('"')
            except ClientError as error:  # without a body there is no code
                if status_of(error) != 404:
                    raise
                raise NotFound(f"{self.url}/{key} does not exist") from None

        return self._ask(key, work)

    def copy(self, origin: dict[str, str], item: Item, key: str) -> str:
        def work(_budget: Budget, client: Client) -> str:
            self._count()
            with _replaced(origin):
                answer = client.copy_object(
                    Bucket=self._bucket,
                    Key=self._prefix + key,
                    CopySource=origin,
                    CopySourceIfMatch=f'"{item.mark}"',
                )
            return str(answer["CopyObjectResult"]["ETag"]).strip('"')

        return self._ask(key, work, TRANSFER_MAX_S)

    def begin_parts(self, key: str, token: str) -> str:
        """``token``: by which ``end_parts`` knows what this very upload has made. One whose reply was lost stays, without
        parts, until a lifecycle rule of the bucket aborts it: it might be another copy's."""

        def work(_budget: Budget, client: Client) -> str:
            self._count()
            answer = client.create_multipart_upload(
                Bucket=self._bucket, Key=self._prefix + key, Metadata={TOKEN: token}
            )
            return str(answer["UploadId"])

        return self._ask(key, work)

    def copy_part(
        self,
        origin: dict[str, str],
        item: Item,
        key: str,
        upload: str,
        number: int,
        span: tuple[int, int],
    ) -> str:
        """``span``: first and last byte."""

        def work(_budget: Budget, client: Client) -> str:
            self._count()
            with _replaced(origin):
                answer = client.upload_part_copy(
                    Bucket=self._bucket,
                    Key=self._prefix + key,
                    UploadId=upload,
                    PartNumber=number,
                    CopySource=origin,
                    CopySourceIfMatch=f'"{item.mark}"',
                    CopySourceRange=f"bytes={span[0]}-{span[1]}",
                )
            return str(answer["CopyPartResult"]["ETag"])

        return self._ask(key, work, TRANSFER_MAX_S)

    def end_parts(self, key: str, upload: str, tags: list[str], token: str) -> str:
        """``Conflict``: somebody has dropped the upload. That there is none any more may as well come of our own lost
        reply: the object tells."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]

        def work(_budget: Budget, client: Client) -> str:
            self._count()
            name = {"Bucket": self._bucket, "Key": self._prefix + key}
            try:
                answer = client.complete_multipart_upload(
                    **name, UploadId=upload, MultipartUpload={"Parts": parts}
                )
                made = str(answer.get("ETag", "")).strip('"')
                if made:
                    return made
            except ClientError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
            tag = _made(client, name, token)  # Ceph 16 does not tell it
            if tag is None:
                raise Conflict(
                    f"{self.url}/{key}: its copy was dropped before it was complete, by a lifecycle rule or by hand"
                )
            return tag

        return self._ask(key, work, TRANSFER_MAX_S)

    def drop_parts(self, key: str, upload: str) -> None:
        def work(_budget: Budget, client: Client) -> None:
            self._count()
            client.abort_multipart_upload(Bucket=self._bucket, Key=self._prefix + key, UploadId=upload)

        self._ask(key, work)

    def put(self, key: str, data: bytes, *, only_new: bool) -> None:
        digest = digest_of([data])

        def work(budget: Budget, client: Client) -> None:
            self._count()
            if only_new:
                self._put(budget, client, key, data, digest)
                return
            client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=data,
                ContentMD5=base64.b64encode(digest.md5).decode(),
            )

        self._ask(key, work, TRANSFER_MAX_S)

    def remove(self, key: str) -> None:
        def work(_budget: Budget, client: Client) -> None:
            self._count()
            client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

        self._ask(key, work)


def _made(client: Client, name: dict[str, str], token: str) -> str | None:
    """The tag of what is at ``name``, if it is of the upload with this token."""
    try:
        found = client.head_object(**name)
    except ClientError as error:
        if status_of(error) != 404:
            raise
        return None
    return str(found["ETag"]).strip('"') if found.get("Metadata", {}).get(TOKEN) == token else None


@contextmanager
def _replaced(origin: dict[str, str]) -> Iterator[None]:
    """412: the source is another object by now."""
    try:
        yield
    except ClientError as error:
        if status_of(error) != 412:
            raise
        raise Conflict(f"s3://{origin['Bucket']}/{origin['Key']} was replaced meanwhile") from None
