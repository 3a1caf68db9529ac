"""Says what a streaming sink remembers of the batches that it was given, as far as the driver names the sink. Pure, stdlib
only: every shim has it.

A sink that remembers a batch skips it when it comes again, and Spark counts that as success (docs/spark.md S41). What it is
remembered by decides what may be done when a job goes back to an older checkpoint (``model.going_back``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

SINKS_MAX: Final = 8
"""So many sinks of a job are remembered; the oldest go."""
WHERE_MAX_BYTES: Final = 160
NAME_MAX_CHARS: Final = 40
BATCH_DIGITS_MAX: Final = 19


class SinkMemory(StrEnum):
    """Says by what a sink knows a batch again. The first three are words of the spec (``savepoints.sink``).

    ``REPEATS`` knows none again: what it gets twice is in it twice. ``TRANSACTIONAL`` knows a batch by the id of its query
    and its number, ``REMEMBERS`` by its number alone. ``UNKNOWN`` is one of which the supervisor can't know it.
    """

    REPEATS = "repeats"
    TRANSACTIONAL = "transactional"
    REMEMBERS = "remembers"
    UNKNOWN = "unknown"


FILE: Final = "file"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
HUDI: Final = "hudi"
PAIMON: Final = "paimon"
KAFKA: Final = "kafka"

SINK_LOG: Final = "_spark_metadata"
"""A file sink keeps the batches that it has seen below its path, and skips what is not newer than the newest."""

_SPARKS_OWN: Final[Mapping[str, str]] = {
    "FileStreamSink": FILE,
    "ForeachBatchSink": "foreachBatch",
    "ForeachWriterTable": "foreach",
    "ConsoleTable": "console",
    "NoopTable": "noop",
    "MemorySink": "memory",
    "KafkaTable": KAFKA,
}
"""Spark's own sinks by the class that writes, whose package moves between versions."""

_OF_PACKAGE: Final[Mapping[str, str]] = {
    "org.apache.spark.sql.delta.": DELTA,
    "io.delta.": DELTA,
    "org.apache.iceberg.": ICEBERG,
    "org.apache.hudi.": HUDI,
    "org.apache.paimon.": PAIMON,
}

_MEMORY: Final[Mapping[str, SinkMemory]] = {
    FILE: SinkMemory.REMEMBERS,
    HUDI: SinkMemory.REMEMBERS,  # by hoodie.datasource.write.streaming.checkpoint.identifier, not by the query
    DELTA: SinkMemory.TRANSACTIONAL,
    ICEBERG: SinkMemory.TRANSACTIONAL,
    KAFKA: SinkMemory.REPEATS,
    "console": SinkMemory.REPEATS,
    "noop": SinkMemory.REPEATS,
    "memory": SinkMemory.REPEATS,  # it is gone with its driver
}

_TITLES: Final[Mapping[str, str]] = {
    FILE: "file sink",
    DELTA: "Delta table",
    ICEBERG: "Iceberg table",
    HUDI: "Hudi table",
    PAIMON: "Paimon table",
}
_PLACE: Final = re.compile(r"[A-Za-z]+\[(.*)\]", re.DOTALL)


class NamedSink(NamedTuple):
    """Names a sink: ``kind`` is a short word, or the class of one that is not known; ``where`` is its path or table, or
    empty."""

    kind: str
    where: str = ""

    @property
    def memory(self) -> SinkMemory:
        return _MEMORY.get(self.kind, SinkMemory.UNKNOWN)

    def __str__(self) -> str:
        title = _TITLES.get(self.kind, f"{self.kind} sink")
        return f"{title} {self.where}" if self.where else title


class SeenSink(NamedTuple):
    """Says that the query with the id ``query`` was seen to commit batch ``batch`` to ``sink``."""

    query: str
    batch: int
    sink: NamedSink


def named_sink(class_name: str, description: str) -> NamedSink | None:
    """Returns the sink that a driver names by the class that writes and by what Spark calls it; None if it names none.

    Where it is, only those say whose descriptions are no addresses of the JVM's memory.
    """
    simple = re.split(r"[.$]", class_name.rstrip("$"))[-1]
    package = next((kind for prefix, kind in _OF_PACKAGE.items() if class_name.startswith(prefix)), None)
    kind = package or (_SPARKS_OWN.get(simple) if class_name.startswith("org.apache.spark.") else None)
    if kind is None:
        word = re.sub(r"[^A-Za-z0-9_-]", "", simple)[:NAME_MAX_CHARS]
        return NamedSink(word) if word else None
    place = _PLACE.fullmatch(description)
    if kind in (FILE, DELTA):
        where = place[1] if place else ""
    else:
        where = description if kind == ICEBERG else ""
    return NamedSink(kind, _clipped("".join(each for each in where if each.isprintable())))


def encode_sinks(seen: Iterable[SeenSink]) -> tuple[str, ...]:
    """Returns ``seen`` as texts for a record, ``<query> <batch> <kind> <where>``, the newest last; the oldest are dropped.
    Of one query and sink the newest batch counts."""
    known: dict[tuple[str, NamedSink], int] = {}
    for query, batch, sink in seen:
        known[query, sink] = max(batch, known.pop((query, sink), 0))
    texts = (f"{query} {batch} {sink.kind} {sink.where}".rstrip() for (query, sink), batch in known.items())
    return tuple(texts)[-SINKS_MAX:]


def decode_sinks(texts: Iterable[str]) -> tuple[SeenSink, ...]:
    """Returns what ``encode_sinks`` wrote. Texts of another form (written by hand) are left out."""
    found = []
    for text in texts:
        query, _, rest = text.partition(" ")
        batch, _, rest = rest.partition(" ")
        kind, _, where = rest.partition(" ")
        if query and kind and len(batch) <= BATCH_DIGITS_MAX and batch.isascii() and batch.isdigit():
            found.append(SeenSink(query, int(batch), NamedSink(kind, where)))
    return tuple(found)


def _clipped(text: str) -> str:
    """Returns as much of ``text`` as there is room for in a record; what is cut ends with an ellipsis."""
    if len(text.encode(errors="replace")) <= WHERE_MAX_BYTES:
        return text
    return text.encode(errors="replace")[: WHERE_MAX_BYTES - 3].decode(errors="ignore") + "…"
