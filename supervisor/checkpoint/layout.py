"""Knows the names that Spark gives the files of a checkpoint, and parses the small ones. It is pure: names
and bytes go in, values come out.

They were read in Spark's sources and seen on disk with 4.1 to 4.3; ``tests/golden/checkpoints`` has copies. A
query's directory contains ``metadata`` (the query id, which never changes), ``offsets/<n>`` (written before
batch n), ``commits/<n>`` (written after it), ``sources/``, and ``state/<operator>/<partition>/[<store>/]``
with the state of the stateful operators. Batch n writes state version n + 1.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"
PARTS: Final = frozenset({OFFSETS, COMMITS, SOURCES, STATE})
"""These are the directories of a query."""
OPERATOR_METADATA: Final = "_metadata/metadata"
DEFAULT_STORE: Final = "default"
NO_OFFSET: Final = "-"
COMPACTED: Final = ".compact"
"""``sources/0/9.compact`` holds entry 9 of a file source's log, and all entries before it."""
KNOWN_VERSIONS: Final = frozenset({1, 2})
SHOWN_MAX_CHARS: Final = 100
BEFORE: Final = "before"
"""In ``metadata``, beside Spark's ``id``: the ids that the query had before (``renamed_metadata``)."""
LINEAGE_MAX: Final = 16

_STATE_FILE: Final = re.compile(r"(\d{1,18})(?:_([^./]+))?\.(delta|snapshot|zip|changelog)")
_VERSION: Final = re.compile(r"v(\d{1,6})")
_SNAPSHOTS: Final = frozenset({"snapshot", "zip"})
HADOOP_MAGIC: Final = b"crc\0"


class Malformed(ValueError):
    """Is raised for a log entry that Spark could not read either, with one sentence that does not name the
    object."""


def batch_of(name: str) -> int | None:
    """Returns the batch id that a file name stands for (``offsets/17`` → 17), or None for checksums,
    temporary files and any other file."""
    return (
        int(name)
        if name.isascii() and name.isdigit() and len(name) <= 18 and str(int(name)) == name
        else None
    )


def runs_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Returns the first and last number of each stretch without a hole, ascending: (3, 4, 5, 8) → ((3, 5),
    (8, 8))."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class StateFile:
    """Describes a state file. ``unique`` is the id of the run that wrote it (state format v2), or None.
    ``whole`` is True for a snapshot, False for a change to one."""

    version: int
    unique: str | None
    whole: bool
    kind: str


def state_file(name: str) -> StateFile | None:
    """Parses the name of a state file. Returns None for any file that is no version of the state: SST files,
    checksums, metadata, temporary files."""
    match = _STATE_FILE.fullmatch(name)
    if match is None:
        return None
    return StateFile(int(match[1]), match[2], match[3] in _SNAPSHOTS, match[3])


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """Holds ``offsets/<n>``. Times are in milliseconds since the epoch. ``sources`` has one offset per
    source, as Spark wrote it, and None for a source that had nothing yet. ``conf`` holds the properties that
    the query pinned."""

    version: int
    watermark_ms: int
    planned_ms: int
    sources: tuple[str | None, ...]
    conf: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """Holds ``commits/<n>``. ``state_ids`` maps operator → partition → one id per store with state format v2;
    else it is empty."""

    version: int
    watermark_ms: int
    state_ids: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """Holds ``state/<op>/_metadata/metadata``. ``stores`` maps a name to its number of partitions."""

    name: str
    stores: dict[str, int] = field(default_factory=dict, hash=False)


def parse_metadata(data: bytes) -> str:
    """The query id. Raises ``Malformed``."""
    body = _json(data)
    if not isinstance(body, dict) or not isinstance(body.get("id"), str) or not body["id"]:
        raise Malformed("it names no query id")
    return str(body["id"])


def parse_lineage(data: bytes) -> tuple[str, ...]:
    """The ids that the query had before it went on in a copy with a new one (``renamed_metadata``), the newest first.
    Raises ``Malformed``."""
    body = _json(data)
    before = body.get(BEFORE) if isinstance(body, dict) else None
    return tuple(each for each in before if isinstance(each, str)) if isinstance(before, list) else ()


def renamed_metadata(data: bytes, new_id: str) -> bytes:
    """The metadata of a copy whose query has another id. Spark reads ``id`` alone; the ids before it stand beside it. Raises
    ``Malformed``."""
    before = (parse_metadata(data), *parse_lineage(data))[:LINEAGE_MAX]
    return json.dumps({"id": new_id, BEFORE: list(before)}, separators=(",", ":")).encode()


def parse_offset(data: bytes) -> OffsetEntry:
    """Raises ``Malformed``. An entry of a version that is newer than this software is read as far as it is
    understood."""
    version, lines = _lines(data)
    if not lines:
        raise Malformed("it ends after its version")
    body = _json(lines[0].encode()) if lines[0] else {}
    if not isinstance(body, dict):
        raise Malformed("its second line is no JSON object")
    conf = body.get("conf")
    sources = [line for line in lines[1:] if line] if len(lines) > 1 else []
    return OffsetEntry(
        version,
        _number(body.get("batchWatermarkMs")),
        _number(body.get("batchTimestampMs")),
        tuple(None if line == NO_OFFSET else line for line in sources),
        {str(key): str(value) for key, value in conf.items()} if isinstance(conf, dict) else {},
    )


