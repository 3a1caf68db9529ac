"""Reads a directory that belongs to Spark and never changes it: a checkpoint on S3 or on a file system of
this host.

A ``Store`` belongs to the supervisor: its keys obey the supervisor's rules, and opening it makes a directory.
What Spark writes has names of its own (``.metadata.crc``), may be absent, and is never written here. Keys are
relative to the location; listings come page by page, so that a hundred thousand objects cost a page of
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from supervisor.clients.store.base import DEADLINE_S, StoreEntry
from supervisor.clients.store.file_objects import FileObjectClient
from supervisor.clients.store.objects import Level as Level
from supervisor.clients.store.objects import ObjectClient
from supervisor.model.location import normalise
from supervisor.spec.s3a import S3Access


class Tree(Protocol):
    """Is a location that is only read. It is safe to use from several threads at once. ``requests`` counts
    the requests sent so far (S3; else 0).

    Every method may raise ``Unreachable``, ``AccessDenied`` and ``InvalidInput``. An absent object or folder
    is empty in a listing, and ``NotFound`` to ``read``.
    """

    location: str
    requests: int

    def level(self, folder: str) -> Level:
        """Returns one level. ``folder`` is ``""`` for the top, else a path without slashes at its ends."""
        ...

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        """Yields all objects below ``folder`` whose key is greater than ``after``, by the bytes of their
        keys. Directory markers (keys that end in ``/``) are skipped. Keys are relative to the location.
        ``at_once`` is the size of a page."""
        ...

    def read(self, key: str, max_bytes: int) -> bytes:
        """Returns the whole object. Raises ``Corrupt`` when it is larger than ``max_bytes``."""
        ...


class ObjectTree:
    """Is the ``Tree`` of an ``ObjectClient``."""

    def __init__(self, client: ObjectClient) -> None:
        self._client = client
        self.location = client.location

    @property
    def requests(self) -> int:
        return self._client.requests

    @requests.setter
    def requests(self, count: int) -> None:
        self._client.requests = count

    def level(self, folder: str) -> Level:
        return self._client.level(folder)

    def entries(self, folder: str, after: str = "", at_once: int = 1000) -> Iterator[StoreEntry]:
        return self._client.objects(f"{folder}/" if folder else "", after, at_once)

    def read(self, key: str, max_bytes: int) -> bytes:
        return self._client.get(key, max_bytes)


def open_tree(location: str, access: S3Access, deadline_s: float = DEADLINE_S) -> Tree | None:
    """Opens a location without I/O. Returns None if only Spark can read it (HDFS …). Raises ``InvalidInput``.

    ``access`` says where S3 is (``spec.s3a.access_of``); credentials are those of the default chain.
    ``deadline_s`` bounds each request, retries included.
    """
    client = open_objects(location, access, deadline_s)
    return None if client is None else ObjectTree(client)


def open_objects(location: str, access: S3Access, deadline_s: float, store: str = "") -> ObjectClient | None:
    """Returns the client of ``open_tree``, for other views. ``store`` is that of ``area.open_area``."""
    location = normalise(location)
    if location.startswith("file://"):
        return FileObjectClient(location, deadline_s, store)
    if location.startswith("s3://"):
        from supervisor.clients.store.s3_objects import S3ObjectClient  # here: boto3 is slow to import

        return S3ObjectClient.at(location, access, deadline_s)
    return None
