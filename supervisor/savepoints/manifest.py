"""Defines what a savepoint is, and the three small objects that describe it. It is pure: values, and their
JSON (version 1).

It is called by the other modules of ``savepoints`` and by ``cli``. The store has, below
``savepoints/<name>/<id>/``:

* ``begun.json``, which is written first and removed last, and says that there is something, of which job, and
  where its copies lie.

The location that ``begun.json`` names (the same place, where the checkpoint's service allows it) has:

* ``data/…``, which are the copies, under the keys that they had below the checkpoint;
* ``objects-<sha256>.json``, which lists each of them with size and tag;
* ``manifest.json``, which is written last and removed first: **no manifest, no savepoint**. It vouches for
  that list by its sha256;
* ``restores/…``, with one marker for each restore under way, so that nobody deletes what is being read.

What these objects say is trusted no more than other records (I9): numbers have bounds, keys stay below where
they are put, and the location of an entry ends with ``savepoints/<name>/<id>``: whatever else it may be, it
is no other savepoint's, and no checkpoint.

A location with a manifest is self-contained: it can be restored by another cluster, or by hand.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from supervisor.errors import Corrupt, InvalidInput
from supervisor.model.bounds import YEARS_10_S
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.spec.s3a import RECORDED, S3Access

FORMAT: Final = 1
SHELF: Final = "savepoints"
BEGUN: Final = "begun.json"
MANIFEST: Final = "manifest.json"
DATA: Final = "data"
RESTORES: Final = "restores"
SMALL_MAX_BYTES: Final = 1024 * 1024
OBJECTS_MAX_BYTES: Final = 1024**3

COUNT_MAX: Final = 2**60

_SHA256: Final = re.compile(r"[0-9a-z]{1,64}")
_ID: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class SavepointStage(StrEnum):
    """Says whether a savepoint is complete. ``INCOMPLETE`` means that it is being created, or being deleted,
    or left over from either. ``UNKNOWN`` means that its records cannot be read, or that it lies where this
    host cannot read; it is never taken for absent."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"


class SavedObject(NamedTuple):
    """Describes a copy. ``tag`` is its ETag, or the sha256 of a file. ``key`` is below the checkpoint."""

    key: str
    bytes: int
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """Describes one query of a savepoint. ``batch`` is the last one whose effects are in it; what is restored
    goes on with the next."""

    path: str
    id: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Describes a savepoint that was begun. ``source`` is the location of the checkpoint, ``location`` that
    of the copies; ``access`` says where the S3 of the copies is. ``at`` is ISO 8601. ``every_s`` is the
    period in seconds if the leader makes it by schedule (``savepoints.schedule``); it is 0 if somebody asked
    for it."""

    id: str
    name: str
    uid: str
    attempt: int
    source: str
    location: str
    access: S3Access
    at: str
    software: str
    every_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Describes a complete savepoint. ``objects`` and ``bytes`` count the copies. ``left_out`` counts the
    objects at the checkpoint that belong to no query."""

    id: str
    name: str
    uid: str
    attempt: int
    source: str
    location: str
    queries: tuple[SavedQuery, ...]
    objects: int
    bytes: int
    objects_sha256: str
    begun_at: str
    created_at: str
    software: str
    left_out: int = 0


def seen_queries(manifest: Manifest) -> tuple[SeenQuery, ...]:
    """Returns the queries of the savepoint, with the batch after which it was made."""
    return tuple(SeenQuery(query.id, query.batch) for query in manifest.queries)


def objects_key(sha256: str) -> str:
    """Returns the key of the list, which depends on its content: if two create one savepoint at once, neither
    takes the list away from the other's manifest."""
    return f"objects-{sha256[:16]}.json"


def checked_id(text: str) -> str:
    """Returns ``text`` itself if it can be the id of a savepoint. Raises InvalidInput."""
    if not _ID.fullmatch(text):
        raise InvalidInput(
            f"{text!r} is no id of a savepoint: lower-case letters, digits and dashes, 63 at most"
        )
    return text