def parse_commit(data: bytes) -> CommitEntry:
    """Raises ``Malformed``."""
    version, lines = _lines(data)
    body = _json(lines[0].encode()) if lines and lines[0] else {}
    if not isinstance(body, dict):
        raise Malformed("its second line is no JSON object")
    ids = body.get("stateUniqueIds")
    state_ids: dict[str, tuple[tuple[str, ...], ...]] = {}
    for operator, partitions in ids.items() if isinstance(ids, dict) else ():
        if isinstance(partitions, list) and all(isinstance(stores, list) for stores in partitions):
            state_ids[str(operator)] = tuple(tuple(str(store) for store in stores) for stores in partitions)
    return CommitEntry(version, _number(body.get("nextBatchWatermarkMs")), state_ids)


def parse_operator(data: bytes) -> OperatorEntry:
    """Raises ``Malformed``."""
    _version, lines = _lines(data)
    body = _json(lines[0].encode()) if lines else None
    if not isinstance(body, dict) or not isinstance(body.get("operatorInfo"), dict):
        raise Malformed("it names no operator")
    stores = body.get("stateStoreInfo")
    return OperatorEntry(
        str(body["operatorInfo"].get("operatorName", "")),
        {
            str(each.get("storeName", DEFAULT_STORE)): _number(each.get("numPartitions"))
            for each in (stores if isinstance(stores, list) else ())
            if isinstance(each, dict)
        },
    )


def in_words(source: str | None) -> str:
    """Returns what a source's offset means to a person; an unknown form is returned as it is."""
    if source is None:
        return "nothing yet"
    try:
        body = json.loads(source)
    except ValueError:
        return _clipped(source)
    if isinstance(body, int):
        return f"offset {body}"
    if not isinstance(body, dict) or not body:
        return _clipped(source)
    if "logOffset" in body:
        return f"files up to entry {body['logOffset']} of its file log"
    if "reservoirVersion" in body:
        return f"Delta table version {body['reservoirVersion']}, index {body.get('index', '?')}"
    if all(isinstance(value, dict) and _are_numbers(value) for value in body.values()):
        topics = [
            f"{topic}: {len(parts)} partitions, {sum(parts.values())} records"
            for topic, parts in body.items()
        ]
        return _clipped(f"Kafka, {'; '.join(topics)}")
    if "offset" in body:
        return f"offset {body['offset']}"
    return _clipped(source)


def files_logged(source: str | None) -> int:
    """Returns the entry of its log in ``sources/`` that a file source's offset names; −1 if it names none,
    and for any other source."""
    try:
        body = json.loads(source) if source is not None else None
    except ValueError:
        return -1
    logged = body.get("logOffset") if isinstance(body, dict) else None
    return logged if isinstance(logged, int) else -1


# -- checksums ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Holds Spark's own checksum file, ``<name>.crc`` beside ``<name>``. ``value`` is as it stands there, a
    signed 32-bit number."""

    algorithm: str
    value: int
    bytes: int


def parse_sidecar(data: bytes) -> Sidecar:
    """Raises ``Malformed``."""
    body = _json(data)
    if not isinstance(body, dict) or not isinstance(body.get("mainFileSize"), int):
        raise Malformed("it names no size")
    return Sidecar(str(body.get("algorithm", "")), _number(body.get("value")), int(body["mainFileSize"]))


def sidecar_fits(sidecar: Sidecar, data: bytes) -> bool:
    """Returns whether ``data`` has this size and checksum. A checksum of an unknown algorithm is taken as
    right."""
    if sidecar.bytes != len(data):
        return False
    return sidecar.algorithm != "CRC32C" or crc32c(data) == sidecar.value & 0xFFFFFFFF


def hadoop_checksum_fits(checksums: bytes, data: bytes) -> bool:
    """Returns whether ``data`` fits ``checksums``, which is ``.<name>.crc`` as Hadoop's local file system
    writes it: a CRC-32 for each 512 bytes or so. An unknown form is taken as right; a wrong one makes Hadoop
    refuse to read the file."""
    if len(checksums) < 8 or not checksums.startswith(HADOOP_MAGIC):
        return True
    size = struct.unpack(">I", checksums[4:8])[0]
    if not 1 <= size <= 1 << 20:
        return True
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return checksums[8:] == b"".join(struct.pack(">I", zlib.crc32(piece)) for piece in pieces)


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C: Final = _table()


def crc32c(data: bytes) -> int:
    """Returns Castagnoli's CRC, which the standard library lacks. At about 10 MB/s it is for small files
    only."""
    value, table = 0xFFFFFFFF, _CRC32C
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


# -- parts of it --------------------------------------------------------------------------------------------------


def _lines(data: bytes) -> tuple[int, list[str]]:
    """Returns the version of a log entry, and the lines after it."""
    try:
        first, *lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise Malformed("it is not text") from None
    match = _VERSION.fullmatch(first.strip())
    if match is None:
        raise Malformed("it is empty" if not data else "it does not begin with its version")
    return int(match[1]), lines


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Malformed("it is empty" if not data else "it is not JSON, or ends in the middle") from None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _are_numbers(body: dict[str, Any]) -> bool:
    return bool(body) and all(isinstance(value, int) for value in body.values())


def _clipped(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= SHOWN_MAX_CHARS else f"{line[: SHOWN_MAX_CHARS - 1]}…"
