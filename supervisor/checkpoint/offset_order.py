"""Compares the committed offsets of one source in two checkpoints. It is pure; ``bluegreen`` calls it.

A position is made of parts, of which each is ahead of, equal to or behind its counterpart: a Kafka source has one
part for each partition, a source that counts (rate) has one. A file source has a part for each file that it has read:
the numbers of its log are of no use, since two queries put the same files into batches of their own. Any other source
has offsets of no known order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from supervisor.checkpoint.layout import Malformed

FILES_SHOWN: Final = "files of its own"


class OffsetOrder(StrEnum):
    """Says how far one reading is, seen from another. ``BEHIND`` means that something which the other has read is
    missing, whatever else may be ahead. ``AHEAD`` means that nothing is missing, and there is more."""

    BEHIND = "behind"
    EQUAL = "equal"
    AHEAD = "ahead"
    UNORDERED = "unordered"


class SourceKind(StrEnum):
    """Says in which way the offsets of a source are ordered. With ``NOTHING`` it has none yet."""

    NOTHING = "nothing"
    KAFKA = "kafka"
    NUMBER = "number"
    FILES = "files"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Holds how far a source has been read. ``parts`` maps ``<topic>-<partition>`` (Kafka) or ``""`` (a number) to the
    offset; ``files`` are the files that were read; ``log_offset`` is the entry of the file log up to which they are."""

    kind: SourceKind
    parts: Mapping[str, int] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    log_offset: int = -1


class PartOrder(NamedTuple):
    """Compares one part. ``new`` and ``old`` are its offsets (of files: how many only this one has read), or None for a
    part that this one has not come to."""

    part: str
    new: int | None
    old: int | None
    order: OffsetOrder


def position_of(offset: str | None) -> SourcePosition:
    """Returns the position that ``offset`` stands for, as Spark wrote it. Of a file source the files are yet to be added,
    which its log has (``files_in``)."""
    if offset is None:
        return SourcePosition(SourceKind.NOTHING)
    try:
        body = json.loads(offset)
    except (ValueError, RecursionError):
        return SourcePosition(SourceKind.OTHER)
    if _is_number(body):
        return SourcePosition(SourceKind.NUMBER, {"": body})
    if not isinstance(body, dict):
        return SourcePosition(SourceKind.OTHER)
    if body.keys() == {"logOffset"} and _is_number(body["logOffset"]):
        return SourcePosition(SourceKind.FILES, log_offset=body["logOffset"])
    if body.keys() == {"offset", "timestamp"} and _is_number(body["offset"]):  # rate-micro-batch
        return SourcePosition(SourceKind.NUMBER, {"": body["offset"]})
    parts = _partitions(body)
    return SourcePosition(SourceKind.OTHER) if parts is None else SourcePosition(SourceKind.KAFKA, parts)


def files_in(entry: bytes, up_to: int) -> frozenset[str]:
    """Returns the files that an entry of a file source's log names, a compacted one or not, as far as they belong to an
    entry up to ``up_to``. Raises ``Malformed``."""
    version, *lines = entry.decode(errors="replace").split("\n")
    if not version.startswith("v"):
        raise Malformed("it does not begin with its version")
    found = []
    for line in filter(None, lines):
        try:
            body = json.loads(line)
            if int(body["batchId"]) <= up_to:
                found.append(str(body["path"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Malformed("it has a line that names no file") from None
    return frozenset(found)


def compare(new: SourcePosition, old: SourcePosition) -> tuple[PartOrder, ...]:
    """Returns how far ``new`` is, seen from ``old``, part by part. It is empty if neither has read anything."""
    kinds = {new.kind, old.kind} - {SourceKind.NOTHING}
    if not kinds:
        return ()
    if len(kinds) > 1 or SourceKind.OTHER in kinds:
        return (PartOrder("", None, None, OffsetOrder.UNORDERED),)
    if kinds == {SourceKind.FILES}:
        return (_of_files(new.files, old.files),)
    return tuple(
        PartOrder(
            part, new.parts.get(part), old.parts.get(part), _of(new.parts.get(part), old.parts.get(part))
        )
        for part in sorted(new.parts.keys() | old.parts.keys(), key=_turn)
    )


def summary(orders: Iterable[OffsetOrder]) -> OffsetOrder:
    """Returns the order of a whole by those of its parts: what is unordered in part is unordered, and what is behind
    in part is behind."""
    found = set(orders)
    return next(
        (each for each in (OffsetOrder.UNORDERED, OffsetOrder.BEHIND, OffsetOrder.AHEAD) if each in found),
        OffsetOrder.EQUAL,
    )


def has_passed(order: OffsetOrder) -> bool:
    """Returns whether nothing is missing that the other has read."""
    return order in (OffsetOrder.EQUAL, OffsetOrder.AHEAD)


def _of(new: int | None, old: int | None) -> OffsetOrder:
    if new == old:
        return OffsetOrder.EQUAL
    if new is None or (old is not None and new < old):
        return OffsetOrder.BEHIND
    return OffsetOrder.AHEAD


def _of_files(new: frozenset[str], old: frozenset[str]) -> PartOrder:
    more, missing = len(new - old), len(old - new)
    order = OffsetOrder.BEHIND if missing else OffsetOrder.AHEAD if more else OffsetOrder.EQUAL
    return PartOrder(FILES_SHOWN, more, missing, order)


def _partitions(body: Mapping[str, Any]) -> dict[str, int] | None:
    """Returns the partitions of Kafka's ``{"topic": {"0": 17}}``, or None if it is something else."""
    found: dict[str, int] = {}
    for topic, partitions in body.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        for partition, offset in partitions.items():
            if not partition.isdecimal() or not _is_number(offset):
                return None
            found[f"{topic}-{partition}"] = offset
    return found or None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _turn(part: str) -> tuple[str, int]:
    topic, _, partition = part.rpartition("-")
    return (topic, int(partition)) if partition.isdecimal() else (part, 0)
