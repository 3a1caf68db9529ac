"""A location on S3 that is only looked at. On the machinery of ``S3Store``: deadlines, retries, errors, credentials."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.s3 import Client, S3Store
from supervisor.clients.store.tree import FOLDERS_MAX, Level
from supervisor.errors import AccessDenied, Corrupt, Unreachable
from supervisor.spec.s3a import S3Access, asked


class S3Tree:
    """``location``: normalised, ``s3://bucket/path``."""

    def __init__(self, location: str, access: S3Access, deadline_s: float) -> None:
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        self.location = location
        self._calls = _Calls(bucket, prefix, access, deadline_s)

    @property
    def requests(self) -> int:
        return self._calls.requests

    @requests.setter
    def requests(self, count: int) -> None:
        self._calls.requests = count

    def level(self, folder: str) -> Level:
        prefix = f"{folder}/" if folder else ""
        folders: list[str] = []
        objects: list[StoreEntry] = []
        token: str | None = None
        while True:
            before = token
            names, entries, token = self._calls.level(prefix, token)
            if token is not None and (token == before or not (names or entries)):
                raise Unreachable(
                    f"{self.location}/{prefix}: the listing says that there is more and does not get on"
                )
            folders += [name[len(prefix) : -1] for name in names]
            objects += [
                StoreEntry(entry.key[len(prefix) :], entry.bytes, entry.modified_s)
                for entry in entries
                if not entry.key.endswith("/") and entry.key
            ]
            if token is None:
                return Level(tuple(folders), tuple(objects))
            if len(folders) > FOLDERS_MAX:
                raise Corrupt(
                    f"{self.location}/{prefix} has more than {FOLDERS_MAX} directories; is it a checkpoint?"
                )

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        prefix = f"{folder}/" if folder else ""
        while True:
            page, more = self._calls.page(prefix, after, at_once)
            yield from (entry for entry in page if entry.key and not entry.key.endswith("/"))
            if not more:
                return
            after = page[-1].key

    def read(self, key: str, max_bytes: int) -> bytes:
        return self._calls.content(key, max_bytes)


class _Calls(S3Store):
    """The requests. Counted, the repeated ones too."""

    def __init__(self, bucket: str, prefix: str, access: S3Access, deadline_s: float) -> None:
        super().__init__(
            bucket,
            prefix,
            access.endpoint_url,
            access.region,
            deadline_s,
            path_style=access.path_style,
            asked=asked(access),
        )
        self._counting = threading.Lock()
        self.requests = 0

    def _count(self) -> None:
        with self._counting:
            self.requests += 1

    def level(self, prefix: str, token: str | None) -> tuple[list[str], list[StoreEntry], str | None]:
        def work(_budget: Budget, client: Client) -> tuple[list[str], list[StoreEntry], str | None]:
            self._count()
            further = {} if token is None else {"ContinuationToken": token}
            answer = client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + prefix, Delimiter="/", **further
            )
            folders = [item["Prefix"].removeprefix(self._prefix) for item in answer.get("CommonPrefixes", ())]
            return folders, self._entries_in(answer), self._more(answer)

        return self._ask("", work)

    def page(self, prefix: str, after: str, at_once: int) -> tuple[list[StoreEntry], bool]:
        def work(_budget: Budget, client: Client) -> tuple[list[StoreEntry], bool]:
            self._count()
            start = {"StartAfter": self._prefix + after} if after else {}
            answer = client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + prefix, MaxKeys=at_once, **start
            )
            return self._entries_in(answer), self._more(answer) is not None

        page, more = self._ask("", work)
        self._check_page(after, [entry.key for entry in page], more)
        return page, more

    def _check_page(self, after: str, page: list[str], more: bool) -> None:
        """Of a listing that goes on after the last key of each page: each page gets on, or it would have no end."""
        keys = [after.encode()] * bool(after) + [key.encode() for key in page]
        if any(later <= earlier for earlier, later in zip(keys, keys[1:], strict=False)):
            raise AccessDenied(f"{self.url} does not list in the order of keys; use a general purpose bucket")
        if more and not page:
            raise Unreachable(
                f"{self._place.server} says of {self.url} that there is more, and lists an empty page"
            )

    def content(self, key: str, max_bytes: int) -> bytes:
        def work(budget: Budget, client: Client) -> bytes:
            self._count()
            return b"".join(self._chunks(budget, client, key, None, max_bytes))

        return self._ask(key, work)

    def _entries_in(self, answer: dict[str, object]) -> list[StoreEntry]:
        return [
            StoreEntry(item["Key"].removeprefix(self._prefix), item["Size"], item["LastModified"].timestamp())
            for item in answer.get("Contents", ())  # type: ignore[attr-defined]
        ]

    def _more(self, answer: dict[str, object]) -> str | None:
        """Where to go on. A listing that does not say whether it is complete proves no absence."""
        if "IsTruncated" not in answer:
            raise Unreachable(f"{self._place.server} lists as no S3 server does; correct the endpoint")
        if not answer["IsTruncated"]:
            return None
        if not answer.get("NextContinuationToken"):
            raise Unreachable(
                f"{self._place.server} says of {self.url} that there is more, and not how to go on"
            )
        return str(answer["NextContinuationToken"])
