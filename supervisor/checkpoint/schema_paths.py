"""Rewrites the paths that transformWithState stores in full, so that a copy of a checkpoint names its own
location. It is pure.

``state/<op>/_metadata/v2/<batch>`` (Spark 4.0 to 4.3) says in ``stateStoreInfo[].stateSchemaFilePaths`` where
the schemas of the state are. Spark reads them at each start, to compare them with what the application
declares. Otherwise a copy would go on reading them in the checkpoint that it was taken from, and fail once
that is gone. It is called by ``savepoints.restore``.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Collection
from typing import Any, Final

from supervisor.checkpoint.layout import HADOOP_MAGIC, Malformed, crc32c, parse_sidecar
from supervisor.errors import Corrupt, InvalidInput
from supervisor.model.location import normalise
from supervisor.spec.s3a import for_spark

_NAMES_PATHS: Final = re.compile(r"(?:.*/)?state/[^/]+/_metadata/v[2-9]/\d+")
_PATHS: Final = "stateSchemaFilePaths"
_CHUNK_BYTES: Final = 512


def moved(
    keys: Collection[str],
    read: Callable[[str], bytes],
    source: str,
    target: str,
) -> dict[str, bytes]:
    """Returns key → new content of each object that names its location, and of the checksum files beside it.

    ``keys`` are all that exist, below the checkpoint. ``source`` is where it was, ``target`` where it will
    be. Raises Corrupt if a path does not lead to an object that is copied along.
    """
    found: dict[str, bytes] = {}
    for key in keys:
        if not _NAMES_PATHS.fullmatch(key):
            continue
        old = read(key)
        new = _moved(key, old, keys, normalise(source), normalise(target))
        if new == old:
            continue
        found[key] = new
        sidecar = f"{key}.crc"
        if sidecar in keys:
            found[sidecar] = _spark_checksum(read(sidecar), new, sidecar)
        for each in (key, sidecar):
            hadoop = hadoop_name(each)
            if hadoop in keys and each in found:
                found[hadoop] = hadoop_checksum(found[each])
    return found


def hadoop_checksum(data: bytes) -> bytes:
    """Returns the checksum file that Hadoop's local file system writes beside a file."""
    pieces = (data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES))
    return (
        HADOOP_MAGIC
        + struct.pack(">I", _CHUNK_BYTES)
        + b"".join(struct.pack(">I", zlib.crc32(each)) for each in pieces)
    )


def _moved(key: str, data: bytes, keys: Collection[str], source: str, target: str) -> bytes:
    version, newline, text = data.partition(b"\n")
    try:
        body = json.loads(text)
        stores: list[dict[str, Any]] = body["stateStoreInfo"]
        for store in stores:
            store[_PATHS] = [_new_path(key, str(path), keys, source, target) for path in store[_PATHS]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Corrupt(
            f"{key} is not what Spark writes there: where its schema files are can't be told"
        ) from None
    new = version + newline + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    if _bare(source) in new.replace(_bare(target), b""):
        raise Corrupt(
            f"{key} names {source} also where a copy can't be told what to read instead: use the savepoint there"
        )
    return new


def _bare(location: str) -> bytes:
    """Returns the part of ``location`` that every spelling of it contains."""
    return f"{location.partition('://')[2]}/".encode()


def _new_path(key: str, path: str, keys: Collection[str], source: str, target: str) -> str:
    try:
        rest = normalise(path).removeprefix(f"{source}/")
    except InvalidInput:
        rest = ""
    if rest not in keys:
        raise Corrupt(
            f"{key} names the schema file {path}, which is not among what was saved from {source}: a copy could not be read "
            "without it",
            "make another savepoint, where all of the checkpoint is in one place",
        )
    return f"{_as_hadoop(target)}/{rest}"


def _as_hadoop(location: str) -> str:
    """Returns ``location`` as Hadoop prints a path."""
    return location.replace("file:///", "file:/", 1) if location.startswith("file:") else for_spark(location)


def _spark_checksum(old: bytes, data: bytes, where: str) -> bytes:
    try:
        parse_sidecar(old)
        body = json.loads(old)
    except (Malformed, ValueError):
        raise Corrupt(f"{where} is not what Spark writes there") from None
    value = crc32c(data)
    return json.dumps(
        {
            **body,
            "algorithm": "CRC32C",
            "value": value - (1 << 32) if value >= 1 << 31 else value,
            "mainFileSize": len(data),
        },
        separators=(",", ":"),
    ).encode()


def hadoop_name(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