def new_id(at: str, random: str) -> str:
    """Returns an id. ``at`` is ISO 8601, so that ids sort by age. ``random`` is a few hex digits."""
    return f"{re.sub(r'[^0-9]', '', at)[:8]}-{re.sub(r'[^0-9]', '', at)[8:14]}-{random}"


def encode_begun(begun: Begun) -> bytes:
    return _encoded({**asdict(begun), "access": {name: getattr(begun.access, name) for name in RECORDED}})


def decode_begun(data: bytes, where: str) -> Begun:
    """Raises Corrupt, which names ``where``. Fields of a newer version are skipped, as everywhere below."""
    body = _decoded(data, where)
    try:
        access = body["access"]
        return Begun(
            **{
                name: _text(body[name])
                for name in ("id", "name", "uid", "source", "location", "at", "software")
            },
            attempt=_count(body["attempt"]),
            every_s=_seconds(body.get("every_s", 0)),
            access=S3Access(**{name: _of_access(name, access.get(name)) for name in RECORDED}),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Corrupt(f"{where} is not what spark-supervisor writes there") from None


def encode_manifest(manifest: Manifest) -> bytes:
    return _encoded(asdict(manifest))


def decode_manifest(data: bytes, where: str) -> Manifest:
    body = _decoded(data, where)
    names = (
        "id",
        "name",
        "uid",
        "source",
        "location",
        "objects_sha256",
        "begun_at",
        "created_at",
        "software",
    )
    try:
        return Manifest(
            **{name: _checked(name, _text(body[name])) for name in names},
            attempt=_count(body["attempt"]),
            objects=_count(body["objects"]),
            bytes=_count(body["bytes"]),
            left_out=_count(body.get("left_out", 0)),
            queries=tuple(
                SavedQuery(path=_text(q["path"]), id=_text(q["id"]), batch=_count(q["batch"]))
                for q in body["queries"]
            ),
        )
    except (KeyError, TypeError, ValueError):
        raise Corrupt(f"{where} is not what spark-supervisor writes there") from None


def encode_objects(saved: Iterable[SavedObject]) -> bytes:
    return _encoded({"objects": [list(each) for each in sorted(saved)]})


def decode_objects(data: bytes, manifest: Manifest, where: str) -> tuple[SavedObject, ...]:
    """Raises Corrupt also if the objects are not those that the manifest vouches for."""
    if hashlib.sha256(data).hexdigest() != manifest.objects_sha256:
        raise Corrupt(f"{where} is not the list that the manifest of savepoint {manifest.id} vouches for")
    try:
        return tuple(
            SavedObject(_key(key), _count(size), _text(tag))
            for key, size, tag in _decoded(data, where)["objects"]
        )
    except (KeyError, TypeError, ValueError):
        raise Corrupt(f"{where} is not what spark-supervisor writes there") from None


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps({"v": FORMAT, **body}, separators=(",", ":"), sort_keys=True).encode()


def _decoded(data: bytes, where: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Corrupt(f"{where} is no JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("v"), int):
        raise Corrupt(f"{where} is not what spark-supervisor writes there")
    if body["v"] > FORMAT:
        raise Corrupt(
            f"{where} has format {body['v']}, which is newer than this spark-supervisor: use a newer one"
        )
    return body


def _text(value: Any) -> str:
    """Also raises ValueError for half a surrogate pair, which nobody can print."""
    if not isinstance(value, str):
        raise TypeError("not text")
    value.encode()
    return value


def _checked(name: str, value: str) -> str:
    if name == "objects_sha256" and not _SHA256.fullmatch(value):
        raise ValueError(value)
    return value


def _key(value: Any) -> str:
    """Raises ValueError if a key would not stay below where it is put, wherever that is."""
    if {"", ".", ".."} & set(_text(value).split("/")):
        raise ValueError(value)
    return str(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_MAX:
        raise ValueError("no count")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= YEARS_10_S:
        raise ValueError("no seconds")
    return float(value)


def _of_access(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, bool if name == "path_style" else str):
        raise TypeError(name)
    return value
