"""Says which source an offset is of, as far as the offset itself says it. It is pure; ``checkpoint.planned_batch`` calls it.

An offset says how far, and hardly ever of what: Kafka's names its topics and Delta's its table. Of the others only the kind
is known, by the form. What a file source has read stands in its log, by path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from supervisor.checkpoint.offset_order import SourceKind, position_of

SHOWN_MAX: Final = 3
_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(.*)", re.DOTALL)
"""A line of an offset log of version 2 begins with the name of its source."""
_PARTITION_VALUE: Final = re.compile(r"[^=/]+=[^/]*")


class SourceIdentity(NamedTuple):
    """Identifies a source: the name that the query gives it (offset log v2; else empty), its kind by the form of its offset,
    and what the offset names of it, like topics with their partitions."""

    name: str
    kind: str
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.parts) - SHOWN_MAX} more" if len(self.parts) > SHOWN_MAX else ""
        parts = f" {', '.join(self.parts[:SHOWN_MAX])}{more}" if self.parts else ""
        return f"{self.name + ': ' if self.name else ''}{self.kind}{parts}"


def source_identity(offset: str | None) -> SourceIdentity:
    """Returns of which source ``offset`` is, as Spark wrote it."""
    name, text = _named(offset)
    position = position_of(text)
    if position.kind is SourceKind.KAFKA:
        return SourceIdentity(
            name, position.kind.value, tuple(sorted({part.rpartition("-")[0] for part in position.parts}))
        )
    body = _json(text)
    if position.kind is not SourceKind.OTHER or not isinstance(body, dict):
        return SourceIdentity(name, position.kind.value)
    if "reservoirId" in body:
        return SourceIdentity(name, "delta", (str(body["reservoirId"]),))
    return SourceIdentity(name, position.kind.value, tuple(sorted(map(str, body))))


def partitions_of(offset: str | None) -> frozenset[str]:
    """Returns the partitions of a Kafka source, as ``topic-partition``; there are none of any other source."""
    position = position_of(_named(offset)[1])
    return frozenset(position.parts) if position.kind is SourceKind.KAFKA else frozenset()


def logged_entry(offset: str | None) -> int | None:
    """Returns the entry of its log in ``sources/`` that a file source's offset names; None for any other source."""
    position = position_of(_named(offset)[1])
    return position.log_offset if position.kind is SourceKind.FILES else None


def directories_of(files: Iterable[str]) -> frozenset[str]:
    """Returns the directories of ``files``, without those that are values of partitions (``date=2026-11-28``)."""
    parents = (file.rpartition("/")[0] for file in files)
    return frozenset(
        "/".join(part for part in parent.split("/") if not _PARTITION_VALUE.fullmatch(part))
        for parent in parents
    )


def _named(offset: str | None) -> tuple[str, str | None]:
    match = _NAMED.fullmatch(offset) if offset is not None else None
    return (match[1], match[2]) if match is not None else ("", offset)


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
